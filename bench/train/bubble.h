/* SPDX-License-Identifier: MIT */
/*
 * Bubble: the share of a pipeline's time in which its stages have nothing to do.
 *
 * After the timed steps some rounds of a few steps are profiled. A row has the medians over the
 * rounds of the measured share, and of the share that the schedule gives for the stages' times in
 * the same round; so what slows a round down is in both.
 */
#pragma once

#include "common/device/device.h"
#include "impl/pipeline_schedule.h"

typedef struct ls_bubble {
    double measured; /**< 1 - work of all stages / (stages x time of the round) */
    double formula;  /**< the same with the time that ls_schedule_span gives for each stage's
                          mean forward and backward pass and what it does after them */
} ls_bubble;

/** Computes both from the profiles [stages] of the stages' queues in a round. The round's time is
 * that of the queue with the longest time, which begins and ends the steps. */
ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out);
