/* SPDX-License-Identifier: MIT */
/* Replicas and communicators of this process: opening, values, memory, closing; see resources.h. */
#include "impl/ps/served.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* ---- Members --------------------------------------------------------------------------------- */

/* Opens a part of a replica, a shadow, or a holder that is not a replica. */
static ls_status open_member(ls_resources *r, int index)
{
    const ls_step_plan *plan = r->plan;
    const ls_planned_member *planned = &plan->members[index];
    const ls_job *job = plan->job;
    const ls_planned_group *group = ls_step_planned_group(plan, planned->place);
    const bool shadow = index >= plan->total;
    const int d = planned->replica;
    ls_member *m = &r->members[index];
    const ls_replica *holder = shadow ? r->members[plan->holder].replica : NULL;
    const ls_replica like = {
        .job = job,
        .device = ls_step_plan_device(plan, index),
        .number = shadow ? index - plan->total : index,
        .data.rows = d >= 0 ? job->batch : 0,
        .loss = {.sums = d >= 0 ? ls_replicated_sums(job, d) : 1,
                 .decays = ls_served_decay(plan, d)},
        .part = ls_step_plan_part(plan, index),
        .updated = {.shares = {.buckets = ls_step_plan_shares(plan) ? &group->buckets : NULL,
                               .share = ls_step_plan_share(plan, index),
                               .count = ls_step_plan_sharers(plan)},
                    .owns = plan->strategy->owns},
        .windows = {.parameters = group->windows.buckets ? &group->windows : NULL,
                    .gradients = group->gradient_windows.buckets ? &group->gradient_windows : NULL},
        .repeats = ls_step_plan_repeats(plan, planned->place),
        .updates = ls_step_plan_updates(plan, index) && !shadow,
        .parameters = shadow ? holder->parameters : NULL,
        .state = shadow ? holder->state : NULL};
    LS_TRY(ls_replica_open(&like, &m->replica));
    return d >= 0 ? ls_replicated_open_slices(job, d, planned->slots, m) : LS_OK;
}

/* Opens the communicator for sums of batch statistics. */
static ls_status open_statistics(ls_resources *r)
{
    const ls_job *job = r->plan->job;
    const int devices = (int)job->device_count, first = ls_job_member(job, 0);
    if (!ls_replicated_syncs(job) || r->plan->mesh.replicas == 1)
        return LS_OK;
    LS_TRY(ls_comm_agree(job->ranks.comm, ls_allocate("replicas", &r->statistics_comms,
                                                      job->device_count, sizeof(ls_comm *))));
    LS_TRY(ls_comm_open(ls_comm_backend_auto(job->ranks.comm, LS_DEVICE_CPU), job->ranks.comm,
                        job->devices, devices, r->statistics_comms));
    for (int i = 0; i < devices; i++)
        r->members[first + i].statistics_comm = r->statistics_comms[i];
    return LS_OK;
}

static ls_status open_members(ls_resources *r)
{
    const ls_step_plan *plan = r->plan;
    LS_TRY(open_statistics(r));
    for (int i = 0; i < plan->local.count; i++)
        LS_TRY(plan->placed.elements && ls_step_plan_updates(plan, plan->local.items[i])
                   ? ls_served_open_server(r, plan->local.items[i])
                   : open_member(r, plan->local.items[i]));
    for (int m = plan->total; m < plan->all; m++)
        if (plan->members[m].device >= 0)
            LS_TRY(open_member(r, m));
    return LS_OK;
}

/* ---- Communicators --------------------------------------------------------------------------- */

ls_status ls_connect(ls_resources *r, const int *members, int count, ls_counting counting,
                     ls_comm **comms)
{
    const ls_job *job = r->plan->job;
    ls_auto ls_device **devices = NULL;
    ls_status status = ls_allocate("step", &devices, (size_t)count, sizeof(ls_device *));
    for (int i = 0; i < count && !status; i++) {
        devices[i] = ls_step_plan_device(r->plan, members[i]);
        status = ls_grow("step", &r->connections, r->connection_count + (size_t)i,
                         sizeof *r->connections);
    }
    status = ls_comm_agree(job->ranks.comm, status);
    if (!status)
        status = ls_comm_open(job->exchange.transport, job->ranks.comm, devices, count, comms);
    for (int i = 0; i < count && !status; i++)
        r->connections[r->connection_count++] =
            (ls_connection){comms[i], members[i], r->communicators, counting == LS_COUNTED};
    r->communicators++;
    return status;
}

int ls_connection_number(const ls_resources *r, const ls_comm *comm)
{
    for (size_t i = 0; i < r->connection_count; i++)
        if (r->connections[i].comm == comm)
            return r->connections[i].number;
    return r->communicators;
}

void ls_resources_abandon(const ls_resources *r)
{
    const ls_job *job = r->plan->job;
    if (ls_device_stalls(job->devices[0]))
        return; /* the process ends, and waiting ranks report it */
    for (size_t i = 0; i < r->connection_count; i++)
        r->connections[i].comm->backend->abandon(r->connections[i].comm);
    for (size_t i = 0; r->statistics_comms && i < job->device_count; i++)
        if (r->statistics_comms[i])
            r->statistics_comms[i]->backend->abandon(r->statistics_comms[i]);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static ls_status prepare(ls_resources *r)
{
    const ls_lanes *lanes = &r->plan->lanes;
    const ls_graph_parts *parts = &r->plan->parts;
    const size_t total = (size_t)r->plan->total, replicas = (size_t)r->plan->mesh.replicas;
    LS_TRY(ls_allocate("replicas", &r->members, (size_t)r->plan->all, sizeof *r->members));
    LS_TRY(ls_allocate("replicas", &r->ends, (size_t)lanes->channel_count, sizeof *r->ends));
    for (int c = 0; c < lanes->channel_count; c++) {
        LS_TRY(ls_allocate("replicas", &r->ends[c].items, total, sizeof *r->ends[c].items));
        LS_TRY(ls_allocate("replicas", &r->ends[c].comms, total + 1, sizeof(ls_comm *)));
    }
    LS_TRY(ls_allocate("placement", &r->arrived, replicas * parts->copy_count, sizeof(void *)));
    LS_TRY(ls_allocate("placement", &r->landings, replicas * parts->border_count,
                       sizeof *r->landings));
    return ls_served_open(r);
}

ls_status ls_resources_open(const ls_step_plan *plan, ls_resources *r)
{
    ls_comm *all = plan->job->ranks.comm;
    *r = (ls_resources){.plan = plan};
    LS_TRY(ls_comm_agree(all, prepare(r)));
    LS_TRY(ls_comm_agree(all, open_members(r)));
    return ls_channels_open(r);
}

void ls_resources_disconnect(ls_resources *r)
{
    ls_served_close_requests(r);
    while (r->connection_count)
        ls_comm_close(r->connections[--r->connection_count].comm);
}

void ls_resources_close(ls_resources *r)
{
    for (int m = r->members ? r->plan->all : 0; m-- > 0;) { /* shadows share members' memory */
        for (int b = LS_BATCHES; b-- > 0;)
            ls_slice_close(r->members[m].slice[b]);
        ls_replica_close(r->members[m].replica);
    }
    for (size_t i = 0; r->statistics_comms && i < r->plan->job->device_count; i++)
        ls_comm_close(r->statistics_comms[i]);
    for (int c = 0; r->ends && c < r->plan->lanes.channel_count; c++) {
        free(r->ends[c].items);
        free(r->ends[c].comms);
    }
    ls_served_close(r);
    free(r->statistics_comms);
    free(r->ends);
    free(r->connections);
    free(r->arrived);
    free(r->landings);
    free(r->members);
}

/* ---- Memory and values ----------------------------------------------------------------------- */

void ls_resources_memory(const ls_resources *r, int member, ls_memory_formula *formula)
{
    const ls_member *m = &r->members[member];
    for (size_t i = 0; i < m->replica->buffer_count; i++)
        formula->bytes[ls_memory_use_of(m->replica->buffers[i].use)] +=
            m->replica->buffers[i].bytes;
    formula->bytes[LS_MEMORY_WORKSPACE] += ls_scratch_bytes(&m->replica->kernels->scratch);
    for (int b = 0; b < LS_BATCHES; b++)
        if (m->slice[b])
            ls_slice_memory(m->slice[b], formula);
    for (size_t i = 0; i < r->connection_count; i++) {
        const ls_comm *comm = r->connections[i].comm;
        if (r->connections[i].member == member && comm->backend->memory)
            formula->bytes[LS_MEMORY_COMMUNICATION] += comm->backend->memory(comm);
    }
}

ls_status ls_resources_load(const ls_resources *r, const ls_state_source *source)
{
    ls_auto ls_replica **replicas = NULL;
    int count = 0;
    LS_TRY(ls_allocate("step", &replicas, (size_t)r->plan->total, sizeof *replicas));
    for (int m = 0; m < r->plan->total; m++)
        if (r->members[m].replica)
            replicas[count++] = r->members[m].replica;
    return ls_replicas_load(replicas, count, source);
}

ls_status ls_resources_gather(const ls_resources *r, ls_range members, ls_values values,
                              ls_range block, float *out)
{
    for (size_t m = members.first; m < members.first + members.count; m++)
        if (r->members[m].replica)
            LS_TRY(ls_replica_gather(r->members[m].replica, values, block, out));
    return LS_OK;
}

ls_status ls_broadcast(const ls_job *job, int from, int first, int last, float *values,
                       size_t count)
{
    enum { TAG = 0x7073 };
    ls_comm *comm = job->ranks.comm;
    if (comm->rank != from)
        return comm->backend->receive(comm, from, TAG, values, count * sizeof *values);
    for (int to = first; to <= last; to++)
        if (to != from)
            LS_TRY(comm->backend->send(comm, to, TAG, values, count * sizeof *values));
    return LS_OK;
}
