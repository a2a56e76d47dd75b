/* SPDX-License-Identifier: MIT */
/*
 * file:PATH: a user's data, from a safetensors file of float32 tensors: x0 [N, shape of the model's
 * input], x1 of the second input's shape if the model has one, y [N]; no others. All values must be
 * finite; for models with classes, y must contain whole numbers in their range, which become int32.
 * For a model of tokens x0 and y are [N,T] tokens; y is not shifted. Inputs are used in the buffer
 * into which the file was read. Left out: test samples.
 */
#include "common/data/data_sources.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char what[] = "data file";

/* Writes "[N,1,28,28]" to `text`. */
static void describe(int rank, const int64_t *shape, bool per_sample, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[%s", per_sample ? "N" : "");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i || per_sample ? "," : "",
                                 (long long)shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* The tensor `name`, [N, shape...] with N from 1. */
static ls_status find_tensor(const char *path, const ls_tensor_file *file, const char *name,
                             int rank, const int64_t *shape, const ls_tensor **out)
{
    char wanted[120], found[200];
    describe(rank, shape, true, wanted, sizeof wanted);
    const ls_tensor *tensor = ls_tensors_find(file, name);
    if (!tensor)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%s' is missing; the model needs one with the shape %s", name,
                       wanted);
    bool fits = tensor->rank == 1 + rank && tensor->shape[0] >= 1;
    for (int i = 0; fits && i < rank; i++)
        fits = tensor->shape[1 + i] == shape[i];
    if (!fits) {
        describe(tensor->rank, tensor->shape, false, found, sizeof found);
        return ls_fail(
            LS_CODE_MISSING, what, path,
            "tensor '%s' has the shape %s; the model needs the shape %s, with N of 1 or more", name,
            found, wanted);
    }
    *out = tensor;
    return LS_OK;
}

static ls_status check_finite(const char *path, const ls_tensor *tensor)
{
    for (size_t i = 0; i < tensor->count; i++)
        if (!isfinite(tensor->data[i]))
            return ls_fail(
                LS_CODE_MISSING, what, path,
                "tensor '%.80s': element %zu is infinite or not a number; use finite values",
                tensor->name, i);
    return LS_OK;
}

static ls_status check_names(const char *path, const ls_tensor_file *file, int inputs)
{
    for (size_t i = 0; i < ls_tensors_count(file); i++) {
        const char *name = ls_tensors_at(file, i)->name;
        if (strcmp(name, "x0") != 0 && strcmp(name, "y") != 0 &&
            !(inputs == 2 && strcmp(name, "x1") == 0))
            return ls_fail(LS_CODE_MISSING, what, path,
                           "tensor '%.80s' is not an input of this model; the file must have %s "
                           "and no other tensors",
                           name, inputs == 2 ? "x0, x1 and y" : "x0 and y");
    }
    return LS_OK;
}

/* Whole numbers from 0 to classes - 1. */
static ls_status check_whole(const char *path, const ls_tensor *t, const ls_data_need *need)
{
    for (size_t i = 0; i < t->count; i++) {
        const float value = t->data[i];
        if (value >= 0 && (double)value < need->classes && value == truncf(value))
            continue;
        char where[64];
        snprintf(where, sizeof where, "index %zu", i);
        if (need->targets)
            snprintf(where, sizeof where, "[%zu, %zu]", i / (size_t)need->targets,
                     i % (size_t)need->targets);
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%s' holds %g at %s; the model's %s are the whole numbers 0 to %d",
                       t->name, (double)value, where, need->targets ? "tokens" : "classes",
                       need->classes - 1);
    }
    return LS_OK;
}

/* y as int32. */
static ls_status convert_labels(const char *path, const ls_tensor *y, const ls_data_need *need,
                                ls_array *out)
{
    const size_t width = need->targets ? (size_t)need->targets : 1;
    if (!need->targets)
        LS_TRY(check_finite(path, y));
    LS_TRY(check_whole(path, y, need));
    LS_TRY(ls_array_allocate(path, LS_ARRAY_INT32, y->count / width, width, out));
    int32_t *labels = out->data;
    for (size_t i = 0; i < y->count; i++)
        labels[i] = (int32_t)y->data[i];
    return LS_OK;
}

static ls_array borrow(const ls_tensor *tensor, size_t width)
{
    return (ls_array){
        .type = LS_ARRAY_FLOAT32, .width = (int64_t)width, .data = (void *)(size_t)tensor->data};
}

const char *ls_data_foreign(const char *path)
{
    static const char *const formats[][2] = {
        {".csv", "CSV"}, {".tsv", "TSV"}, {".npy", "NumPy's npy"}, {".npz", "NumPy's npz"}};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (length > 4 && strcasecmp(path + length - 4, formats[i][0]) == 0)
            return formats[i][1];
    return NULL;
}

/* Refuses what is not a readable file. */
static ls_status check_file(const char *path)
{
    const char *foreign = ls_data_foreign(path);
    if (foreign)
        return ls_fail(
            LS_CODE_USAGE, "--data file", path,
            "this file has, by its name, a format that cannot be read (%s); " LS_DATA_CONVERTER,
            foreign);
    if (access(path, R_OK) != 0)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "cannot be read: %s; give file:PATH.safetensors, or --data synthetic, which "
                       "needs no file",
                       strerror(errno));
    return LS_OK;
}

static ls_status read_file(const char *argument, const ls_data_need *need, ls_data *data)
{
    if (!argument)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "the path of the file is missing; give file:PATH.safetensors");
    snprintf(data->path, sizeof data->path, "%s", argument);
    ls_tensor_file *file = NULL;
    LS_TRY(check_file(argument));
    LS_TRY(ls_tensors_read(argument, &file));
    ls_data_adopt(data, file);
    LS_TRY(check_names(argument, file, need->inputs));
    const ls_tensor *y;
    LS_TRY(find_tensor(argument, file, "y", need->targets ? 1 : 0, &need->targets, &y));
    data->train.samples = (size_t)y->shape[0];
    for (int i = 0; i < need->inputs; i++) {
        static const char *const names[LS_DATA_INPUTS] = {"x0", "x1"};
        const ls_tensor *x;
        size_t width;
        LS_TRY(ls_need_width(need, i, &width));
        LS_TRY(find_tensor(argument, file, names[i], need->rank[i], need->shape[i], &x));
        LS_TRY(need->targets ? check_whole(argument, x, need) : check_finite(argument, x));
        if (x->shape[0] != y->shape[0])
            return ls_fail(LS_CODE_MISSING, what, argument,
                           "tensor '%s' has %lld samples and y %lld; give both tensors the same "
                           "number of samples",
                           names[i], (long long)x->shape[0], (long long)y->shape[0]);
        data->train.input[i] = borrow(x, width);
    }
    if (need->classes)
        return convert_labels(argument, y, need, &data->train.target);
    LS_TRY(check_finite(argument, y));
    data->train.target = borrow(y, 1);
    return LS_OK;
}

bool ls_data_peek(const char *spec, int rank, int64_t *shape)
{
    static const char prefix[] = "file:";
    ls_tensor_file *file = NULL;
    if (strncmp(spec, prefix, sizeof prefix - 1) != 0)
        return false;
    ls_status status = ls_tensors_read(spec + sizeof prefix - 1, &file);
    const ls_tensor *x = status ? NULL : ls_tensors_find(file, "x0");
    bool fits = x && x->rank == 1 + rank;
    for (int i = 0; fits && i < rank; i++) {
        shape[i] = x->shape[1 + i];
        fits = shape[i] > 0;
    }
    ls_tensors_close(file);
    ls_status_free(status);
    return fits;
}

const ls_data_source ls_source_file = {
    .name = "file",
    .help = "your own data: file:PATH.safetensors with float32 tensors x0 [N,...] (and x1) and y "
            "[N]; of gpt "
            "x0 and y [N,T]",
    .read = read_file,
};
