/* SPDX-License-Identifier: MIT */
/*
 * mirrored: a replica on each device with variables of its own, kept equal by an all-reduce of the
 * gradients, as in synchronous data parallelism with mirrored variables.
 *
 *     gather a part of the batch, forward, backward; all-reduce each bucket of gradients when
 *     backward has made it final; update the replica's own parameters
 *
 * Order of summation: fast mode the all-reduce algorithm's own (its file's head), bucket by bucket;
 * exact mode `canonical`, the rest of the tree over the replicas' finished subtrees.
 *
 * Left out in this version: a queue of its own for the all-reduces. They are put on the queue of
 * the backward pass, so a replica waits for the others where its bucket is final.
 */
#include "impl/buckets.h"
#include "impl/replicas.h"
#include "impl/strategies.h"

#include <stdlib.h>

/* One replica's all-reduces: an operation list for each bucket. */
typedef struct reducer {
    ls_comm *comm;
    float *scratch;
    ls_op_list *buckets[LS_BATCHES]; /* [buckets]; exact mode: one */
    ls_op_list zero[LS_BATCHES];     /* of an empty slice: its gradient is 0 */
} reducer;

typedef struct mirrored {
    ls_replicated shared;
    const ls_allreduce *algorithm;
    ls_buckets buckets;         /* exact mode: one, of everything */
    reducer *reducers;          /* [n] */
    uint64_t steps[LS_BATCHES]; /* put so far */
} mirrored;

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct bucket_sink {
    ls_queue *queue;
    const ls_op_list *lists;
    ls_buckets *buckets;
} bucket_sink;

static ls_status put_bucket(void *context, size_t bucket)
{
    const bucket_sink *sink = context;
    return ls_op_list_put(&sink->lists[bucket], sink->queue);
}

static ls_status range_final(void *context, size_t first, size_t count)
{
    const bucket_sink *sink = context;
    return ls_buckets_final(sink->buckets, first, count, put_bucket, context);
}

static ls_status put_step(ls_replicated *run, ls_member *m, int which)
{
    mirrored *me = (mirrored *)run;
    reducer *reduce = &me->reducers[m - run->members];
    ls_queue *queue = m->replica->queue;
    bucket_sink sink = {queue, reduce->buckets[which], &me->buckets};
    bool whole = !ls_slice_reports(m->slice[which]);
    ls_buckets_begin(&me->buckets);
    LS_TRY(ls_op_list_put(&reduce->zero[which], queue));
    LS_TRY(ls_slice_put(m->slice[which], whole ? NULL : range_final, &sink));
    if (whole) /* not reported in parts: everything is final now */
        LS_TRY(range_final(&sink, 0, m->replica->elements));
    LS_TRY(ls_op_list_put(&m->update[which], queue));
    return ls_op_list_put(&m->finish[which], queue);
}

/* ---- Building ------------------------------------------------------------------------------- */

/* Shards of the tree of a batch; fast mode has none. */
static int64_t shards_of(const mirrored *me, int which)
{
    const ls_job *job = me->shared.base.job;
    int64_t batch = ls_replicated_batch(job, which);
    if (!job->exact)
        return 0;
    return job->micro_shards < batch ? job->micro_shards : batch;
}

static ls_status build_exact(mirrored *me, int number, int which)
{
    const ls_member *m = &me->shared.members[number];
    float *sums[LS_REPLICA_LOSSES];
    ls_allreduce_args args = {.data = m->replica->gradients,
                              .count = m->replica->elements,
                              .scratch = me->reducers[number].scratch,
                              .shards = shards_of(me, which),
                              .sums = sums,
                              .sum_count = ls_slice_sums(m->slice[which])};
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = ls_slice_gradients(m->slice[which], k);
    return me->algorithm->build(me->reducers[number].comm, &args,
                                &me->reducers[number].buckets[which][0]);
}

static ls_status build_fast(mirrored *me, int number, int which)
{
    const ls_replica *r = me->shared.members[number].replica;
    reducer *reduce = &me->reducers[number];
    for (size_t b = 0; b < me->buckets.count; b++) {
        const ls_bucket *bucket = &me->buckets.items[b];
        const ls_allreduce_args args = {.data = (float *)r->gradients + bucket->first,
                                        .count = bucket->count,
                                        .scratch = reduce->scratch};
        LS_TRY(me->algorithm->build(reduce->comm, &args, &reduce->buckets[which][b]));
    }
    if (ls_slice_sums(me->shared.members[number].slice[which]))
        return LS_OK;
    const ls_fill_args fill = {.count = (int64_t)r->elements, .y = r->gradients};
    ls_op *op;
    LS_TRY(r->kernels->table->fill(r->kernels, &fill, &op));
    return ls_op_list_add(&reduce->zero[which], op);
}

static size_t scratch_elements(const mirrored *me, int number)
{
    size_t most = 0;
    for (int which = 0; which < LS_BATCHES && me->algorithm->scratch; which++) {
        if (!ls_replicated_batch(me->shared.base.job, which))
            continue;
        for (size_t b = 0; b < me->buckets.count; b++) {
            size_t need = me->algorithm->scratch(number, me->shared.count,
                                                 me->buckets.items[b].count, shards_of(me, which));
            most = need > most ? need : most;
        }
    }
    return most;
}

static ls_status build_reducer(mirrored *me, int number)
{
    const ls_job *job = me->shared.base.job;
    reducer *reduce = &me->reducers[number];
    size_t scratch = scratch_elements(me, number);
    void *memory;
    if (scratch) {
        LS_TRY(ls_device_allocate(job->devices[number], LS_MEMORY_COMMUNICATION,
                                  scratch * sizeof(float), &memory));
        reduce->scratch = memory;
    }
    for (int b = 0; b < LS_BATCHES; b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        reduce->buckets[b] = calloc(me->buckets.count, sizeof *reduce->buckets[b]);
        if (!reduce->buckets[b])
            return ls_fail_memory("mirrored", me->buckets.count * sizeof *reduce->buckets[b]);
        LS_TRY(job->exact ? build_exact(me, number, b) : build_fast(me, number, b));
    }
    return LS_OK;
}

static ls_status build(mirrored *me, const ls_job *job)
{
    ls_replicated *run = &me->shared;
    run->holder = -1;
    LS_TRY(ls_replicated_open(run, &ls_strategy_mirrored, job, put_step));
    LS_TRY(ls_replicated_update(run));
    me->reducers = calloc((size_t)run->count, sizeof *me->reducers);
    ls_comm **comms = calloc((size_t)run->count, sizeof *comms);
    ls_status status = me->reducers && comms
                           ? ls_comm_thread_open(job->devices, run->count, comms)
                           : ls_fail_memory("mirrored", (size_t)run->count * sizeof *me->reducers);
    for (int i = 0; i < run->count && !status; i++)
        me->reducers[i].comm = comms[i];
    free(comms);
    LS_TRY(status);
    me->algorithm = job->allreduce;
    if (me->algorithm->check)
        LS_TRY(me->algorithm->check(me->reducers[0].comm));
    LS_TRY(ls_buckets_open(job->model->graph, job->exact ? SIZE_MAX : job->bucket_bytes,
                           &me->buckets));
    for (int i = 0; i < run->count; i++)
        LS_TRY(build_reducer(me, i));
    return ls_replicated_capture(run);
}

/* ---- The strategy --------------------------------------------------------------------------- */

static ls_status check(const ls_outline *outline)
{
    if (outline->ranks != 1)
        return ls_fail(LS_CODE_USAGE, "strategy", "mirrored",
                       "runs in one process in this version, not on %d ranks; use --ranks 1",
                       outline->ranks);
    return LS_OK;
}

static void close_run(ls_run *base)
{
    mirrored *me = (mirrored *)base;
    ls_status_free(ls_replicated_sync(base));
    for (int i = 0; me->reducers && i < me->shared.count; i++) {
        reducer *reduce = &me->reducers[i];
        for (int b = 0; b < LS_BATCHES; b++) {
            for (size_t k = 0; reduce->buckets[b] && k < me->buckets.count; k++)
                ls_op_list_clear(&reduce->buckets[b][k]);
            free(reduce->buckets[b]);
            ls_op_list_clear(&reduce->zero[b]);
        }
        ls_device_release(base->job->devices[i], reduce->scratch);
        ls_comm_close(reduce->comm);
    }
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

static ls_status step(ls_run *base, bool tail, uint64_t times)
{
    ((mirrored *)base)->steps[tail ? LS_TAIL : LS_FULL] += times;
    return ls_replicated_step(base, tail, times);
}

static ls_memory_formula memory(const ls_run *base, size_t index)
{
    const mirrored *me = (const mirrored *)base;
    ls_memory_formula formula = ls_replicated_memory(base, index);
    formula.bytes[LS_MEMORY_COMMUNICATION] += scratch_elements(me, (int)index) * sizeof(float);
    for (int b = 0; b < LS_BATCHES; b++)
        formula.bytes[LS_MEMORY_WORKSPACE] += ls_op_list_workspace(&me->reducers[index].zero[b]);
    return formula;
}

/* What the algorithm's formula says of one step. */
static ls_traffic step_formula(const mirrored *me, int which)
{
    bool any = ls_replicated_batch(me->shared.base.job, which) > 0;
    ls_traffic sum = {0};
    for (size_t b = 0; b < me->buckets.count && any; b++) {
        ls_traffic t = me->algorithm->formula(me->shared.count, me->buckets.items[b].count,
                                              shards_of(me, which));
        sum.bytes_sent += t.bytes_sent;
        sum.messages_sent += t.messages_sent;
    }
    return sum;
}

/* Of what the communicators counted, the part of one full step: less the formula's smaller ones. */
static void traffic(const ls_run *base, ls_traffic *sent, ls_traffic *formula)
{
    const mirrored *me = (const mirrored *)base;
    ls_traffic all = {0}, tail = step_formula(me, LS_TAIL);
    for (int i = 0; i < me->shared.count; i++) {
        ls_traffic mine = me->reducers[i].comm->backend->traffic(me->reducers[i].comm);
        all.bytes_sent += mine.bytes_sent;
        all.messages_sent += mine.messages_sent;
    }
    *formula = *sent = step_formula(me, LS_FULL);
    if (!me->steps[LS_FULL])
        return;
    sent->bytes_sent = (all.bytes_sent - me->steps[LS_TAIL] * tail.bytes_sent) / me->steps[LS_FULL];
    sent->messages_sent =
        (all.messages_sent - me->steps[LS_TAIL] * tail.messages_sent) / me->steps[LS_FULL];
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
    .sync = ls_replicated_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_replicated_gather,
    .evaluate = ls_replicated_evaluate,
    .describe = ls_replicated_describe,
    .each_op = ls_replicated_each,
    .memory = memory,
    .traffic = traffic,
    .sum = sum,
    .close = close_run,
};
