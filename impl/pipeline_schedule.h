/* SPDX-License-Identifier: MIT */
/*
 * The order in which a pipeline's stages take their passes. A pass is one stage's forward or
 * backward of one micro-batch. Stage s of p, m micro-batches:
 *
 *     gpipe   all forward passes, then all backward passes (Huang et al., NeurIPS 2019)
 *     1f1b    at most p - s micro-batches in flight: forward until there are, then a backward
 *             pass after each forward one (Narayanan et al., PipeDream, SOSP 2019, with a flush at
 *             the end of the step)
 *
 * Each kind of pass takes the micro-batches in order. A schedule is only an order: it knows no
 * devices, and no times but those that it is given.
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/status.h"

#include <stdbool.h>

/** Of --pipeline-schedule, whose declaration is in pipeline.c. */
enum { LS_SCHEDULE_GPIPE, LS_SCHEDULE_1F1B };
extern const ls_declared_option ls_option_pipeline_schedule;

typedef struct ls_schedule {
    int stages, microbatches;
    bool one_f_one_b; /**< else gpipe */
} ls_schedule;

typedef struct ls_pass {
    int stage, microbatch;
    bool backward;
} ls_pass;

/** Most micro-batches that a stage has begun and not ended: it keeps their activations. */
int ls_schedule_in_flight(const ls_schedule *schedule, int stage);

/** Ticks of a step in which every stage does at most one pass per tick: 2 (m + p - 1). */
int ls_schedule_ticks(const ls_schedule *schedule);

/**
 * The stage's pass at a tick; false: it has none. Visited tick by tick, the last stage first, every
 * pass comes after all that it waits for: the neighbour's pass of the same micro-batch, and, to
 * have room for what it sends forward, the next stage's end of the micro-batch that was there
 * before.
 */
bool ls_schedule_at(const ls_schedule *schedule, int tick, int stage, ls_pass *out);

/** Times of a stage: its passes of one micro-batch, and what it does after all passes. */
typedef struct ls_stage_time {
    double forward, backward, rest;
} ls_stage_time;

/**
 * Time of a step whose stages take times [stages]. For gpipe, with F and B the stages' forward and
 * backward times, it is sum F + (m - 1) max F + sum B + (m - 1) max B, and the rest: the first
 * micro-batch goes through all stages, the others follow at the pace of the slowest. Equal stages
 * take (m + p - 1) (F + B) in both schedules, idle for (p - 1) / (m + p - 1) of it.
 */
ls_status ls_schedule_span(const ls_schedule *schedule, const ls_stage_time *times, double *out);
