/* SPDX-License-Identifier: MIT */
/* Shards of servers, and runs with servers: opening and closing; see served.h. */
#include "common/base/grow.h"
#include "impl/ps/served.h"

#include <stdlib.h>

/* ---- Shards --------------------------------------------------------------------------------- */

/* Adds the parts of variables in a range to a graph without layers. */
static ls_status add_variables(const ls_variables *whole, ls_range range, ls_graph_part *part)
{
    ls_variables *variables = &part->graph->variables;
    for (size_t i = 0; i < whole->count; i++) {
        ls_variable v = whole->items[i];
        const ls_range both = ls_range_common((ls_range){v.offset, v.count}, range);
        if (!both.count)
            continue;
        v.rank = 1;
        v.shape[0] = (int64_t)both.count;
        LS_TRY(ls_grow("ps", &part->whole, variables->count, sizeof *part->whole));
        part->whole[variables->count] = both.first;
        LS_TRY(ls_variables_add(variables, &v));
    }
    return LS_OK;
}

ls_status ls_ps_shard_open(const ls_job *job, const ls_ps_layout *layout, int server,
                           ls_device *device, ls_ps_shard *s)
{
    ls_range range;
    s->layout = layout;
    s->server = server;
    LS_TRY(ls_graph_open(&s->part.graph));
    for (size_t i = 0; ls_ps_layout_range(layout, server, i, &range); i++)
        LS_TRY(add_variables(&job->model->graph->variables, range, &s->part));
    s->part.owned = s->part.graph->variables.elements;
    return ls_replica_open(&(ls_replica){.job = job,
                                         .device = device,
                                         .number = -1,
                                         .part = &s->part,
                                         .updates = true,
                                         .loss = {.sums = 1, .decays = LS_DECAY_ELSEWHERE}},
                           &s->replica);
}

void ls_ps_shard_close(ls_ps_shard *s)
{
    ls_replica_close(s->replica);
    ls_graph_part_close(&s->part);
}

ls_status ls_ps_shard_apply(const ls_ps_shard *s, ls_op_list *ops)
{
    if (s->replica->elements)
        LS_TRY(ls_replica_update(s->replica, (ls_range){0, s->replica->elements}, LS_DECAY_TO_ADD,
                                 ops));
    return ls_replica_finish(s->replica, s->replica->job->batch, ops);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

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
    LS_TRY(ls_allocate("step", &r->served->clients, total, sizeof(ls_ps_client *)));
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
        free(served->clients[w]);
    for (int k = 0; k < r->plan->placed.servers && served->servers; k++) {
        ls_graph_part_close(&served->servers[k].shard.part);
        free(served->servers[k].arrivals);
    }
    free(served->servers);
    free(served->clients);
    free(served);
}
