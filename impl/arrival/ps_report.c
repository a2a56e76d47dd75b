/* SPDX-License-Identifier: MIT */
/* Gathers statistics and logs of servers from all processes; see ps_report.h. */
#include "common/base/grow.h"
#include "common/base/whole_file.h"
#include "impl/arrival/ps_report.h"

#include "impl/ps/served.h"
#include "impl/step/run/run.h"

#include <string.h>

static uint64_t steps_of(const ls_run *run)
{
    const uint64_t *enqueued = ls_step_run_of(run)->counts.enqueued;
    return enqueued[LS_FULL] + enqueued[LS_TAIL];
}

static void join(ls_ps_report *sum, const ls_ps_report *more)
{
    ls_ps_histogram_join(&sum->lead, &more->lead);
    ls_ps_histogram_join(&sum->staleness, &more->staleness);
    sum->dropped += more->dropped;
}

ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out)
{
    const ls_served_server *servers = ls_step_run_of(run)->resources.served->servers;
    const ls_ps_layout *l = &ls_step_run_of(run)->plan.placed;
    ls_comm *comm = run->job->ranks.comm;
    ls_ps_report report = {0};
    ls_auto ls_ps_report *all = NULL;
    for (int k = 0; k < l->servers; k++)
        join(&report, &servers[k].serving.now.seen);
    *out = (ls_ps_report){0};
    LS_TRY(ls_comm_tell(comm, LS_OK, &report, sizeof report, &all));
    for (int p = 0; p < ls_job_processes(run->job); p++)
        join(out, &all[p]);
    if (!ls_ps_by_arrival(&run->job->ps)) {
        /* each shard's gradients of a step are applied together, without lead or staleness */
        uint64_t shards = 0;
        for (int s = 0; s < l->servers; s++)
            shards += l->elements[s] > 0;
        const uint64_t gradients = shards * (uint64_t)l->workers * steps_of(run);
        out->lead.bins[0] = out->lead.count = gradients;
        out->staleness = out->lead;
    }
    return LS_OK;
}

static double busy_share(const ls_time_profile *times)
{
    double all = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        all += (double)times->ns[use];
    const double rest = (double)(times->ns[LS_TIME_WAIT] + times->ns[LS_TIME_IDLE]);
    return all > 0 ? 1 - rest / all : 0;
}

bool ls_ps_report_server(const ls_run *run, size_t index, ls_ps_server *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    const ls_served_server *servers = me->resources.served->servers;
    int k = 0;
    while (k < me->plan.placed.servers && (!servers[k].shard.replica || index-- > 0))
        k++;
    if (k == me->plan.placed.servers)
        return false;
    const ls_replica *shard = servers[k].shard.replica;
    const int member = me->plan.placed.workers + k;
    const ls_comm *comm = me->resources.ends[LS_MESSAGES].items[member].comm;
    *out = (ls_ps_server){.device = ls_device_describe(shard->device)->text,
                          .bytes = shard->elements * sizeof(float),
                          .received = servers[k].received,
                          .busy = busy_share(&me->queues[member].times)};
    if (!ls_comm_is_joint(comm)) {
        const ls_received now = ls_comm_received(comm);
        out->received.bytes += now.bytes;
        out->received.copied += now.copied;
        out->steps = steps_of(run);
    }
    return true;
}

/* ---- The record ------------------------------------------------------------------------------ */

/* How much a server logged; zero in other processes than its own. */
typedef struct logged {
    uint64_t count, lost;
} logged;

/* What all servers logged. */
typedef struct record {
    const logged *logs;        /* [processes, servers] */
    const ls_ps_event *events; /* [processes, most] of each process's servers in order */
    size_t processes, servers, most;
} record;

/* What server `s` logged, if it is in process `p`. */
static void put_log(FILE *stream, const record *r, size_t s, size_t p)
{
    static const char *const kinds[] = {[LS_PS_PULL] = "pull",
                                        [LS_PS_PUSH] = "push",
                                        [LS_PS_EMPTY] = "empty",
                                        [LS_PS_DROP] = "drop"};
    const logged *logs = r->logs + p * r->servers;
    const ls_ps_event *event = r->events + p * r->most;
    for (size_t k = 0; k < s; k++)
        event += logs[k].count;
    for (const ls_ps_event *end = event + logs[s].count; event < end; event++)
        fprintf(stream, "%zu %s %u\n", s, kinds[event->kind], event->worker);
    if (logs[s].lost)
        fprintf(stream, "%zu lost %llu\n", s, (unsigned long long)logs[s].lost);
}

static ls_status put_record(FILE *stream, void *context)
{
    const record *r = context;
    fprintf(stream, "lockstep ps order 1\n");
    for (size_t s = 0; s < r->servers; s++)
        for (size_t p = 0; p < r->processes; p++)
            put_log(stream, r, s, p);
    return LS_OK;
}

ls_status ls_ps_record(const ls_run *run, const char *path, ls_status *unsaved)
{
    const ls_served_server *servers = ls_step_run_of(run)->resources.served->servers;
    const size_t n = (size_t)ls_step_run_of(run)->plan.placed.servers;
    record r = {.processes = (size_t)ls_job_processes(run->job), .servers = n};
    ls_comm *comm = run->job->ranks.comm;
    ls_auto logged *own_logs = NULL;
    ls_auto ls_ps_event *own_events = NULL, *events = NULL;
    ls_status status = ls_allocate("ps", &own_logs, n * (1 + r.processes), sizeof *own_logs);
    logged *all = own_logs ? own_logs + n : NULL;
    for (size_t s = 0; s < n && !status; s++)
        own_logs[s] = (logged){servers[s].serving.log.count, servers[s].serving.log.lost};
    LS_TRY(ls_comm_bring(comm, status, own_logs, n * sizeof *own_logs, all));
    for (size_t p = 0; p < r.processes; p++) {
        size_t count = 0;
        for (size_t s = 0; s < n; s++)
            count += all[p * n + s].count;
        r.most = count > r.most ? count : r.most;
    }
    status = ls_allocate("ps", &own_events, r.most, sizeof *own_events);
    if (!status)
        status = ls_allocate("ps", &events, r.processes * r.most, sizeof *events);
    for (size_t s = 0, at = 0; s < n && !status; at += own_logs[s++].count)
        if (own_logs[s].count)
            memcpy(own_events + at, servers[s].serving.log.events,
                   own_logs[s].count * sizeof *events);
    LS_TRY(ls_comm_bring(comm, status, own_events, r.most * sizeof *events, events));
    r.logs = all;
    r.events = events;
    const bool writes = ls_job_process(run->job) == 0;
    *unsaved = ls_comm_agree(
        comm, writes ? ls_whole_file("option --ps-record", path, put_record, &r) : LS_OK);
    return LS_OK;
}
