/* SPDX-License-Identifier: MIT */
/*
 * Writes safetensors files; see safetensors.h. Length, header (padded with spaces, so that the data
 * begin at a multiple of 8) and the tensors in the given order are written to a new file in the
 * same directory. It is flushed to disk and renamed, and the directory is flushed, so at any moment
 * there is either the old file or the complete new one. A symbolic link keeps pointing to the file;
 * what is not a regular file is refused. Left out: machines that are not little-endian.
 */
#include "common/data/safetensors.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

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

enum { WRITE_BYTES = 1 << 30, TRIES = 100 };

/* {"dtype": .., "shape": .., "data_offsets": ..}; advances *offset. NULL: out of memory. */
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
                       "tensor '%.80s': its shape does not match its %zu elements; they must agree",
                       tensor->name, tensor->count);
    if (!*tensor->name || strcmp(tensor->name, "__metadata__") == 0 ||
        json_object_get(header, tensor->name))
        return ls_fail(LS_CODE_MISSING, what, path,
                       "tensor '%.80s': its name is reserved, or there twice; each needs its own",
                       tensor->name);
    return LS_OK;
}

/* The header as text. */
static ls_status make_header(const char *path, const ls_tensor *tensors, size_t count, char **out)
{
    json_t *header = json_object();
    ls_status status = header ? LS_OK : ls_fail_memory(path, sizeof *header);
    size_t offset = 0;
    for (size_t i = 0; i < count && !status; i++) {
        status = check_tensor(path, header, &tensors[i], offset);
        if (!status &&
            json_object_set_new(header, tensors[i].name, entry_json(&tensors[i], &offset)))
            status = ls_fail(LS_CODE_MISSING, what, path,
                             "tensor '%.80s': its name is not UTF-8, or there is no memory for "
                             "its header; a plain name works",
                             tensors[i].name);
    }
    *out = status ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return status || *out ? status : ls_fail_memory(path, count * sizeof *tensors);
}

/* Returns false and sets errno if not all could be written. */
static bool write_all(int fd, const void *bytes, size_t size)
{
    const char *next = bytes;
    while (size) {
        ssize_t done = write(fd, next, size < WRITE_BYTES ? size : WRITE_BYTES);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        next += done;
        size -= (size_t)done;
    }
    return true;
}

static bool write_contents(int fd, const char *header, const ls_tensor *tensors, size_t count)
{
    const size_t length = strlen(header);
    const uint64_t padded = (length + 7) / 8 * 8;
    bool well = write_all(fd, &padded, sizeof padded) && write_all(fd, header, length) &&
                write_all(fd, "       ", padded - length);
    for (size_t i = 0; i < count && well; i++)
        well = write_all(fd, tensors[i].data, tensors[i].count * sizeof(float));
    return well && fsync(fd) == 0;
}

/* Creates a file in `path`'s directory; its name goes to `name` [size]. -1 and errno: failure. */
static int open_beside(const char *path, char *name, size_t size)
{
    for (int i = 0; i < TRIES; i++) {
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Flushes the entry of `path` in its directory; some file systems cannot, and need not. */
static void flush_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

/* `target` is no link. Without a header, only checks whether it could be written. */
static ls_status replace(char *target, const char *header, const ls_tensor *tensors, size_t count)
{
    const size_t size = strlen(target) + 40;
    char *name;
    LS_TRY(ls_allocate(target, &name, 1, size));
    const int fd = open_beside(target, name, size);
    int error = fd < 0 || (header && !write_contents(fd, header, tensors, count)) ? errno : 0;
    if (fd >= 0 && close(fd) && !error)
        error = errno;
    if (header && !error && rename(name, target))
        error = errno;
    if (fd >= 0 && (error || !header))
        unlink(name);
    free(name);
    if (error)
        return ls_fail(LS_CODE_MISSING, what, target,
                       "cannot be written: %s; a writable folder with room is needed",
                       strerror(error));
    if (header)
        flush_directory(target);
    return LS_OK;
}

static ls_status check_regular(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return ls_fail(LS_CODE_MISSING, what, path,
                       "is there and not a regular file; the name of a file is needed");
    return LS_OK;
}

/* The location of the file with this name; for a link, what it points to. */
static ls_status replace_at(const char *path, const char *header, const ls_tensor *tensors,
                            size_t count)
{
    char *target = realpath(path, NULL);
    if (!target)
        target = strdup(path);
    ls_status status =
        target ? replace(target, header, tensors, count) : ls_fail_memory(path, strlen(path) + 1);
    free(target);
    return status;
}

ls_status ls_tensors_writable(const char *path)
{
    LS_TRY(check_regular(path));
    return replace_at(path, NULL, NULL, 0);
}

ls_status ls_tensors_write(const char *path, const ls_tensor *tensors, size_t count)
{
    char *header = NULL;
    LS_TRY(check_regular(path));
    LS_TRY(make_header(path, tensors, count, &header));
    ls_status status = replace_at(path, header, tensors, count);
    free(header);
    return status;
}
