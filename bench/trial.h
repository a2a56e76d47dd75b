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
#ifndef LS_BENCH_TRIAL_H
#define LS_BENCH_TRIAL_H

#include "bench/case.h"
#include "bench/progress.h"
#include "common/device/watch.h"
#include "impl/ps/ps_report.h"
#include "impl/strategy.h"

#include <stdbool.h>

enum { LS_REASON_SIZE = 256 }; /**< bytes of why a row is not ok */

/** What cases of one command share: opened once. */
typedef struct ls_workplace {
    const ls_request *request;
    ls_machine *machine;
    struct ls_data_cache *data;       /**< data sets by text and model */
    struct ls_reference *references;  /**< bench/reference.h */
    struct ls_kernels_known *kernels; /**< bench/gate_kernels.h */
    bool *left; /**< a session has lost a device: its threads go on using what is opened here and in
                     plans, all of which stays until the process ends, at once */
    _Atomic int busy; /**< looks for which other processes are told that this one goes on */
} ls_workplace;

ls_status ls_workplace_open(const ls_request *request, ls_workplace *out);
void ls_workplace_close(ls_workplace *place);

/** From here on something is done that may take long and that no queue tells to processes that
 *  wait, or no more: a file is written, one large product is timed. They wait for some timeouts at
 *  most. */
void ls_workplace_busy(ls_workplace *place, bool begins);

/** A case with everything resolved, before any device is opened. */
typedef struct ls_plan_of_case {
    const ls_case *config;
    ls_model *model;
    const ls_data *data; /**< owned by the workplace */
    const ls_strategy *strategy;
    ls_device_name *devices; /**< [device_count] of this process */
    size_t device_count;
    int all_devices; /**< of all ranks */
    bool oversubscribed;
    bool soft_placed;               /**< on other devices than asked for */
    ls_device_name variable_device; /**< for towers */
    int *place;                     /**< [nodes] device of each; NULL: the model is not divided */
    ls_job job;                     /**< but for the devices */
    int64_t warmup, timed;          /**< steps */
    float *initial;                 /**< [elements] parameters before the first step */
} ls_plan_of_case;

/** Every refusal that a case can meet before training comes from here. job.comm is set where all
 *  processes of the command run the case together; else rank 0 alone does. */
ls_status ls_plan_open(ls_workplace *place, const ls_case *config, ls_plan_of_case *out);
void ls_plan_close(ls_plan_of_case *plan);

/** Logs which device each node of the model runs on, and where its variables are, if asked to. */
void ls_plan_log(const ls_workplace *place, const ls_plan_of_case *plan);

/** Whether the variables are on a device of another kind than the towers: then the host orders
 *  their queues (ls_queue_wait), and no step is captured. */
bool ls_plan_mixes_kinds(const ls_plan_of_case *plan);

/** Whether the variables are on a device that the case names. */
bool ls_plan_has_variable_device(const ls_plan_of_case *plan);

/** Whether there is accuracy to speak of: classes, and samples to test on. */
bool ls_plan_tests(const ls_plan_of_case *plan);

/** A strategy at work on opened devices. */
typedef struct ls_session {
    const ls_plan_of_case *plan;
    ls_job job;
    ls_job *lent;        /**< a copy for `run`, which stays where a device is lost */
    bool *left;          /**< of the workplace */
    ls_device **devices; /**< [device_count] */
    size_t device_count;
    ls_network *network; /**< between the devices; NULL: no links */
    ls_watch *watch;     /**< of the devices; NULL: none (bench/session_watch.h) */
    ls_run *run;
    uint64_t step;                 /**< steps done */
    uint64_t put_first, put_count; /**< steps of the latest ls_session_steps */
    uint64_t setup_ns;             /**< time that opening took */
    double put_ns; /**< host time to put a step, of the first of the latest ls_session_steps */
} ls_session;

/** Opens the plan's devices and its strategy, and loads the initial values; all processes of the
 *  case together, which get the same: success, or the failure of the one that failed. */
ls_status ls_session_open(const ls_workplace *place, const ls_plan_of_case *plan, ls_session *out);

/** Makes the run of a judge of the plan; `job` is the plan's, on one device. */
typedef ls_status (*ls_session_opener)(const ls_plan_of_case *plan, const ls_job *job,
                                       ls_run **out);

/** Opens the plan's first device alone and a run on it; loads the initial values. */
ls_status ls_session_open_one(const ls_workplace *place, const ls_plan_of_case *plan,
                              ls_session_opener open, ls_session *out);

/** The same of `single`. */
ls_status ls_session_open_single(const ls_workplace *place, const ls_plan_of_case *plan,
                                 ls_session *out);

/** Opens that device alone, of a judge: without the case's limit on memory. */
ls_status ls_session_judge_device(const ls_workplace *place, const ls_plan_of_case *plan,
                                  ls_device **out);

/** The same, with the delay that --inject asks for: not for what is compared. */
ls_status ls_session_open_delayed(const ls_workplace *place, const ls_plan_of_case *plan,
                                  ls_session *out);

/** Waits for what was put. A session that has lost a device, or loses it now, is left as it is
 *  (ls_workplace.left). */
void ls_session_close(ls_session *session);

/** Whether this process is the one that looks at what all have alike: parameters, the test set. */
bool ls_session_leads(const ls_session *session);

/*
 * The following are called by all processes of the case together, each with what it has alone to do
 * in them, and all get the same: success, or the failure of the one that failed. So nobody goes on
 * to what the others never come to.
 */

/** Puts `count` steps, full batches and epochs' last ones as they come, and waits for them.
 *  count is at most job.records. */
ls_status ls_session_steps(ls_session *session, uint64_t count);

/** Reads the records of the last `count` steps. */
ls_status ls_session_records(ls_session *session, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);

/** Goes on at step number `step` with these parameters [elements], the optimizer's state zero. */
ls_status ls_session_begin_at(ls_session *session, uint64_t step, const float *values);

/** Copies the parameters to the host, float32 [elements]. */
ls_status ls_session_gather(ls_session *session, float *values);

/** What the model makes of the first `most` test samples. All ranks call it, and all get rank 0's
 * accuracy; `outputs` are of those that evaluate, rank 0 among them. */
ls_status ls_session_evaluate(ls_session *session, uint64_t most, ls_evaluation *out);

/** Work of the process that leads alone. */
ls_status ls_session_alone(const ls_session *session, ls_status (*work)(void *context),
                           void *context);

/** One step, waited for; parameters [elements] and loss after it. */
ls_status ls_session_one_step(ls_session *session, float *values, double *loss);

/** What differs between `first`, the parameters [elements] of replica 0, and those of the others of
 *  this process that keep their own: goes into `differs`; "": nothing. `other` [elements] is used.
 */
ls_status ls_session_compare_replicas(ls_session *session, const float *first, float *other,
                                      char differs[LS_REASON_SIZE]);

/** Samples that steps [0, steps) have taken, all together. */
uint64_t ls_session_samples(const ls_session *session, uint64_t steps);

/** Whether the loss of `step` is not finite; then `reason` says so. */
bool ls_loss_diverged(double loss, uint64_t step, char reason[LS_REASON_SIZE]);

/** The same of the parameters [elements] after `steps` steps. */
bool ls_values_diverged(const ls_variables *variables, const float *values, uint64_t steps,
                        char reason[LS_REASON_SIZE]);

/** What a parameter server holds, and how busy it is. */
typedef struct ls_server_load {
    const char *device;   /**< its name */
    size_t bytes;         /**< of variables */
    double busy;          /**< share of its time that it did not wait */
    ls_received received; /**< of gradients, in `steps` steps */
    uint64_t steps;       /**< 0: not counted */
} ls_server_load;

/** What the trial found out; filled by ls_trial_block and ls_trial_finish. */
typedef struct ls_trial {
    ls_session session;
    const ls_plan_of_case *plan;
    double *step_ms; /**< [samples] of timed steps; on GPUs the mean of some, where their
                          clock ticks too slowly for one */
    size_t samples;
    ls_step_record *records; /**< [job.records] */
    double *chunk_ms;        /**< [job.records] of the steps put last */
    double trained_ms;       /**< all steps so far, with the warm-up's */
    double *losses;          /**< [timed], kept with --verbose; else NULL */
    uint64_t timed_done;
    double timed_ms; /**< of all timed steps */
    double *put_ns;  /**< [puts] session.put_ns, each time that timed steps were put */
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
    ls_memory_ledger *ledgers;     /**< [devices] when the last step was done */
    size_t rss_peak;               /**< bytes, when the last step was done */
    double part_ms[LS_TIME_USES];  /**< of the mean step: what its time goes to; all 0: not known */
    double bubble, bubble_formula; /**< of a pipeline: medians of rounds (bubble.h); else NaN */
    bool counted;                  /**< full steps crossed borders: sent and formula are known */
    ls_traffic sent, formula;      /**< of one full step */
    const char *record;            /**< file for what servers did; NULL: none */
    ls_ps_report report;           /**< of parameter servers, when the last step was done */
    ls_ps_report warm_report;      /**< the same, when the warm-up was */
    ls_server_load *servers;       /**< [server_count] of this process */
    size_t server_count;
    size_t in_use_start; /**< bytes on the devices when the timed steps began */
    ls_progress *progress;
    const ls_processes *processes; /**< who may wait for this one */
    uint64_t chunk;                /**< how many steps the next put may have */
} ls_trial;

ls_status ls_trial_open(const ls_workplace *place, const ls_plan_of_case *plan, ls_trial *out);

/** The warm-up steps. */
ls_status ls_trial_warm_up(ls_trial *trial);

/** Block `index` of `blocks`: its share of the timed steps. */
ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks);

/** Accuracy, parameters and digest. */
ls_status ls_trial_finish(ls_trial *trial);

/** Of ls_trial_finish (trial_profile.c): some more full steps, for what the step's time goes to. */
ls_status ls_trial_profile(ls_trial *trial);

void ls_trial_close(ls_trial *trial);

/** Bytes in use on all devices of the session. */
size_t ls_session_in_use(const ls_session *session);

#endif
