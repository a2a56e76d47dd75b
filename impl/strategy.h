/* SPDX-License-Identifier: MIT */
/*
 * Strategy: one way of spreading the training loop over devices. A file each, and a line in
 * strategies.h; `build` reads top to bottom like the textbook.
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

typedef struct ls_run_functions ls_run_functions;
struct ls_carried;

/** A run: a strategy opened on a job, or a judge in the gate (bench/gate). First field of a larger
 * struct. */
typedef struct ls_run {
    const ls_run_functions *functions; /**< what can be done with it */
    const ls_strategy *strategy;       /**< which one */
    const ls_job *job;                 /**< borrowed */
} ls_run;

/** Bytes that one device holds by formula; the allocator's counts are checked against it. */
typedef struct ls_memory_formula {
    size_t bytes[LS_MEMORY_USES]; /**< by use */
} ls_memory_formula;

/** Facts of a run, for its row. */
typedef struct ls_run_info {
    ls_program_info program;    /**< of the step of a full batch, all devices together */
    const char *kernels;        /**< name of the kernel table */
    const char *kernel_library; /**< with its version */
} ls_run_info;

/** What to evaluate. All but `samples` may be zero. */
typedef struct ls_evaluating {
    uint64_t samples; /**< the first ones of the test set; more than it has: all */
    bool outputs;     /**< whether to find ls_evaluation.outputs */
    /** Called by all processes at the same points: before the first batches, and after every
     * *batches of each device, which the call sets. Shares failures (`own_status`, whose ownership
     * it takes), and ends the evaluation if it sets *stop. NULL if nothing is asked. */
    ls_status (*turn)(void *context, ls_status own_status, uint64_t *batches, bool *stop);
    /** Called after each node, where a single process evaluates; LS_CODE_INTERRUPTED ends the
     * evaluation. NULL if nothing is asked. */
    ls_status (*check)(void *context);
    void *context; /**< of both */
} ls_evaluating;

/** The outcome of an evaluation. With equal parameters and equal rows of a batch, all is bitwise
 * equal, however many replicas evaluate. */
typedef struct ls_evaluation {
    double accuracy;         /**< share of correctly classified samples; -1 means stopped */
    uint64_t right, counted; /**< correct ones, and of how many */
    uint64_t outputs;        /**< sum of hashes of the model's outputs, with their places */
    bool stopped;            /**< before its end */
} ls_evaluation;

/** What replicas have exchanged at ends of periods. */
typedef struct ls_exchanged {
    uint64_t count;    /**< fragments, in all steps */
    double wire_error; /**< the largest error of rounding for a wire (comm_wire.h) */
} ls_exchanged;

/** The functions of a run. Runs of strategies have all; a judge need not have the ones that the
 * gate does not call. "After sync": only when no step is enqueued. */
struct ls_run_functions {
    /** Sets all parameters; the next step is number job->start. */
    ls_status (*load)(ls_run *run, const ls_state_source *source);
    /** Enqueues `times` steps of batches of this kind. Does not wait. */
    ls_status (*step)(ls_run *run, ls_batch_kind kind, uint64_t times);
    /** Waits for all enqueued steps. */
    ls_status (*sync)(ls_run *run);
    /** Enqueues a reading of the device's clock (a mark) before the next steps. */
    ls_status (*mark)(ls_run *run);
    /** Reads the records of steps [first, first + count): each step's end and its loss over the
     * global batch. The last job->records are kept. *mark_ns is the latest mark. After sync. */
    ls_status (*records)(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns);
    /** Copies a block of the model's elements of an array to the host, float32 [block.count]; where
     * the job has no such array, nothing. All processes call it. After sync. */
    ls_status (*state)(ls_run *run, ls_values array, ls_range block, float *out);
    /** The parameters of replica `index` of this process, if replicas have their own. */
    ls_status (*gather_replica)(ls_run *run, int index, ls_range block, float *out);
    /** Copies what device `index` of the job has of the parameters, and leaves the rest; `copies`:
     * of the rounded parameters that its layers read; nothing if they are not rounded. */
    ls_status (*gather_device)(ls_run *run, int index, bool copies, ls_range block, float *out);
    /** The records of that replica: its own step ends, and its part of the loss without weight
     * decay. LS_CODE_USAGE if that is several sums, as in exact mode. After sync. */
    ls_status (*records_replica)(ls_run *run, int index, uint64_t first, uint64_t count,
                                 ls_step_record *out);
    /** The program of that replica's step of a full batch; all zero if none is captured. */
    ls_program_info (*describe_replica)(const ls_run *run, int index);
    /** Evaluates samples of the test set by the variables, or their averages; where replicas
     * differ, by replica 0's. All replicas take a part of the samples; in exact mode the replicas
     * that have a shard of as many rows as the batch's first one, so that outputs have the same
     * bits. All processes call it. After sync; waits. */
    ls_status (*evaluate)(ls_run *run, const ls_evaluating *how, ls_evaluation *out);
    /** The facts of a run. Text is static. */
    void (*describe)(const ls_run *run, ls_run_info *out);
    /** Visits the operations of the step, each once. */
    void (*each_op)(const ls_run *run, ls_op_visit visit, void *context);
    /** Starts to record what each device's queues spend time on, for at most `steps` steps; 0 stops
     *  it. After sync. LS_CODE_MISSING if a device cannot. */
    ls_status (*profile)(ls_run *run, uint64_t steps);
    /** What each of `steps` profiled steps went to, on devices [devices]; ends_ns [steps + 1]: the
     * begin of the first, and the end of each, by their records. Waits for a peer and for another
     * queue are waiting, as is time after a device's last operation; time before its first one is
     * idle. All 0 if nothing on it trains, as on a server. */
    ls_status (*times)(const ls_run *run, size_t devices, const uint64_t *ends_ns, size_t steps,
                       ls_time_profile *out); /**< [steps, devices] */
    /** As above, for all steps at once, from `mark_ns` to `end_ns`, but a wait for another queue
     * counts as what that queue did meanwhile: communication, copies, or else waiting
     * (impl/step/trace/blame.c). */
    ls_status (*parts)(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                       ls_time_profile *out);
    /** The memory formula of device `index` of the job. */
    ls_memory_formula (*memory)(const ls_run *run, size_t index);
    /** What one step of a full batch sent, and what it must send by formula, over all devices of
     * all processes; 0 if only a library knows. All processes call it. After sync, and after a full
     * step. NULL if nothing is sent. */
    ls_status (*traffic)(const ls_run *run, ls_traffic *sent, ls_traffic *formula);
    /** The norm of the latest step's gradient (job.update.clip); where replicas have one each, the
     * norm of the first one with samples in the step. All processes call it. After sync. */
    ls_status (*norm)(const ls_run *run, double *out);
    /** The least and the largest learning rate of the next update, over this process's members that
     * update; infinity and 0 if none does. After sync. */
    ls_status (*rates)(const ls_run *run, double range[2]);
    /** What replicas have exchanged so far, where they update alone. All processes call it. After
     * sync. */
    ls_status (*exchanged)(const ls_run *run, ls_exchanged *out);
    /** Copies the latest step's gradient to the host, float32 [elements]. After sync. */
    ls_status (*gradient)(ls_run *run, float *gradient);
    /** Saves all that the next step depends on, and the counters; or restores them into a run of
     * the same job that was loaded to start there (carried.h). After sync; waits. */
    ls_status (*keep)(ls_run *run, struct ls_carried *carried);
    /** Waits for all enqueued steps, and frees the run. */
    void (*close)(ls_run *run);
};

/** For models that the host has whole: loads, or copies to it, all parameters, float32 [elements].
 */
static inline ls_status ls_run_load(ls_run *run, const float *parameters)
{
    const ls_state_source source = ls_state_held(parameters);
    return run->functions->load(run, &source);
}

static inline ls_status ls_run_gather(ls_run *run, float *parameters)
{
    return run->functions->state(run, LS_VALUES, ls_job_elements(run->job), parameters);
}

/** A job in outline: what a strategy's check sees before anything is opened. */
typedef struct ls_outline {
    const ls_job *job;     /**< what follows from options; no model, data, devices, learning rate */
    size_t devices;        /**< of each rank */
    int ranks;             /**< processes, or threads that stand for them */
    const char *allreduce; /**< "auto", or a name */
    const char *comm;      /**< the ranks' communicator: "thread", "mpi" */
    bool linked;           /**< devices are connected by links (link.h), and share no memory */
    int hosts;             /**< number of hosts of the ranks */
} ls_outline;

/** When, and with whom, replicas that update alone average their parameters (ls_average). */
typedef struct ls_strategy_average {
    /** Option of ls_job_update.period; NULL without a period, or if `resolve` sets it. */
    const ls_declared_option *period;
    /** The replicas whose parameters replica `replica` of `count` averages with its own: writes
     * their numbers, ascending, to `out` [count]; returns how many. NULL means all, or none. */
    int (*peers)(int replica, int count, int *out);
    bool differ; /**< with own buffers: an exchange leaves replicas different */
} ls_strategy_average;

enum { LS_OWNED_MOST = 4 }; /* most buffers of a strategy's own */

/** A buffer that a strategy owns: each replica has one, of as many elements as it has parameters.
 * It is state, counted as the optimizer's and carried with it (carried.h); a checkpoint's files do
 * not have it. */
typedef struct ls_own_buffer {
    const char *name;                                    /**< in listings */
    enum { LS_OWNED_ZEROS, LS_OWNED_PARAMETERS } begins; /**< its first values */
} ls_own_buffer;

/** Replicas at the end of a step that exchanges parameters, in plain memory of the gate. */
typedef struct ls_replayed {
    const ls_job *job;          /**< the strategy's */
    int replicas;               /**< of all processes */
    ls_range due;               /**< what is exchanged (ls_job_fragment_range) */
    float **parameters;         /**< [replicas] of [elements of the model] */
    float **own[LS_OWNED_MOST]; /**< [replicas] the strategy's own buffers, in float32 */
    /** The mean of all replicas' present parameters, as ls_mean makes it: [elements of the model],
     * set in `due` only; overwritten by the next call. */
    const float *(*mean)(const struct ls_replayed *replayed);
} ls_replayed;

/** What a strategy says of its step a second time, not by tasks. */
typedef struct ls_strategy_witness {
    /** Where replicas update alone and have buffers of the strategy's own (ls_job_update.owned):
     * what the end of a step that exchanges parameters does to all replicas, by plain loops in
     * float32. It runs with subnormal numbers flushed to 0, as on devices. */
    void (*exchange)(const ls_replayed *replayed);
    /** What one step sends, over all processes, by a closed form that does not count tasks. NULL if
     * nothing is sent. */
    ls_traffic (*formula)(const ls_step *step);
    /** Fast mode's reduction order, for the oracle: appends the additions of `count` gradients,
     * each [elements], of ls_job_parts; has[d]: gradient d is not empty. The order also holds for
     * the sum of parameters, where replicas update alone and all average. NULL if nothing is
     * summed. */
    ls_status (*sum)(const ls_job *job, const bool *has, int count, ls_sum_order *out);
} ls_strategy_witness;

/** One way of spreading the training loop: an entry of `lockstep list`. */
struct ls_strategy {
    const char *name; /**< as users write it */
    const char *help; /**< one line for people */
    /** Its options, NULL-terminated, or NULL. Options that others depend on come first. */
    const ls_declared_option *const *options;
    /** Whether a case with the given values, on `ranks` ranks, has this option. NULL if it has
     * all that their `with` allows. */
    bool (*has)(const ls_declared_values *values, int ranks, const ls_declared_option *option);
    bool rounds;        /**< its jobs may store in bfloat16 (ls_precision) */
    ls_spreads spreads; /**< how it spreads the model, with its options' first values */
    /** The strategy inside each of its replicas, with the given values, whose mesh and parameters
     * it has. NULL if there is none. */
    const ls_strategy *(*inner)(const ls_declared_values *values);
    ls_strategy_average average; /**< of parameters, where replicas update alone */
    /** Its buffers, up to LS_OWNED_MOST; `resolve` sets how many; or NULL. */
    const ls_own_buffer *owns;
    /** Sets the fields of the job that follow from job->options on `ranks` ranks. NULL if none do.
     */
    void (*resolve)(ls_job *job, int ranks);
    /** Refuses a job that it cannot run: LS_CODE_USAGE, with why and what would work. NULL if it
     * runs any. */
    ls_status (*check)(const ls_outline *outline);
    /** Describes what this process's members do in one step (impl/step/step.h). */
    void (*build)(ls_step *step);
    ls_strategy_witness witness; /**< what the gate checks `build` by */
};

/** Whether each replica updates its own variables by its own gradient, if it has samples, and
 * exchanges at most parameters: it is not equivalent to `single`, and the gate replays it. If it
 * reduces or has peers, each step, or with ls_job_update.period the last one of a period, ends in
 * ls_average, or in an exchange of the strategy's own. */
static inline bool ls_strategy_alone(const ls_strategy *strategy)
{
    return strategy->spreads.gradients.on[LS_MEMBER] == LS_OWN;
}

/** Whether it sums gradients, or parameters, by all-reduces in buckets. */
static inline bool ls_strategy_reduces(const ls_strategy *strategy)
{
    const ls_spreads *of = &strategy->spreads;
    for (int a = 0; a < LS_AXES; a++) {
        const ls_kind parameters = of->parameters.on[a];
        const bool stay = parameters != LS_HELD && parameters != LS_SERVED;
        if (parameters == LS_PARTIAL || (of->gradients.on[a] == LS_PARTIAL && stay))
            return true;
    }
    return false;
}

/** Whether it may have several replicas, so that a full batch needs a sample for each. */
static inline bool ls_strategy_replicates(const ls_strategy *strategy)
{
    return strategy->spreads.mesh.rest == LS_MEMBER ||
           strategy->spreads.gradients.on[LS_MEMBER] != LS_WHOLE;
}

/** Whether each replica updates its share of every bucket, and has optimizer state and averages of
 * no more (ls_bucket_share); `resolve` sets ls_job.state. */
static inline bool ls_strategy_shares(const ls_strategy *strategy)
{
    return strategy->spreads.state.on[LS_MEMBER] == LS_SHARE;
}

/** Whether it divides the model by slices of nodes. */
static inline bool ls_strategy_splits(const ls_strategy *strategy)
{
    return strategy->spreads.mesh.rest == LS_SLICE;
}

/** Whether its variables are on job.variable_device alone; whether they are on servers. */
static inline bool ls_strategy_holds(const ls_strategy *strategy)
{
    return strategy->spreads.parameters.on[LS_MEMBER] == LS_HELD;
}

static inline bool ls_strategy_serves(const ls_strategy *strategy)
{
    return strategy->spreads.parameters.on[LS_MEMBER] == LS_SERVED;
}

/** Whether it takes split layers in exact mode (--micro-splits). */
static inline bool ls_strategy_slices(const ls_strategy *strategy)
{
    return strategy->spreads.mesh.rest != LS_POSITION && !ls_strategy_alone(strategy) &&
           !ls_strategy_holds(strategy) && !ls_strategy_serves(strategy);
}

/** Whether its replicas can sum batch statistics in a step (--sync-bn). */
bool ls_strategy_syncs(const ls_strategy *strategy, const ls_declared_values *values);

/** Opens a run of the strategy on the job, which it borrows: divides the batch, allocates all
 * memory, builds the steps and captures them. All processes call it. */
ls_status ls_strategy_open(const ls_strategy *strategy, const ls_job *job, ls_run **out);

/** How many replicas the outlined job has. */
int64_t ls_outline_replicas(const ls_strategy *strategy, const ls_outline *outline);

/** Sets the fields of the job that follow from job->options on `ranks` ranks. */
void ls_strategy_resolve(const ls_strategy *strategy, ls_job *job, int ranks);

/** Refuses a job by the strategy's own check, or by a row of strategies/refusals.def:
 * LS_CODE_USAGE, with why and what would work. */
ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *outline);

/** Whether it declares the option, and a case with the given values, on `ranks` ranks, has it. */
bool ls_strategy_has(const ls_strategy *strategy, const ls_declared_values *values, int ranks,
                     const ls_declared_option *option);

extern const ls_registry ls_strategies; /**< of ls_strategy */

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_strategy_find(const char *name, const ls_strategy **out);
