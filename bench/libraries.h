/* SPDX-License-Identifier: MIT */
/* Libraries: what this build stands on, with the versions that are loaded. */
#ifndef LS_BENCH_LIBRARIES_H
#define LS_BENCH_LIBRARIES_H

#include <stddef.h>

typedef struct ls_library_version {
    const char *name;    /**< "oneDNN" */
    const char *version; /**< "2.6.3" */
} ls_library_version;

/** The libraries in this build, those that are not left out; static. Any thread may ask. */
const ls_library_version *ls_libraries(size_t *count);

#endif
