/* SPDX-License-Identifier: MIT */
/* Runs with parameter servers: opening, and values of variables; see served.h. */
#include "common/base/grow.h"
#include "impl/step/served.h"

#include <stdlib.h>

/* ---- Opening --------------------------------------------------------------------------------- */

ls_status ls_served_open(ls_resources *r)
{
    const size_t total = (size_t)r->plan->total;
    LS_TRY(ls_allocate("step", &r->served, 1, sizeof *r->served));
    r->served->layout = &r->plan->servers;
    LS_TRY(ls_allocate("step", &r->served->clients, total, sizeof *r->served->clients));
    return ls_allocate("step", &r->served->servers, total, sizeof *r->served->servers);
}

ls_status ls_served_open_server(ls_resources *r, int member)
{
    const ls_ps_layout *layout = &r->plan->servers;
    const int k = member - layout->workers;
    ls_ps_shard *shard = &r->served->servers[k].shard;
    const ls_status status =
        ls_ps_shard_open(r->plan->job, layout, k, ls_step_plan_device(r->plan, member), shard);
    r->members[member].replica = shard->replica;
    return status;
}

ls_status ls_served_open_requests(ls_resources *r, int m)
{
    const ls_job *job = r->plan->job;
    ls_served *served = r->served;
    const ls_end *end = &r->ends[LS_MESSAGES].of[m];
    if (m < r->plan->servers.workers) {
        ls_ps_client *client = &served->clients[m];
        *client = (ls_ps_client){.control = end->control,
                                 .job = job,
                                 .state = r->members[m].replica->state,
                                 .number = m};
        return ls_allocate("step", &client->took, job->records, sizeof *client->took);
    }
    ls_served_server *server = &served->servers[m - r->plan->servers.workers];
    ls_replica *replica = server->shard.replica;
    float *spare = NULL;
    if (job->ps.backups)
        LS_TRY(ls_replica_take(replica, "arrivals", LS_MEMORY_COMMUNICATION,
                               replica->elements * sizeof *spare, &spare));
    server->serving = (ls_ps_serving){.job = job,
                                      .shard = &server->shard,
                                      .comm = end->comm,
                                      .control = end->control,
                                      .spare = spare};
    return ls_ps_serving_open(&server->serving);
}

void ls_served_close_requests(ls_resources *r)
{
    for (int k = 0; r->served && r->served->servers && k < r->plan->servers.servers; k++)
        ls_ps_serving_close(&r->served->servers[k].serving);
}

void ls_served_close(ls_resources *r)
{
    ls_served *served = r->served;
    if (!served)
        return;
    for (int w = 0; w < r->plan->servers.workers && served->clients; w++)
        free(served->clients[w].took);
    for (int k = 0; k < r->plan->servers.servers && served->servers; k++) {
        ls_graph_part_close(&served->servers[k].shard.part);
        free(served->servers[k].arrivals);
    }
    free(served->servers);
    free(served->clients);
    free(served);
}

/* ---- Values ---------------------------------------------------------------------------------- */

void ls_served_load(ls_resources *r)
{
    ls_served *served = r->served;
    for (int k = 0; k < r->plan->servers.servers; k++)
        ls_ps_serving_load(&served->servers[k].serving);
    for (int w = 0; w < r->plan->servers.workers; w++)
        served->clients[w].newest = 0;
}

ls_status ls_served_gather(ls_resources *r, ls_values values, float *parameters)
{
    const ls_job *job = r->plan->job;
    const ls_ps_layout *l = &r->plan->servers;
    LS_TRY(ls_comm_agree(job->comm,
                         ls_resources_gather(r, l->workers, l->servers, values, parameters)));
    for (size_t i = 0; i < l->range_count && job->comm; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const int from = r->plan->members[l->workers + range->server].process;
        LS_TRY(ls_broadcast(job, from, 0, job->comm->size - 1, parameters + range->first,
                            range->count));
    }
    return LS_OK;
}
