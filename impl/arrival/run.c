/* SPDX-License-Identifier: MIT */
/*
 * Runs with parameter servers: the functions of a run that differ from other runs'
 * (ls_run_of_steps). Servers may serve requests as they arrive (serve.h); then steps end, and have
 * losses, in their own way.
 */
#include "common/base/grow.h"
#include "impl/carried.h"
#include "impl/ps/served.h"
#include "impl/step/run/run.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static ls_status open_requests_of(ls_resources *r, int m, ls_comm *control)
{
    const ls_job *job = r->plan->job;
    ls_served *served = r->served;
    if (m < r->plan->placed.workers) {
        ls_ps_client *client;
        LS_TRY(ls_allocate("step", &client, 1, sizeof *client + job->records * sizeof(bool)));
        served->clients[m] = client;
        client->control = control;
        client->job = job;
        client->state = r->members[m].replica->state;
        client->number = m;
        return LS_OK;
    }
    ls_served_server *server = &served->servers[m - r->plan->placed.workers];
    ls_replica *replica = server->shard.replica;
    float *spare = NULL;
    if (job->ps.backups)
        LS_TRY(ls_replica_take(replica, "arrivals", LS_MEMORY_COMMUNICATION,
                               replica->elements * sizeof *spare, &spare));
    server->serving = (ls_ps_serving){.job = job,
                                      .shard = &server->shard,
                                      .comm = r->ends[LS_MESSAGES].items[m].comm,
                                      .control = control,
                                      .spare = spare};
    return ls_ps_serving_open(&server->serving);
}

ls_status ls_served_open_requests(ls_resources *r)
{
    enum { MOST = 2 * LS_JOB_REPLICAS };
    const int *local = r->plan->local.items, count = r->plan->local.count;
    ls_comm *controls[MOST] = {0};
    if (!ls_ps_by_arrival(&r->plan->job->ps))
        return LS_OK;
    const ls_comm_backend *backend = r->ends[LS_MESSAGES].comms[0]->backend;
    if (!backend->receive_any)
        return ls_ps_refuse_arrival(backend->name);
    LS_TRY(ls_connect(r, local, count, LS_UNCOUNTED, controls));
    for (int i = 0; i < count; i++)
        LS_TRY(open_requests_of(r, local[i], controls[i]));
    return LS_OK;
}

void ls_served_close_requests(ls_resources *r)
{
    ls_served_server *servers = r->served ? r->served->servers : NULL;
    for (int k = 0; servers && k < r->plan->placed.servers; k++)
        ls_ps_serving_close(&servers[k].serving);
}

ls_status ls_served_names(const ls_resources *r, ls_names *names)
{
    for (int w = 0; w < r->plan->placed.workers; w++) {
        const uintptr_t begin = (uintptr_t)r->served->clients[w];
        const size_t bytes = sizeof(ls_ps_client) + r->plan->job->records * sizeof(bool);
        if (begin)
            LS_TRY(ls_names_add(names, (ls_name){begin, begin + bytes, "lateness", w, 0}));
    }
    return LS_OK;
}

/* ---- The run --------------------------------------------------------------------------------- */

static ls_status load(ls_run *run, const ls_state_source *source)
{
    const ls_ps_layout *layout = &ls_step_run_of(run)->plan.placed;
    ls_served *served = ls_step_run_of(run)->resources.served;
    for (int k = 0; k < layout->servers; k++)
        ls_ps_serving_load(&served->servers[k].serving);
    for (int w = 0; w < layout->workers; w++)
        if (served->clients[w])
            served->clients[w]->newest = 0;
    return ls_run_of_steps.load(run, source);
}

/* With backup workers the traffic due is the traffic of the served requests. */
static ls_status traffic_of_served(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_step_run *me = ls_step_run_of(run);
    ls_traffic traffic = {0}, due;
    for (int k = 0; k < me->plan.placed.servers; k++)
        ls_traffic_add(&traffic, me->resources.served->servers[k].serving.served, 1);
    LS_TRY(ls_steps_collect(run->job, traffic, &due));
    return ls_steps_traffic(run, &due, sent, formula);
}

/* A server's state of its workers. */
static ls_status keep_serving(ls_ps_serving *s, ls_carried *carried)
{
    LS_TRY(ls_carry_value(carried, s->clocks, (size_t)s->workers * sizeof *s->clocks));
    LS_TRY(ls_carry_value(carried, &s->now, sizeof s->now));
    LS_TRY(ls_carry_value(carried, &s->log.count, sizeof s->log.count));
    LS_TRY(ls_carry_value(carried, &s->log.lost, sizeof s->log.lost));
    LS_TRY(ls_carry_value(carried, s->log.events, s->log.count * sizeof *s->log.events));
    return ls_carry_value(carried, &s->served, sizeof s->served);
}

/* Includes what the server's end has received so far. */
static ls_status keep_received(ls_served_server *server, const ls_comm *end, ls_carried *carried)
{
    ls_received *before = &server->received, all = *before;
    if (!carried->gives && !ls_comm_is_joint(end)) {
        const ls_received now = ls_comm_received(end);
        all.bytes += now.bytes;
        all.copied += now.copied;
    }
    LS_TRY(ls_carry_value(carried, &all, sizeof all));
    if (carried->gives)
        *before = all;
    return LS_OK;
}

static ls_status keep_served(ls_resources *r, ls_carried *carried)
{
    const ls_ps_layout *layout = &r->plan->placed;
    ls_served *served = r->served;
    for (int k = 0; k < layout->servers; k++) {
        if (!served->servers[k].shard.replica)
            continue;
        LS_TRY(keep_serving(&served->servers[k].serving, carried));
        LS_TRY(keep_received(&served->servers[k],
                             r->ends[LS_MESSAGES].items[layout->workers + k].comm, carried));
    }
    for (int w = 0; w < layout->workers; w++)
        if (served->clients[w])
            LS_TRY(ls_carry_value(carried, &served->clients[w]->newest, sizeof(uint64_t)));
    return LS_OK;
}

static ls_status keep(ls_run *run, ls_carried *carried)
{
    LS_TRY(ls_run_of_steps.keep(run, carried));
    return keep_served(&ls_step_run_of(run)->resources, carried);
}

ls_run_functions ls_arrival_functions(const ls_job *job)
{
    ls_run_functions functions = ls_run_of_steps;
    functions.load = load;
    functions.keep = keep;
    if (ls_ps_by_arrival(&job->ps))
        functions.records = ls_arrival_records;
    if (job->ps.backups)
        functions.traffic = traffic_of_served;
    return functions;
}
