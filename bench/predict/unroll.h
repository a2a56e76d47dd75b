/* SPDX-License-Identifier: MIT */
/*
 * Steps of a strategy, unrolled into a play graph: a run's programs (program.h of impl/step), one
 * step after the other.
 *
 * A task is the delay of its operations, behind the previous task of its lane and the tasks that it
 * waits for. A copy between devices is a message by its lane. An exchange is a meeting, as in the
 * communicator `thread`: a message starts when both ends are there, and ends for both when it has
 * come and has been added. An all-reduce is its expansion (expand.h), or with `formula` a time that
 * begins for all ranks when the last of them is there. A component's step begins when its last one
 * has ended.
 *
 * Steps repeat with the period of their kinds. The first period is unlike the others, since nothing
 * comes before it; the second one stands for all later ones (ls_play_seal).
 */
#pragma once

#include "bench/play/platform.h"
#include "bench/play/play_graph.h"
#include "bench/predict/durations.h"
#include "bench/predict/expand.h"
#include "bench/predict/virtual.h"

enum { LS_ACTIVITIES_MOST = 20000000 }; /**< more are refused */

typedef struct ls_unroll {
    const ls_step_run *run;        /**< on virtual devices */
    const ls_allreduce *algorithm; /**< NULL means that NCCL expects; `formula` only */
    const ls_durations *durations;
    const ls_platform *platform; /**< for `formula` */
    int devices_per_host;
    ls_expansion level;
    uint64_t steps;
    bool labelled;   /**< activities are labelled, for a trace or by use */
    bool whole;      /**< no step is left to repetition, as for a file */
    uint64_t warmup; /**< the first of them, which are not counted */
} ls_unroll;

typedef struct ls_unrolled {
    ls_play_graph graph; /**< sealed */
    uint32_t *ends;      /**< [end_count] where members' steps end; each knows its step */
    size_t end_count;    /**< ends of repeated steps are not listed again */
    ls_traffic sent;     /**< in all counted steps */
    ls_expansions all;   /**< of all-reduces */
} ls_unrolled;

/** Close it also on failure. */
ls_status ls_unroll_steps(const ls_unroll *what, ls_unrolled *out);

/** Sets what all-reduces by formula take on another platform. */
ls_status ls_unrolled_move(ls_unrolled *unrolled, const ls_platform *platform,
                           int devices_per_host);
void ls_unrolled_close(ls_unrolled *unrolled);
