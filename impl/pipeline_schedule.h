/* SPDX-License-Identifier: MIT */
/*
 * The order of the passes of a pipeline's stages. A pass is forward or backward of one stage over
 * one micro-batch. For stage s of p and m micro-batches:
 *
 *     gpipe   all forward passes, then all backward passes (Huang et al., NeurIPS 2019)
 *     1f1b    forward until p - s micro-batches are in flight, then alternately a backward and a
 *             forward pass (Narayanan et al., PipeDream, SOSP 2019, with a flush at the end of the
 *             step)
 *
 * Passes of each direction are in the order of micro-batches. Leaves out: devices, and measuring
 * times.
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/status.h"

#include <stdbool.h>

/** Values of --pipeline-schedule, which pipeline.c declares. */
enum { LS_SCHEDULE_GPIPE, LS_SCHEDULE_1F1B };
extern const ls_declared_option ls_option_pipeline_schedule;

typedef struct ls_schedule {
    int stages, microbatches;
    bool one_f_one_b; /**< false: gpipe */
} ls_schedule;

typedef struct ls_pass {
    int stage, microbatch;
    bool backward;
} ls_pass;

/** Most micro-batches in flight on a stage, which keeps their activations. */
int ls_schedule_in_flight(const ls_schedule *schedule, int stage);

/** Ticks of a step if every stage runs at most one pass per tick: 2 (m + p - 1). */
int ls_schedule_ticks(const ls_schedule *schedule);

/**
 * The stage's pass at a tick; false: none. If ticks are visited in order, and in each the last
 * stage first, a pass follows all that it depends on: the neighbour's pass of the same micro-batch
 * and, because the next stage's buffers are reused, the backward pass there that frees one.
 */
bool ls_schedule_at(const ls_schedule *schedule, int tick, int stage, ls_pass *out);

/** A stage's times: its passes of one micro-batch, and its work after all passes. */
typedef struct ls_stage_time {
    double forward, backward, rest;
} ls_stage_time;

/** Duration of a step, from the stages' times [stages]. In gpipe, with F and B the times of forward
 * and backward, it is sum F + (m - 1) max F + sum B + (m - 1) max B, plus the rest: the first
 * micro-batch passes all stages, and the others follow at the pace of the slowest. With equal
 * stages, both schedules take (m + p - 1) (F + B), of which a share of (p - 1) / (m + p - 1) is
 * idle. */
ls_status ls_schedule_span(const ls_schedule *schedule, const ls_stage_time *times, double *out);
