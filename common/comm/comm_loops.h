/* SPDX-License-Identifier: MIT */
/* The loops that add. */
#pragma once

#include "common/base/range.h"

/** to[i] = to[i] + from[i]; the arrays do not overlap. */
void ls_loop_add(float *to, const float *from, size_t count);

enum { LS_LOOP_ALL = -1 };

/** data[q][i] = ((data[0][i] + data[1][i]) + data[2][i]) ... for q = `to`, or (LS_LOOP_ALL) for
 * each; i in the range. */
void ls_loop_sum(float *const *data, int ranks, int to, ls_range range);
