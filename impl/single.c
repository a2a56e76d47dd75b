/* SPDX-License-Identifier: MIT */
/*
 * single: one device, the whole batch. The reference that every other strategy is compared with.
 *
 *     gather the batch, forward, backward; update every parameter; on to the next step
 *
 * Order of summation: fast mode takes the batch in one piece, so the kernels' own order; exact mode
 * adds canonical shards over a fixed tree (slice.h).
 */
#include "impl/slice.h"
#include "impl/strategies.h"

#include <stdlib.h>

/* The step of a full batch, or of an epoch's last one. */
typedef struct step_plan {
    ls_slice *slice;
    ls_op_list update;
    ls_op_list finish;
    ls_program *program; /* NULL where steps are not captured */
} step_plan;

typedef struct single {
    ls_run base;
    ls_replica *replica;
    step_plan full, tail; /* tail is empty where every batch is full */
} single;

static ls_status put_step(single *me, const step_plan *plan)
{
    LS_TRY(ls_slice_put(plan->slice, NULL, NULL));
    LS_TRY(ls_op_list_put(&plan->update, me->replica->queue));
    return ls_op_list_put(&plan->finish, me->replica->queue);
}

static ls_status open_plan(single *me, int64_t batch, ls_slice *memory_of, step_plan *plan)
{
    const ls_slice_options slice = {
        .replica = me->replica, .batch = batch, .number = 0, .count = 1, .memory_of = memory_of};
    LS_TRY(ls_slice_open(&slice, &plan->slice));
    LS_TRY(ls_replica_update(me->replica, 0, me->replica->elements, &plan->update));
    LS_TRY(ls_replica_finish(me->replica, batch, &plan->finish));
    if (!me->base.job->capture)
        return LS_OK;
    LS_TRY(ls_program_begin(me->replica->queue));
    ls_status put = put_step(me, plan);
    return ls_status_first(put, ls_program_end(me->replica->queue, &plan->program));
}

static void close_plan(step_plan *plan)
{
    ls_program_close(plan->program);
    ls_op_list_clear(&plan->finish);
    ls_op_list_clear(&plan->update);
    ls_slice_close(plan->slice);
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
    single *me = (single *)run;
    if (me->replica)
        ls_status_free(ls_queue_sync(me->replica->queue));
    close_plan(&me->tail);
    close_plan(&me->full);
    ls_replica_close(me->replica);
    free(me);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    single *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("single", sizeof *me);
    me->base = (ls_run){&ls_strategy_single, job};
    ls_status status = ls_replica_open(job, job->devices[0], job->batch, &me->replica);
    if (!status)
        status = open_plan(me, job->batch, NULL, &me->full);
    if (!status && ls_job_tail(job))
        status = open_plan(me, ls_job_tail(job), me->full.slice, &me->tail);
    if (status) {
        close_run(&me->base);
        return status;
    }
    *out = &me->base;
    return LS_OK;
}

static ls_status step(ls_run *run, bool tail, uint64_t times)
{
    single *me = (single *)run;
    const step_plan *plan = tail ? &me->tail : &me->full;
    if (plan->program)
        return ls_program_launch(plan->program, times);
    for (; times; times--)
        LS_TRY(put_step(me, plan));
    return LS_OK;
}

static ls_status load(ls_run *run, const float *parameters)
{
    return ls_replica_load(((single *)run)->replica, parameters);
}

static ls_status sync(ls_run *run)
{
    return ls_queue_sync(((single *)run)->replica->queue);
}

static ls_status mark(ls_run *run)
{
    const ls_replica *replica = ((single *)run)->replica;
    return ls_queue_put(replica->queue, replica->mark);
}

static ls_status records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns)
{
    return ls_replica_records(((single *)run)->replica, first, count, out, mark_ns);
}

static ls_status gather(ls_run *run, float *parameters)
{
    return ls_replica_gather(((single *)run)->replica, parameters);
}

static ls_status evaluate(ls_run *run, double *accuracy)
{
    single *me = (single *)run;
    return ls_replica_evaluate(me->replica, ls_slice_net(me->full.slice), accuracy);
}

static void describe(const ls_run *run, ls_run_info *out)
{
    const single *me = (const single *)run;
    const ls_kernels *kernels = me->replica->kernels;
    *out = (ls_run_info){.kernels = kernels->table->name,
                         .kernel_library = kernels->table->library(kernels)};
    if (me->full.program)
        out->program = ls_program_describe(me->full.program);
}

static void each_op(const ls_run *run, ls_op_visit visit, void *context)
{
    const single *me = (const single *)run;
    ls_slice_each(me->full.slice, visit, context);
    ls_op_list_each(&me->full.update, visit, context);
    ls_op_list_each(&me->full.finish, visit, context);
}

static ls_memory_formula memory(const ls_run *run, size_t index)
{
    const single *me = (const single *)run;
    (void)index;
    ls_memory_formula formula = ls_replica_memory(me->replica);
    ls_slice_memory(me->full.slice, &formula);
    if (me->tail.slice)
        ls_slice_memory(me->tail.slice, &formula);
    return formula;
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
