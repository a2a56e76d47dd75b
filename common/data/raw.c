/* SPDX-License-Identifier: MIT */
/* Files as bytes, and memory for data; see raw.h. */
#include "common/data/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 64, HUGE_PAGE_BYTES = 2 << 20, READ_BYTES = 1 << 30 };

ls_status ls_raw_open(const char *what, const char *path, ls_raw_file *out)
{
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "cannot be opened: %s; check the path, and that this file can be read",
                       strerror(errno));
    struct stat facts;
    const int error = fstat(fd, &facts) ? errno : 0;
    if (error || !S_ISREG(facts.st_mode)) {
        close(fd);
        return ls_fail(LS_CODE_MISSING, what, path, "%s; name a regular file",
                       error ? strerror(error) : "this is not a regular file");
    }
    *out = (ls_raw_file){.what = what, .path = path, .fd = fd, .size = (size_t)facts.st_size};
    return LS_OK;
}

/* Reads the next bytes if `at` is NULL. */
static ls_status read_bytes(const ls_raw_file *file, const size_t *at, void *out, size_t size)
{
    char *next = out;
    while (size) {
        const size_t most = size < READ_BYTES ? size : READ_BYTES;
        const size_t done = (size_t)(next - (char *)out);
        const ssize_t got =
            at ? pread(file->fd, next, most, (off_t)(*at + done)) : read(file->fd, next, most);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ls_fail(LS_CODE_MISSING, file->what, file->path,
                           "cannot be read: %s; use an intact copy", strerror(errno));
        if (got == 0)
            return ls_fail(LS_CODE_MISSING, file->what, file->path,
                           "this file is truncated (%zu bytes are missing); use an intact copy",
                           size);
        next += got;
        size -= (size_t)got;
    }
    return LS_OK;
}

ls_status ls_raw_read(const ls_raw_file *file, void *out, size_t size)
{
    return read_bytes(file, NULL, out, size);
}

ls_status ls_raw_read_at(const ls_raw_file *file, size_t at, void *out, size_t size)
{
    return read_bytes(file, &at, out, size);
}

void ls_raw_close(ls_raw_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

ls_status ls_raw_allocate(const char *where, size_t bytes, void **out)
{
    size_t unit = bytes >= 2 * (size_t)HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : LINE_BYTES;
    void *memory = NULL;
    if (posix_memalign(&memory, unit, bytes ? bytes : 1) != 0)
        return ls_fail_memory(where, bytes);
    if (unit == HUGE_PAGE_BYTES) /* only a hint: without huge pages it is slower */
        (void)madvise(memory, bytes & ~(size_t)(HUGE_PAGE_BYTES - 1), MADV_HUGEPAGE);
    *out = memory;
    return LS_OK;
}
