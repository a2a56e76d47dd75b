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

/** What decides which options apply to a model from a file (graph_file.h). */
typedef struct ls_model_facts {
    char data[600];  /**< text of --data by default */
    bool normalises; /**< it has batch statistics */
    bool convolves;
} ls_model_facts;

/** Values of ls_case.eval_samples that are words on the command line. */
#define LS_EVAL_AUTO (-1)
#define LS_EVAL_ALL  INT64_MAX

/** Values that a list may vary. Text is "" and numbers are 0 if the default is the model's. */
typedef struct ls_case {
    char model[LS_MODEL_TEXT];   /**< "mlp:784-128-10" as given; "mlp" by default */
    char data[600];              /**< "" : the model's */
    ls_model_facts file;         /**< of a model from a file: what follows from it; else all zero */
    const ls_strategy *strategy; /**< single */
    ls_declared_values own;      /**< values of options that the strategy, the model and the data
                                      declare */
    char devices[512];           /**< "1", "cpu:0+cpu:1" */
    int64_t batch; /**< 0 means the model's; as given: global (strong) or per device (weak) */
    ls_scaling scaling;
    int64_t steps;  /**< timed steps; -1 where epochs are given */
    int64_t epochs; /**< 0 where steps are given */
    int64_t warmup;
    char optimizer[256];  /**< "adam:beta1=0.9"; "" : the model's */
    double learning_rate; /**< 0 means the model's */
    char lr_schedule[16]; /**< "cosine"; "" means the model's */
    int64_t lr_warmup;    /**< steps in which the learning rate rises */
    int64_t lr_decay;     /**< steps after which it has fallen; 0 means the run's */
    double min_lr;        /**< to which it falls */
    int64_t lr_wsd_decay; /**< steps in which schedule wsd falls; 0 if it follows from the others */
    double clip;          /**< the norm to which gradients are scaled down; 0 if they are not */
    uint64_t seed;
    bool shuffle;
    ls_reduce reduce;
    int64_t micro_shards; /**< the default if `reduce` is fast, which does not use it */
    int64_t micro_splits; /**< slices of split layers; the default if `reduce` is fast */
    int64_t accumulation; /**< pieces of each replica's slice; 1 if gradients are not accumulated */
    int64_t drops;        /**< outputs that are computed again (common/nn/repeat.h) */
    int64_t gate_steps;   /**< -1 means all steps (`verify`) */
    int64_t eval_samples; /**< samples of the test set; LS_EVAL_AUTO, LS_EVAL_ALL */
    char memory_text[32]; /**< as given; "" means growth on CPUs, all on GPUs */
    ls_memory_policy memory;
    char link_text[64]; /**< as given; "" if none */
    ls_link link;
    ls_target_kind target_kind;
    double target;
    ls_math math;
    ls_precision precision;
    ls_convolution convolution; /**< LS_CONVOLUTION_AUTO if the model has no convolution */
    bool capture;
    char allreduce[32];   /**< of strategies that reduce: "auto", or a name */
    int64_t bucket_bytes; /**< of strategies that reduce; -1 means auto, 0 one per variable */
    ls_fault fault;       /**< --inject; all zero: none */
    char elastic[512];    /**< replicas that leave and join (elastic.h); "" if none */
    int shrinks;          /**< not 0 if the other ranks go on without a killed one */
    char label[256];      /**< "" if none */
    int ranks;            /**< 1; else processes (comm mpi), or ranks within this process */
    char comm[8];         /**< "thread" (on GPUs it means device), "mpi", "device", "nccl" */
    bool comm_auto;       /**< `auto` has chosen it; for GPUs nccl may replace mpi */
} ls_case;

/** How `predict` plays cases (bench/predict); for all cases of a command. */
typedef struct ls_prediction_request {
    char *platform;       /**< NULL if not given */
    char *durations;      /**< "measured", a file, or "flops=RATE"; NULL means measured */
    char *slowdown;       /**< "RANK=FACTOR"; NULL if none */
    char *goal;           /**< file for the steps' graph; NULL if none */
    char *chakra;         /**< folder for it, as Chakra traces; NULL if none */
    char *trace;          /**< file for the counted steps; NULL if none */
    char *memory_limit;   /**< of each device; NULL if none */
    int engine;           /**< ls_engine */
    int collectives;      /**< ls_expansion */
    int draws;            /**< 0 means as many as fit the number of devices */
    int devices_per_host; /**< devices that share a host */
    bool calibrate;       /**< durations are measured and written to `out` */
    bool validate;        /**< measured rows are predicted, and compared */
} ls_prediction_request;

/** A command: its cases, and options that hold for all of them. The request owns the text. */
typedef struct ls_request {
    ls_case *cases;
    size_t case_count;
    bool verify; /**< `verify`: no timing, all steps compared */
    int64_t blocks;
    double precision;     /**< ci95/2 over the median until which blocks are added; or 0 */
    uint64_t max_time_ns; /**< limit of a group's time when blocks are added */
    int cpu_devices;      /**< 0 means the machine's */
    int cores_per_device;
    int logical_gpus;
    bool baseline;
    bool waterfall;  /**< measures where the steps' time goes */
    bool trace;      /**< `trace`: steps are traced to a file, not measured */
    int trace_steps; /**< how many */
    char *out;       /**< file of the trace; NULL if not given */
    bool predict;    /**< `predict`, `advise`: played in virtual time */
    bool advise;     /**< `advise`: strategies and their options are compared */
    ls_prediction_request prediction;
    bool print_step; /**< the step is listed, nothing is trained */
    bool soft_placement;
    bool log_placement;
    uint64_t timeout_ns;           /**< without progress of another rank, or of a GPU */
    char *load;                    /**< NULL if none */
    char *save;                    /**< NULL if none */
    char *checkpoint;              /**< folder of checkpoints; NULL if none are written */
    int64_t checkpoint_interval;   /**< steps; 0 means only after the last one */
    int64_t checkpoint_keep;       /**< how many stay; 0 means all */
    char *resume_from;             /**< "auto", or a folder; NULL means from the start */
    char *ps_record;               /**< NULL if none */
    char *results;                 /**< file; NULL if none */
    struct ls_option_set *given;   /**< options given for all cases; owns texts that cases[].own
                                        borrows */
    struct ls_experiment *plan;    /**< options given for some cases; owned */
    uint64_t budget_ns;            /**< time that the numbers of steps are fitted to; 0 if none */
    uint64_t deadline_ns;          /**< when a budget is over, by ls_clock_ns; 0 if none */
    bool steps_given;              /**< by the command or the plan: a budget does not raise them */
    bool dry_run;                  /**< cases are listed, nothing is trained */
    bool resume;                   /**< cases that have a row already are skipped */
    char *format;                  /**< "table", "jsonl", "json", "csv", "md" */
    char *columns;                 /**< keys of the table's columns; NULL if not chosen */
    char *command;                 /**< the command line, for the row */
    int progress;                  /**< -1 auto, 0 no, 1 yes */
    ls_log log;                    /**< quiet, normal, verbose */
    char *notes;                   /**< lines for `log` about the cases, printed once no refusal
                                        can come */
    const ls_processes *processes; /**< that run the command; borrowed */
} ls_request;
