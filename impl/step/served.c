/* SPDX-License-Identifier: MIT */
/* Runs with parameter servers: opening, and values of variables; see served.h. */
#include "common/base/grow.h"
#include "impl/step/served.h"

#include <stdlib.h>

ls_served *ls_served_of(const ls_run *run)
{
    return ((const ls_stepped *)run)->served;
}

/* ---- Opening --------------------------------------------------------------------------------- */

ls_status ls_served_open(ls_stepped *me)
{
    LS_TRY(ls_allocate("step", &me->served, 1, sizeof *me->served));
    ls_served *served = me->served;
    LS_TRY(ls_ps_layout_open(me->base.job, &served->layout));
    me->total = served->layout.workers + served->layout.servers;
    LS_TRY(ls_allocate("step", &served->speakers, (size_t)me->total, sizeof *served->speakers));
    return ls_allocate("step", &served->servers, (size_t)me->total, sizeof *served->servers);
}

ls_status ls_served_open_server(ls_stepped *me, int member)
{
    const ls_job *job = me->base.job;
    ls_served *served = me->served;
    const int k = member - served->layout.workers;
    ls_device *device = ls_ps_seat_of(job, &served->layout, member).device;
    ls_ps_shard *shard = &served->servers[k].shard;
    const ls_status status = ls_ps_shard_open(job, &served->layout, k, device, shard);
    me->members[member].replica = shard->replica;
    return status;
}

ls_status ls_served_open_talk(ls_stepped *me, int m)
{
    const ls_job *job = me->base.job;
    ls_served *served = me->served;
    if (m < served->layout.workers) {
        ls_ps_speaker *speaker = &served->speakers[m];
        *speaker = (ls_ps_speaker){.control = me->ends[m].control,
                                   .job = job,
                                   .state = me->members[m].replica->state,
                                   .number = m};
        return ls_allocate("step", &speaker->took, job->records, sizeof *speaker->took);
    }
    ls_served_server *server = &served->servers[m - served->layout.workers];
    ls_replica *r = server->shard.replica;
    float *spare = NULL;
    if (job->ps.backups)
        LS_TRY(ls_replica_take(r, "arrivals", LS_MEMORY_COMMUNICATION, r->elements * sizeof *spare,
                               &spare));
    server->serving = (ls_ps_serving){.job = job,
                                      .shard = &server->shard,
                                      .comm = me->ends[m].comm,
                                      .control = me->ends[m].control,
                                      .spare = spare};
    return ls_ps_serving_open(&server->serving);
}

void ls_served_close_talk(ls_stepped *me)
{
    for (int k = 0; me->served && me->served->servers && k < me->served->layout.servers; k++)
        ls_ps_serving_close(&me->served->servers[k].serving);
}

void ls_served_close(ls_served *served)
{
    if (!served)
        return;
    for (int w = 0; w < served->layout.workers && served->speakers; w++)
        free(served->speakers[w].took);
    for (int k = 0; k < served->layout.servers && served->servers; k++) {
        ls_graph_part_close(&served->servers[k].shard.part);
        free(served->servers[k].arrivals);
    }
    free(served->servers);
    free(served->speakers);
    ls_ps_layout_close(&served->layout);
    free(served);
}

/* ---- Values ---------------------------------------------------------------------------------- */

void ls_served_load(ls_stepped *me)
{
    ls_served *served = me->served;
    for (int k = 0; k < served->layout.servers; k++)
        ls_ps_serving_load(&served->servers[k].serving);
    for (int w = 0; w < served->layout.workers; w++)
        served->speakers[w].newest = 0;
}

ls_status ls_served_gather(ls_stepped *me, bool averages, float *parameters)
{
    const ls_job *job = me->base.job;
    const ls_ps_layout *l = &me->served->layout;
    LS_TRY(ls_comm_agree(job->comm,
                         ls_members_gather(me, l->workers, l->servers, averages, parameters)));
    for (size_t i = 0; i < l->range_count && job->comm; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const int from = me->members[l->workers + range->server].process;
        LS_TRY(ls_members_tell(me, from, 0, job->comm->size - 1, parameters + range->first,
                               range->count));
    }
    return LS_OK;
}
