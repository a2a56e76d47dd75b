/* SPDX-License-Identifier: MIT */
/*
 * Trial: a case made real: model, data, devices, strategy; trained in blocks of steps, timed by
 * the device's own clock.
 *
 * Steps are put many at a time and looked at when they are done, so that a step has nothing of the
 * harness in it but one clock reading and one record at its end, by the device. A step's time is
 * the difference of two such readings; the first step after a pause counts from a mark that the
 * device makes right before it.
 */
#pragma once

#include "bench/progress/progress.h"
#include "bench/train/session.h"
#include "bench/train/session_memory.h"
#include "bench/statistics/statistics.h"
#include "impl/ps/ps_report.h"

#include <stdbool.h>

/** What a device that trains does with the mean step, in ms. */
typedef struct ls_device_load {
    double busy_ms, wait_ms; /**< all but waiting for others (a delay on purpose is none); that.
                                  Both 0: it does not train */
    double gather_ms;        /**< of busy_ms: of a batch's samples */
} ls_device_load;

/** Steps that were put together, and accounted. */
typedef struct ls_account {
    uint64_t steps;
    double ms; /**< by their records */
} ls_account;

/** What the time of this process's devices went to in the timed steps (account.c). */
typedef struct ls_accounts {
    enum { LS_ACCOUNTS_UNKNOWN, LS_ACCOUNTS_ALL, LS_ACCOUNTS_NONE } which; /**< of them */
    ls_account *puts;       /**< [count] of this block */
    ls_time_profile *parts; /**< [count, devices] */
    size_t count;
    double *ns; /**< [devices, LS_TIME_USES] of the steps that count */
    double ms;  /**< of these, by their records */
    uint64_t steps;
} ls_accounts;

/** What the trial found out; filled by ls_trial_block and ls_trial_finish. */
typedef struct ls_trial {
    ls_session session;
    const ls_plan_of_case *plan;
    const ls_workplace *place;
    double *step_ms; /**< [samples] of timed steps; on GPUs the mean of some, where their
                          clock ticks too slowly for one */
    size_t samples;
    size_t room;      /**< of timed steps, in what is kept of each */
    uint64_t planned; /**< timed steps of the case, as far as it can be told */
    bool imprecise;   /**< time was over before the interval was as narrow as asked */
    size_t looked;    /**< blocks when the interval was looked at last */
    size_t *ends;     /**< [blocks] samples when each block ended; none is empty */
    size_t blocks;
    bool fresh;                   /**< nothing was put since the devices were opened */
    uint64_t reopened, reopen_ns; /**< how often the devices were, and what all that took */
    ls_step_record *records;      /**< [job.records] */
    double *chunk_ms;             /**< [job.records] of the steps put last */
    double latest_ms;             /**< the mean of these; 0: there are none */
    double trained_ms;            /**< all steps so far, with the warm-up's */
    double *losses;               /**< [timed], kept with --verbose; else NULL */
    uint64_t timed_done;
    double timed_ms;    /**< of all timed steps */
    uint64_t discarded; /**< timed steps that were not yet steady: in no figure but in training */
    uint64_t discarded_samples; /**< samples of these */
    double discarded_ms;
    double *put_ns; /**< [puts] session.put_ns, each time that timed steps were put */
    uint64_t puts;
    double loss_first, loss_last;
    double accuracy; /**< NaN: none */
    bool target_reached;
    uint64_t steps_to_target;
    double ms_to_target; /**< that these took, with the warm-up's */
    double target_sum;   /**< losses since the last look */
    bool stopped;        /**< interrupted, or failed: no more steps */
    bool interrupted;
    bool failed; /**< a check: reason says which */
    char reason[LS_REASON_SIZE];
    float *parameters; /**< [elements] at the end */
    char digest[33];
    bool ended;                    /**< the last step is done: what follows is known */
    ls_memory_ledger *ledgers;     /**< [devices] when the last step was done */
    size_t rss_peak;               /**< bytes, when the last step was done */
    double part_ms[LS_TIME_USES];  /**< of the mean step: what its time goes to; all 0: not known */
    ls_accounts accounts;          /**< what they are made of */
    uint64_t accounted;            /**< timed steps that they were taken in; 0: in others, behind */
    double profiled_ms;            /**< the mean of these steps, by the devices' own readings */
    double residual;               /**< that over their mean by the records, less 1 */
    ls_device_load *loads;         /**< [devices] of this process, where part_ms is known */
    double bubble, bubble_formula; /**< of a pipeline: medians of rounds (bubble.h); else NaN */
    bool counted;                  /**< full steps crossed borders: sent and formula are known */
    ls_traffic sent, formula;      /**< of one full step */
    const char *record;            /**< file for what servers did; NULL: none */
    ls_ps_report report;           /**< of parameter servers, when the last step was done */
    ls_ps_report warm_report;      /**< the same, when the warm-up was */
    ls_ps_server *servers;         /**< [server_count] of this process */
    size_t server_count;
    ls_growth growth;              /**< of memory, in the timed steps */
    ls_progress *progress;         /**< the command's */
    const ls_processes *processes; /**< who may wait for this one */
    uint64_t chunk;                /**< how many steps the next put may have */
} ls_trial;

ls_status ls_trial_open(const ls_workplace *place, const ls_plan_of_case *plan, ls_trial *out);

/** The warm-up steps. */
ls_status ls_trial_warm_up(ls_trial *trial);

/** A block that is added lasts so long at least, so that what is around it does not outlast it. */
enum { LS_ADDED_BLOCK_MS = 100 };

/** Block `index` of `blocks`: its share of the timed steps; one that is added, from `blocks` on, is
 *  as long, or LS_ADDED_BLOCK_MS. All but the first open the devices anew, and go on from there;
 *  after a failure to do so the trial has no session. */
ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks);

/** Whether the interval is not yet as narrow as `precision`, and another block may help; all get
 *  rank 0's answer. `late`: there is no time for one, so there is none. */
ls_status ls_trial_wants_more(ls_trial *trial, double precision, bool late, bool *out);

/** Of ls_trial_block (trial_figures.c): a block that began with `first_step` is over. */
ls_status ls_trial_end_block(ls_trial *trial, uint64_t first_step);

/** The mean of the timed steps that count. */
double ls_trial_mean_ms(const ls_trial *trial);

/** The steps' times so far; ci95 where it is not NULL. */
ls_status ls_trial_statistics(const ls_trial *trial, ls_statistics *out, double ci95[2]);

/** Accuracy, parameters and digest. */
ls_status ls_trial_finish(ls_trial *trial);

/** Whether the timed steps that are put next are accounted: rank 0's answer is all ranks'. */
bool ls_account_wanted(ls_trial *trial);
/** Around ls_session_steps. All processes together. */
ls_status ls_account_begin(ls_trial *trial, uint64_t steps);
ls_status ls_account_end(ls_trial *trial);
/** Then, of their records: when they began, and had ended everywhere. All processes together. */
ls_status ls_account_add(ls_trial *trial, uint64_t steps, uint64_t mark_ns, uint64_t end_ns);
/** At a block's end: so many first steps of it, with these times, are left out of what counts. */
void ls_account_take(ls_trial *trial, const double *step_ms, uint64_t left_out);
ls_status ls_account_open(ls_accounts *accounts, size_t devices);
void ls_account_close(ls_accounts *accounts);

/** Steps that are profiled at most; of a pipeline, in so many rounds. */
enum { LS_PROFILED_MOST = 100, LS_PROFILE_ROUNDS = 15 };

/** Of ls_trial_finish (trial_profile.c): what the step's time goes to; some more full steps. */
ls_status ls_trial_profile(ls_trial *trial);

/** Of an exact case: its median step over that of the same case in fast mode, five blocks each in
 *  turns (exact_cost.c). Trains the trial on: after everything of it has been kept. */
ls_status ls_exact_cost(ls_workplace *place, ls_trial *trial, double *out);

void ls_trial_close(ls_trial *trial);
