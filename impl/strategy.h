/* SPDX-License-Identifier: MIT */
/*
 * Strategy: one way of spreading the training loop over devices. One file each, one line in
 * strategies.c; `build` reads top to bottom like the textbook.
 */
#pragma once

#include "common/base/registry.h"
#include "common/comm/comm_choice.h"
#include "common/device/op_list.h"
#include "common/kernel/kernel.h"
#include "impl/job.h"

typedef struct ls_strategy ls_strategy;
/** A step, as a strategy builds it. */
typedef struct ls_step ls_step; /* impl/step/step.h */
/** The order in which gradients are added. */
typedef struct ls_sum_order ls_sum_order; /* common/comm/sum_order.h */

typedef struct ls_run_kind ls_run_kind;
struct ls_carried;

/** A run: a strategy at work, or a judge of one (bench/gate). Embedded first in a struct. */
typedef struct ls_run {
    const ls_run_kind *kind;     /**< what can be done with it */
    const ls_strategy *strategy; /**< that is at work */
    const ls_job *job;           /**< borrowed */
} ls_run;

/** Bytes that one device holds by formula; the allocator's ledger is checked against it. */
typedef struct ls_memory_formula {
    size_t bytes[LS_MEMORY_USES]; /**< by use */
} ls_memory_formula;

/** Facts of a run, for its row. */
typedef struct ls_run_info {
    ls_program_info program;    /**< of the step of a full batch, all devices together */
    const char *kernels;        /**< name of the kernel table */
    const char *kernel_library; /**< with its version */
} ls_run_info;

/** The outcome of an evaluation. Runs with the same batch, mode, number of parts and parameters
 * have the same, to the bit. */
typedef struct ls_evaluation {
    double accuracy;  /**< share of the samples that are classified right */
    uint64_t outputs; /**< XXH3 of the model's outputs, batch after batch */
} ls_evaluation;

/** What can be done with a run. Runs of strategies have every entry; a judge's may lack those that
 * the gate does not call. */
struct ls_run_kind {
    /** Sets all parameters from a host copy of the flat buffer, float32 [elements]; the next step
     * is number job->start. */
    ls_status (*load)(ls_run *run, const float *parameters);
    /** Enqueues `times` steps of the full batch, or of an epoch's last one. Returns at once. */
    ls_status (*step)(ls_run *run, bool tail, uint64_t times);
    /** Waits for all steps that were enqueued. */
    ls_status (*sync)(ls_run *run);
    /** Enqueues a reading of the device's clock, before the steps that come next. */
    ls_status (*mark)(ls_run *run);
    /** Reads records [first, first + count), from 0, of which the last job->records are kept: each
     * step's end and its loss over the global batch. *mark_ns is the latest mark. After sync. */
    ls_status (*records)(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns);
    /** Copies the whole parameters to the host, float32 [elements]. After sync. */
    ls_status (*gather)(ls_run *run, float *parameters);
    /** The same of replica `index` of this process, where each has its own. */
    ls_status (*gather_replica)(ls_run *run, int index, float *parameters);
    /** The records of that replica: its own ends of steps, and its part of the loss, without weight
     * decay's. LS_CODE_USAGE where that comes in several parts, as in exact mode. After sync. */
    ls_status (*records_replica)(ls_run *run, int index, uint64_t first, uint64_t count,
                                 ls_step_record *out);
    /** The program of that replica's step of a full batch; all zero where none is captured. */
    ls_program_info (*describe_replica)(const ls_run *run, int index);
    /** Evaluates `most` samples of the test set, or all where it has fewer; rounded up to whole
     * batches. After sync; waits. */
    ls_status (*evaluate)(ls_run *run, uint64_t most, ls_evaluation *out);
    /** Tells the facts of a run. Text is static. */
    void (*describe)(const ls_run *run, ls_run_info *out);
    /** Visits the operations of the step, each once. */
    void (*each_op)(const ls_run *run, ls_op_visit visit, void *context);
    /** Begins to note what the time of each device's queues goes to in the steps put next, at most
     *  so many; 0 ends it. After sync. LS_CODE_MISSING where a device cannot. */
    ls_status (*profile)(ls_run *run, uint64_t steps);
    /** What the time of device `index` went to while profiled, from its first operation to its
     * last; all 0 where nothing on it trains, as on a server's. */
    ls_time_profile (*times)(const ls_run *run, size_t index);
    /** The same of devices [devices], from `mark_ns` to `end_ns`, when by the records the steps
     * began and had ended; with waits for other queues divided by what these did: communication,
     * copies, or else waiting (impl/step/blame.c). Before its first operation a device had nothing
     * to do; what is behind its last one is waiting. */
    ls_status (*parts)(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                       ls_time_profile *out);
    /** The memory formula of device `index` of the job. */
    ls_memory_formula (*memory)(const ls_run *run, size_t index);
    /** What one step of a full batch sent, and what it must send by formula, over all devices of
     * all processes, which all call this; 0 where only a library knows. After sync, and after a
     * full step. NULL: nothing crosses a border. */
    ls_status (*traffic)(const ls_run *run, ls_traffic *sent, ls_traffic *formula);
    /** The latest step's gradient, whole, to the host, float32 [elements]. After sync. */
    ls_status (*gradient)(ls_run *run, float *gradient);
    /** Saves all that the next step depends on, and what was counted; or restores it into a run of
     * the same job that was loaded to start there (carried.h). After sync; waits. */
    ls_status (*keep)(ls_run *run, struct ls_carried *carried);
    /** Waits for what was enqueued, and frees the run. */
    void (*close)(ls_run *run);
};

/** A job in outline: what a strategy's check sees before anything is opened. */
typedef struct ls_outline {
    const ls_job *job;     /**< as far as options decide it: batch, arithmetic, and what
                                `resolve` sets; no model, data or devices */
    size_t devices;        /**< of each rank */
    int ranks;             /**< processes, or threads that stand for them */
    const char *allreduce; /**< "auto", or a name */
    const char *comm;      /**< the ranks' communicator: "thread", "mpi" */
    bool linked;           /**< devices are joined by links (link.h), and share no memory */
    int hosts;             /**< how many the ranks are on */
} ls_outline;

/** Where a strategy's variables are. */
typedef enum ls_variables_at {
    LS_VARIABLES_EACH,   /**< with each replica */
    LS_VARIABLES_HELD,   /**< on one device: needs job->variable_device */
    LS_VARIABLES_PLACED, /**< divided over several devices, as a model's nodes are: needs
                              job->place */
    LS_VARIABLES_SERVED  /**< on parameter servers: needs job->ps; in one process,
                              job->variable_device, too */
} ls_variables_at;

/** One way of spreading the training loop: an entry of `lockstep list`. */
struct ls_strategy {
    const char *name; /**< as users write it */
    const char *help; /**< one line for people */
    /** Its own options, NULL-terminated; NULL: none. An option that decides whether a case has
     * others comes before these. */
    const ls_declared_option *const *options;
    bool equivalent;           /**< computes what `single` computes; if not, its row says so */
    bool reduces;              /**< uses job->allreduce and job->bucket_bytes */
    ls_variables_at variables; /**< where they are */
    bool syncs_statistics;     /**< its replicas can add up batch statistics in a step */
    bool replicated;           /**< has several replicas: each needs a sample of every full batch */
    /** Whether a case with these values, on so many ranks, has this one of its options. NULL: it
     * has all. */
    bool (*has)(const ls_declared_values *values, int ranks, const ls_declared_option *option);
    /** Sets the fields of the job that follow from job->options on so many ranks. NULL: none do. */
    void (*resolve)(ls_job *job, int ranks);
    /** Refuses a job that it cannot run: LS_CODE_USAGE, with why and what would work. NULL: it runs
     * any. */
    ls_status (*check)(const ls_outline *outline);
    /** Describes what this process's members do in one step (impl/step/step.h). */
    void (*build)(ls_step *step);
    /** What one step sends, over all processes, by a closed form that does not look at tasks. NULL:
     * nothing is sent. */
    ls_traffic (*formula)(const ls_step *step);
    /** Fast mode's order of summation: appends the steps of a sum of the parts' gradients, each
     *  [elements], of which there are `count`; has[d]: part d is not empty. NULL: not equivalent.
     */
    ls_status (*sum)(const ls_job *job, const bool *has, int count, ls_sum_order *out);
};

/** Whether it divides the model over devices; whether it has parameter servers. */
static inline bool ls_strategy_divides(const ls_strategy *strategy)
{
    return strategy->variables == LS_VARIABLES_PLACED;
}

static inline bool ls_strategy_serves(const ls_strategy *strategy)
{
    return strategy->variables == LS_VARIABLES_SERVED;
}

/** Whether it is the reference, which others are compared with: `single`. */
static inline bool ls_strategy_is_reference(const ls_strategy *strategy)
{
    return strategy->equivalent && !strategy->reduces && strategy->variables == LS_VARIABLES_EACH;
}

/** Opens a run of the strategy on the job, which it borrows: divides the batch, allocates all
 * memory, builds the steps and captures them. All processes call it. */
ls_status ls_strategy_open(const ls_strategy *strategy, const ls_job *job, ls_run **out);

/** How many replicas the outlined job has. */
int64_t ls_outline_replicas(const ls_strategy *strategy, const ls_outline *outline);

/** The strategy's own check, and that every replica gets a sample (exact: a shard) of a full batch.
 */
ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *outline);

/** Its declared option of this name; NULL: it has none. */
const ls_declared_option *ls_strategy_option(const ls_strategy *strategy, const char *name);

extern const ls_registry ls_strategies; /**< of ls_strategy */

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_strategy_find(const char *name, const ls_strategy **out);
