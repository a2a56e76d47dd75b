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
#include "impl/reducer.h"
#include "impl/strategies.h"

#include <stdlib.h>

typedef struct mirrored {
    ls_replicated shared;
    ls_buckets buckets;
    ls_reducer *reducers;        /* [n] */
    uint64_t steps[LS_BATCHES];  /* put so far */
    ls_event *begun;             /* together: the step has begun */
    ls_event **left;             /* together: [n] a replica has nothing more to do in it */
    ls_traffic sent[LS_BATCHES]; /* together: by one step, counted when it is put or captured */
} mirrored;

/* What the communicators of this process have counted. */
static ls_traffic count_own(const mirrored *me)
{
    ls_traffic sum = {0};
    for (int i = 0; i < me->shared.count; i++) {
        ls_traffic one = me->reducers[i].comm->backend->traffic(me->reducers[i].comm);
        sum.bytes_sent += one.bytes_sent;
        sum.messages_sent += one.messages_sent;
    }
    return sum;
}

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

static ls_status put_gradients(mirrored *me, ls_member *m, int which)
{
    bucket_sink sink = {&me->buckets, &me->reducers[m - me->shared.members], which};
    bool whole = !ls_slice_reports(m->slice[which]);
    ls_buckets_begin(&me->buckets);
    LS_TRY(ls_reducer_begin(sink.reducer, which));
    LS_TRY(ls_slice_put(m->slice[which], whole ? NULL : range_final, &sink));
    if (whole) /* not reported in parts: everything is final now */
        LS_TRY(range_final(&sink, 0, m->replica->elements));
    return LS_OK;
}

static ls_status put_update(mirrored *me, ls_member *m, int which)
{
    for (size_t b = 0; b < me->buckets.count; b++)
        LS_TRY(ls_reducer_update(&me->reducers[m - me->shared.members], b));
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
    const ls_traffic before = count_own(me);
    LS_TRY(ls_reducers_put(me->reducers, run->count, which));
    const ls_traffic after = count_own(me);
    me->sent[which] = (ls_traffic){after.bytes_sent - before.bytes_sent,
                                   after.messages_sent - before.messages_sent};
    for (int i = 0; i < run->count; i++)
        LS_TRY(put_update(me, &run->members[i], which));
    for (int i = 1; i < run->count; i++) {
        LS_TRY(ls_queue_record(run->members[i].replica->queue, me->left[i]));
        LS_TRY(ls_queue_wait(queue, me->left[i]));
    }
    return LS_OK;
}

/* ---- Building ------------------------------------------------------------------------------- */

/* A communicator's end for each reducer. */
static ls_status open_reducers(mirrored *me, const ls_job *job)
{
    const ls_replicated *run = &me->shared;
    const size_t n = (size_t)run->count;
    ls_comm **comms = calloc(n, sizeof *comms);
    me->reducers = calloc(n, sizeof *me->reducers);
    ls_status status = me->reducers && comms ? ls_comm_open(job->transport, job->comm, job->devices,
                                                            run->count, comms)
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
    LS_TRY(ls_replicated_open(run, &ls_strategy_mirrored, job, put_alone));
    LS_TRY(ls_buckets_open(job->model->graph, job->exact ? SIZE_MAX : job->bucket_bytes,
                           &me->buckets));
    LS_TRY(open_reducers(me, job));
    if (ls_comm_together(me->reducers[0].comm))
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
    ls_event_close(me->begun);
    for (int i = 0; me->left && i < me->shared.count; i++)
        ls_event_close(me->left[i]);
    free(me->left);
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
    ls_traffic mine = count_own(me), *all = calloc(processes, sizeof *all);
    if (!all)
        return ls_fail_memory("mirrored", processes * sizeof *all);
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
    *formula = ls_reducer_formula(base->job, &me->buckets, n, LS_FULL);
    *sent = me->sent[LS_FULL];
    if (me->shared.together)
        return LS_OK;
    LS_TRY(count_traffic(me, &all));
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
