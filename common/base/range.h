/* SPDX-License-Identifier: MIT */
/* Range: some elements of a flat buffer. */
#pragma once

#include <stddef.h>

/** Elements [first, first + count). */
typedef struct ls_range {
    size_t first, count; /**< elements */
} ls_range;
