/* SPDX-License-Identifier: MIT */
/* Libraries: what this build stands on, with the versions that are loaded. */
#ifndef LS_BENCH_ROW_LIBRARIES_H
#define LS_BENCH_ROW_LIBRARIES_H

#include <stddef.h>

enum { LS_LIBRARIES_MOST = 12 };

typedef struct ls_library {
    const char *name; /**< "oneDNN" */
    char version[32]; /**< "2.6.3" */
} ls_library;

/** The libraries in this build, those that are not left out; how many. */
size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST]);

#endif
