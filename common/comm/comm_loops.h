/* SPDX-License-Identifier: MIT */
/* The loops that add. */
#pragma once

#include "common/base/range.h"

/** to[i] = to[i] + from[i]; the arrays do not overlap. */
void ls_loop_add(float *to, const float *from, size_t count);

/** data[q][i] = ((data[0][i] + data[1][i]) + data[2][i]) ... for each q, i in the range. */
void ls_loop_sum_to_all(float *const *data, int ranks, ls_range range);
