/* SPDX-License-Identifier: MIT */
/*
 * Level changes: where a series of figures, one per commit, moves to another level and stays there.
 * The series is divided into segments of constant level so that the squared deviations from the
 * segments' means, plus 4 s^2 ln n per segment, are least (optimal partitioning: Jackson et al.,
 * "An algorithm for optimal partitioning of data on an interval", IEEE Signal Processing Letters
 * 12, 2005). The noise s comes from the differences of neighbours, whose median a few changes do
 * not affect: median |x[i+1] - x[i]| / (0.6745 sqrt 2), times 1 + 4 / (n - 1), since few
 * differences tell little, and at least 0.2% of the median, so that nothing smaller counts. In pure
 * normal noise, 2 to 5% of the series get a change (n = 4 to 40); a change of 8 s in the middle of
 * 10 is found in 99%. Fewer than four figures get none.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/** Sets changes[i] to whether a new level begins with values[i]; never for i = 0. Both have n
 * elements, and the values are finite. Takes n^2 time. */
ls_status ls_level_changes(const double *values, size_t n, bool *changes);

/**
 * Sets *out to the number of initial `times` [n] that are not yet steady. The first 128 are divided
 * into levels. Initial levels whose mean differs by more than 5% from the median
 * of the last three quarters are not steady, unless they last longer than a quarter of the block. 0
 * for n below 8.
 */
ls_status ls_steady_from(const double *times, size_t n, size_t *out);
