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
 * Whether the all-reduces have a queue of their own is the job's to say (reducer.h).
 */
#include "impl/reducer.h"
#include "impl/strategies.h"

#include <stdlib.h>

typedef struct mirrored {
    ls_replicated shared;
    ls_buckets buckets;
    ls_reducer *reducers;       /* [n] */
    uint64_t steps[LS_BATCHES]; /* put so far */
} mirrored;

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct bucket_sink {
    ls_buckets *buckets;
    ls_reducer *reducer;
    int which;
} bucket_sink;

static ls_status put_bucket(void *context, size_t bucket)
{
    const bucket_sink *sink = context;
    return ls_reducer_put(sink->reducer, sink->which, bucket);
}

static ls_status range_final(void *context, size_t first, size_t count)
{
    const bucket_sink *sink = context;
    return ls_buckets_final(sink->buckets, first, count, put_bucket, context);
}

static ls_status put_step(ls_replicated *run, ls_member *m, int which)
{
    mirrored *me = (mirrored *)run;
    bucket_sink sink = {&me->buckets, &me->reducers[m - run->members], which};
    bool whole = !ls_slice_reports(m->slice[which]);
    ls_buckets_begin(&me->buckets);
    LS_TRY(ls_reducer_begin(sink.reducer, which));
    LS_TRY(ls_slice_put(m->slice[which], whole ? NULL : range_final, &sink));
    if (whole) /* not reported in parts: everything is final now */
        LS_TRY(range_final(&sink, 0, m->replica->elements));
    for (size_t b = 0; b < me->buckets.count; b++)
        LS_TRY(ls_reducer_update(sink.reducer, b));
    return ls_op_list_put(&m->finish[which], m->replica->queue);
}

/* ---- Building ------------------------------------------------------------------------------- */

/* A communicator's end for each reducer. */
static ls_status open_reducers(mirrored *me, const ls_job *job)
{
    const ls_replicated *run = &me->shared;
    const size_t n = (size_t)run->count;
    ls_comm **comms = calloc(n, sizeof *comms);
    me->reducers = calloc(n, sizeof *me->reducers);
    ls_status status = me->reducers && comms
                           ? ls_comm_open(job->comm, job->devices, run->count, comms)
                           : ls_fail_memory("mirrored", n * sizeof *me->reducers);
    for (size_t i = 0; i < n && !status; i++)
        me->reducers[i].comm = comms[i];
    free(comms);
    LS_TRY(status);
    if (job->allreduce->check)
        LS_TRY(job->allreduce->check(me->reducers[0].comm));
    for (size_t i = 0; i < n; i++)
        LS_TRY(ls_reducer_open(job, &me->buckets, &run->members[i], &me->reducers[i]));
    return LS_OK;
}

static ls_status build(mirrored *me, const ls_job *job)
{
    ls_replicated *run = &me->shared;
    run->holder = -1;
    LS_TRY(ls_replicated_open(run, &ls_strategy_mirrored, job, put_step));
    LS_TRY(ls_buckets_open(job->model->graph, job->exact ? SIZE_MAX : job->bucket_bytes,
                           &me->buckets));
    LS_TRY(open_reducers(me, job));
    return ls_replicated_capture(run);
}

/* ---- The strategy --------------------------------------------------------------------------- */

/* It runs anywhere; what its all-reduce needs is checked with that. */
static ls_status check(const ls_outline *outline)
{
    (void)outline;
    return LS_OK;
}

/* The replicas first: a reducer's own queue has nothing to wait for that they have not put. */
static ls_status sync_run(ls_run *base)
{
    mirrored *me = (mirrored *)base;
    ls_status status = ls_replicated_sync(base);
    for (int i = 0; me->reducers && i < me->shared.count; i++)
        status = ls_status_first(status, ls_reducer_sync(&me->reducers[i]));
    return status;
}

static void close_run(ls_run *base)
{
    mirrored *me = (mirrored *)base;
    ls_status_free(sync_run(base));
    ls_replicated_close_programs(&me->shared); /* before the reducers' queues */
    for (int i = 0; me->reducers && i < me->shared.count; i++)
        ls_reducer_close(&me->reducers[i]);
    free(me->reducers);
    ls_buckets_close(&me->buckets);
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

static ls_status step(ls_run *base, bool tail, uint64_t times)
{
    ((mirrored *)base)->steps[tail ? LS_TAIL : LS_FULL] += times;
    return ls_replicated_step(base, tail, times);
}

static void each_op(const ls_run *base, ls_op_visit visit, void *context)
{
    const mirrored *me = (const mirrored *)base;
    ls_replicated_each(base, visit, context);
    for (int i = 0; i < me->shared.count; i++)
        ls_reducer_each(&me->reducers[i], visit, context);
}

static ls_status profile(ls_run *base, bool on)
{
    const mirrored *me = (const mirrored *)base;
    for (int i = 0; i < me->shared.count; i++)
        LS_TRY(ls_reducer_profile(&me->reducers[i], on));
    return ls_replicated_profile(base, on);
}

static ls_time_profile times(const ls_run *base, size_t index)
{
    return ls_reducer_times(&((const mirrored *)base)->reducers[index],
                            ls_replicated_times(base, index));
}

static ls_memory_formula memory(const ls_run *base, size_t index)
{
    ls_memory_formula formula = ls_replicated_memory(base, index);
    ls_reducer_memory(&((const mirrored *)base)->reducers[index], &formula);
    return formula;
}

/* What `steps` steps counted, of one of them: rounded away from what it must be, so that a
 * difference in one step alone shows, too. */
static uint64_t part_of_one(uint64_t all, uint64_t steps, uint64_t expected)
{
    return all / steps + (all / steps >= expected && all % steps);
}

/* What the communicators of all processes have counted. */
static ls_status count_traffic(const mirrored *me, ls_traffic *sum)
{
    ls_comm *comm = me->shared.base.job->comm;
    const size_t processes = comm ? (size_t)comm->size : 1;
    ls_traffic mine = {0}, *all = calloc(processes, sizeof *all);
    if (!all)
        return ls_fail_memory("mirrored", processes * sizeof *all);
    for (int i = 0; i < me->shared.count; i++) {
        ls_traffic one = me->reducers[i].comm->backend->traffic(me->reducers[i].comm);
        mine.bytes_sent += one.bytes_sent;
        mine.messages_sent += one.messages_sent;
    }
    ls_status status = ls_comm_collect(comm, &mine, sizeof mine, all);
    for (size_t p = 0; p < processes && !status; p++) {
        sum->bytes_sent += all[p].bytes_sent;
        sum->messages_sent += all[p].messages_sent;
    }
    free(all);
    return status;
}

/* Of what was counted, the part of one full step: less the formula's smaller ones. */
static ls_status traffic(const ls_run *base, ls_traffic *sent, ls_traffic *formula)
{
    const mirrored *me = (const mirrored *)base;
    const int n = ls_job_replicas(base->job);
    *formula = *sent = (ls_traffic){0};
    if (!base->job->allreduce->formula) /* only its library knows what it sends */
        return LS_OK;
    ls_traffic all = {0}, tail = ls_reducer_formula(base->job, &me->buckets, n, LS_TAIL);
    LS_TRY(count_traffic(me, &all));
    *formula = ls_reducer_formula(base->job, &me->buckets, n, LS_FULL);
    sent->bytes_sent = part_of_one(all.bytes_sent - me->steps[LS_TAIL] * tail.bytes_sent,
                                   me->steps[LS_FULL], formula->bytes_sent);
    sent->messages_sent = part_of_one(all.messages_sent - me->steps[LS_TAIL] * tail.messages_sent,
                                      me->steps[LS_FULL], formula->messages_sent);
    return LS_OK;
}

/* The reduced one: buckets are summed in place, in every replica alike. */
static ls_status gradient(ls_run *run, float *out)
{
    const ls_replica *r = ((const ls_replicated *)run)->members[0].replica;
    return ls_queue_read(r->queue, out, r->gradients, r->elements * sizeof *out);
}

/* Fast mode, in sequence: the algorithm's oracle over each bucket; an empty part is zeros. */
static ls_status sum(const ls_job *job, const float *const *parts, int count, float *out)
{
    const float *inputs[LS_JOB_REPLICAS];
    float *zeros = calloc(job->model->graph->variables.elements + 1, sizeof *zeros);
    ls_buckets buckets;
    if (!zeros)
        return ls_fail_memory("mirrored", job->model->graph->variables.elements * sizeof *zeros);
    ls_status status = ls_buckets_open(job->model->graph, job->bucket_bytes, &buckets);
    for (size_t b = 0; b < buckets.count && !status; b++) {
        const ls_bucket *bucket = &buckets.items[b];
        for (int d = 0; d < count; d++)
            inputs[d] = (parts[d] ? parts[d] : zeros) + bucket->first;
        job->allreduce->oracle(inputs, count, bucket->count, out + bucket->first);
    }
    ls_buckets_close(&buckets);
    free(zeros);
    return status;
}

const ls_strategy ls_strategy_mirrored = {
    .name = "mirrored",
    .help = "a replica per device, gradients summed by an all-reduce in buckets",
    .equivalent = true,
    .replicated = true,
    .reduces = true,
    .check = check,
    .open = open_run,
    .load = ls_replicated_load,
    .step = step,
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
