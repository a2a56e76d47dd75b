/* SPDX-License-Identifier: MIT */
/*
 * Writes safetensors files; see safetensors.h. Length, header (padded with spaces, so that the data
 * begin at a multiple of 8) and the tensors in the given order are written as a whole file
 * (whole_file.h), which is flushed to disk, and so is its directory: at any moment there is either
 * the old file or the complete new one. What is not a regular file is refused. Left out: machines
 * that are not little-endian.
 */
#include "common/data/safetensors.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data are little-endian");

static const char what[] = "safetensors file";

/* {"dtype": .., "shape": .., "data_offsets": ..}; advances *offset. NULL if memory is short. */
static json_t *entry_json(const ls_tensor *tensor, size_t *offset)
{
    size_t begin = *offset;
    *offset += tensor->count * sizeof(float);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer(tensor->shape[i])))
            shape = (json_decref(shape), NULL);
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)*offset);
}

/* Refuses what a reader would refuse: a shape that does not fit, a duplicate or empty name. */
static ls_status check_tensor(const char *path, const json_t *header, const ls_tensor *tensor,
                              size_t offset)
{
    size_t count = 1, bytes, end;
    bool fits = tensor->rank >= 0 && tensor->rank <= LS_TENSOR_RANK;
    for (int i = 0; fits && i < tensor->rank; i++)
        fits = tensor->shape[i] >= 0 && ls_size_multiply(count, (size_t)tensor->shape[i], &count);
    if (!fits || count != tensor->count || !ls_size_multiply(count, sizeof(float), &bytes) ||
        !ls_size_add(offset, bytes, &end) || end > INT64_MAX)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': this tensor has %zu elements, but its shape has another "
                       "number of elements; give the tensor a shape that fits",
                       tensor->name, tensor->count);
    if (!*tensor->name || strcmp(tensor->name, "__metadata__") == 0 ||
        json_object_get(header, tensor->name))
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': %s; give each tensor a name of its own", tensor->name,
                       json_object_get(header, tensor->name) ? "two tensors have this name"
                                                             : "safetensors reserves this name");
    return LS_OK;
}

ls_status ls_tensors_header(const char *path, const ls_tensor *tensors, size_t count, char **out,
                            size_t *bytes)
{
    json_t *header = json_object();
    ls_status status = header ? LS_OK : ls_fail_memory(path, sizeof *header);
    size_t offset = 0;
    for (size_t i = 0; i < count && !status; i++) {
        status = check_tensor(path, header, &tensors[i], offset);
        if (!status &&
            json_object_set_new(header, tensors[i].name, entry_json(&tensors[i], &offset)))
            status = ls_fail(LS_CODE_MISSING, what, path,
                             "tensor '%.80s': this tensor's name is not UTF-8, or memory has run "
                             "out; use a name in UTF-8, or free memory on this host",
                             tensors[i].name);
    }
    char *text = status ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!status && !text)
        status = ls_fail_memory(path, count * sizeof *tensors);
    const size_t length = text ? strlen(text) : 0;
    const uint64_t padded = (length + 7) / 8 * 8;
    if (!status)
        status = ls_allocate(path, out, sizeof padded + padded + 1, 1);
    if (!status) {
        memcpy(*out, &padded, sizeof padded);
        snprintf(*out + sizeof padded, padded + 1, "%-*s", (int)padded, text);
        *bytes = sizeof padded + padded;
    }
    free(text);
    return status;
}

/* What is written. */
typedef struct contents {
    const char *path;
    char *header;
    size_t header_bytes;
    const ls_tensor *tensors;
    size_t count;
    ls_status (*put)(FILE *stream, void *context); /* NULL if the tensors have their data */
    void *context;
} contents;

/* Until it is on the disk. */
static ls_status write_contents(FILE *stream, void *context)
{
    const contents *c = context;
    fwrite(c->header, 1, c->header_bytes, stream);
    if (c->put)
        LS_TRY(c->put(stream, c->context));
    for (size_t i = 0; i < c->count && !c->put; i++)
        if (c->tensors[i].count > 0) /* else there may be no data */
            fwrite(c->tensors[i].data, sizeof(float), c->tensors[i].count, stream);
    if (fflush(stream) == 0 && fsync(fileno(stream)) == 0)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, what, c->path,
                   "cannot be written: %s; use a writable folder with free space", strerror(errno));
}

static ls_status check_regular(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return ls_fail(LS_CODE_MISSING, what, path,
                       "this is not a regular file; name a regular file");
    return LS_OK;
}

ls_status ls_tensors_writable(const char *path, uint64_t bytes)
{
    LS_TRY(check_regular(path));
    return ls_file_writable(what, path, bytes);
}

ls_status ls_tensors_write(const char *path, const ls_tensor *tensors, size_t count)
{
    return ls_tensors_write_by(path, tensors, count, NULL, NULL);
}

ls_status ls_tensors_write_by(const char *path, const ls_tensor *tensors, size_t count,
                              ls_status (*put)(FILE *stream, void *context), void *context)
{
    contents c = {.path = path, .tensors = tensors, .count = count, .put = put, .context = context};
    char *target;
    LS_TRY(check_regular(path));
    LS_TRY(ls_tensors_header(path, tensors, count, &c.header, &c.header_bytes));
    ls_status status = ls_whole_file(what, path, write_contents, &c);
    free(c.header);
    target = status ? NULL : realpath(path, NULL);
    if (target) {
        /* its entry in its directory; some file systems cannot flush that, and need not */
        char *slash = strrchr(target, '/');
        if (slash)
            slash[slash == target] = 0;
        int fd = open(slash ? target : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            (void)fsync(fd);
            close(fd);
        }
    }
    free(target);
    return status;
}
