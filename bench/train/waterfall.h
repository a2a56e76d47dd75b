/* SPDX-License-Identifier: MIT */
/* The names of a step's parts: of the row's waterfall, of a trace's, of the gap to n devices. */
#pragma once

#include "common/device/device.h"

#include <jansson.h>

enum { LS_WATERFALL_PARTS = 6 };

/** "compute", "comm_exposed", "wait", "copy", "optimizer", "harness" */
extern const char *const ls_waterfall_names[LS_WATERFALL_PARTS];

/** The parts, in that order, of times by use; what no operation is of is the harness's. */
void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS]);

/** Parts as "compute_ms" and so on; those that there are none of are absent. */
json_t *ls_waterfall_group(const double ms[LS_TIME_USES]);

/** The same as "compute_gap_ms" and so on, with their signs: how much more each part is than n
 *  devices of `single` that lose nothing would take, whose step is "ideal_step_ms". `ideal`: parts
 *  of that step. */
json_t *ls_waterfall_gap(const double ms[LS_TIME_USES], const double ideal[LS_WATERFALL_PARTS]);
