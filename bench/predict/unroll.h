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

/* ---- All-reduces by formula, each by itself, played once on the engine `ports` -------------- */

/* What an all-reduce by formula takes, of equal ones whose ranks are on like hosts. */
typedef struct ls_formula {
    const ls_expanded *of;       /* NULL means by NCCL's model */
    const ls_virtual_comm *nccl; /* one of them, for that model; NULL if not by it */
    int *hosts;                  /* [ranks] relative to the first rank's */
    ls_play_graph alone;         /* the all-reduce by itself, sealed */
    ls_traffic sent;
    double ns;
} ls_formula;

typedef struct ls_formula_use {
    uint32_t node;
    size_t formula;
} ls_formula_use;

typedef struct ls_formulas {
    ls_formula *items; /* [count] */
    size_t count;
    ls_formula_use *uses; /* [use_count] activities that take as long as one of them */
    size_t use_count;
} ls_formulas;

/** Sets all, and the activities of the graph that use them. */
ls_status ls_formulas_move(ls_formulas *formulas, ls_play_graph *graph, const ls_platform *platform,
                           int devices_per_host);

typedef struct ls_unroll {
    const ls_step_run *run; /**< on virtual devices */
    const ls_allreduce *algorithm;
    bool by_nccl; /**< all-reduces take what NCCL expects; `formula` only */
    const ls_durations *durations;
    const ls_platform *platform; /**< for `formula` */
    int devices_per_host;
    ls_expansion level;
    uint64_t most; /**< activities: more are refused */
    uint64_t steps;
    bool labelled;   /**< activities are labelled, for a trace or by use */
    bool whole;      /**< no step is left to repetition, as for a file */
    uint64_t warmup; /**< the first of them, which are not counted */
} ls_unroll;

typedef struct ls_unrolled {
    ls_play_graph graph;  /**< sealed */
    uint32_t *ends;       /**< [end_count] where members' steps end; each knows its step */
    size_t end_count;     /**< ends of repeated steps are not listed again */
    ls_traffic sent;      /**< in all counted steps */
    ls_formulas formulas; /**< of all-reduces by formula */
} ls_unrolled;

/** Close it also on failure. */
ls_status ls_unroll_steps(const ls_unroll *what, ls_unrolled *out);
void ls_unrolled_close(ls_unrolled *unrolled);
