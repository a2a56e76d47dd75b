/* SPDX-License-Identifier: MIT */
/*
 * hybrid: data parallelism composed with another division: D replicas of a model, each divided over
 * M devices by an inner strategy (mesh.h). Place m sums the gradients of its variables with place m
 * of the other replicas, and then updates them as `mirrored` does or, with --hybrid-outer zero, as
 * `zero` does, where each of the D updates a share. With the inner `zero` (HSDP) each device has a
 * replica with a slice of its own, and M of them are a group that shares the update.
 *
 * Reduction order: in fast mode a replica's micro-batches in order, then the algorithm's own over
 * replicas, place by place and bucket by bucket; in exact mode the tree. Leaves out: library sums.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

#include "common/base/escape.h"

#include <string.h>

/* clang-format off */
/* Word of --hybrid-inner, strategy, options of it. */
#define INNER_STRATEGIES(X)                                                                        \
    X("model-parallel", model_parallel, &ls_option_model_parallel_place)                           \
    X("pipeline", pipeline, &ls_option_pipeline_microbatches, &ls_option_pipeline_schedule,        \
      &ls_option_pipeline_chunks)                                                                  \
    X("zero", zero, &ls_option_zero_stage, &ls_option_zero_reshard, &ls_option_zero_windows,       \
      &ls_option_zero_accumulation)                                                                \
    X("tensor-parallel", tensor_parallel, &ls_option_tensor_parallel_sequence)                     \
    X("context-parallel", context_parallel)
#define ENTRY(word, name, ...)   &ls_strategy_##name,
#define WORD(word, ...)          word,
#define CHOICE(word, ...)        "|" word
#define OPTIONS(word, name, ...) __VA_OPT__(__VA_ARGS__, )

static const ls_declared_option inner = {
    "hybrid-inner", &INNER_STRATEGIES(CHOICE)[1], "model-parallel", "", "how each replica is divided over its devices",
    .type = LS_DECLARED_WORD, .words = (const char *const[]){INNER_STRATEGIES(WORD) NULL}};
static const ls_declared_option outer = {
    "hybrid-outer", "mirrored|zero", "mirrored", "",
    "strategy between the replicas; zero: they divide the optimizer's update among themselves",
    .type = LS_DECLARED_WORD, .words = (const char *const[]){"mirrored", "zero", NULL},
    .when = "--hybrid-inner model-parallel, pipeline or tensor-parallel"};
const ls_declared_option ls_option_hybrid_replicas = {
    "hybrid-replicas", "D", "2", "replicas", "number of replicas of the divided model",
    .low = 1, .high = LS_JOB_REPLICAS};
static const ls_declared_option stages = {
    "hybrid-stages", "S", "1", "stages", "number of pipeline stages of each replica; a stage's layers are split over its devices",
    .low = 1, .high = LS_JOB_REPLICAS, .when = "--hybrid-inner tensor-parallel"};
/* clang-format on */

static const ls_strategy *inner_of(const ls_declared_values *values)
{
    static const ls_strategy *const strategies[] = {INNER_STRATEGIES(ENTRY)};
    return strategies[ls_declared_number(values, &inner)];
}

/* Whether places have parts of the model. */
static bool divides(const ls_strategy *within)
{
    return within->spreads.mesh.rest == LS_STAGE || within->spreads.mesh.rest == LS_SLICE;
}

/* The strategy between divided replicas. */
static const ls_strategy *outer_of(const ls_declared_values *values)
{
    return ls_declared_number(values, &outer) && divides(inner_of(values)) ? &ls_strategy_zero
                                                                           : &ls_strategy_mirrored;
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    const ls_strategy *within = inner_of(values);
    const bool splits = ls_strategy_splits(within);
    return option == &ls_option_hybrid_replicas || option == &inner ||
           (splits && option == &stages) || (divides(within) && option == &outer) ||
           (splits && ls_declared_number(values, &stages) > 1 &&
            ls_strategy_has(&ls_strategy_pipeline, values, ranks, option)) ||
           ls_strategy_has(outer_of(values), values, ranks, option) ||
           ls_strategy_has(within, values, ranks, option);
}

static void resolve(ls_job *job, int ranks)
{
    const ls_strategy *within = inner_of(&job->options);
    if (within->resolve)
        within->resolve(job, ranks);
    job->mesh.size[ls_mesh_outer(&job->mesh)] =
        (int)ls_declared_number(&job->options, &ls_option_hybrid_replicas);
    if (ls_strategy_shares(outer_of(&job->options)))
        ls_strategy_zero.resolve(job, ranks);
    if (ls_job_slices(job))
        job->mesh.size[LS_STAGE] = (int)ls_declared_number(&job->options, &stages);
    if (job->mesh.size[LS_STAGE] > 1)
        ls_strategy_pipeline.resolve(job, ranks);
}

/* Refuses parts that cannot share the devices evenly, with the numbers that can: "1, 2, 3, 6". */
static ls_status check_even(const char *option, const char *what, int64_t parts, int64_t devices)
{
    char text[256] = "";
    for (int64_t d = 1; d <= devices; d++)
        if (devices % d == 0)
            ls_text_add(text, sizeof text, "%s%lld", *text ? ", " : "", (long long)d);
    return devices % parts ? ls_fail(LS_CODE_USAGE, "option", option,
                                     "%lld %s cannot share the devices (%lld) evenly; give a "
                                     "divisor of that number (%s), or change the number of devices",
                                     (long long)parts, what, (long long)devices, text)
                           : LS_OK;
}

static ls_status check(const ls_outline *o)
{
    const ls_strategy *within = inner_of(&o->job->options);
    const int64_t devices = (int64_t)o->devices * o->ranks;
    const int64_t replicas = ls_declared_number(&o->job->options, &ls_option_hybrid_replicas);
    const int parts = o->job->mesh.size[LS_STAGE];
    LS_TRY(check_even("--hybrid-replicas", "replicas", replicas, devices));
    const int64_t places = devices / replicas, local = (int64_t)o->devices;
    if (local % places && places % local && strcmp(o->comm, "mpi") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--hybrid-replicas",
                       "replicas of %lld devices do not fit evenly into processes of %lld devices; "
                       "use a multiple or a divisor of the number of processes",
                       (long long)places, (long long)local);
    if (divides(within))
        LS_TRY(ls_refuse_library(o, "sums complete gradients, but each device has only a part",
                                 "direct, ring, tree, halving-doubling, flat or auto"));
    if (parts > 1) {
        LS_TRY(check_even("--hybrid-stages", "stages of a replica", parts, places));
        LS_TRY(ls_strategy_pipeline.check(o));
    }
    if (ls_strategy_shares(outer_of(&o->job->options)))
        LS_TRY(ls_zero_check_divided(o));
    return within->check ? within->check(o) : LS_OK;
}

const ls_strategy ls_strategy_hybrid = {
    .name = "hybrid",
    .help = "replicas of a model that is split over several devices each",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&ls_option_hybrid_replicas, &inner, &outer,
                                                   &stages, &ls_option_accumulation_exchange,
                                                   &ls_option_gradient_wire,
                                                   INNER_STRATEGIES(OPTIONS) NULL},
    .inner = inner_of,
    .has = has,
    .resolve = resolve,
    .check = check,
    .build = ls_build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_by_algorithm,
};
