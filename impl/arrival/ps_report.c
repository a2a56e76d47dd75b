/* SPDX-License-Identifier: MIT */
/* Gathers statistics and logs of servers from all processes; see ps_report.h. */
#include "common/base/grow.h"
#include "common/base/whole_file.h"
#include "impl/arrival/ps_report.h"

#include "impl/step/run/run.h"
#include "impl/ps/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 0x706c };

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
    const ls_served *me = ls_step_run_of(run)->resources.served;
    ls_comm *comm = run->job->ranks.comm;
    const size_t processes = (size_t)ls_job_processes(run->job);
    ls_ps_report report = {0}, *all;
    ls_status status = ls_allocate("ps", &all, processes, sizeof *all);
    for (int k = 0; k < me->layout->servers; k++)
        join(&report, &me->servers[k].serving.now.seen);
    status = ls_comm_bring(comm, status, &report, sizeof report, all);
    *out = (ls_ps_report){0};
    for (size_t p = 0; p < processes && !status; p++)
        join(out, &all[p]);
    free(all);
    if (!ls_ps_by_arrival(&run->job->ps)) {
        /* each shard's gradients of a step are applied together, without lead or staleness */
        const ls_ps_layout *l = &ls_step_run_of(run)->plan.placed;
        uint64_t shards = 0;
        for (int s = 0; s < l->servers; s++)
            shards += l->elements[s] > 0;
        const uint64_t gradients = shards * (uint64_t)l->workers * steps_of(run);
        out->lead.bins[0] = out->lead.count = gradients;
        out->staleness = out->lead;
    }
    return status;
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
    const ls_served *me = ls_step_run_of(run)->resources.served;
    int k = 0;
    while (k < me->layout->servers && (!me->servers[k].shard.replica || index-- > 0))
        k++;
    if (k == me->layout->servers)
        return false;
    const ls_replica *shard = me->servers[k].shard.replica;
    const int member = me->layout->workers + k;
    const ls_comm *comm = ls_step_run_of(run)->resources.ends[LS_MESSAGES].items[member].comm;
    *out = (ls_ps_server){.device = ls_device_describe(shard->device)->text,
                          .bytes = shard->elements * sizeof(float),
                          .received = me->servers[k].received,
                          .busy = busy_share(&ls_step_run_of(run)->queues[member].times)};
    if (!ls_comm_is_joint(comm)) {
        const ls_received now = ls_comm_received(comm);
        out->received.bytes += now.bytes;
        out->received.copied += now.copied;
        out->steps = steps_of(run);
    }
    return true;
}

/* ---- The record -------------------------------------------------------------------------------
 */

/* Size of a server's log. */
typedef struct log_size {
    uint64_t count, lost;
} log_size;

/* All that servers logged, as text. */
typedef struct record {
    char *text;
    size_t size;
    FILE *stream;
} record;

static ls_status put_record(FILE *stream, void *context)
{
    const record *r = context;
    fwrite(r->text, 1, r->size, stream);
    return LS_OK;
}

/* Server k is in process k, or all are in one process. Process 0 allocates memory before any
 * process sends: a message not received would later be received as another. */
static ls_status write_logs(const ls_served *me, FILE *file, ls_comm *comm, const log_size *sizes,
                            ls_ps_event *room)
{
    for (int s = 0; s < me->layout->servers; s++) {
        const bool is_local = me->servers[s].shard.replica;
        const ls_ps_event *events = is_local ? me->servers[s].serving.log.events : room;
        const size_t bytes = sizes[s].count * sizeof *room;
        if (is_local && comm && s)
            LS_TRY(comm->backend->send(comm, 0, TAG, events, bytes));
        if (!file)
            continue;
        if (!is_local)
            LS_TRY(comm->backend->receive(comm, s, TAG, room, bytes));
        static const char *const kinds[] = {[LS_PS_PULL] = "pull",
                                            [LS_PS_PUSH] = "push",
                                            [LS_PS_EMPTY] = "empty",
                                            [LS_PS_DROP] = "drop"};
        for (size_t i = 0; i < sizes[s].count; i++)
            fprintf(file, "%d %s %u\n", s, kinds[events[i].kind], events[i].worker);
        if (sizes[s].lost)
            fprintf(file, "%d lost %llu\n", s, (unsigned long long)sizes[s].lost);
    }
    return LS_OK;
}

static ls_status write_record(const ls_served *me, ls_comm *comm, const log_size *sizes, record *r)
{
    const int servers = me->layout->servers;
    ls_ps_event *room = NULL;
    uint64_t most = 0;
    for (int s = 0; s < servers; s++)
        most = sizes[s].count > most ? sizes[s].count : most;
    ls_status status = LS_OK;
    if (!comm || comm->rank == 0) {
        status = ls_allocate("ps", &room, most, sizeof *room);
        r->stream = open_memstream(&r->text, &r->size);
        if (!status && !r->stream)
            status = ls_fail_memory("ps", 0);
    }
    status = ls_comm_agree(comm, status);
    if (!status && r->stream)
        fprintf(r->stream, "lockstep ps order 1\n");
    if (!status)
        status = write_logs(me, r->stream, comm, sizes, room);
    free(room);
    if (r->stream && fclose(r->stream) && !status)
        status = ls_fail_memory("ps", r->size);
    return status;
}

ls_status ls_ps_record(const ls_run *run, const char *path, ls_status *unsaved)
{
    const ls_served *me = ls_step_run_of(run)->resources.served;
    ls_comm *comm = run->job->ranks.comm;
    const size_t n = (size_t)me->layout->servers, processes = (size_t)ls_job_processes(run->job);
    log_size *own_logs;
    record r = {0};
    ls_status status = ls_allocate("ps", &own_logs, n * (1 + processes), sizeof *own_logs);
    log_size *all = own_logs ? own_logs + n : NULL;
    for (size_t s = 0; s < n && !status; s++)
        own_logs[s] = (log_size){me->servers[s].serving.log.count, me->servers[s].serving.log.lost};
    status = ls_comm_bring(comm, status, own_logs, n * sizeof *own_logs, all);
    for (size_t s = 0; s < n && !status; s++)
        own_logs[s] = all[(comm ? s : 0) * n + s];
    if (!status)
        status = ls_comm_agree(comm, write_record(me, comm, own_logs, &r));
    if (!status)
        *unsaved = ls_comm_agree(
            comm, r.text ? ls_whole_file("option --ps-record", path, put_record, &r) : LS_OK);
    free(r.text);
    free(own_logs);
    return status;
}
