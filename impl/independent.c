/* SPDX-License-Identifier: MIT */
/*
 * independent: every replica trains by itself on its part of the batch and nothing is exchanged.
 * The upper bound of what replication could give; not equal to `single`, and its rows say so.
 *
 *     gather a part of the batch, forward, backward; update the replica's own parameters
 *
 * Parameters drift apart; those of the first replica are evaluated and saved.
 */
#include "impl/replicas.h"
#include "impl/strategies.h"

static ls_status put_step(ls_replicated *run, ls_member *me, int which)
{
    (void)run;
    LS_TRY(ls_slice_put(me->slice[which], NULL, NULL));
    LS_TRY(ls_op_list_put(&me->update[which], me->replica->queue));
    return ls_op_list_put(&me->finish[which], me->replica->queue);
}

static ls_status check(const ls_outline *outline)
{
    if (outline->exact)
        return ls_fail(LS_CODE_USAGE, "strategy", "independent",
                       "sums nothing over replicas, so --reduce exact does not concern it; use "
                       "--reduce fast");
    return LS_OK;
}

static ls_status prepare(ls_replicated *run, const ls_job *job)
{
    run->holder = -1;
    LS_TRY(ls_replicated_open(run, &ls_strategy_independent, job, put_step));
    LS_TRY(ls_replicated_update(run));
    return ls_replicated_capture(run);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    return ls_replicated_start(job, prepare, out);
}

const ls_strategy ls_strategy_independent = {
    .name = "independent",
    .help = "replicas that exchange nothing: the upper bound, not equivalent",
    .equivalent = false,
    .replicated = true,
    .check = check,
    .open = open_run,
    .load = ls_replicated_load,
    .step = ls_replicated_step,
    .sync = ls_replicated_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_replicated_gather,
    .evaluate = ls_replicated_evaluate,
    .describe = ls_replicated_describe,
    .profile = ls_replicated_profile,
    .times = ls_replicated_times,
    .each_op = ls_replicated_each,
    .memory = ls_replicated_memory,
    .close = ls_replicated_close,
};
