/* SPDX-License-Identifier: MIT */
/* Steady: how many steps at a block's beginning differ from the rest of it. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/**
 * Sets *out to the number of initial `times` [n] that are not yet steady. The first 128 are divided
 * into levels (level_changes.h). Initial levels whose mean differs by more than 5% from the median
 * of the last three quarters are not steady, unless they last longer than a quarter of the block. 0
 * for n below 8.
 */
ls_status ls_steady_from(const double *times, size_t n, size_t *out);
