/* SPDX-License-Identifier: MIT */
/*
 * mirrored: a replica on each device with variables of its own, kept equal by an all-reduce of the
 * gradients, as in synchronous data parallelism with mirrored variables.
 *
 *     gather a part of the batch, forward, backward; all-reduce each bucket of gradients as soon as
 *     backward has made it final; update the replica's own parameters, bucket by bucket
 *
 * Order of summation: fast mode the all-reduce algorithm's own (its file's head), bucket by bucket;
 * exact mode `canonical`, the rest of the tree over the replicas' finished subtrees, in one bucket.
 * Whether the all-reduces have a queue of their own is the job's to say (reducer.h). Each replica
 * has a program of its own, whose all-reduces wait for the others'; where the communicator's queues
 * are ordered by events instead (GPUs), one program holds all of them.
 */
#include "impl/mirror.h"
#include "impl/strategies.h"

#include <stdlib.h>

typedef struct mirrored {
    ls_replicated shared;
    ls_mirror mirror; /* of all variables */
    ls_event *begun;  /* together: the step has begun */
    ls_event **left;  /* together: [n] a replica has nothing more to do in it */
} mirrored;

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct sink {
    ls_mirror *mirror;
    int index, which;
} sink;

static ls_status range_final(void *context, size_t first, size_t count)
{
    const sink *s = context;
    return ls_mirror_final(s->mirror, s->index, s->which, first, count);
}

static ls_status put_gradients(mirrored *me, ls_member *m, int which)
{
    sink s = {&me->mirror, (int)(m - me->shared.members), which};
    bool whole = !ls_slice_reports(m->slice[which]);
    LS_TRY(ls_mirror_begin(&me->mirror, s.index, which));
    LS_TRY(ls_slice_put(m->slice[which], whole ? NULL : range_final, &s));
    return whole ? range_final(&s, 0, m->replica->elements) /* everything is final now */
                 : LS_OK;
}

static ls_status put_update(mirrored *me, ls_member *m, int which)
{
    LS_TRY(ls_mirror_update(&me->mirror, (int)(m - me->shared.members)));
    return ls_op_list_put(&m->finish[which], m->replica->queue);
}

/* A replica's own part, whose all-reduces wait for the others'. */
static ls_status put_alone(ls_replicated *run, ls_member *m, int which)
{
    LS_TRY(put_gradients((mirrored *)run, m, which));
    return put_update((mirrored *)run, m, which);
}

/* The step of all replicas, which the first one's queue begins and ends. */
static ls_status put_together(ls_replicated *run, ls_member *first, int which)
{
    mirrored *me = (mirrored *)run;
    ls_queue *queue = first->replica->queue;
    LS_TRY(ls_queue_record(queue, me->begun));
    for (int i = 1; i < run->count; i++)
        LS_TRY(ls_queue_wait(run->members[i].replica->queue, me->begun));
    for (int i = 0; i < run->count; i++)
        LS_TRY(put_gradients(me, &run->members[i], which));
    LS_TRY(ls_mirror_put(&me->mirror, which));
    for (int i = 0; i < run->count; i++)
        LS_TRY(put_update(me, &run->members[i], which));
    for (int i = 1; i < run->count; i++) {
        LS_TRY(ls_queue_record(run->members[i].replica->queue, me->left[i]));
        LS_TRY(ls_queue_wait(queue, me->left[i]));
    }
    return LS_OK;
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_mirror_options options_of(const ls_job *job)
{
    const ls_graph *graph = job->model->graph;
    return (ls_mirror_options){.job = job, .graph = graph, .elements = graph->variables.elements};
}

static ls_status open_mirror(mirrored *me, const ls_job *job)
{
    ls_mirror_options options = options_of(job);
    ls_member **members = calloc(job->device_count, sizeof *members);
    if (!members)
        return ls_fail_memory("mirrored", job->device_count * sizeof *members);
    for (size_t i = 0; i < job->device_count; i++)
        members[i] = &me->shared.members[i];
    options.members = members;
    options.count = (int)job->device_count;
    ls_status status = ls_mirror_open(&options, &me->mirror);
    free(members);
    return status;
}

/* Ranks whose queues are ordered by events have one step, and one program, for all. */
static ls_status open_together(mirrored *me, const ls_job *job)
{
    const size_t n = (size_t)me->shared.count;
    me->shared.together = true;
    me->shared.put_step = put_together;
    me->left = calloc(n, sizeof *me->left);
    if (!me->left)
        return ls_fail_memory("mirrored", n * sizeof *me->left);
    LS_TRY(ls_event_open(job->devices[0], &me->begun));
    for (size_t i = 1; i < n; i++)
        LS_TRY(ls_event_open(job->devices[i], &me->left[i]));
    return LS_OK;
}

static ls_status build(mirrored *me, const ls_job *job)
{
    ls_replicated *run = &me->shared;
    run->holder = -1;
    LS_TRY(ls_job_agree(job, ls_replicated_open(run, &ls_strategy_mirrored, job, put_alone)));
    LS_TRY(open_mirror(me, job));
    if (ls_mirror_together(&me->mirror))
        LS_TRY(open_together(me, job));
    return ls_replicated_capture(run);
}

/* ---- The strategy --------------------------------------------------------------------------- */

/* It runs anywhere; what its all-reduce needs is checked with that. */
static ls_status check(const ls_outline *outline)
{
    (void)outline;
    return LS_OK;
}

/*
 * A call that puts more replays than fit into a GPU's queue blocks until some are done, which those
 * of a library that waits for a lost rank never are. So there is a look at them before there are
 * as many.
 */
enum { REPLAYS_AHEAD = 128 };

static ls_status step_run(ls_run *base, bool tail, uint64_t times)
{
    mirrored *me = (mirrored *)base;
    const bool waits = ls_mirror_waits(&me->mirror);
    while (waits && times > REPLAYS_AHEAD) {
        LS_TRY(ls_replicated_step(base, tail, REPLAYS_AHEAD));
        LS_TRY(ls_mirror_wait(&me->mirror, base->job->timeout_ns));
        times -= REPLAYS_AHEAD;
    }
    return ls_replicated_step(base, tail, times);
}

/* The replicas first: a reducer's own queue has nothing to wait for that they have not put. */
static ls_status sync_run(ls_run *base)
{
    mirrored *me = (mirrored *)base;
    ls_status status = ls_mirror_wait(&me->mirror, base->job->timeout_ns);
    status = ls_status_first(status, ls_replicated_sync(base));
    return ls_status_first(status, ls_mirror_sync(&me->mirror));
}

static void close_run(ls_run *base)
{
    mirrored *me = (mirrored *)base;
    ls_status_free(sync_run(base));
    ls_replicated_close_programs(&me->shared); /* before the reducers' queues */
    ls_mirror_close(&me->mirror);
    ls_event_close(me->begun);
    for (int i = 0; me->left && i < me->shared.count; i++)
        ls_event_close(me->left[i]);
    free(me->left);
    ls_replicated_close(base);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    mirrored *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("mirrored", sizeof *me);
    me->shared.base.job = job;
    ls_status status = build(me, job);
    if (status)
        close_run(&me->shared.base);
    else
        *out = &me->shared.base;
    return status;
}

static ls_status gather_replica(ls_run *base, int index, float *parameters)
{
    return ls_replica_gather(((ls_replicated *)base)->members[index].replica, parameters);
}

static void each_op(const ls_run *base, ls_op_visit visit, void *context)
{
    ls_replicated_each(base, visit, context);
    ls_mirror_each(&((const mirrored *)base)->mirror, visit, context);
}

static ls_status profile(ls_run *base, bool on)
{
    LS_TRY(ls_mirror_profile(&((mirrored *)base)->mirror, on));
    return ls_replicated_profile(base, on);
}

static ls_time_profile times(const ls_run *base, size_t index)
{
    return ls_reducer_times(&((const mirrored *)base)->mirror.reducers[index],
                            ls_replicated_times(base, index));
}

static ls_memory_formula memory(const ls_run *base, size_t index)
{
    ls_memory_formula formula = ls_replicated_memory(base, index);
    ls_reducer_memory(&((const mirrored *)base)->mirror.reducers[index], &formula);
    return formula;
}

static ls_status traffic(const ls_run *base, ls_traffic *sent, ls_traffic *formula)
{
    const mirrored *me = (const mirrored *)base;
    ls_traffic met[2];
    *formula = *sent = (ls_traffic){0};
    if (!base->job->allreduce->formula) /* only its library knows what it sends */
        return LS_OK;
    LS_TRY(ls_mirror_traffic(&me->mirror, base->job, me->shared.steps, sent, formula));
    LS_TRY(ls_replicated_statistics_traffic(&me->shared, &met[0], &met[1]));
    ls_traffic_add(sent, met[0]);
    ls_traffic_add(formula, met[1]);
    return LS_OK;
}

/* The reduced one: buckets are summed in place, in every replica alike. */
static ls_status gradient(ls_run *run, float *out)
{
    const ls_replica *r = ((const ls_replicated *)run)->members[0].replica;
    return ls_queue_read(r->queue, out, r->gradients, r->elements * sizeof *out);
}

static ls_status sum(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const ls_mirror_options options = options_of(job);
    return ls_mirror_sum(&options, has, count, out);
}

const ls_strategy ls_strategy_mirrored = {
    .name = "mirrored",
    .help = "a replica per device, gradients summed by an all-reduce in buckets",
    .equivalent = true,
    .meets = true,
    .replicated = true,
    .reduces = true,
    .check = check,
    .open = open_run,
    .load = ls_replicated_load,
    .step = step_run,
    .sync = sync_run,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_replicated_gather,
    .gather_replica = gather_replica,
    .evaluate = ls_replicated_evaluate,
    .describe = ls_replicated_describe,
    .profile = profile,
    .times = times,
    .each_op = each_op,
    .memory = memory,
    .traffic = traffic,
    .gradient = gradient,
    .sum = sum,
    .close = close_run,
};
