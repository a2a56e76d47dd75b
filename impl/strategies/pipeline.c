/* SPDX-License-Identifier: MIT */
/*
 * pipeline: one model split over the devices by ranges of layers (stages). The batch is split into
 * micro-batches, so that the stages work at the same time, each on a different micro-batch. Every
 * stage runs its passes in the order of the schedule (pipeline_schedule.h), sums the gradients of
 * the micro-batches, and updates its own variables. With the schedule interleaved a stage has
 * several ranges of layers.
 *
 * Reduction order: in fast mode ((g0 + g1) + g2) + ... over the micro-batches; in exact mode the
 * tree over the shards. A micro-batch is one shard or more.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    ls_pass pass;
    for (size_t i = 0; ls_next_pass(s, 0, i, &pass); i++)
        ls_run_pass(s, 0, &pass);
    ls_clip_gradients(s, LS_TOGETHER);
    for (int stage = 0; stage < ls_members(s); stage++)
        ls_update(s, stage, ls_all(s));
    ls_settle(s); /* variables that several stages use */
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    (void)ranks;
    return option != &ls_option_pipeline_chunks || ls_schedule_rule_of(values)->chunked;
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->division.microbatches =
        (int)ls_declared_number(&job->options, &ls_option_pipeline_microbatches);
    job->division.weights_apart = ls_schedule_rule_of(&job->options)->split;
    if (ls_schedule_rule_of(&job->options)->chunked)
        job->division.chunks = (int)ls_declared_number(&job->options, &ls_option_pipeline_chunks);
}

const ls_strategy ls_strategy_pipeline = {
    .name = "pipeline",
    .help = "one model divided by ranges of layers, micro-batches on their way through them",
    .rounds = true,
    .spreads = {.mesh.rest = LS_STAGE, .parameters.on[LS_STAGE] = LS_PLACED},
    .options = (const ls_declared_option *const[]){&ls_option_pipeline_microbatches,
                                                   &ls_option_pipeline_schedule,
                                                   &ls_option_pipeline_chunks, NULL},
    .has = has,
    .resolve = resolve,
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
