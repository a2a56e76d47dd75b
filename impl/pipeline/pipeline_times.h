/* SPDX-License-Identifier: MIT */
/* Times of a pipeline's step that follow from times of its stages, for rows and forecasts. */
#pragma once

#include "impl/pipeline/pipeline_schedule.h"

/** A stage's times: its passes of one micro-batch over all chunks, and its work after all passes.
 * `weights` is 0 where the backward pass is not split. */
typedef struct ls_stage_time {
    double forward, backward, weights, rest;
} ls_stage_time;

/** What follows from the stages' times. */
typedef struct ls_schedule_times {
    double step;    /**< duration of a step, until the last stage's end */
    double longest; /**< of a stage, from first pass's begin to last one's end */
    double idle;    /**< share of that time in which the stage has no pass */
} ls_schedule_times;

/** Times from the stages' times [stages]: a pass begins once its stage has ended the one before and
 * its input is there. A stage's chunks take equal times. With equal stages and T = F + B + W, the
 * step takes (m + p - 1) T (gpipe, 1f1b), m T + (p - 1) T / V (interleaved), m T + (p - 1) max(F,
 * B, F + B - W) (zb-h1, m >= p) or m T + (p - 1) max(F, B - F, F + B - 2 W) (zb-h2, m >= 2p - 1),
 * plus the rest. */
ls_status ls_schedule_span(const ls_schedule *schedule, const ls_stage_time *times,
                           ls_schedule_times *out);

/** Idle share of equal stages with F = B = W: (p-1) / (m+p-1), of V chunks (p-1) / (Vm+p-1), with
 * a split backward pass (p-1) / (3m+p-1). */
double ls_schedule_equal(const ls_schedule *schedule);
