/* SPDX-License-Identifier: MIT */
/* Range: some elements of a flat buffer. */
#ifndef LS_COMMON_BASE_RANGE_H
#define LS_COMMON_BASE_RANGE_H

#include <stddef.h>

/** Elements [first, first + count). */
typedef struct ls_range {
    size_t first, count; /**< elements */
} ls_range;

#endif
