/* SPDX-License-Identifier: MIT */
/*
 * Reads safetensors files; see safetensors.h. (safetensors_write.c writes them.) The header's
 * length is compared with the file's size and a limit before the header is read; each tensor's
 * shape, multiplied with checks for overflow, with its range of bytes; and the ranges, sorted by
 * their beginnings, must cover the data exactly once from the first byte to the last. Data are read
 * only then, by ranges of a tensor's elements. The tensors of an index are its shards' tensors;
 * each shard is opened in this way. Left out: types other than float32 and bf16, and the contents
 * of __metadata__.
 */
#include "common/data/safetensors.h"

#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/data/raw.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "safetensors file";

enum { MAX_HEADER_BYTES = 100000000, LENGTH_BYTES = 8 };

/* A tensor and its bytes, counted from the end of the header. */
typedef struct entry {
    ls_tensor tensor; /* first: callers have its address */
    size_t begin, end;
    size_t element;              /* bytes of one: 4, of bf16 2 */
    bool passed;                 /* left out when the file is read */
    const ls_tensor_file *owner; /* whose bytes they are */
} entry;

struct ls_tensor_file {
    json_t *header; /* owns the names */
    char *path;
    ls_raw_file raw; /* open as long as data can be read */
    size_t start;    /* bytes before the data */
    entry *entries;  /* [count], in the order of the data; an index: of all shards */
    size_t count;
    float *data;             /* of all tensors, if they have been read */
    ls_tensor_file **shards; /* [shard_count] of an index, which own what its entries have */
    size_t shard_count;
};

static ls_status broken(const char *path, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, path, "%s; use an intact file", why);
}

static ls_status broken_tensor(const char *path, const char *name, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, path, "tensor '%.80s': %s; use an intact file", name,
                   why);
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
        return broken_tensor(path, out->tensor.name, "data_offsets are not a range of bytes");
    return LS_OK;
}

/* dtype, shape and data_offsets of one tensor; one that is passed needs only a valid range. */
static ls_status parse_entry(const char *path, const char *name, json_t *value, bool passed,
                             entry *out)
{
    const json_t *dtype = json_object_get(value, "dtype");
    const json_t *shape = json_object_get(value, "shape");
    const json_t *range = json_object_get(value, "data_offsets");
    if (json_object_size(value) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
        !json_is_array(range) || json_array_size(range) != 2)
        return broken_tensor(path, name,
                             "the header must give this tensor dtype, shape and two "
                             "data_offsets, and nothing else");
    *out = (entry){.tensor.name = name, .passed = passed};
    if (passed)
        return parse_range(path, range, out);
    const bool narrow = strcmp(json_string_value(dtype), "BF16") == 0;
    if (!narrow && strcmp(json_string_value(dtype), "F32") != 0)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': this tensor's dtype is '%.16s', but only F32 and BF16 can "
                       "be read; convert the tensor",
                       name, json_string_value(dtype));
    if (json_array_size(shape) > LS_TENSOR_RANK)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': this tensor has %zu dimensions, but at most %d can be "
                       "read; give the tensor another shape",
                       name, json_array_size(shape), LS_TENSOR_RANK);
    *out = (entry){.tensor = {.name = name, .rank = (int)json_array_size(shape), .count = 1},
                   .element = narrow ? sizeof(uint16_t) : sizeof(float)};
    size_t bytes;
    for (int i = 0; i < out->tensor.rank; i++) {
        size_t size;
        if (!get_size(json_array_get(shape, (size_t)i), &size))
            return broken_tensor(
                path, name,
                "this tensor's shape has a value that is not a whole number of 0 or more");
        if (!ls_size_multiply(out->tensor.count, size, &out->tensor.count))
            return broken_tensor(path, name, "this tensor's shape has too many elements");
        out->tensor.shape[i] = (int64_t)size;
    }
    if (!ls_size_multiply(out->tensor.count, out->element, &bytes))
        return broken_tensor(path, name, "this tensor's shape has too many elements");
    LS_TRY(parse_range(path, range, out));
    if (out->end - out->begin != bytes)
        return broken_tensor(path, name, "this tensor's shape and data_offsets do not agree");
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
            return broken_tensor(path, e->tensor.name, "data_offsets are outside of the file");
        if (e->begin < reached)
            return broken_tensor(path, e->tensor.name,
                                 "this tensor's data_offsets overlap another tensor's");
        if (e->begin > reached)
            return broken_tensor(path, e->tensor.name, "there is a gap before this tensor");
        reached = e->end;
    }
    if (reached != size)
        return broken(path, "this file has bytes after its last tensor");
    return LS_OK;
}

static ls_status check_metadata(const char *path, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return broken(path, "__metadata__ in this file's header is not a JSON object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return broken(path, "__metadata__ in this file's header has a value that is not text");
    }
    return LS_OK;
}

/* Parses the header's text into entries; `size` is the size of the data after it. */
static ls_status parse_header(const char *path, const char *text, size_t length, size_t size,
                              bool (*passed)(const char *), ls_tensor_file *file)
{
    json_error_t error;
    if (text[0] != '{')
        return broken(path, "this file's header does not begin with '{'");
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "this file's header is not valid JSON: %s at byte %d; use an intact file",
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
    return check_ranges(path, file, size);
}

/* Leaves out skipped tensors. */
static void gather_entries(ls_tensor_file *file)
{
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].passed)
            continue;
        file->entries[count] = file->entries[i];
        file->entries[count].owner = file;
        file->entries[count++].tensor.file = file->path;
    }
    file->count = count;
}

/* Refuses a file whose first bytes are not the length of a header: for what it is, if known. */
static ls_status refuse_start(const char *path, const uint8_t *bytes)
{
    static const char convert[] =
        "convert the file in Python: safetensors.torch.save_file(torch.load(FILE), NEW_FILE)";
    static const char arrays[] = "write the arrays with safetensors.numpy.save_file in Python";
    static const struct {
        const char *begin, *is, *instead;
    } known[] = {
        {"PK\x03\x04", "a zip archive, as torch.save writes it", convert},
        {"\x80\x02", "a pickle, as torch.save writes it", convert},
        {"\x80\x03", "a pickle", convert},
        {"\x80\x04", "a pickle", convert},
        {"\x80\x05", "a pickle", convert},
        {"\x89HDF", "an HDF5 file", arrays},
        {"\x93NUMPY", "an npy file", arrays},
        {"GGUF", "a GGUF file", "use the model's safetensors file"},
        {"version ", "a pointer of Git LFS to a file", "fetch the file with git lfs pull"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(bytes, known[i].begin, strlen(known[i].begin)) == 0)
            return ls_fail(LS_CODE_MISSING, what, path, "this file is %s, not safetensors; %s",
                           known[i].is, known[i].instead);
    return broken(path, "this file is truncated or not a safetensors file: its first 8 bytes name "
                        "a header longer than the file");
}

/* The length that the first 8 bytes say the header has. */
static uint64_t said_length(const uint8_t *bytes)
{
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    return length;
}

/* The length of the header, from its first 8 bytes, in a file of `size` bytes. */
static ls_status header_length(const char *path, const uint8_t *bytes, size_t size, size_t *out)
{
    const uint64_t length = said_length(bytes);
    if (length > size - LENGTH_BYTES)
        return refuse_start(path, bytes);
    if (length > MAX_HEADER_BYTES)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "this file's header has %llu bytes, but at most %d are allowed; write the "
                       "file again with a smaller header",
                       (unsigned long long)length, MAX_HEADER_BYTES);
    *out = (size_t)length;
    return length < 2 ? broken(path, "this file's header is empty") : LS_OK;
}

/* Reads the header of a file with tensors, after its first 8 bytes. */
static ls_status read_header(const uint8_t *start, bool (*passed)(const char *),
                             ls_tensor_file *file)
{
    const ls_raw_file *raw = &file->raw;
    size_t length = 0;
    LS_TRY(header_length(raw->path, start, raw->size, &length));
    void *text;
    LS_TRY(ls_raw_allocate(raw->path, length, &text));
    file->start = LENGTH_BYTES + length;
    ls_status status = ls_raw_read_at(raw, LENGTH_BYTES, text, length);
    if (!status)
        status = parse_header(raw->path, text, length, raw->size - file->start, passed, file);
    free(text);
    LS_TRY(status);
    gather_entries(file);
    return LS_OK;
}

/* ---- An index of shards ---------------------------------------------------------------------- */

static ls_status open_any(const char *path, bool is_shard, bool (*passed)(const char *),
                          ls_tensor_file **out);

/* The JSON of an index. */
static ls_status parse_index(ls_tensor_file *file)
{
    const ls_raw_file *raw = &file->raw;
    void *text;
    json_error_t error;
    if (raw->size > MAX_HEADER_BYTES)
        return broken(raw->path, "this file is too large for an index of shards");
    LS_TRY(ls_raw_allocate(raw->path, raw->size, &text));
    ls_status status = ls_raw_read_at(raw, 0, text, raw->size);
    if (!status) {
        file->header = json_loadb(text, raw->size, JSON_REJECT_DUPLICATES, &error);
        if (!file->header)
            status = ls_fail(
                LS_CODE_MISSING, what, raw->path,
                "this index of shards is not valid JSON: %s at byte %d; use an intact index",
                error.text, error.position);
    }
    free(text);
    return status;
}

/* Opens the shard of the index in its folder, if it was not yet. */
static ls_status open_shard(const char *path, const char *name, bool (*passed)(const char *),
                            ls_tensor_file *index)
{
    char *shard = NULL;
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    if (asprintf(&shard, "%.*s%s", folder, path, name) < 0)
        return ls_fail_memory(path, strlen(path));
    bool known = false;
    for (size_t i = 0; i < index->shard_count && !known; i++)
        known = strcmp(index->shards[i]->path, shard) == 0;
    ls_status status = LS_OK;
    if (!known)
        status = ls_grow(path, &index->shards, index->shard_count, sizeof *index->shards);
    if (!known && !status)
        status = open_any(shard, true, passed, &index->shards[index->shard_count]);
    index->shard_count += !known && !status;
    free(shard);
    return status;
}

/* Adds the tensors of a shard; the index must place each of them there. */
static ls_status add_shard(const json_t *map, const ls_tensor_file *shard, ls_tensor_file *index)
{
    const char *slash = strrchr(shard->path, '/'), *own = slash ? slash + 1 : shard->path;
    for (size_t i = 0; i < shard->count; i++) {
        const char *name = shard->entries[i].tensor.name;
        const char *place = json_string_value(json_object_get(map, name));
        if (!place)
            return broken_tensor(shard->path, name, "the index does not list this tensor");
        if (strcmp(place, own) != 0)
            return ls_fail(LS_CODE_MISSING, what, shard->path,
                           "tensor '%.80s': this tensor is in this shard, but the index says "
                           "%.80s; use intact files",
                           name, place);
        index->entries[index->count++] = shard->entries[i];
    }
    return LS_OK;
}

static ls_status read_index(bool (*passed)(const char *), ls_tensor_file *file)
{
    const ls_raw_file *raw = &file->raw;
    const char *name;
    json_t *value;
    LS_TRY(parse_index(file));
    json_t *map = json_object_get(file->header, "weight_map");
    if (json_object_size(map) == 0)
        return ls_fail(LS_CODE_MISSING, what, raw->path,
                       "this JSON file has no weight_map, so it is not an index of shards; name a "
                       "safetensors file, or a model.safetensors.index.json");
    json_object_foreach(map, name, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || !*shard || strchr(shard, '/'))
            return broken_tensor(
                raw->path, name,
                "for this tensor, the index does not name a file in the index's own folder");
        LS_TRY(open_shard(raw->path, shard, passed, file));
    }
    LS_TRY(ls_allocate(raw->path, &file->entries, json_object_size(map), sizeof *file->entries));
    for (size_t i = 0; i < file->shard_count; i++)
        LS_TRY(add_shard(map, file->shards[i], file));
    json_object_foreach(map, name, value)
    {
        if (!(passed && passed(name)) && !ls_tensors_find(file, name))
            return ls_fail(
                LS_CODE_MISSING, what, raw->path,
                "tensor '%.80s': this tensor is not in its shard, %.80s; use intact files", name,
                json_string_value(value));
    }
    return LS_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static ls_status open_file(const char *path, bool is_shard, bool (*passed)(const char *),
                           ls_tensor_file *file)
{
    uint8_t start[LENGTH_BYTES];
    file->path = strdup(path);
    if (!file->path)
        return ls_fail_memory(path, strlen(path) + 1);
    LS_TRY(ls_raw_open(what, file->path, &file->raw));
    if (file->raw.size < LENGTH_BYTES)
        return broken(path, "this file is shorter than 8 bytes");
    LS_TRY(ls_raw_read_at(&file->raw, 0, start, LENGTH_BYTES));
    const bool json = start[0] == '{' && said_length(start) > file->raw.size - LENGTH_BYTES;
    return json && !is_shard ? read_index(passed, file) : read_header(start, passed, file);
}

/* A shard cannot be an index. */
static ls_status open_any(const char *path, bool is_shard, bool (*passed)(const char *),
                          ls_tensor_file **out)
{
    ls_tensor_file *file;
    LS_TRY(ls_allocate(path, &file, 1, sizeof *file));
    file->raw.fd = -1;
    ls_status status = open_file(path, is_shard, passed, file);
    if (status)
        ls_tensors_close(file);
    else
        *out = file;
    return status;
}

ls_status ls_tensors_open(const char *path, bool (*passed)(const char *name), ls_tensor_file **out)
{
    return open_any(path, false, passed, out);
}

/* bf16 elements are read to the end of `out`, from where they are widened. */
ls_status ls_tensor_part(const ls_tensor *tensor, ls_range range, float *out)
{
    const entry *e = (const entry *)tensor;
    const bool narrow = e->element < sizeof *out;
    const size_t size = range.count * e->element;
    char *bytes = (char *)out + (narrow ? size : 0);
    LS_TRY(ls_raw_read_at(&e->owner->raw, e->owner->start + e->begin + range.first * e->element,
                          bytes, size));
    for (size_t i = 0; i < range.count && narrow; i++) {
        uint16_t value;
        memcpy(&value, bytes + i * sizeof value, sizeof value);
        const float wide = ls_float_of_bf16(value);
        memcpy(out + i, &wide, sizeof wide);
    }
    return LS_OK;
}

/* Reads all data, after which no file is open. */
static ls_status read_data(const char *path, ls_tensor_file *file)
{
    size_t elements = 0;
    void *data;
    for (size_t i = 0; i < file->count; i++)
        elements += file->entries[i].tensor.count;
    LS_TRY(ls_raw_allocate(path, elements * sizeof(float), &data));
    float *at = file->data = data;
    for (size_t i = 0; i < file->count; i++) {
        ls_tensor *tensor = &file->entries[i].tensor;
        tensor->data = at;
        LS_TRY(ls_tensor_part(tensor, (ls_range){0, tensor->count}, at));
        at += tensor->count;
    }
    ls_raw_close(&file->raw);
    for (size_t i = 0; i < file->shard_count; i++)
        ls_raw_close(&file->shards[i]->raw);
    return LS_OK;
}

ls_status ls_tensors_read(const char *path, ls_tensor_file **out)
{
    ls_tensor_file *file;
    LS_TRY(ls_tensors_open(path, NULL, &file));
    ls_status status = read_data(path, file);
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
    for (size_t i = 0; i < file->shard_count; i++)
        ls_tensors_close(file->shards[i]);
    free(file->shards);
    ls_raw_close(&file->raw);
    json_decref(file->header);
    free(file->path);
    free(file->entries);
    free(file->data);
    free(file);
}
