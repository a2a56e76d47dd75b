/* SPDX-License-Identifier: MIT */
/* Runs with parameter servers: opening and closing; see served.h. */
#include "common/base/grow.h"
#include "impl/ps/served.h"

#include <stdlib.h>

ls_decay_loss ls_served_decay(const ls_step_plan *plan, int replica)
{
    if (!plan->placed.servers)
        return LS_DECAY_UPDATES;
    return replica == 0 || plan->job->ps.backups ? LS_DECAY_HERE : LS_DECAY_ELSEWHERE;
}

ls_status ls_served_open(ls_resources *r)
{
    const size_t total = (size_t)r->plan->total;
    if (!r->plan->placed.servers)
        return LS_OK;
    LS_TRY(ls_allocate("step", &r->served, 1, sizeof *r->served));
    r->served->layout = &r->plan->placed;
    LS_TRY(ls_allocate("step", &r->served->clients, total, sizeof *r->served->clients));
    return ls_allocate("step", &r->served->servers, total, sizeof *r->served->servers);
}

ls_status ls_served_open_server(ls_resources *r, int member)
{
    const ls_ps_layout *layout = &r->plan->placed;
    const int k = member - layout->workers;
    ls_ps_shard *shard = &r->served->servers[k].shard;
    const ls_status status =
        ls_ps_shard_open(r->plan->job, layout, k, ls_step_plan_device(r->plan, member), shard);
    r->members[member].replica = shard->replica;
    return status;
}

void ls_served_close(ls_resources *r)
{
    ls_served *served = r->served;
    if (!served)
        return;
    for (int w = 0; w < r->plan->placed.workers && served->clients; w++)
        free(served->clients[w].took);
    for (int k = 0; k < r->plan->placed.servers && served->servers; k++) {
        ls_graph_part_close(&served->servers[k].shard.part);
        free(served->servers[k].arrivals);
    }
    free(served->servers);
    free(served->clients);
    free(served);
}
