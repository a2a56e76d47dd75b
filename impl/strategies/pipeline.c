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

#include <stdio.h>

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

const ls_declared_option ls_option_pipeline_microbatches = {
    "pipeline-microbatches",
    "M",
    "4",
    "micro-batches",
    "number of micro-batches into which a batch is cut",
    .low = 1,
    .high = 1024};

const ls_declared_option ls_option_pipeline_schedule = {
    "pipeline-schedule",
    "gpipe|1f1b|interleaved|zb-h1|zb-h2",
    "gpipe",
    "",
    "order of the micro-batches' forward and backward passes",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", NULL}};

const ls_declared_option ls_option_pipeline_chunks = {"pipeline-chunks",
                                                      "V",
                                                      "2",
                                                      "chunks",
                                                      "number of parts of the model on each stage",
                                                      .low = 2,
                                                      .high = LS_SCHEDULE_CHUNKS,
                                                      .when = "--pipeline-schedule interleaved"};

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

/* Interleaving takes micro-batches in groups, as many as there are stages. */
static ls_status check_chunks(const ls_outline *o)
{
    const ls_job *job = o->job;
    const int p = ls_mesh_of(job->mesh, (int)o->devices * o->ranks).size[LS_STAGE];
    const int m = job->division.microbatches, less = m / p * p;
    char works[64];
    if (job->division.chunks < 2 || m % p == 0)
        return LS_OK;
    snprintf(works, sizeof works, less ? "%d or %d" : "%d", less ? less : p, less + p);
    return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                   "%d micro-batches are not a multiple of the %d stages, as --pipeline-schedule "
                   "interleaved requires; use --pipeline-microbatches %s",
                   m, p, works);
}

/* Split layers sum their inputs' gradients over places, and their outputs' statistics over the
 * whole batch, in the backward pass. */
static ls_status check_split(const ls_outline *o)
{
    const ls_job *job = o->job;
    const char *name = ls_schedule_rule_of(&job->options)->name;
    if (!job->division.weights_apart)
        return check_chunks(o);
    if (ls_job_slices(job))
        return ls_fail(LS_CODE_USAGE, "option", "--pipeline-schedule",
                       "'%s' cannot be used with --hybrid-stages, whose stages have split layers; "
                       "use --pipeline-schedule gpipe, 1f1b or interleaved",
                       name);
    if (job->exchange.sync_statistics)
        return ls_fail(LS_CODE_USAGE, "option", "--pipeline-schedule",
                       "'%s' cannot be used with --sync-bn yes; use --pipeline-schedule gpipe, "
                       "1f1b or interleaved",
                       name);
    return LS_OK;
}

/* Refuses more micro-batches than samples (exact: shards) of the batch, or in `hybrid` of a
 * replica's part of it. */
static ls_status check(const ls_outline *o)
{
    const ls_job *job = o->job;
    const int declared = job->mesh.size[LS_MEMBER], replicas = declared ? declared : 1;
    const int64_t most = (job->exact.on ? ls_job_shards(job, job->batch) : job->batch) / replicas;
    if (job->division.microbatches <= most ||
        most < 1) /* ls_strategy_check refuses empty replicas */
        return check_split(o);
    return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                   "%d micro-batches are more than the %lld %s of a %s; use at most %lld",
                   job->division.microbatches, (long long)most,
                   job->exact.on ? "shards" : "samples", declared ? "replica" : "batch",
                   (long long)most);
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
    .check = check,
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
