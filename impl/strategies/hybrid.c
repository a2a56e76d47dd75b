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

static const ls_strategy *inner_of(const ls_declared_values *values)
{
    static const ls_strategy *const strategies[] = {
        &ls_strategy_model_parallel, &ls_strategy_pipeline, &ls_strategy_zero,
        &ls_strategy_tensor_parallel, &ls_strategy_context_parallel}; /* in the option's order */
    return strategies[ls_declared_number(values, &ls_option_hybrid_inner)];
}

/* Whether places have parts of the model. */
static bool divides(const ls_strategy *within)
{
    return within->spreads.mesh.rest == LS_STAGE || within->spreads.mesh.rest == LS_SLICE;
}

/* The strategy between divided replicas. */
static const ls_strategy *outer_of(const ls_declared_values *values)
{
    return ls_declared_number(values, &ls_option_hybrid_outer) && divides(inner_of(values))
               ? &ls_strategy_zero
               : &ls_strategy_mirrored;
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    const ls_strategy *within = inner_of(values);
    const bool splits = ls_strategy_splits(within);
    return option == &ls_option_hybrid_replicas || option == &ls_option_hybrid_inner ||
           (splits && option == &ls_option_hybrid_stages) ||
           (divides(within) && option == &ls_option_hybrid_outer) ||
           (splits && ls_declared_number(values, &ls_option_hybrid_stages) > 1 &&
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
        job->mesh.size[LS_STAGE] = (int)ls_declared_number(&job->options, &ls_option_hybrid_stages);
    if (job->mesh.size[LS_STAGE] > 1)
        ls_strategy_pipeline.resolve(job, ranks);
}

const ls_strategy ls_strategy_hybrid = {
    .name = "hybrid",
    .help = "replicas of a model that is split over several devices each",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL},
    .options =
        (const ls_declared_option *const[]){
            &ls_option_hybrid_replicas, &ls_option_hybrid_inner, &ls_option_hybrid_outer,
            &ls_option_hybrid_stages, &ls_option_accumulation_exchange, &ls_option_gradient_wire,
            &ls_option_model_parallel_place, &ls_option_pipeline_microbatches,
            &ls_option_pipeline_schedule, &ls_option_pipeline_chunks, &ls_option_zero_stage,
            &ls_option_zero_reshard, &ls_option_zero_windows, &ls_option_zero_accumulation,
            &ls_option_tensor_parallel_sequence, NULL},
    .inner = inner_of,
    .has = has,
    .resolve = resolve,
    .build = ls_build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_by_algorithm,
};
