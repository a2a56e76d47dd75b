/* SPDX-License-Identifier: MIT */
/* What servers saw, brought together; see ps_report.h. */
#include "impl/ps_report.h"

#include "impl/ps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 0x706c };

/* Synchronous: each gradient of each shard is applied with the others of its step. */
static void all_together(const ls_ps *me, ls_ps_report *out)
{
    uint64_t shards = 0;
    for (int s = 0; s < me->layout.servers; s++)
        shards += me->layout.elements[s] > 0;
    const uint64_t gradients =
        shards * (uint64_t)me->layout.workers * (me->steps[LS_FULL] + me->steps[LS_TAIL]);
    out->lead.bins[0] = out->lead.count = gradients;
    out->staleness = out->lead;
}

ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out)
{
    const ls_ps *me = (const ls_ps *)run;
    ls_comm *comm = run->job->comm;
    const size_t processes = comm ? (size_t)comm->size : 1;
    ls_ps_report mine = {0}, *all = calloc(processes, sizeof *all);
    if (!all)
        return ls_fail_memory("ps", processes * sizeof *all);
    for (int s = 0; s < me->server_count; s++) {
        ls_ps_histogram_join(&mine.lead, &me->servers[s].lead);
        ls_ps_histogram_join(&mine.staleness, &me->servers[s].staleness);
        mine.dropped += me->servers[s].dropped;
    }
    ls_status status = ls_comm_collect(comm, &mine, sizeof mine, all);
    *out = (ls_ps_report){0};
    for (size_t p = 0; p < processes && !status; p++) {
        ls_ps_histogram_join(&out->lead, &all[p].lead);
        ls_ps_histogram_join(&out->staleness, &all[p].staleness);
        out->dropped += all[p].dropped;
    }
    free(all);
    if (!ls_ps_by_arrival(&run->job->ps)) /* all of a step at once: nobody is ahead */
        all_together(me, out);
    return status;
}

size_t ls_ps_report_servers(const ls_run *run)
{
    return (size_t)((const ls_ps *)run)->server_count;
}

size_t ls_ps_report_bytes(const ls_run *run, size_t index, const ls_device **device)
{
    const ls_replica *shard = ((const ls_ps *)run)->servers[index].replica;
    *device = shard->device;
    return shard->elements * sizeof(float);
}

ls_received ls_ps_report_received(const ls_run *run, size_t index, uint64_t *steps)
{
    const ls_ps *me = (const ls_ps *)run;
    const ls_comm *comm = me->servers[index].comm;
    const bool counted = comm->backend->received != NULL;
    *steps = counted ? me->steps[LS_FULL] + me->steps[LS_TAIL] : 0;
    return counted ? comm->backend->received(comm) : (ls_received){0};
}

double ls_ps_report_busy(const ls_run *run, size_t index)
{
    const ls_time_profile *times = &((const ls_ps *)run)->servers[index].times;
    double all = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        all += (double)times->ns[use];
    const double rest = (double)(times->ns[LS_TIME_WAIT] + times->ns[LS_TIME_IDLE]);
    return all > 0 ? 1 - rest / all : 0;
}

/* ---- Logs ----------------------------------------------------------------------------------- */

static ls_status copy_log(const ls_ps_log *from, ls_ps_log *to)
{
    LS_TRY(ls_ps_log_open(from->count, to));
    memcpy(to->events, from->events, from->count * sizeof *to->events);
    to->count = from->count;
    to->lost = from->lost;
    return LS_OK;
}

static ls_status send_log(ls_comm *comm, const ls_ps_log *log)
{
    const uint64_t sizes[] = {log->count, log->lost};
    LS_TRY(comm->backend->send(comm, 0, TAG, sizes, sizeof sizes));
    return comm->backend->send(comm, 0, TAG, log->events, log->count * sizeof *log->events);
}

static ls_status receive_log(ls_comm *comm, int from, ls_ps_log *log)
{
    uint64_t sizes[2];
    LS_TRY(comm->backend->receive(comm, from, TAG, sizes, sizeof sizes));
    LS_TRY(ls_ps_log_open(sizes[0], log));
    log->count = sizes[0];
    log->lost = sizes[1];
    return comm->backend->receive(comm, from, TAG, log->events, log->count * sizeof *log->events);
}

/* The server of this process with that number; NULL: elsewhere. */
static const ls_ps_server *server_here(const ls_ps *me, int number)
{
    for (int s = 0; s < me->server_count; s++)
        if (me->servers[s].place->number == number)
            return &me->servers[s];
    return NULL;
}

static ls_status bring_log(const ls_ps *me, int number, ls_ps_log *log)
{
    ls_comm *comm = me->base.job->comm;
    const ls_ps_server *here = server_here(me, number);
    const int from = me->layout.members[me->layout.server_rank[number]].process;
    if (ls_ps_process(me->base.job) > 0)
        return here ? send_log(comm, &here->log) : LS_OK;
    return here ? copy_log(&here->log, log) : receive_log(comm, from, log);
}

ls_status ls_ps_report_logs(const ls_run *run, ls_ps_log **logs, int *servers)
{
    const ls_ps *me = (const ls_ps *)run;
    *servers = me->layout.servers;
    *logs = calloc((size_t)*servers, sizeof **logs);
    if (!*logs)
        return ls_fail_memory("ps", (size_t)*servers * sizeof **logs);
    for (int s = 0; s < *servers; s++)
        LS_TRY(bring_log(me, s, &(*logs)[s]));
    return LS_OK;
}

void ls_ps_report_free(ls_ps_log *logs, int servers)
{
    for (int s = 0; logs && s < servers; s++)
        ls_ps_log_close(&logs[s]);
    free(logs);
}

ls_status ls_ps_logs_write(const ls_ps_log *logs, int servers, const char *path)
{
    static const char *const kinds[] = {[LS_PS_PULL] = "pull",
                                        [LS_PS_PUSH] = "push",
                                        [LS_PS_EMPTY] = "empty",
                                        [LS_PS_DROP] = "drop"};
    FILE *file = fopen(path, "w");
    if (!file)
        return ls_fail(LS_CODE_MISSING, "ps-record", path, "%s; a file that can be written works",
                       strerror(errno));
    fprintf(file, "lockstep ps order 1\n");
    for (int s = 0; s < servers; s++) {
        for (size_t i = 0; i < logs[s].count; i++)
            fprintf(file, "%d %s %u\n", s, kinds[logs[s].events[i].kind], logs[s].events[i].worker);
        if (logs[s].lost)
            fprintf(file, "%d lost %zu\n", s, logs[s].lost);
    }
    const bool bad = ferror(file) != 0;
    if (fclose(file) == 0 && !bad)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "ps-record", path, "%s; is the disk full?", strerror(errno));
}
