/* SPDX-License-Identifier: MIT */
/*
 * Data sets: the registry, opening and closing; see data.h. A source fills the arrays; what all
 * sources have in common (a digest, a limit on the samples, the time) is done here. The digest is
 * the XXH3 of the three arrays' own XXH3 hashes, in the order x0, x1, target, 0 for a missing
 * array.
 */
#include "common/data/data.h"

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/data/data_sources.h"
#include "common/data/raw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *const sources[] = {
    &ls_source_fashion_mnist, &ls_source_mnist,  &ls_source_synthetic, &ls_source_file,
    &ls_source_text,          &ls_source_tokens, &ls_source_cifar10,   NULL,
};
const ls_registry ls_data_sources = {"--data", sources};

/* What ls_data_open allocates. The public part is first, so one pointer serves as both. */
typedef struct opened {
    ls_data data;
    ls_tensor_file *tensors; /* NULL, or owner of the float32 arrays */
} opened;

ls_status ls_need_width(const ls_data_need *need, int input, size_t *out)
{
    size_t width = 1;
    for (int i = 0; i < need->rank[input]; i++) {
        int64_t size = need->shape[input][i];
        if (size < 1 || !ls_size_multiply(width, (size_t)size, &width) || width > INT32_MAX)
            return ls_fail(LS_CODE_USAGE, "--model", NULL,
                           "a sample of the input x%d is empty or too large; use a model whose "
                           "inputs have 1 to %d values",
                           input, INT32_MAX);
    }
    *out = width;
    return LS_OK;
}

static size_t element_bytes(ls_array_type type)
{
    return type == LS_ARRAY_FLOAT32 || type == LS_ARRAY_INT32 ? 4 : 1;
}

size_t ls_array_bytes(const ls_array *array, size_t samples)
{
    return array->data ? samples * (size_t)array->width * element_bytes(array->type) : 0;
}

ls_status ls_array_allocate(const char *where, ls_array_type type, size_t samples, size_t width,
                            ls_array *array)
{
    size_t count, bytes;
    if (width > INT64_MAX || !ls_size_multiply(samples, width, &count) ||
        !ls_size_multiply(count, element_bytes(type), &bytes))
        return ls_fail_memory(where, SIZE_MAX);
    *array = (ls_array){.type = type, .width = (int64_t)width};
    return ls_raw_allocate(where, bytes, &array->data);
}

void ls_data_adopt(ls_data *data, ls_tensor_file *file)
{
    ((opened *)data)->tensors = file;
}

typedef struct split_job {
    ls_split_reader read;
    const void *context;
    ls_split *split;
    ls_status status;
} split_job;

static void *read_test(void *argument)
{
    split_job *job = argument;
    job->status = job->read(job->context, true, job->split);
    return NULL;
}

ls_status ls_splits_read(ls_split_reader read, const void *context, ls_data *data)
{
    split_job job = {.read = read, .context = context, .split = &data->test};
    pthread_t thread;
    int error = pthread_create(&thread, NULL, read_test, &job);
    if (error)
        return ls_fail(LS_CODE_MISSING, "data", data->name,
                       "a thread that reads the data cannot be started: %s; raise the limit on "
                       "threads (ulimit -u)",
                       strerror(error));
    ls_status status = read(context, false, &data->train);
    pthread_join(thread, NULL);
    return ls_status_first(status, job.status);
}

/* The source that `spec` names, and the text after the colon, or NULL. */
static ls_status find_source(const char *spec, const ls_data_source **out, const char **argument)
{
    const size_t length = strcspn(spec, ":");
    const ls_data_source *source = ls_registry_find(&ls_data_sources, spec, length);
    if (!source)
        return ls_registry_refuse(&ls_data_sources, spec);
    *argument = spec[length] ? spec + length + 1 : NULL;
    if (*argument && !**argument)
        return ls_fail(LS_CODE_USAGE, "--data", source->name,
                       "nothing follows the colon of '%s'; remove the colon, or write after it "
                       "what `lockstep list data` shows for this data set",
                       spec);
    if (*argument && strlen(*argument) >= sizeof((ls_data *)NULL)->path)
        return ls_fail(LS_CODE_USAGE, "--data", source->name,
                       "the text after the colon is too long; use at most %zu bytes",
                       sizeof((ls_data *)NULL)->path - 1);
    *out = source;
    return LS_OK;
}

/* A check for every source: the sample order counts up to INT32_MAX. */
static ls_status check_samples(const char *spec, const ls_data *data)
{
    if (data->train.samples < 1 || data->train.samples > INT32_MAX ||
        data->test.samples > INT32_MAX)
        return ls_fail(LS_CODE_MISSING, "data", spec, "has %zu samples; use 1 to %d",
                       data->train.samples, INT32_MAX);
    return LS_OK;
}

double ls_data_bytes(const char *spec, const ls_data_need *need)
{
    const ls_data_source *source = NULL;
    const char *argument = NULL;
    ls_status status = find_source(spec, &source, &argument);
    const double bytes = !status && source->bytes ? source->bytes(argument, need) : 0;
    ls_status_free(status);
    return bytes;
}

ls_status ls_data_open(const char *spec, const ls_data_need *need, ls_data **out)
{
    const ls_data_source *source = NULL;
    const char *argument = NULL;
    LS_TRY(find_source(spec, &source, &argument));
    opened *made;
    LS_TRY(ls_allocate(spec, &made, 1, sizeof *made));
    ls_data *data = &made->data;
    snprintf(data->name, sizeof data->name, "%s", source->name);
    uint64_t start = ls_clock_ns();
    ls_status status = source->read(argument, need, data);
    if (!status)
        status = check_samples(spec, data);
    if (status) {
        ls_data_close(data);
        return status;
    }
    const ls_array *const arrays[] = {&data->train.input[0], &data->train.input[1],
                                      &data->train.target};
    uint64_t hashes[3] = {0};
    for (int i = 0; i < 3; i++)
        if (arrays[i]->data)
            hashes[i] = ls_hash64(arrays[i]->data, ls_array_bytes(arrays[i], data->train.samples));
    data->digest = ls_hash64(hashes, sizeof hashes);
    data->read_ns = ls_clock_ns() - start;
    *out = data;
    return LS_OK;
}

void ls_data_close(ls_data *data)
{
    if (!data)
        return;
    ls_tensor_file *tensors = ((opened *)data)->tensors;
    ls_split *const splits[] = {&data->train, &data->test};
    for (int i = 0; i < 2; i++) {
        ls_array *const arrays[] = {&splits[i]->input[0], &splits[i]->input[1], &splits[i]->target};
        for (int j = 0; j < 3; j++)
            if (!tensors || arrays[j]->type != LS_ARRAY_FLOAT32)
                free(arrays[j]->data);
    }
    ls_tensors_close(tensors);
    free(data);
}
