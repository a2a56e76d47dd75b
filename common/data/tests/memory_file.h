/* SPDX-License-Identifier: MIT */
/* Files in memory, for readers of files. Statics; for inclusion by tests and fuzzers. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file of these bytes: its descriptor, which the caller closes, and its path. */
static inline int open_memory(const void *bytes, size_t size, char path[32])
{
    const int file = memfd_create("test", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, 32, "/proc/self/fd/%d", file);
    return file;
}
