/* SPDX-License-Identifier: MIT */
/* The waterfall: a step's time divided into parts, as rows and traces have it. */
#pragma once

#include "common/device/device.h"

#include <jansson.h>

enum { LS_WATERFALL_PARTS = 6 };

/** Adds up times by use into the parts: compute, exposed communication, wait, copy, optimizer,
 * harness; idle time without a cause is the harness's.
 */
void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS]);

/** The parts as a group "compute_ms" and so on; parts of no time are absent. */
json_t *ls_waterfall_group(const double ms[LS_TIME_USES]);

/** The group "compute_gap_ms" and so on: each part minus the same part of `ideal`, an ideal step in
 * which n devices of `single` lose nothing; and "ideal_step_ms", its time. */
json_t *ls_waterfall_gap(const double ms[LS_TIME_USES], const double ideal[LS_WATERFALL_PARTS]);
