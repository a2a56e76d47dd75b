/* SPDX-License-Identifier: MIT */
/*
 * Reads safetensors files; see safetensors.h. (safetensors_write.c writes them.) The header's
 * length is compared with the file's size and a limit before the header is read; each tensor's
 * shape, multiplied with checks for overflow, with its range of bytes; and the ranges, sorted by
 * their beginnings, must cover the data exactly once from the first byte to the last. Only then is
 * memory for the data allocated, as much as the file has. Data are read directly into it, so they
 * are aligned for any length of the header. Left out: types other than float32, and the contents of
 * __metadata__.
 */
#include "common/data/safetensors.h"

#include "common/base/numbers.h"
#include "common/data/raw.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "safetensors file";

enum { MAX_HEADER_BYTES = 100000000, LENGTH_BYTES = 8 };

/* A tensor and its bytes, counted from the end of the header. */
typedef struct entry {
    ls_tensor tensor;
    size_t begin, end;
    bool passed; /* left out of the file as it is read */
} entry;

struct ls_tensor_file {
    json_t *header; /* owns the names */
    entry *entries; /* [count], in the order of the data */
    size_t count;
    float *data;
};

static ls_status broken(const char *path, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, path, "%s; an intact file is needed", why);
}

static ls_status broken_tensor(const char *path, const char *name, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, path, "tensor '%.80s': %s; an intact file is needed",
                   name, why);
}

/* A JSON integer that is not negative. */
static bool get_size(const json_t *value, size_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

static ls_status parse_range(const char *path, const json_t *range, entry *out)
{
    if (!get_size(json_array_get(range, 0), &out->begin) ||
        !get_size(json_array_get(range, 1), &out->end) || out->end < out->begin)
        return broken_tensor(path, out->tensor.name, "its data_offsets are not a range of bytes");
    return LS_OK;
}

/* dtype, shape and data_offsets of one tensor; of one that is passed over, these alone. */
static ls_status parse_entry(const char *path, const char *name, json_t *value, bool passed,
                             entry *out)
{
    const json_t *dtype = json_object_get(value, "dtype");
    const json_t *shape = json_object_get(value, "shape");
    const json_t *range = json_object_get(value, "data_offsets");
    if (json_object_size(value) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
        !json_is_array(range) || json_array_size(range) != 2)
        return broken_tensor(path, name, "its header is not dtype, shape and data_offsets");
    *out = (entry){.tensor.name = name, .passed = passed};
    if (passed)
        return parse_range(path, range, out);
    if (strcmp(json_string_value(dtype), "F32") != 0)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': its dtype is '%.16s'; only F32 is read", name,
                       json_string_value(dtype));
    if (json_array_size(shape) > LS_TENSOR_RANK)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': its rank is %zu; at most %d is read", name,
                       json_array_size(shape), LS_TENSOR_RANK);
    *out = (entry){.tensor = {.name = name, .rank = (int)json_array_size(shape), .count = 1}};
    size_t bytes;
    for (int i = 0; i < out->tensor.rank; i++) {
        size_t size;
        if (!get_size(json_array_get(shape, (size_t)i), &size))
            return broken_tensor(path, name, "its shape is not of whole numbers from 0");
        if (!ls_size_multiply(out->tensor.count, size, &out->tensor.count))
            return broken_tensor(path, name, "its shape is out of range");
        out->tensor.shape[i] = (int64_t)size;
    }
    if (!ls_size_multiply(out->tensor.count, sizeof(float), &bytes))
        return broken_tensor(path, name, "its shape is out of range");
    LS_TRY(parse_range(path, range, out));
    if (out->end - out->begin != bytes)
        return broken_tensor(path, name, "its shape does not match its data_offsets");
    return LS_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

/* The ranges, in order, must cover the `size` bytes of data, each byte once. */
static ls_status check_ranges(const char *path, ls_tensor_file *file, size_t size)
{
    if (file->count)
        qsort(file->entries, file->count, sizeof *file->entries, compare_entries);
    size_t reached = 0;
    for (size_t i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->end > size)
            return broken_tensor(path, e->tensor.name, "its range lies outside the file");
        if (e->begin < reached)
            return broken_tensor(path, e->tensor.name, "its range overlaps another tensor's");
        if (e->begin > reached)
            return broken_tensor(path, e->tensor.name, "its range leaves a gap before it");
        reached = e->end;
    }
    if (reached != size)
        return broken(path, "holds bytes after its last tensor");
    return LS_OK;
}

static ls_status check_metadata(const char *path, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return broken(path, "its __metadata__ is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return broken(path, "its __metadata__ holds something other than text");
    }
    return LS_OK;
}

/* Parses the header's text into entries; `size` is the size of the data after it. */
static ls_status parse_header(const char *path, const char *text, size_t length, size_t size,
                              bool (*passed)(const char *), ls_tensor_file *file)
{
    json_error_t error;
    if (text[0] != '{')
        return broken(path, "its header does not begin with '{'");
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "its header does not parse: %s at byte %d; an intact file is needed",
                       error.text, error.position);
    LS_TRY(
        ls_allocate(path, &file->entries, json_object_size(file->header), sizeof *file->entries));
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            LS_TRY(check_metadata(path, value));
        else
            LS_TRY(parse_entry(path, name, value, passed && passed(name),
                               &file->entries[file->count++]));
    }
    LS_TRY(check_ranges(path, file, size));
    void *data;
    LS_TRY(ls_raw_allocate(path, size, &data));
    file->data = data;
    return LS_OK;
}

/* Leaves out what is passed over: the others move together, so that they are aligned. */
static void gather_entries(ls_tensor_file *file)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->passed)
            continue;
        if (e->tensor.count)
            memmove(file->data + at, (const char *)file->data + e->begin,
                    e->tensor.count * sizeof(float));
        file->entries[count] = *e;
        file->entries[count++].tensor.data = file->data + at;
        at += e->tensor.count;
    }
    file->count = count;
}

/* The length of the header, from its first 8 bytes, in a file of `size` bytes. */
static ls_status header_length(const char *path, const uint8_t *bytes, size_t size, size_t *out)
{
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    if (length > size - LENGTH_BYTES)
        return broken(path, "its header is longer than the file");
    if (length > MAX_HEADER_BYTES)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "its header has %llu bytes; at most %d are read", (unsigned long long)length,
                       MAX_HEADER_BYTES);
    if (length < 2)
        return broken(path, "its header is empty");
    *out = (size_t)length;
    return LS_OK;
}

static ls_status read_file(const ls_raw_file *raw, bool (*passed)(const char *),
                           ls_tensor_file *file)
{
    uint8_t start[LENGTH_BYTES];
    size_t length = 0;
    if (raw->size < LENGTH_BYTES)
        return broken(raw->path, "is shorter than 8 bytes");
    LS_TRY(ls_raw_read(raw, start, LENGTH_BYTES));
    LS_TRY(header_length(raw->path, start, raw->size, &length));
    void *text;
    LS_TRY(ls_raw_allocate(raw->path, length, &text));
    size_t size = raw->size - LENGTH_BYTES - length;
    ls_status status = ls_raw_read(raw, text, length);
    if (!status)
        status = parse_header(raw->path, text, length, size, passed, file);
    free(text);
    LS_TRY(status);
    LS_TRY(ls_raw_read(raw, file->data, size));
    gather_entries(file);
    return LS_OK;
}

ls_status ls_tensors_read(const char *path, ls_tensor_file **out)
{
    return ls_tensors_read_some(path, NULL, out);
}

ls_status ls_tensors_read_some(const char *path, bool (*passed)(const char *name),
                               ls_tensor_file **out)
{
    ls_raw_file raw;
    LS_TRY(ls_raw_open(what, path, &raw));
    ls_tensor_file *file = calloc(1, sizeof *file);
    ls_status status = file ? read_file(&raw, passed, file) : ls_fail_memory(path, sizeof *file);
    ls_raw_close(&raw);
    if (status)
        ls_tensors_close(file);
    else
        *out = file;
    return status;
}

size_t ls_tensors_count(const ls_tensor_file *file)
{
    return file->count;
}

const ls_tensor *ls_tensors_at(const ls_tensor_file *file, size_t index)
{
    return &file->entries[index].tensor;
}

const ls_tensor *ls_tensors_find(const ls_tensor_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].tensor.name, name) == 0)
            return &file->entries[i].tensor;
    return NULL;
}

void ls_tensors_close(ls_tensor_file *file)
{
    if (!file)
        return;
    json_decref(file->header);
    free(file->entries);
    free(file->data);
    free(file);
}
