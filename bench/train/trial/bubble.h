/* SPDX-License-Identifier: MIT */
/*
 * Bubble: the share of a pipeline's time in which its stages have nothing to do.
 *
 * After the timed steps some more are profiled. A row has the medians over steps of the measured
 * share, and of the share that the schedule gives for the stages' times in the same step. So they
 * belong to the median step: a step that other programs made long counts once, however long.
 */
#pragma once

#include "common/device/device.h"
#include "impl/pipeline/pipeline_times.h"

typedef struct ls_bubble {
    double measured; /**< 1 - work of all stages / (stages x time of the step) */
    double formula;  /**< the share with the time that ls_schedule_span gives for each stage's
                          mean forward and backward pass and what it does after them */
    double slowest;  /**< work of the stage that has most, over the mean of all stages */
    double stage;    /**< idle share of the longest stage's own span (ls_schedule_times.idle) */
    double forward_ms, backward_ms, weights_ms; /**< a micro-batch's passes on a stage, mean of all
                                                     stages */
} ls_bubble;

/** Computes the shares from the profiles [stages] of the stages' queues in a step. The step's time
 * is the longest time of a queue. */
ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out);

/** The medians over `steps` > 0 steps of the shares that ls_bubble_measure gives for each; profiles
 * [steps, stages]. */
ls_status ls_bubble_median(const ls_schedule *schedule, const ls_time_profile *profiles,
                           size_t steps, ls_bubble *out);
