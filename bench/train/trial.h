/* SPDX-License-Identifier: MIT */
/*
 * Trial: a session of a case that is trained in blocks of steps, timed by the device's own clock.
 *
 * Steps are enqueued many at a time, and their records are read when they are done. So all that the
 * harness adds to a step is one clock reading and one record at its end, by the device. A step's
 * time is the difference of two such readings; the first step after a pause counts from a mark that
 * the device makes right before it.
 */
#pragma once

#include "bench/progress/progress.h"
#include "bench/train/noise.h"
#include "bench/train/session.h"
#include "bench/train/session_memory.h"
#include "bench/statistics/statistics.h"
#include "impl/ps/ps_report.h"

#include <stdbool.h>

/** How a device that trains spends the mean step, in ms. */
typedef struct ls_device_load {
    double busy_ms, wait_ms; /**< work (with a delay on purpose); waiting for others. Both 0: it
                                  does not train */
    double gather_ms;        /**< part of busy_ms: gathering of batches */
} ls_device_load;

/** Steps that one call enqueued, and that are accounted. */
typedef struct ls_account {
    uint64_t steps;
    double ms; /**< by their records */
} ls_account;

/** What the time of this process's devices went to in the timed steps (account.c). */
typedef struct ls_accounts {
    enum { LS_ACCOUNTS_UNKNOWN, LS_ACCOUNTS_ALL, LS_ACCOUNTS_NONE } which; /**< of them */
    ls_account *lots;       /**< [count] of the current block */
    ls_time_profile *parts; /**< [count, devices] */
    size_t count;
    double *ns; /**< [devices, LS_TIME_USES] of the steps that count */
    double ms;  /**< of these, by their records */
    uint64_t steps;
} ls_accounts;

/** A trial and its figures, filled by ls_trial_block and ls_trial_finish. */
typedef struct ls_trial {
    ls_session session;
    const ls_plan_of_case *plan;
    const ls_workplace *workplace;
    double *step_ms; /**< [samples] times of timed steps; means of some steps where a GPU's clock
                          is too coarse for one */
    size_t samples;
    size_t room;      /**< timed steps that the arrays have room for */
    uint64_t planned; /**< timed steps of the case, as far as is known */
    bool imprecise;  /**< time was over before the interval was narrow enough (--until-precision) */
    size_t looked;   /**< blocks when the interval was last computed */
    size_t *ends;    /**< [blocks] samples when each block ended; none is empty */
    ls_worked *work; /**< [blocks] samples of the data set, and time, of the timed steps that count,
                        up to there */
    size_t blocks;
    bool fresh;                   /**< no step has run since the devices were opened */
    ls_noise noise;               /**< of the timed blocks */
    uint64_t reopened, reopen_ns; /**< how often the devices were reopened, and the time of that */
    ls_step_record *records;      /**< [job.records] */
    double *chunk_ms;             /**< [job.records] times of the steps that were last enqueued */
    double latest_ms;             /**< the mean of these; 0: there are none */
    double trained_ms;            /**< all steps so far, with the warm-up's */
    double *losses;               /**< [timed], kept with --verbose; else NULL */
    uint64_t timed_done;
    double timed_ms;            /**< of all timed steps */
    uint64_t discarded;         /**< timed steps that were not yet steady, and count in no figure
                                     of speed */
    uint64_t discarded_samples; /**< samples of these */
    double discarded_ms;
    double *enqueue_ns; /**< [lots] session.put_ns of each such call in timed steps */
    uint64_t lots;
    double loss_first, loss_last;
    double accuracy; /**< NaN: none */
    bool target_reached;
    uint64_t steps_to_target;
    double ms_to_target; /**< time of these, with the warm-up's steps */
    double target_sum;   /**< sum of losses since the target was last checked */
    bool stopped;        /**< interrupted, or failed: no more steps */
    bool interrupted;
    bool failed; /**< a check: reason says which */
    char reason[LS_REASON_SIZE];
    float *parameters; /**< [elements] at the end */
    char digest[33];
    bool ended;                    /**< the last step is done, and what follows is set */
    ls_memory_ledger *ledgers;     /**< [devices] after the last step */
    size_t rss_peak;               /**< bytes, after the last step */
    double part_ms[LS_TIME_USES];  /**< of the mean step, by use; all 0: not known */
    ls_accounts accounts;          /**< what they are made of */
    uint64_t accounted;            /**< timed steps among them; 0: extra steps after these */
    double profiled_ms;            /**< the mean of these steps, by the devices' own readings */
    double residual;               /**< that over their mean by the records, less 1 */
    ls_device_load *loads;         /**< [devices] of this process, if part_ms is known */
    double bubble, bubble_formula; /**< of a pipeline: medians of rounds (bubble.h); else NaN */
    bool counted;                  /**< full steps sent something: `sent` and `formula` are set */
    ls_traffic sent, formula;      /**< of one full step */
    const char *record;            /**< file of --ps-record; NULL: none */
    ls_ps_report report;           /**< of parameter servers, after the last step */
    ls_ps_report warm_report;      /**< the same, after the warm-up */
    ls_ps_server *servers;         /**< [server_count] of this process */
    size_t server_count;
    ls_growth growth;              /**< of memory, in the timed steps */
    ls_progress *progress;         /**< the command's */
    const ls_processes *processes; /**< that may wait for this one */
    uint64_t chunk;                /**< how many steps may be enqueued at once next */
} ls_trial;

ls_status ls_trial_open(const ls_workplace *workplace, const ls_plan_of_case *plan, ls_trial *out);

/** Runs the warm-up steps. */
ls_status ls_trial_warm_up(ls_trial *trial);

/** Shortest length of an added block, so that the work around it is shorter. */
enum { LS_ADDED_BLOCK_MS = 100 };

/** Runs block `index` of `blocks`: its share of the timed steps. An added block (`index` from
 * `blocks` on) is as long as those, or LS_ADDED_BLOCK_MS. Every block but the first reopens the
 * devices and continues; if that fails, the trial has no session any more. */
ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks);

/** Whether to add a block, since the interval is wider than `precision`; all ranks get rank 0's
 * answer. `late`: there is no time for one, so the answer is no. */
ls_status ls_trial_wants_more(ls_trial *trial, double precision, bool late, bool *out);

/** Parts of ls_trial_block (trial_figures.c): opens the devices anew if asked to, and begins to
 * look for noise; ends a block that began with `first_step`. */
ls_status ls_trial_begin_block(ls_trial *trial, bool reopens);
ls_status ls_trial_end_block(ls_trial *trial, uint64_t first_step);

/** The mean of the timed steps that count. */
double ls_trial_mean_ms(const ls_trial *trial);

/** Samples of the data set in the timed steps that count, and in the mean one of them. */
uint64_t ls_trial_trained(const ls_trial *trial);
double ls_trial_step_samples(const ls_trial *trial);

/** Whether the median step has a rate: all steps have a full batch, and no worker is independent.
 */
bool ls_trial_is_even(const ls_trial *trial);

/** Statistics of the steps' times so far; `ci95` may be NULL, and is NaN where there is no
 * interval. */
ls_status ls_trial_statistics(const ls_trial *trial, ls_statistics *out, double ci95[2]);

/** Time per sample. */
typedef struct ls_sample_ms {
    double median; /**< median step over a full batch; 0: not known */
    double mean;   /**< all timed steps that count over their samples */
    bool even;     /**< as of ls_trial_is_even */
} ls_sample_ms;

ls_status ls_trial_sample_ms(const ls_trial *trial, ls_sample_ms *out);

/** Samples per second over all timed steps that count, and its interval; NaN with one block. */
ls_status ls_trial_rate(const ls_trial *trial, double *rate, double ci95[2]);

/** Finds accuracy, parameters and digest. */
ls_status ls_trial_finish(ls_trial *trial);

/** Whether the next timed steps are accounted: rank 0 decides for all ranks. */
bool ls_account_wanted(ls_trial *trial);
/** Around ls_session_steps. All processes together. */
ls_status ls_account_begin(ls_trial *trial, uint64_t steps);
ls_status ls_account_end(ls_trial *trial);
/** Then, of their records: when they began, and had ended everywhere. All processes together. */
ls_status ls_account_add(ls_trial *trial, uint64_t steps, uint64_t mark_ns, uint64_t end_ns);
/** At a block's end: excludes its first `left_out` steps, which took these times. */
void ls_account_take(ls_trial *trial, const double *step_ms, uint64_t left_out);
ls_status ls_account_open(ls_accounts *accounts, size_t devices);
void ls_account_close(ls_accounts *accounts);

/** Most steps that are profiled; for a pipeline, in this many rounds. */
enum { LS_PROFILED_MOST = 100, LS_PROFILE_ROUNDS = 15 };

/** Part of ls_trial_finish (trial_profile.c): where the step's time goes; may run extra steps. */
ls_status ls_trial_profile(ls_trial *trial);

/** The cost of exact mode: the case's median step over that of the same case in fast mode, from
 * five alternating blocks each (exact_cost.c). Trains the trial further, so it is called last. */
ls_status ls_exact_cost(ls_workplace *workplace, ls_trial *trial, double *out);

void ls_trial_close(ls_trial *trial);
