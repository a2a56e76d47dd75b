/* SPDX-License-Identifier: MIT */
/* Runs with parameter servers: members, their communicators, and values; see served.h. */
#include "impl/step/served.h"

#include <stdlib.h>

ls_served *ls_served_of(const ls_run *run)
{
    return ((const ls_stepped *)run)->served;
}

const ls_served_server *ls_served_here(const ls_served *served, size_t index)
{
    for (int k = 0; k < served->layout.servers; k++)
        if (served->servers[k].shard.replica && index-- == 0)
            return &served->servers[k];
    return NULL;
}

/* ---- Members --------------------------------------------------------------------------------- */

static ls_status open_worker(const ls_job *job, int number, ls_device *device, ls_member *member)
{
    /* With backup workers worker 0 may skip a step, so every worker computes it. */
    const bool decays = number == 0 || job->ps.backups > 0;
    const ls_replica_options options = {.job = job,
                                        .device = device,
                                        .number = number,
                                        .rows = job->batch,
                                        .sums = ls_replicated_sums(job, number),
                                        .no_optimizer = true,
                                        .decay_loss = decays ? LS_DECAY_HERE : LS_DECAY_ELSEWHERE};
    LS_TRY(ls_replica_open(&options, &member->replica));
    return ls_replicated_open_slices(job, number, member);
}

static ls_status open_server(ls_served *served, const ls_job *job, int k, ls_device *device,
                             ls_member *member)
{
    ls_ps_shard *shard = &served->servers[k].shard;
    const ls_status status = ls_ps_shard_open(job, &served->layout, k, device, shard);
    member->replica = shard->replica;
    return status ? status : ls_replicated_open_slices(job, -1, member);
}

static ls_status open_member(ls_stepped *me, const ls_job *job, int m)
{
    ls_served *served = me->served;
    const ls_ps_member *place = &served->layout.members[ls_ps_rank(&served->layout, m)];
    ls_member *member = &me->shared.members[m];
    me->shared.process[m] = place->process;
    if (place->process != ls_job_process(job))
        return LS_OK;
    ls_device *device = ls_ps_device(job, place);
    return place->server ? open_server(served, job, place->number, device, member)
                         : open_worker(job, place->number, device, member);
}

ls_status ls_served_open(ls_stepped *me, const ls_job *job)
{
    const ls_graph *graph = job->model->graph;
    ls_served *served = me->served = calloc(1, sizeof *served);
    ls_replicated *r = &me->shared;
    if (!served)
        return ls_fail_memory("step", sizeof *served);
    LS_TRY(ls_buckets_open(graph, graph->variables.elements, job->bucket_bytes, &served->buckets));
    LS_TRY(ls_ps_layout_open(job, &served->buckets, &served->layout));
    const size_t total = (size_t)served->layout.member_count;
    r->members = calloc(total, sizeof *r->members);
    r->process = calloc(total, sizeof *r->process);
    served->ends = calloc(total, sizeof *served->ends);
    served->comms = calloc(total, sizeof(ls_comm *));
    served->speakers = calloc(total, sizeof *served->speakers);
    served->servers = calloc(total, sizeof *served->servers);
    if (!r->members || !r->process || !served->ends || !served->comms || !served->speakers ||
        !served->servers)
        return ls_fail_memory("step", total * sizeof *served->servers);
    r->count = served->layout.workers;
    r->total = r->all = (int)total;
    r->places = 1;
    for (int m = 0; m < r->total; m++) /* the servers first, as their ranks are */
        LS_TRY(open_member(me, job, (m + r->count) % r->total));
    return LS_OK;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Opens the communicator of requests, between workers and servers that serve by arrival. */
static ls_status open_talk(ls_stepped *me, int m)
{
    const ls_job *job = me->shared.base.job;
    ls_served *served = me->served;
    const int workers = served->layout.workers;
    if (m < workers) {
        ls_ps_speaker *speaker = &served->speakers[m];
        *speaker = (ls_ps_speaker){.control = served->ends[m].control,
                                   .job = job,
                                   .state = me->shared.members[m].replica->state,
                                   .number = m,
                                   .took = calloc(job->records, sizeof *speaker->took)};
        return speaker->took ? LS_OK : ls_fail_memory("step", job->records);
    }
    ls_served_server *server = &served->servers[m - workers];
    const ls_replica *r = server->shard.replica;
    server->arrivals = calloc(1, sizeof *server->arrivals);
    if (!server->arrivals)
        return ls_fail_memory("step", sizeof *server->arrivals);
    if (job->ps.backups) {
        LS_TRY(ls_device_allocate(r->device, LS_MEMORY_COMMUNICATION, r->elements * sizeof(float),
                                  &server->arrivals[0]));
        server->arrival_count = 1;
    }
    server->serving = (ls_ps_serving){.job = job,
                                      .shard = &server->shard,
                                      .comm = served->ends[m].comm,
                                      .control = served->ends[m].control,
                                      .spare = server->arrivals[0]};
    return ls_ps_serving_open(&server->serving);
}

/* Opens the ends of this process's members, in the order of their ranks. */
static ls_status open_comms(ls_stepped *me, ls_device **devices, ls_comm **controls)
{
    const ls_job *job = me->shared.base.job;
    ls_served *served = me->served;
    const ls_ps_layout *l = &served->layout;
    int here = 0;
    for (int rank = 0; rank < l->member_count; rank++)
        if (l->members[rank].process == ls_job_process(job))
            devices[here++] = ls_ps_device(job, &l->members[rank]);
    LS_TRY(ls_comm_open(job->transport, job->comm, devices, here, served->comms));
    ls_status status = LS_OK;
    if (ls_ps_by_arrival(&job->ps))
        status = served->comms[0]->backend->receive_any
                     ? ls_comm_open(job->transport, job->comm, devices, here, controls)
                     : ls_ps_refuse_arrival(served->comms[0]->backend->name);
    here = 0;
    for (int rank = 0; rank < l->member_count; rank++) {
        const ls_ps_member *at = &l->members[rank];
        ls_served_end *end = &served->ends[at->server ? l->workers + at->number : at->number];
        if (at->process != ls_job_process(job))
            continue;
        end->comm = served->comms[here];
        end->control = status ? NULL : controls[here];
        here++;
    }
    return status;
}

ls_status ls_served_open_ends(ls_stepped *me)
{
    ls_served *served = me->served;
    const size_t total = (size_t)me->shared.total;
    ls_device **devices = calloc(total, sizeof *devices);
    ls_comm **controls = calloc(total, sizeof(ls_comm *));
    ls_status status =
        devices && controls ? LS_OK : ls_fail_memory("step", total * sizeof *devices);
    status = ls_job_agree(me->shared.base.job, status);
    if (!status)
        status = open_comms(me, devices, controls);
    free(devices);
    free(controls);
    for (int m = 0; m < me->shared.total && !status; m++) {
        if (served->ends[m].comm)
            status = ls_lane_open(me, m, "communication",
                                  me->shared.base.job->overlap && m < served->layout.workers,
                                  &served->ends[m].lane);
        if (served->ends[m].control && !status)
            status = open_talk(me, m);
    }
    return status;
}

void ls_served_close_ends(ls_stepped *me)
{
    ls_served *served = me->served;
    for (int m = 0; served && served->ends && m < me->shared.total; m++) {
        ls_served_server *server = &served->servers[m];
        ls_ps_serving_close(&server->serving);
        for (size_t i = 0; i < server->arrival_count; i++)
            ls_device_release(server->shard.replica->device, server->arrivals[i]);
        free(server->arrivals);
        ls_comm_close(served->ends[m].control);
        ls_comm_close(served->ends[m].comm);
    }
}

void ls_served_close(ls_served *served)
{
    if (!served)
        return;
    for (int m = 0; m < served->layout.member_count && served->servers && served->speakers; m++) {
        ls_graph_close(served->servers[m].shard.part.graph);
        free(served->speakers[m].took);
    }
    free(served->ends);
    free(served->comms);
    free(served->speakers);
    free(served->servers);
    ls_ps_layout_close(&served->layout);
    ls_buckets_close(&served->buckets);
    free(served);
}

/* ---- Values ---------------------------------------------------------------------------------- */

ls_status ls_served_load(ls_stepped *me, const float *parameters)
{
    ls_served *served = me->served;
    for (int k = 0; k < served->layout.servers; k++) {
        ls_served_server *server = &served->servers[k];
        if (!server->shard.replica)
            continue;
        LS_TRY(ls_ps_shard_load(&server->shard, parameters));
        ls_ps_serving_load(&server->serving);
    }
    for (int w = 0; w < served->layout.workers; w++) {
        served->speakers[w].newest = 0;
        if (me->shared.members[w].replica)
            LS_TRY(ls_replica_load(me->shared.members[w].replica, parameters));
    }
    return LS_OK;
}

/* Sends every range from its server's process to all. */
static ls_status spread_ranges(const ls_stepped *me, float *parameters)
{
    enum { TAG = 0x7073 };
    const ls_ps_layout *l = &me->served->layout;
    ls_comm *comm = me->shared.base.job->comm;
    for (size_t i = 0; i < l->range_count && comm; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const int from = l->members[l->server_rank[range->server]].process;
        float *data = parameters + range->first;
        const size_t bytes = range->count * sizeof *data;
        if (comm->rank != from)
            LS_TRY(comm->backend->receive(comm, from, TAG, data, bytes));
        for (int to = 0; to < comm->size && comm->rank == from; to++)
            if (to != from)
                LS_TRY(comm->backend->send(comm, to, TAG, data, bytes));
    }
    return LS_OK;
}

/* Gathers the shards' variables, or their averages, in all processes. */
static ls_status bring(ls_stepped *me, ls_status (*take)(const ls_ps_shard *shard, float *values),
                       float *values)
{
    ls_status status = LS_OK;
    for (int k = 0; k < me->served->layout.servers && !status; k++)
        if (me->served->servers[k].shard.replica)
            status = take(&me->served->servers[k].shard, values);
    LS_TRY(ls_comm_agree(me->shared.base.job->comm, status));
    return spread_ranges(me, values);
}

ls_status ls_served_gather(ls_stepped *me, float *parameters)
{
    return bring(me, ls_ps_shard_gather, parameters);
}

/* Evaluates in worker 0's parameters, which it pulls again before its next step. */
static ls_status evaluate_here(const ls_member *chief, const float *values, uint64_t most,
                               ls_evaluation *out)
{
    ls_replica *r = chief->replica;
    LS_TRY(ls_queue_write(r->queue, r->parameters, values, r->elements * sizeof *values));
    return ls_replica_evaluate(r, ls_slice_net(chief->slice[LS_FULL]), most, out);
}

/* Evaluates with the net of worker 0. */
ls_status ls_served_evaluate(ls_stepped *me, uint64_t most, ls_evaluation *out)
{
    const ls_job *job = me->shared.base.job;
    const ls_member *chief = &me->shared.members[0];
    const size_t elements = job->model->graph->variables.elements;
    float *values = malloc((elements + 1) * sizeof *values);
    ls_status status = values ? LS_OK : ls_fail_memory("step", elements * sizeof *values);
    status = ls_comm_agree(job->comm, status);
    if (!status)
        status = bring(me, ls_ps_shard_averages, values);
    *out = (ls_evaluation){.accuracy = -1};
    if (!status && chief->replica)
        status = evaluate_here(chief, values, most, out);
    free(values);
    return ls_stepped_tell(job, status, out);
}
