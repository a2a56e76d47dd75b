/* SPDX-License-Identifier: MIT */
/* Steady: from which step on a block's steps are what the rest of them are. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/**
 * How many of the first of `times` [n] are not yet steady. The first 128 are cut into levels
 * (level_changes.h). Levels at the beginning whose mean is over 5% off the median of the last three
 * quarters are not, slow or fast; a level that is not over by a quarter of the block is how the
 * block is. 0 where there are fewer than 8.
 */
ls_status ls_steady_from(const double *times, size_t n, size_t *out);
