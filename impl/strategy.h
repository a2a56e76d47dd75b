/* SPDX-License-Identifier: MIT */
/*
 * Strategy: one way of spreading the training loop over devices. One file each, one line in
 * strategies.c; `build` reads top to bottom like the textbook.
 */
#ifndef LS_IMPL_STRATEGY_H
#define LS_IMPL_STRATEGY_H

#include "common/kernel/kernel.h"
#include "common/nn/layer.h"
#include "impl/job.h"

typedef struct ls_strategy ls_strategy;
typedef struct ls_step ls_step; /* impl/step/step.h */

typedef struct ls_run_kind ls_run_kind;

/** A strategy at work, or a judge of one. Whoever makes runs embeds this first in a struct. */
typedef struct ls_run {
    const ls_run_kind *kind;
    const ls_strategy *strategy;
    const ls_job *job;
} ls_run;

/** Bytes that one device holds by formula: what the allocator's ledger is checked against. */
typedef struct ls_memory_formula {
    size_t bytes[LS_MEMORY_USES];
} ls_memory_formula;

/** What a run looks like from outside, for its row. */
typedef struct ls_run_info {
    ls_program_info program;    /**< of the step of a full batch, all devices together */
    const char *kernels;        /**< name of the kernel table */
    const char *kernel_library; /**< with its version */
} ls_run_info;

/** What evaluation found. Runs of one batch, mode and number of parts that have the same parameters
 *  find the same, to the bit. */
typedef struct ls_evaluation {
    double accuracy;  /**< share of the samples that is classified rightly */
    uint64_t outputs; /**< digest of what the model makes of them: XXH3, batch after batch */
} ls_evaluation;

/** What can be done with a run. Those of the runs of steps are all there; a judge's own may lack
 *  what nobody asks it for. */
struct ls_run_kind {
    /** Sets all parameters from a host copy of the flat buffer, float32 [elements]; the next step
     * is number job->start. */
    ls_status (*load)(ls_run *run, const float *parameters);
    /** Puts `times` steps of the full batch, or of an epoch's last one. Returns at once. */
    ls_status (*step)(ls_run *run, bool tail, uint64_t times);
    /** Waits for all that was put. */
    ls_status (*sync)(ls_run *run);
    /** Time of the device clock when the steps put next begin. Put before them. */
    ls_status (*mark)(ls_run *run);
    /** Records first .. first + count - 1 (counted from 0, at most job->records back): end of the
     *  step and loss over the global batch. *mark_ns is the latest mark. After sync. */
    ls_status (*records)(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns);
    /** Copies the whole parameters to the host, float32 [elements]. After sync. */
    ls_status (*gather)(ls_run *run, float *parameters);
    /** The same of replica `index`, where each has its own. */
    ls_status (*gather_replica)(ls_run *run, int index, float *parameters);
    /** Of `most` samples of the test set, or all where it has no more; rounded up to whole batches.
     *  After sync; waits. */
    ls_status (*evaluate)(ls_run *run, uint64_t most, ls_evaluation *out);
    void (*describe)(const ls_run *run, ls_run_info *out);
    /** Visits the operations of the step, each once. */
    void (*each_op)(const ls_run *run, ls_op_visit visit, void *context);
    /** Begins to note what the time of each device's steps goes to (true), or ends it. After sync.
     *  LS_CODE_MISSING where a device cannot. */
    ls_status (*profile)(ls_run *run, bool on);
    /** What the time of device `index` went to meanwhile, from its first operation to its last; all
     * 0 where nothing on it trains, as on a server's. */
    ls_time_profile (*times)(const ls_run *run, size_t index);
    /** Formula of device `index` of the job. */
    ls_memory_formula (*memory)(const ls_run *run, size_t index);
    /** What one step of a full batch sent, and what it must by formula, over all devices of all
     *  processes, which all call it; 0 where only a library knows. After sync, and after a full
     *  step. NULL: nothing crosses a border. */
    ls_status (*traffic)(const ls_run *run, ls_traffic *sent, ls_traffic *formula);
    /** The latest step's gradient, whole, to the host, float32 [elements]. After sync. */
    ls_status (*gradient)(ls_run *run, float *gradient);
    void (*close)(ls_run *run);
};

/** What a strategy is asked before anything is opened. */
typedef struct ls_outline {
    size_t devices; /**< of each rank */
    int ranks;
    int64_t batch; /**< global */
    bool exact;
    int64_t micro_shards;
    const char *allreduce; /**< "auto", or a name */
    int microbatches;      /**< of a pipeline; 0: none */
    int replicas;          /**< D, over which all devices are dealt out; 0: strategy's own number */
    const char *comm;      /**< the ranks' communicator: "thread", "mpi" */
    int ps_servers;        /**< of ps: how many ranks are servers */
    bool ps_colocate;      /**< of ps: every rank works */
    bool ps_alone;         /**< of ps: gradients are not added up */
    int ps_backups;        /**< of ps: gradients that a step does not wait for */
    bool linked;           /**< devices are joined by links (link.h), and share no memory */
    int hosts;             /**< of the ranks */
} ls_outline;

/** Where a strategy's variables are. */
typedef enum ls_variables_at {
    LS_VARIABLES_EACH,   /**< with each replica */
    LS_VARIABLES_HELD,   /**< with one device: asks for job->variable_device */
    LS_VARIABLES_PLACED, /**< over several devices together, as a model's nodes: for job->place */
    LS_VARIABLES_SERVED  /**< with parameter servers: for job->ps; in one process, held as well */
} ls_variables_at;

struct ls_strategy {
    const char *name;
    const char *help;
    bool equivalent; /**< computes what `single` computes; false: says so in its row */
    bool reduces;    /**< uses job->allreduce and job->bucket_bytes */
    ls_variables_at variables;
    bool meets;      /**< its replicas can add up batch statistics in a step */
    bool replicated; /**< has several replicas: each needs a sample of every full batch */
    /** LS_CODE_USAGE, saying why and what would work, where it cannot run this job. */
    ls_status (*check)(const ls_outline *outline);
    /** Says what this process's members do in one step (impl/step/step.h). */
    void (*build)(ls_step *step);
    /** Every so many steps the last one differs (ls_ends_period). NULL: all are alike. */
    int (*period)(const ls_job *job);
    /** What one step moves, over all processes, by a closed form: not by what was said. NULL:
     * nothing crosses a border. */
    ls_traffic (*formula)(const ls_step *step);
    /** Fast mode's order of summation: appends the steps of a sum of the parts' gradients, each
     *  [elements], of which there are `count`; has[d]: part d is not empty. NULL: not equivalent.
     */
    ls_status (*sum)(const ls_job *job, const bool *has, int count, ls_sum_order *out);
};

/** Whether its variables are so. */
static inline bool ls_strategy_divides(const ls_strategy *strategy)
{
    return strategy->variables == LS_VARIABLES_PLACED;
}

static inline bool ls_strategy_serves(const ls_strategy *strategy)
{
    return strategy->variables == LS_VARIABLES_SERVED;
}

/** Opens the strategy at work on the job, which it borrows: partitions, allocates everything, makes
 *  the steps and captures them. All processes call it. */
ls_status ls_strategy_open(const ls_strategy *strategy, const ls_job *job, ls_run **out);

/** ((p0 + p1) + p2) + ...: the order of towers, and of one part alone. */
ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/** The strategy's own check, and that every replica gets a sample (exact: a shard) of a full batch.
 */
ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *outline);

/** NULL-terminated. */
const ls_strategy *const *ls_strategies(void);

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_strategy_find(const char *name, const ls_strategy **out);

#endif
