/* SPDX-License-Identifier: MIT */
/*
 * single: one device, the whole batch. The reference that every other strategy is compared with.
 *
 *     gather the batch, forward, backward; update every parameter; on to the next step
 *
 * Order of summation: fast mode takes the batch in one piece, so the kernels' own order; exact mode
 * adds canonical shards over a fixed tree (slice.h).
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
    if (outline->devices != 1 || outline->ranks != 1)
        return ls_fail(
            LS_CODE_USAGE, "strategy", "single",
            "runs on one device of one rank, not on %zu of %d; use --devices 1 and --ranks 1",
            outline->devices, outline->ranks);
    return LS_OK;
}

static ls_status prepare(ls_replicated *run, const ls_job *job)
{
    run->holder = -1;
    LS_TRY(ls_replicated_open(run, &ls_strategy_single, job, put_step));
    LS_TRY(ls_replicated_update(run));
    return ls_replicated_capture(run);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    return ls_replicated_start(job, prepare, out);
}

static ls_status gradient(ls_run *run, float *out)
{
    const ls_replica *r = ((const ls_replicated *)run)->members[0].replica;
    return ls_queue_read(r->queue, out, r->gradients, r->elements * sizeof *out);
}

const ls_strategy ls_strategy_single = {
    .name = "single",
    .help = "one device, no replication: the reference",
    .equivalent = true,
    .meets = true,
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
    .gradient = gradient,
    .sum = ls_sum_in_order,
    .close = ls_replicated_close,
};
