/* SPDX-License-Identifier: MIT */
/* Libraries: what this build stands on, with the versions that are loaded. */
#ifndef LS_BENCH_ROW_LIBRARIES_H
#define LS_BENCH_ROW_LIBRARIES_H

#include <stddef.h>

typedef struct ls_library {
    const char *name;                         /**< "oneDNN" */
    const char *(*version)(char scratch[32]); /**< "2.6.3"; the scratch, or static text */
} ls_library;

/** The libraries in this build, those that are not left out. */
const ls_library *ls_libraries(size_t *count);

#endif
