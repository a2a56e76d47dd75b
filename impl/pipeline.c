/* SPDX-License-Identifier: MIT */
/*
 * pipeline: one model divided over the devices by ranges of layers (stages), with the batch cut
 * into micro-batches, so that stages work at once, each on another micro-batch.
 *
 *     every stage takes its forward and backward passes in the order of the schedule
 *     (divided_step.c), adds the micro-batches' gradients up in order, and updates its own
 * variables
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... over the micro-batches; exact mode the tree
 * over the shards, of which a micro-batch is one or more.
 */
#include "impl/divided.h"
#include "impl/strategies.h"

#include <stdlib.h>

static ls_status check(const ls_outline *o)
{
    int64_t shards = o->micro_shards < o->batch ? o->micro_shards : o->batch;
    int64_t most = o->exact ? shards : o->batch;
    if (o->ranks != 1)
        return ls_fail(LS_CODE_USAGE, "strategy", "pipeline",
                       "runs in one process in this version, not on %d ranks; use --ranks 1",
                       o->ranks);
    if (o->microbatches > most)
        return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                       "%d micro-batches are more than the %lld %s of a batch; at most %lld work",
                       o->microbatches, (long long)most, o->exact ? "shards" : "samples",
                       (long long)most);
    return LS_OK;
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    ls_divided *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("pipeline", sizeof *me);
    me->shared.base.job = job;
    me->staged = true;
    ls_status status = ls_divided_open(me, &ls_strategy_pipeline, job, job->place);
    if (!status && me->parts.copy_count)
        status = ls_fail(LS_CODE_USAGE, "strategy", "pipeline",
                         "%s has variables that nodes of several stages share; use model-parallel",
                         job->model->name);
    if (status)
        ls_divided_close(&me->shared.base);
    else
        *out = &me->shared.base;
    return status;
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
    .sync = ls_replicated_sync,
    .mark = ls_replicated_mark,
    .records = ls_divided_records,
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
