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

static void build(ls_step *s)
{
    const ls_schedule schedule = ls_schedule_of(s, 0);
    ls_pass pass;
    for (int tick = 0; tick < ls_schedule_ticks(&schedule); tick++) {
        for (int stage = ls_places(s); stage-- > 0;) {
            if (!ls_schedule_at(&schedule, tick, stage, &pass))
                continue;
            if (pass.backward)
                ls_backward_stage(s, 0, stage, pass.microbatch);
            else
                ls_forward_stage(s, 0, stage, pass.microbatch);
        }
    }
    for (int m = 0; m < ls_members(s); m++)
        ls_update(s, m, ls_owned(s, m));
    ls_share_values(s, 0);
    for (int m = ls_members(s); m-- > 0;)
        ls_end(s, m);
}

static ls_status check(const ls_outline *o)
{
    int64_t shards = o->micro_shards < o->batch ? o->micro_shards : o->batch;
    int64_t most = o->exact ? shards : o->batch;
    if (o->microbatches > most)
        return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                       "%d micro-batches are more than the %lld %s of a batch; at most %lld work",
                       o->microbatches, (long long)most, o->exact ? "shards" : "samples",
                       (long long)most);
    return LS_OK;
}

const ls_strategy ls_strategy_pipeline = {
    .name = "pipeline",
    .help = "one model divided by ranges of layers, micro-batches on their way through them",
    .equivalent = true,
    .variables = LS_VARIABLES_PLACED,
    .check = check,
    .build = build,
    .formula = ls_border_traffic,
    .sum = ls_sum_in_order,
};
