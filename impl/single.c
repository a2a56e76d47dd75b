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

#include <stdlib.h>

typedef struct single {
    ls_run base;
    ls_replicas replicas; /* one */
} single;

static ls_status put_step(ls_member *me, int which)
{
    LS_TRY(ls_slice_put(me->slice[which], NULL, NULL));
    LS_TRY(ls_op_list_put(&me->update[which], me->replica->queue));
    return ls_op_list_put(&me->finish[which], me->replica->queue);
}

static ls_status prepare_step(const ls_job *job, ls_member *me, int which)
{
    LS_TRY(ls_replica_update(me->replica, 0, me->replica->elements, &me->update[which]));
    if (!job->capture)
        return LS_OK;
    LS_TRY(ls_program_begin(me->replica->queue));
    ls_status put = put_step(me, which);
    return ls_status_first(put, ls_program_end(me->replica->queue, &me->program[which]));
}

static ls_status check(size_t devices, int ranks)
{
    if (devices != 1 || ranks != 1)
        return ls_fail(LS_CODE_USAGE, "strategy", "single",
                       "runs on one device of one rank, not on %zu of %d; use --devices 1", devices,
                       ranks);
    return LS_OK;
}

static void close_run(ls_run *run)
{
    ls_replicas_close(&((single *)run)->replicas);
    free(run);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    single *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("single", sizeof *me);
    me->base = (ls_run){&ls_strategy_single, job};
    ls_status status = ls_replicas_open(job, &me->replicas);
    for (int b = 0; b < LS_BATCHES && !status; b++)
        if (ls_replicas_batch(job, b))
            status = prepare_step(job, me->replicas.members, b);
    if (status) {
        close_run(&me->base);
        return status;
    }
    *out = &me->base;
    return LS_OK;
}

static ls_status step(ls_run *run, bool tail, uint64_t times)
{
    ls_member *me = ((single *)run)->replicas.members;
    int which = tail ? LS_TAIL : LS_FULL;
    if (me->program[which])
        return ls_program_launch(me->program[which], times);
    for (; times; times--)
        LS_TRY(put_step(me, which));
    return LS_OK;
}

static ls_status load(ls_run *run, const float *parameters)
{
    return ls_replicas_load(&((single *)run)->replicas, parameters);
}

static ls_status sync(ls_run *run)
{
    return ls_replicas_sync(&((single *)run)->replicas);
}

static ls_status mark(ls_run *run)
{
    return ls_replicas_mark(&((single *)run)->replicas);
}

static ls_status records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns)
{
    return ls_replicas_records(&((single *)run)->replicas, first, count, out, mark_ns);
}

static ls_status gather(ls_run *run, float *parameters)
{
    return ls_replica_gather(((single *)run)->replicas.members[0].replica, parameters);
}

static ls_status evaluate(ls_run *run, double *accuracy)
{
    return ls_replicas_evaluate(&((single *)run)->replicas, accuracy);
}

static void describe(const ls_run *run, ls_run_info *out)
{
    ls_replicas_describe(&((const single *)run)->replicas, out);
}

static void each_op(const ls_run *run, ls_op_visit visit, void *context)
{
    ls_replicas_each(&((const single *)run)->replicas, visit, context);
}

static ls_memory_formula memory(const ls_run *run, size_t index)
{
    return ls_replicas_memory(&((const single *)run)->replicas, index);
}

const ls_strategy ls_strategy_single = {
    .name = "single",
    .help = "one device, no replication: the reference",
    .equivalent = true,
    .replicated = true,
    .check = check,
    .open = open_run,
    .load = load,
    .step = step,
    .sync = sync,
    .mark = mark,
    .records = records,
    .gather = gather,
    .evaluate = evaluate,
    .describe = describe,
    .each_op = each_op,
    .memory = memory,
    .close = close_run,
};
