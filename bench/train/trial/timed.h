/* SPDX-License-Identifier: MIT */
/* What is timed: the steps of a trial's blocks, which of them count, and the figures that follow
 * from their times. */
#pragma once

#include "bench/statistics/statistics.h"
#include "bench/train/time_steps.h"

/** Written by the functions below that take it without const. */
typedef struct ls_timed {
    const ls_plan_of_case *plan;
    double *step_ms; /**< [samples] times of steps; means of some steps where a GPU's clock is too
                          coarse for one */
    size_t samples;
    size_t *ends;    /**< [blocks] samples when each block ended; none is empty */
    ls_worked *work; /**< [blocks] samples of the data set, and time, of the steps that count, up
                          to there */
    size_t blocks;
    double *enqueue_ns; /**< [calls] the host's time to enqueue a step */
    size_t calls;
    size_t room;      /**< steps that the arrays have room for */
    uint64_t planned; /**< steps of the case, as far as is known */
    uint64_t done;
    double ms;          /**< of all timed steps */
    uint64_t discarded; /**< timed steps that were not yet steady; no figure of speed counts them */
    uint64_t discarded_samples;
    double discarded_ms;
    size_t looked;  /**< blocks when the interval was last computed */
    bool imprecise; /**< time was over before the interval was narrow enough (--until-precision) */
} ls_timed;

/** Has no room yet. */
ls_timed ls_timed_begin(const ls_plan_of_case *plan, const ls_request *request);
void ls_timed_close(ls_timed *timed);

/** Makes room for `count` more steps. */
ls_status ls_timed_expect(ls_timed *timed, uint64_t count);

/** Adds the steps of one call to the current block. */
void ls_timed_add(ls_timed *timed, const ls_step_times *steps);

/** How many of the block's `steps` first steps do not count: steps that are not yet steady and, if
 * the job has a period, steps beyond complete periods. 0 if samples are not single steps, or
 * workers do not wait for each other. */
ls_status ls_timed_unsteady(const ls_timed *timed, uint64_t steps, size_t *out);

/** The times of the current block. */
const double *ls_timed_block_ms(const ls_timed *timed);

/** Ends the block that began with `first_step`, without its first `left_out` steps. */
void ls_timed_end_block(ls_timed *timed, uint64_t first_step, size_t left_out);

/** How many steps count, and whether they are whole periods of the job. */
uint64_t ls_timed_counted(const ls_timed *timed);
bool ls_timed_is_whole(const ls_timed *timed);

/** The mean of the steps that count. */
double ls_timed_mean_ms(const ls_timed *timed);

/** Samples of the data set in the steps that count, and in the mean one of them. */
uint64_t ls_timed_trained(const ls_timed *timed);
double ls_timed_step_samples(const ls_timed *timed);

/** Statistics of the steps' times so far; `ci95` may be NULL, and is NaN where there is no
 * interval. */
ls_status ls_timed_statistics(const ls_timed *timed, ls_statistics *out, double ci95[2]);

/** Time per sample. */
typedef struct ls_sample_ms {
    double median;  /**< median step over a full batch; 0 if not known */
    double ci95[2]; /**< its interval; NaN if there is none */
    double mean;    /**< mean over the counting steps; NaN if less than a period */
    bool even;      /**< the median step has a rate: all steps are alike */
} ls_sample_ms;

ls_status ls_timed_sample_ms(const ls_timed *timed, ls_sample_ms *out);

/** Samples per second over all steps that count, and its interval; NaN with one block. */
ls_status ls_timed_rate(const ls_timed *timed, double *rate, double ci95[2]);

/** Whether to add a block, since the interval is wider than `precision`; all ranks get rank 0's
 * answer. If `late`, there is no time for one, and the answer is no. If `stopped`, no steps are
 * wanted. */
ls_status ls_timed_wants_more(ls_timed *timed, ls_comm *comm, bool stopped, double precision,
                              bool late, bool *out);
