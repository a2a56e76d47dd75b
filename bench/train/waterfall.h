/* SPDX-License-Identifier: MIT */
/* The waterfall: a step's time divided into parts, as rows and traces have it. */
#pragma once

#include "common/device/device.h"

#include <jansson.h>

enum { LS_WATERFALL_PARTS = 6 }; /**< in the order of the fields of `waterfall` and `gap` */

/** Adds up times by use into the parts: compute, exposed communication, wait, copy, optimizer,
 * harness; idle time without a cause is the harness's.
 */
void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS]);

/** Sets the row's group `waterfall` to the parts; parts of no time are absent. */
void ls_waterfall_put(json_t *row, const double ms[LS_TIME_USES]);
