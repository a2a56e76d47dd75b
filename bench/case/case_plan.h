/* SPDX-License-Identifier: MIT */
/* What the cases of a command share, and a case with everything resolved. */
#pragma once

#include "bench/case/case.h"
#include "common/comm/comm_network.h"
#include "impl/strategy.h"

#include <stdbool.h>

enum { LS_REASON_SIZE = 256 }; /**< bytes of why a row is not ok */

/** Which values a seed draws: the `from` of ls_drawn_source. */
typedef struct ls_drawn_values {
    const ls_variables *variables;
    uint64_t seed;
} ls_drawn_values;

/** What all cases of a command share, opened once. */
typedef struct ls_workplace {
    const ls_request *request;
    ls_machine *machine;
    struct ls_data_cache *data;  /**< data sets by text and model */
    struct ls_held_values *held; /**< first values by model and seed (first_values.c) */
    bool holds; /**< whether first values drawn from a seed are kept, to draw once */
    struct ls_resumed *resumed;       /**< the state that all go on from (plan_checkpoint.c) */
    struct ls_kernels_known *kernels; /**< bench/gate/gate_kernels.c */
    struct ls_progress *progress; /**< bench/progress/progress.h; borrowed; NULL if none is shown */
    const ls_wires *wires; /**< network on which cases are played; borrowed; NULL if none is */
    int devices_per_host;  /**< of that network */
    bool *left;            /**< set once a device is lost: then nothing is closed any more */
    _Atomic int busy;      /**< liveness checks that still report this process as alive
                                (ls_workplace_busy) */
} ls_workplace;

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
    bool soft_placed;               /**< it runs on other devices than asked for */
    bool variables_placed;          /**< variable_device is another one than asked for */
    ls_device_name variable_device; /**< for towers */
    int *place;                     /**< [nodes] device of each; NULL if the model is not divided */
    ls_layout *layout;     /**< hosts of the devices, if they are played; NULL means one host */
    ls_job job;            /**< without `devices`, which are not open yet */
    int64_t warmup, timed; /**< steps from job.start on */
    struct ls_elastic *elastic;           /**< replicas that leave and join (elastic.h), or NULL; */
    struct ls_elastic_phase *phases;      /**< then the first of its phases, each with a plan */
    const struct ls_elastic_phase *phase; /**< the phase that this is the plan of, or NULL; */
    const struct ls_plan_of_case *whole;  /**< then the plan of all replicas */
    ls_drawn_values drawn;                /**< by the case's seed */
    ls_state_source initial; /**< parameters before the first step; unset until ls_plan_draw */
    uint64_t initial_hash;   /**< hash of some first values, for ranks to compare */
} ls_plan_of_case;

/** Whether the variables are on a device of another kind than the towers: the host then orders
 * their queues (ls_queue_wait), and steps cannot be captured. */
bool ls_plan_mixes_kinds(const ls_plan_of_case *plan);

/** Whether the variables are on a device that the case names. */
bool ls_plan_has_variable_device(const ls_plan_of_case *plan);

/** Whether accuracy can be measured: the data have classes, and samples to test on. */
bool ls_plan_tests(const ls_plan_of_case *plan);

/** Whether a sample is a window of tokens. */
bool ls_plan_has_tokens(const ls_plan_of_case *plan);

/** How many test samples are evaluated after the last of `steps` steps (--eval-samples); 0 if there
 * is none.
 */
uint64_t ls_plan_evaluated(const ls_plan_of_case *plan, uint64_t steps);

/** Whether its devices are the stages of one pipeline. */
bool ls_plan_is_pipeline(const ls_plan_of_case *plan);

/** Whether one of the case's devices can be made to hang: several CPU devices of this process
 *  alone. */
bool ls_plan_can_hang(const ls_plan_of_case *plan);

/** The number of device `index` on the platform, if it is played: its name's number, if every name
 * has one below the number of devices; else `index`. */
int ls_plan_number(const ls_plan_of_case *plan, size_t index);

/** Refuses --precision bf16 with what does not work with it: LS_CODE_USAGE (plan_precision.c). */
ls_status ls_plan_check_precision(const ls_plan_of_case *plan);

/** Sets the job's learning-rate schedule, once its batch and the plan's steps are known; or refuses
 * it: LS_CODE_USAGE (plan_rate.c). */
ls_status ls_plan_choose_rate(const ls_request *request, ls_plan_of_case *plan);

/** Chooses the all-reduce, the buckets, and whether all-reduces overlap with backward, once the
 * job's transport is known (plan_reduction.c). */
ls_status ls_plan_choose_reduction(const ls_workplace *workplace, ls_plan_of_case *plan);

/** Chooses the all-reduce whose sums take least time on a network, if it is left to be chosen. */
ls_status ls_plan_choose_allreduce(const ls_wires *wires, ls_plan_of_case *plan);

/** Checks the case's faults on purpose (--inject; plan_faults.c), and finds which replicas a
 *  straggler delays. The plan's steps, devices and job are known. LS_CODE_USAGE, saying why and
 * what would work. */
ls_status ls_plan_place_faults(const ls_workplace *workplace, ls_plan_of_case *plan);

/* ---- Batch statistics (sync_bn.c): the samples that a case's batch normalisation uses --- */

/** LS_CODE_USAGE if the job's mode needs statistics of the whole batch and its strategy, with this
 * number of replicas and devices over all ranks, has others. */
ls_status ls_sync_bn_check(const ls_job *job, const ls_strategy *strategy, const ls_model *model,
                           int64_t replicas, int64_t devices);

/** As above, for the kinds of the devices. */
ls_status ls_sync_bn_check_devices(const ls_plan_of_case *plan);

/** Whether parts of the batch have separate statistics. Then the case does not compute what
 * `single` does, and only its oracle judges. */
bool ls_sync_bn_is_own(const ls_plan_of_case *plan);
