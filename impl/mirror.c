/* SPDX-License-Identifier: MIT */
/* Mirror: the reducers of the same variables on several replicas; see mirror.h. */
#include "impl/mirror.h"

#include "common/base/hooks.h"
#include "impl/traffic.h"

#include <stdlib.h>

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status open_buckets(const ls_mirror_options *o, ls_buckets *out)
{
    return ls_buckets_open(o->graph, o->elements, o->job->exact ? SIZE_MAX : o->job->bucket_bytes,
                           out);
}

/* Where the members are. Of a replica on q processes, place m is on the one after m / (its devices
 * on each) others, so replica d's on process d q + that; hosts [LS_JOB_REPLICAS] and `spread` hold
 * what is returned. */
static const ls_layout *find_layout(const ls_mirror_options *o, int *hosts, ls_layout *spread)
{
    const ls_job *job = o->job;
    const int here = (int)job->device_count, places = ls_job_places(job);
    if (!job->layout || places <= here)
        return job->layout;
    for (int d = 0; d < ls_job_replicas(job); d++)
        hosts[d] = job->layout->host[d * (places / here) + o->place / here];
    *spread = (ls_layout){.processes = ls_job_replicas(job), .host = hosts};
    return spread;
}

/* A communicator's end for each reducer. */
static ls_status open_ends(ls_mirror *mirror, const ls_mirror_options *o)
{
    const size_t n = (size_t)o->count;
    ls_comm **comms = calloc(n + 1, sizeof *comms);
    ls_device **devices = calloc(n + 1, sizeof *devices);
    mirror->reducers = calloc(n + 1, sizeof *mirror->reducers);
    ls_status status = LS_OK;
    if (!comms || !devices || !mirror->reducers)
        status = ls_fail_memory("mirror", n * sizeof *mirror->reducers);
    for (size_t i = 0; i < n && !status; i++)
        devices[i] = o->members[i]->replica->device;
    if (!status)
        status = ls_comm_open(o->job->transport, o->job->comm, devices, o->count, comms);
    for (size_t i = 0; i < n && !status; i++)
        mirror->reducers[i].comm = comms[i];
    for (size_t i = 0; i < n && !status; i++)
        comms[i]->layout = mirror->layout;
    mirror->count = status ? 0 : o->count;
    free(comms);
    free(devices);
    return status;
}

static ls_status open_reducers(ls_mirror *out, const ls_mirror_options *o)
{
    if (o->job->allreduce->check && o->count)
        LS_TRY(o->job->allreduce->check(out->reducers[0].comm));
    for (int i = 0; i < o->count; i++)
        LS_TRY(ls_reducer_open(o->job, &out->buckets, o->members[i], &out->reducers[i]));
    return LS_OK;
}

ls_status ls_mirror_open(const ls_mirror_options *o, ls_mirror *out)
{
    LS_TRY(open_buckets(o, &out->buckets));
    if (!out->buckets.count)
        return LS_OK;
    out->hosts = calloc(LS_JOB_REPLICAS, sizeof *out->hosts);
    if (!out->hosts)
        return ls_fail_memory("mirror", LS_JOB_REPLICAS * sizeof *out->hosts);
    out->layout = find_layout(o, out->hosts, &out->spread);
    LS_TRY(open_ends(out, o));
    return ls_job_agree(o->job, open_reducers(out, o));
}

void ls_mirror_close(ls_mirror *mirror)
{
    for (int i = 0; i < mirror->count; i++)
        ls_reducer_close(&mirror->reducers[i]);
    free(mirror->reducers);
    free(mirror->hosts);
    ls_buckets_close(&mirror->buckets);
    *mirror = (ls_mirror){0};
}

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct bucket_sink {
    ls_reducer *reducer;
    int which;
} bucket_sink;

static ls_status put_bucket(void *context, size_t bucket)
{
    const bucket_sink *sink = context;
    if (LS_PLANTED(tail_not_reduced) && sink->which == LS_TAIL)
        return LS_OK;
    return ls_reducer_put(sink->reducer, sink->which, bucket);
}

ls_status ls_mirror_begin(ls_mirror *mirror, int index, int which)
{
    ls_buckets_begin(&mirror->buckets);
    return mirror->count ? ls_reducer_begin(&mirror->reducers[index], which) : LS_OK;
}

ls_status ls_mirror_final(ls_mirror *mirror, int index, int which, size_t first, size_t count)
{
    bucket_sink sink = {mirror->count ? &mirror->reducers[index] : NULL, which};
    return ls_buckets_final(&mirror->buckets, first, count, put_bucket, &sink);
}

bool ls_mirror_together(const ls_mirror *mirror)
{
    return mirror->count && ls_comm_together(mirror->reducers[0].comm);
}

/* What the communicators of this process have counted. */
static ls_traffic count_own(const ls_mirror *mirror)
{
    ls_traffic sum = {0};
    for (int i = 0; i < mirror->count; i++) {
        ls_traffic one = mirror->reducers[i].comm->backend->traffic(mirror->reducers[i].comm);
        sum.bytes_sent += one.bytes_sent;
        sum.messages_sent += one.messages_sent;
    }
    return sum;
}

ls_status ls_mirror_put(ls_mirror *mirror, int which)
{
    if (!mirror->count)
        return LS_OK;
    const ls_traffic before = count_own(mirror);
    LS_TRY(ls_reducers_put(mirror->reducers, mirror->count, which));
    const ls_traffic after = count_own(mirror);
    mirror->sent[which] = (ls_traffic){after.bytes_sent - before.bytes_sent,
                                       after.messages_sent - before.messages_sent};
    return LS_OK;
}

ls_status ls_mirror_update(ls_mirror *mirror, int index)
{
    for (size_t b = 0; b < mirror->buckets.count; b++)
        LS_TRY(ls_reducer_update(&mirror->reducers[index], b));
    return LS_OK;
}

/* ---- The rest ------------------------------------------------------------------------------- */

bool ls_mirror_waits(const ls_mirror *mirror)
{
    return mirror->count && mirror->reducers[0].comm->backend->wait;
}

ls_status ls_mirror_wait(ls_mirror *mirror, uint64_t timeout_ns)
{
    ls_status status = LS_OK;
    for (int i = 0; i < mirror->count; i++)
        status = ls_status_first(status, ls_reducer_wait(&mirror->reducers[i], timeout_ns));
    return status;
}

ls_status ls_mirror_sync(ls_mirror *mirror)
{
    ls_status status = LS_OK;
    for (int i = 0; i < mirror->count; i++)
        status = ls_status_first(status, ls_reducer_sync(&mirror->reducers[i]));
    return status;
}

ls_status ls_mirror_profile(ls_mirror *mirror, bool on)
{
    for (int i = 0; i < mirror->count; i++)
        LS_TRY(ls_reducer_profile(&mirror->reducers[i], on));
    return LS_OK;
}

void ls_mirror_each(const ls_mirror *mirror, ls_op_visit visit, void *context)
{
    for (int i = 0; i < mirror->count; i++)
        ls_reducer_each(&mirror->reducers[i], visit, context);
}

/* Of what was counted, the part of one full step: less the formula's smaller ones. */
ls_status ls_mirror_traffic(const ls_mirror *mirror, const ls_job *job, const uint64_t *steps,
                            ls_traffic *sent, ls_traffic *formula)
{
    if (!mirror->buckets.count)
        return LS_OK;
    ls_traffic all, tail = ls_reducer_formula(job, &mirror->buckets, mirror->layout, LS_TAIL);
    const ls_traffic full = ls_reducer_formula(job, &mirror->buckets, mirror->layout, LS_FULL);
    formula->bytes_sent += full.bytes_sent;
    formula->messages_sent += full.messages_sent;
    if (ls_mirror_together(mirror)) {
        sent->bytes_sent += mirror->sent[LS_FULL].bytes_sent;
        sent->messages_sent += mirror->sent[LS_FULL].messages_sent;
        return LS_OK;
    }
    LS_TRY(ls_traffic_collect(job->comm, count_own(mirror), &all));
    const ls_traffic one = ls_traffic_of_step(&all, &tail, steps, &full);
    sent->bytes_sent += one.bytes_sent;
    sent->messages_sent += one.messages_sent;
    return LS_OK;
}

/* The steps of one bucket. */
static ls_status sum_bucket(const ls_mirror_options *o, const ls_layout *layout, const bool *has,
                            int count, const ls_range *bucket, ls_sum_order *out)
{
    ls_sum_order steps = {0};
    ls_status status = o->job->allreduce->oracle(count, bucket->count, layout, &steps);
    for (size_t i = 0; i < steps.count && !status; i++) {
        ls_order_step step = steps.steps[i];
        step.first += bucket->first;
        if (step.input >= 0 && !has[step.input])
            step.input = LS_SUM_ZEROS;
        status = ls_sum_order_add(out, &step);
    }
    ls_sum_order_close(&steps);
    return status;
}

ls_status ls_mirror_sum(const ls_mirror_options *o, const bool *has, int count, ls_sum_order *out)
{
    int hosts[LS_JOB_REPLICAS];
    ls_layout spread;
    ls_buckets buckets;
    LS_TRY(open_buckets(o, &buckets));
    const ls_layout *layout = find_layout(o, hosts, &spread);
    ls_status status = LS_OK;
    for (size_t b = 0; b < buckets.count && !status; b++)
        status = sum_bucket(o, layout, has, count, &buckets.items[b], out);
    ls_buckets_close(&buckets);
    return status;
}
