/* SPDX-License-Identifier: MIT */
/* Runs with parameter servers: members, their communicators, and values; see served.h. */
#include "impl/step/served.h"

#include <stdlib.h>

ls_served *ls_served_of(const ls_run *run)
{
    return ((const ls_stepped *)run)->served;
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
    served->first = served->server_count ? served->first : k;
    ls_ps_shard *shard = &served->servers[served->server_count++].shard;
    const ls_status status = ls_ps_shard_open(job, &served->layout, k, device, shard);
    member->replica = shard->replica;
    return status;
}

static ls_status open_member(ls_stepped *me, const ls_job *job, int m)
{
    ls_served *served = me->served;
    const int workers = served->layout.workers;
    ls_member *member = &me->members[m];
    me->process[m] = ls_ps_process(job, &served->layout, m);
    if (me->process[m] != ls_job_process(job))
        return LS_OK;
    served->here[served->here_count++] = m;
    ls_device *device = ls_ps_device(job, &served->layout, m);
    return m < workers ? open_worker(job, m, device, member)
                       : open_server(served, job, m - workers, device, member);
}

ls_status ls_served_open(ls_stepped *me, const ls_job *job)
{
    const ls_graph *graph = job->model->graph;
    ls_served *served = me->served = calloc(1, sizeof *served);
    if (!served)
        return ls_fail_memory("step", sizeof *served);
    LS_TRY(ls_buckets_open(graph, graph->variables.elements, job->bucket_bytes, &served->buckets));
    LS_TRY(ls_ps_layout_open(job, &served->buckets, &served->layout));
    const size_t total = (size_t)(served->layout.workers + served->layout.servers);
    me->members = calloc(total, sizeof *me->members);
    me->process = calloc(total, sizeof *me->process);
    served->ends = calloc(total, sizeof *served->ends);
    served->here = calloc(total, sizeof *served->here);
    served->comms = calloc(2 * total, sizeof(ls_comm *));
    served->speakers = calloc(total, sizeof *served->speakers);
    served->servers = calloc((size_t)served->layout.servers, sizeof *served->servers);
    if (!me->members || !me->process || !served->ends || !served->here || !served->comms ||
        !served->speakers || !served->servers)
        return ls_fail_memory("step", total * sizeof *served->speakers);
    served->controls = served->comms + total;
    me->count = served->layout.workers;
    me->total = me->all = (int)total;
    me->places = 1;
    for (int m = 0; m < me->total; m++)
        served->here[ls_ps_rank(job, &served->layout, m)] = m;
    for (int rank = 0; rank < me->total; rank++)
        LS_TRY(open_member(me, job, served->here[rank]));
    return LS_OK;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Opens the communicator of requests, between workers and servers that serve by arrival. */
static ls_status open_talk(ls_stepped *me, int m)
{
    const ls_job *job = me->base.job;
    ls_served *served = me->served;
    const int workers = served->layout.workers;
    if (m < workers) {
        ls_ps_speaker *speaker = &served->speakers[m];
        *speaker = (ls_ps_speaker){.control = served->ends[m].control,
                                   .job = job,
                                   .state = me->members[m].replica->state,
                                   .number = m,
                                   .took = calloc(job->records, sizeof *speaker->took)};
        return speaker->took ? LS_OK : ls_fail_memory("step", job->records);
    }
    ls_served_server *server = &served->servers[m - workers - served->first];
    const ls_replica *r = server->shard.replica;
    void *spare = NULL;
    if (job->ps.backups)
        LS_TRY(ls_held_take(me, m, "arrivals", r->elements * sizeof(float), &spare));
    server->serving = (ls_ps_serving){.job = job,
                                      .shard = &server->shard,
                                      .comm = served->ends[m].comm,
                                      .control = served->ends[m].control,
                                      .spare = spare};
    return ls_ps_serving_open(&server->serving);
}

ls_status ls_served_open_ends(ls_stepped *me)
{
    const ls_job *job = me->base.job;
    ls_served *served = me->served;
    LS_TRY(ls_held_connect(me, served->here, served->here_count, true, served->comms));
    if (ls_ps_by_arrival(&job->ps)) {
        if (!served->comms[0]->backend->receive_any)
            return ls_ps_refuse_arrival(served->comms[0]->backend->name);
        LS_TRY(ls_held_connect(me, served->here, served->here_count, false, served->controls));
    }
    for (int i = 0; i < served->here_count; i++) {
        const int m = served->here[i];
        ls_served_end *end = &served->ends[m];
        end->comm = served->comms[i];
        end->control = served->controls[i];
        LS_TRY(ls_lane_open(me, m, "communication", job->overlap && m < served->layout.workers,
                            &end->lane));
        if (end->control)
            LS_TRY(open_talk(me, m));
    }
    return LS_OK;
}

void ls_served_close_ends(ls_stepped *me)
{
    for (int k = 0; me->served && k < me->served->server_count; k++)
        ls_ps_serving_close(&me->served->servers[k].serving);
}

void ls_served_close(ls_served *served)
{
    if (!served)
        return;
    for (int w = 0; w < served->layout.workers && served->speakers; w++)
        free(served->speakers[w].took);
    for (int k = 0; k < served->server_count; k++) {
        ls_graph_close(served->servers[k].shard.part.graph);
        free(served->servers[k].arrivals);
    }
    free(served->servers);
    free(served->ends);
    free(served->here);
    free(served->comms);
    free(served->speakers);
    ls_ps_layout_close(&served->layout);
    ls_buckets_close(&served->buckets);
    free(served);
}

/* ---- Values ---------------------------------------------------------------------------------- */

ls_status ls_served_load(ls_stepped *me, const float *parameters)
{
    ls_served *served = me->served;
    for (int k = 0; k < served->server_count; k++) {
        LS_TRY(ls_ps_shard_load(&served->servers[k].shard, parameters));
        ls_ps_serving_load(&served->servers[k].serving);
    }
    for (int w = 0; w < served->layout.workers; w++) {
        served->speakers[w].newest = 0;
        if (me->members[w].replica)
            LS_TRY(ls_replica_load(me->members[w].replica, parameters));
    }
    return LS_OK;
}

/* Sends every range from its server's process to all. */
static ls_status spread_ranges(const ls_stepped *me, float *parameters)
{
    enum { TAG = 0x7073 };
    const ls_ps_layout *l = &me->served->layout;
    ls_comm *comm = me->base.job->comm;
    for (size_t i = 0; i < l->range_count && comm; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const int from = ls_ps_process(me->base.job, l, l->workers + range->server);
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
    for (int k = 0; k < me->served->server_count && !status; k++)
        status = take(&me->served->servers[k].shard, values);
    LS_TRY(ls_comm_agree(me->base.job->comm, status));
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
    return ls_replica_evaluate(r, ls_slice_piece_net(chief->slice[LS_FULL], 0), most, out);
}

/* Evaluates with the net of worker 0. */
ls_status ls_served_evaluate(ls_stepped *me, uint64_t most, ls_evaluation *out)
{
    const ls_job *job = me->base.job;
    const ls_member *chief = &me->members[0];
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
