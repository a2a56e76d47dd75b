/* SPDX-License-Identifier: MIT */
/* Reducer: buckets of gradients through an all-reduce algorithm; see reducer.h. */
#include "impl/reducer.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* Shards of the tree of a batch; fast mode has none. */
static int64_t shards_of(const ls_job *job, int which)
{
    int64_t batch = ls_replicated_batch(job, which);
    if (!job->exact)
        return 0;
    return job->micro_shards < batch ? job->micro_shards : batch;
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status build_exact(ls_reducer *r, const ls_job *job, int which)
{
    const ls_member *m = r->member;
    float *sums[LS_REPLICA_LOSSES];
    ls_allreduce_args args = {.data = m->replica->gradients,
                              .count = m->replica->owned,
                              .scratch = r->scratch,
                              .shards = shards_of(job, which),
                              .sums = sums,
                              .sum_count = ls_slice_sums(m->slice[which])};
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = ls_slice_gradients(m->slice[which], k);
    return job->allreduce->build(r->comm, &args, &r->buckets[which][0]);
}

static ls_status build_fast(ls_reducer *r, const ls_job *job, const ls_buckets *buckets, int which)
{
    const ls_replica *replica = r->member->replica;
    for (size_t b = 0; b < buckets->count; b++) {
        const ls_range *bucket = &buckets->items[b];
        const ls_allreduce_args args = {.data = (float *)replica->gradients + bucket->first,
                                        .count = bucket->count,
                                        .scratch = r->scratch};
        LS_TRY(job->allreduce->build(r->comm, &args, &r->buckets[which][b]));
    }
    if (ls_slice_sums(r->member->slice[which]))
        return LS_OK;
    const ls_fill_args fill = {.count = (int64_t)replica->owned, .y = replica->gradients};
    ls_op *op;
    LS_TRY(replica->kernels->table->fill(replica->kernels, &fill, &op));
    return ls_op_list_add(&r->zero[which], op);
}

/* The most that an all-reduce of this replica needs; they run one after the other. */
static ls_status take_scratch(ls_reducer *r, const ls_job *job, const ls_buckets *buckets)
{
    void *memory;
    for (int which = 0; which < LS_BATCHES && job->allreduce->scratch; which++) {
        for (size_t b = 0; b < buckets->count && ls_replicated_batch(job, which); b++) {
            size_t need = job->allreduce->scratch(r->comm->rank, r->comm->size,
                                                  buckets->items[b].count, shards_of(job, which));
            r->scratch_elements = need > r->scratch_elements ? need : r->scratch_elements;
        }
    }
    if (!r->scratch_elements)
        return LS_OK;
    LS_TRY(ls_device_allocate(r->member->replica->device, LS_MEMORY_COMMUNICATION,
                              r->scratch_elements * sizeof(float), &memory));
    r->scratch = memory;
    return LS_OK;
}

static ls_status open_queue(ls_reducer *r, const ls_job *job)
{
    const ls_replica *replica = r->member->replica;
    r->queue = replica->queue;
    if (!job->overlap)
        return LS_OK;
    LS_TRY(ls_queue_open(replica->device, "communication", &r->queue));
    r->own_queue = true;
    r->final = calloc(r->bucket_count, sizeof *r->final);
    r->reduced = calloc(r->bucket_count, sizeof *r->reduced);
    if (!r->final || !r->reduced)
        return ls_fail_memory("mirrored", r->bucket_count * sizeof *r->final);
    for (size_t b = 0; b < r->bucket_count; b++) {
        LS_TRY(ls_event_open(replica->device, &r->final[b]));
        LS_TRY(ls_event_open(replica->device, &r->reduced[b]));
    }
    return LS_OK;
}

static ls_status build_updates(ls_reducer *r, const ls_buckets *buckets)
{
    r->update = calloc(buckets->count, sizeof *r->update);
    if (!r->update)
        return ls_fail_memory("mirrored", buckets->count * sizeof *r->update);
    for (size_t b = 0; b < buckets->count; b++)
        LS_TRY(ls_replica_update(r->member->replica, buckets->items[b].first,
                                 buckets->items[b].count, &r->update[b]));
    return LS_OK;
}

ls_status ls_reducer_open(const ls_job *job, const ls_buckets *buckets, ls_member *member,
                          ls_reducer *out)
{
    out->member = member;
    out->bucket_count = buckets->count;
    LS_TRY(open_queue(out, job));
    LS_TRY(build_updates(out, buckets));
    LS_TRY(take_scratch(out, job, buckets));
    for (int b = 0; b < LS_BATCHES; b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        out->buckets[b] = calloc(buckets->count, sizeof *out->buckets[b]);
        if (!out->buckets[b])
            return ls_fail_memory("mirrored", buckets->count * sizeof *out->buckets[b]);
        LS_TRY(job->exact ? build_exact(out, job, b) : build_fast(out, job, buckets, b));
    }
    return LS_OK;
}

void ls_reducer_close(ls_reducer *r)
{
    for (int b = 0; b < LS_BATCHES; b++) {
        for (size_t k = 0; r->buckets[b] && k < r->bucket_count; k++)
            ls_op_list_clear(&r->buckets[b][k]);
        free(r->buckets[b]);
        ls_op_list_clear(&r->zero[b]);
    }
    for (size_t b = 0; b < r->bucket_count; b++) {
        if (r->update)
            ls_op_list_clear(&r->update[b]);
        if (r->final)
            ls_event_close(r->final[b]);
        if (r->reduced)
            ls_event_close(r->reduced[b]);
    }
    free(r->update);
    free(r->final);
    free(r->reduced);
    if (r->own_queue)
        ls_queue_close(r->queue);
    if (r->scratch)
        ls_device_release(r->member->replica->device, r->scratch);
    ls_comm_close(r->comm);
}

/* ---- The step ------------------------------------------------------------------------------- */

ls_status ls_reducer_begin(ls_reducer *r, int which)
{
    return ls_op_list_put(&r->zero[which], r->member->replica->queue);
}

ls_status ls_reducer_put(ls_reducer *r, int which, size_t bucket)
{
    if (r->own_queue) {
        LS_TRY(ls_queue_record(r->member->replica->queue, r->final[bucket]));
        if (!LS_PLANTED(final_wait))
            LS_TRY(ls_queue_wait(r->queue, r->final[bucket]));
    }
    if (ls_comm_together(r->comm))
        return LS_OK;
    LS_TRY(ls_op_list_put(&r->buckets[which][bucket], r->queue));
    return r->own_queue ? ls_queue_record(r->queue, r->reduced[bucket]) : LS_OK;
}

static ls_status put_bucket(ls_reducer *reducers, ls_comm **comms, ls_comm_list *lists, int count,
                            size_t bucket)
{
    LS_TRY(ls_comm_put(comms, lists, count));
    for (int i = 0; i < count; i++)
        if (reducers[i].own_queue)
            LS_TRY(ls_queue_record(reducers[i].queue, reducers[i].reduced[bucket]));
    return LS_OK;
}

ls_status ls_reducers_put(ls_reducer *reducers, int count, int which)
{
    ls_comm **comms = calloc((size_t)count, sizeof *comms);
    ls_comm_list *lists = calloc((size_t)count, sizeof *lists);
    ls_status status =
        comms && lists ? LS_OK : ls_fail_memory("mirrored", (size_t)count * sizeof *lists);
    for (size_t b = 0; b < reducers->bucket_count && !status; b++) {
        for (int i = 0; i < count; i++) {
            comms[i] = reducers[i].comm;
            lists[i] = (ls_comm_list){&reducers[i].buckets[which][b], reducers[i].queue};
        }
        status = put_bucket(reducers, comms, lists, count, b);
    }
    free(comms);
    free(lists);
    return status;
}

ls_status ls_reducer_update(ls_reducer *r, size_t bucket)
{
    ls_queue *queue = r->member->replica->queue;
    if (r->own_queue && !LS_PLANTED(reduced_wait))
        LS_TRY(ls_queue_wait(queue, r->reduced[bucket]));
    if (LS_PLANTED(applied_twice))
        LS_TRY(ls_op_list_put(&r->update[bucket], queue));
    if (LS_PLANTED(update_left_out) && bucket == 0 && r->comm->rank + 1 == r->comm->size)
        return LS_OK;
    return ls_op_list_put(&r->update[bucket], queue);
}

ls_status ls_reducer_wait(ls_reducer *r, uint64_t timeout_ns)
{
    const ls_comm_backend *backend = r->comm ? r->comm->backend : NULL;
    if (!backend || !backend->wait || !r->queue)
        return LS_OK;
    return backend->wait(r->comm, r->member->replica->queue, r->queue, timeout_ns);
}

ls_status ls_reducer_sync(ls_reducer *r)
{
    return r->own_queue ? ls_queue_sync(r->queue) : LS_OK;
}

ls_status ls_reducer_profile(ls_reducer *r, bool on)
{
    if (on)
        r->times = (ls_time_profile){0};
    return r->own_queue ? ls_queue_profile(r->queue, on ? &r->times : NULL) : LS_OK;
}

ls_time_profile ls_reducer_times(const ls_reducer *r, ls_time_profile replica)
{
    double work = (double)r->times.ns[LS_TIME_COMMUNICATION];
    double waits = (double)r->times.ns[LS_TIME_WAIT];
    if (!r->own_queue || work == 0)
        return replica;
    uint64_t exposed = (uint64_t)((double)replica.ns[LS_TIME_IDLE] * work / (work + waits));
    replica.ns[LS_TIME_IDLE] -= exposed;
    replica.ns[LS_TIME_COMMUNICATION] += exposed;
    return replica;
}

/* ---- What it holds and moves ---------------------------------------------------------------- */

void ls_reducer_each(const ls_reducer *r, ls_op_visit visit, void *context)
{
    ls_op_list_each(&r->zero[LS_FULL], visit, context);
    for (size_t b = 0; b < r->bucket_count; b++) {
        ls_op_list_each(&r->buckets[LS_FULL][b], visit, context);
        ls_op_list_each(&r->update[b], visit, context);
    }
}

void ls_reducer_memory(const ls_reducer *r, ls_memory_formula *formula)
{
    formula->bytes[LS_MEMORY_COMMUNICATION] += r->scratch_elements * sizeof(float);
    if (r->comm->backend->memory)
        formula->bytes[LS_MEMORY_COMMUNICATION] += r->comm->backend->memory(r->comm);
    for (int b = 0; b < LS_BATCHES; b++)
        formula->bytes[LS_MEMORY_WORKSPACE] += ls_op_list_workspace(&r->zero[b]);
}

ls_traffic ls_reducer_formula(const ls_job *job, const ls_buckets *buckets, const ls_layout *layout,
                              int which)
{
    bool any = ls_replicated_batch(job, which) > 0;
    ls_traffic sum = {0};
    for (size_t b = 0; b < buckets->count && any; b++) {
        ls_traffic t = job->allreduce->formula(ls_job_replicas(job), buckets->items[b].count,
                                               shards_of(job, which), layout);
        sum.bytes_sent += t.bytes_sent;
        sum.messages_sent += t.messages_sent;
    }
    return sum;
}
