/* SPDX-License-Identifier: MIT */
/*
 * pipeline: one model divided over the devices by ranges of layers (stages), with the batch cut
 * into micro-batches, so that stages work at once, each on another micro-batch. Every stage takes
 * its passes in the order of the schedule (pipeline_schedule.h), adds the micro-batches' gradients
 * up, and updates its own variables.
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... over the micro-batches; exact mode the tree
 * over the shards, of which a micro-batch is one or more.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

void ls_take_stages(ls_step *s, int replica)
{
    const ls_schedule schedule = ls_schedule_of(s, replica);
    ls_pass pass;
    for (int tick = 0; tick < ls_schedule_ticks(&schedule); tick++) {
        for (int stage = ls_places(s); stage-- > 0;) {
            if (!ls_schedule_at(&schedule, tick, stage, &pass))
                continue;
            if (pass.backward)
                ls_backward_stage(s, replica, stage, pass.microbatch);
            else
                ls_forward_stage(s, replica, stage, pass.microbatch);
        }
    }
}

static void build(ls_step *s)
{
    ls_take_stages(s, 0);
    for (int m = 0; m < ls_members(s); m++)
        ls_update(s, m, ls_owned(s, m));
    ls_share_values(s, 0);
    for (int m = ls_members(s); m-- > 0;)
        ls_end(s, m);
}

const ls_declared_option ls_option_pipeline_microbatches = {
    "pipeline-microbatches", "M", "4", "micro-batches", "parts of a batch", .low = 1, .high = 1024};

const ls_declared_option ls_option_pipeline_schedule = {
    "pipeline-schedule",
    "gpipe|1f1b",
    "gpipe",
    "",
    "order of the parts' passes",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"gpipe", "1f1b", NULL}};

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->microbatches = (int)ls_declared_number(&job->options, &ls_option_pipeline_microbatches);
}

ls_status ls_check_microbatches(const ls_outline *o, int parts, const char *of)
{
    const ls_job *job = o->job;
    const int64_t least = (job->exact ? ls_job_shards(job, job->batch) : job->batch) / parts;
    if (job->microbatches <= least || least < 1) /* too few for all parts: refused later */
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                   "%d micro-batches are more than the %lld %s of a %s; at most %lld work",
                   job->microbatches, (long long)least, job->exact ? "shards" : "samples", of,
                   (long long)least);
}

static ls_status check(const ls_outline *outline)
{
    return ls_check_microbatches(outline, 1, "batch");
}

const ls_strategy ls_strategy_pipeline = {
    .name = "pipeline",
    .help = "one model divided by ranges of layers, micro-batches on their way through them",
    .equivalent = true,
    .variables = LS_VARIABLES_PLACED,
    .options = (const ls_declared_option *const[]){&ls_option_pipeline_microbatches,
                                                   &ls_option_pipeline_schedule, NULL},
    .resolve = resolve,
    .check = check,
    .build = build,
    .formula = ls_border_traffic,
    .sum = ls_sum_in_order,
};
