/* SPDX-License-Identifier: MIT */
/*
 * Case: one configuration to train, check and measure; one row of figures.
 *
 * The command line and the plan file give lists; their product is the list of cases. Text is kept
 * as the user wrote it where a registry resolves it later (model, data, devices).
 */
#pragma once

#include "bench/case/fault.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/comm/processes.h"
#include "common/device/device.h"
#include "common/device/link.h"
#include "common/kernel/kernel.h"
#include "impl/strategy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ls_reduce { LS_REDUCE_FAST, LS_REDUCE_EXACT } ls_reduce;
typedef enum ls_scaling { LS_SCALING_STRONG, LS_SCALING_WEAK } ls_scaling;
typedef enum ls_target_kind { LS_TARGET_NONE, LS_TARGET_ACCURACY, LS_TARGET_LOSS } ls_target_kind;

/** Values that a list may vary. Text is "" and numbers are 0 where the default is the model's. */
typedef struct ls_case {
    char model[128];             /**< "mlp:784-128-10" as given; "mlp" by default */
    char data[600];              /**< "" : the model's */
    const ls_strategy *strategy; /**< single */
    ls_declared_values own;      /**< options that the strategy, the model and the data declare */
    char devices[512];           /**< "1", "cpu:0+cpu:1" */
    int64_t batch; /**< 0: the model's; as given: global (strong) or per device (weak) */
    ls_scaling scaling;
    int64_t steps;  /**< timed steps; -1 where epochs are given */
    int64_t epochs; /**< 0 where steps are given */
    int64_t warmup;
    char optimizer[256];  /**< "adam:beta1=0.9"; "" : the model's */
    double learning_rate; /**< 0: the model's */
    uint64_t seed;
    bool shuffle;
    ls_reduce reduce;
    int64_t micro_shards; /**< the default where `reduce` is fast: no part of such a case */
    int64_t gate_steps;   /**< -1: all steps (`verify`) */
    char memory_text[32]; /**< as given; "": growth on CPUs, all on GPUs */
    ls_memory_policy memory;
    char link_text[64]; /**< as given; "": none */
    ls_link link;
    ls_target_kind target_kind;
    double target;
    ls_math math;
    ls_convolution convolution; /**< LS_CONVOLUTION_AUTO, also where there is none */
    bool capture;
    char allreduce[32];   /**< of a strategy that reduces: "auto", or a name */
    int64_t bucket_bytes; /**< of one: -1: auto; 0: one per variable */
    ls_fault fault;       /**< --inject; all zero: none */
    int ranks;            /**< 1; of comm mpi the processes, of others ranks in this one */
    char comm[8];         /**< "thread" (of GPUs: device), "mpi", "device", "nccl" */
} ls_case;

/** What the whole command shares. Text is owned by the request. */
typedef struct ls_request {
    ls_case *cases;
    size_t case_count;
    bool verify; /**< `verify`: no timing, all steps compared */
    int64_t blocks;
    double precision; /**< blocks are added until half of ci95 over the median is that; 0: none */
    uint64_t max_time_ns; /**< that a group's blocks take with those added */
    int cpu_devices;      /**< 0: the machine's */
    int cores_per_device;
    int logical_gpus;
    bool baseline;
    bool waterfall;  /**< what the steps' time goes to is found out */
    bool trace;      /**< `trace`: some steps go to a file, in place of measuring */
    int trace_steps; /**< how many */
    char *out;       /**< that file; NULL: not given */
    bool print_step; /**< the step is listed, in place of training */
    bool soft_placement;
    bool log_placement;
    uint64_t timeout_ns;           /**< without progress of another rank, or of a GPU */
    char *load;                    /**< NULL: none */
    char *save;                    /**< NULL: none */
    char *ps_record;               /**< NULL: none */
    char *label;                   /**< NULL: none */
    char *results;                 /**< file; NULL: none */
    struct ls_option_set *given;   /**< whose texts the cases' own options borrow */
    struct ls_plan_file *plan;     /**< and its sets', too */
    uint64_t budget_ns;            /**< that steps are fitted to; 0: none */
    uint64_t deadline_ns;          /**< when a budget is over, by ls_clock_ns; 0: none */
    bool steps_given;              /**< by the command or the plan: a budget takes no more */
    bool dry_run;                  /**< cases are listed, in place of training */
    bool resume;                   /**< cases that have a row are left out */
    char *format;                  /**< "table", "jsonl", "json", "csv", "md" */
    char *columns;                 /**< of the table: keys; NULL: not chosen */
    char *command;                 /**< the command line, for the row */
    int progress;                  /**< -1 auto, 0 no, 1 yes */
    ls_log log;                    /**< quiet, normal, verbose */
    const ls_processes *processes; /**< those of the command; borrowed */
} ls_request;
