/* SPDX-License-Identifier: MIT */
/*
 * pipeline: one model divided over the devices by ranges of layers (stages), with the batch cut
 * into micro-batches, so that stages work at once, each on another micro-batch.
 *
 *     every stage takes its forward and backward passes in the order of the schedule
 *     (pipeline_schedule.h), adds the micro-batches' gradients up in order, and updates its own
 *     variables
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... over the micro-batches; exact mode the tree
 * over the shards, of which a micro-batch is one or more.
 */
#include "impl/divided.h"
#include "impl/strategies.h"

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

static ls_status open_run(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    return ls_divided_start(strategy, job, false, out);
}

const ls_strategy ls_strategy_pipeline = {
    .name = "pipeline",
    .help = "one model divided by ranges of layers, micro-batches on their way through them",
    .equivalent = true,
    .divided = true,
    .staged = true,
    .check = check,
    .open = open_run,
    .load = ls_divided_load,
    .step = ls_replicated_step,
    .sync = ls_divided_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_divided_gather,
    .evaluate = ls_divided_evaluate,
    .describe = ls_replicated_describe,
    .profile = ls_replicated_profile,
    .times = ls_replicated_times,
    .each_op = ls_replicated_each,
    .memory = ls_divided_memory,
    .traffic = ls_divided_traffic,
    .sum = ls_sum_in_order,
    .close = ls_divided_close,
};
