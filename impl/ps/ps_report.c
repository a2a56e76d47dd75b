/* SPDX-License-Identifier: MIT */
/* Gathers what servers saw from all processes; see ps_report.h. */
#include "impl/ps/ps_report.h"

#include "impl/step/served.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAG = 0x706c };

static uint64_t steps_of(const ls_run *run)
{
    const uint64_t *steps = ((const ls_replicated *)run)->steps;
    return steps[LS_FULL] + steps[LS_TAIL];
}

/* Synchronous: each gradient of each shard is applied with the others of its step. */
static void all_together(const ls_run *run, ls_ps_report *out)
{
    const ls_ps_layout *l = &ls_served_of(run)->layout;
    uint64_t shards = 0;
    for (int s = 0; s < l->servers; s++)
        shards += l->elements[s] > 0;
    const uint64_t gradients = shards * (uint64_t)l->workers * steps_of(run);
    out->lead.bins[0] = out->lead.count = gradients;
    out->staleness = out->lead;
}

ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out)
{
    const ls_served *me = ls_served_of(run);
    ls_comm *comm = run->job->comm;
    const size_t processes = comm ? (size_t)comm->size : 1;
    ls_ps_report mine = {0}, *all = calloc(processes, sizeof *all);
    ls_status status = all ? LS_OK : ls_fail_memory("ps", processes * sizeof *all);
    for (int s = 0; s < me->layout.servers; s++) {
        ls_ps_histogram_join(&mine.lead, &me->servers[s].serving.lead);
        ls_ps_histogram_join(&mine.staleness, &me->servers[s].serving.staleness);
        mine.dropped += me->servers[s].serving.dropped;
    }
    status = ls_comm_bring(comm, status, &mine, sizeof mine, all);
    *out = (ls_ps_report){0};
    for (size_t p = 0; p < processes && !status; p++) {
        ls_ps_histogram_join(&out->lead, &all[p].lead);
        ls_ps_histogram_join(&out->staleness, &all[p].staleness);
        out->dropped += all[p].dropped;
    }
    free(all);
    if (!ls_ps_by_arrival(
            &run->job->ps)) /* all gradients of a step count at once: nobody is ahead */
        all_together(run, out);
    return status;
}

size_t ls_ps_report_servers(const ls_run *run)
{
    size_t count = 0;
    while (ls_served_here(ls_served_of(run), count))
        count++;
    return count;
}

static int member_of(const ls_run *run, size_t index)
{
    const ls_served *me = ls_served_of(run);
    return me->layout.workers + ls_served_here(me, index)->shard.server;
}

size_t ls_ps_report_bytes(const ls_run *run, size_t index, const ls_device **device)
{
    const ls_replica *shard = ls_served_here(ls_served_of(run), index)->shard.replica;
    *device = shard->device;
    return shard->elements * sizeof(float);
}

ls_received ls_ps_report_received(const ls_run *run, size_t index, uint64_t *steps)
{
    const ls_comm *comm = ls_served_of(run)->ends[member_of(run, index)].comm;
    const bool counted = comm->backend->received != NULL;
    *steps = counted ? steps_of(run) : 0;
    ls_received all = ls_served_here(ls_served_of(run), index)->received;
    const ls_received now = counted ? comm->backend->received(comm) : (ls_received){0};
    all.bytes += now.bytes;
    all.copied += now.copied;
    return all;
}

double ls_ps_report_busy(const ls_run *run, size_t index)
{
    const ls_time_profile *times = &((const ls_stepped *)run)->lanes[member_of(run, index)].times;
    double all = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        all += (double)times->ns[use];
    const double rest = (double)(times->ns[LS_TIME_WAIT] + times->ns[LS_TIME_IDLE]);
    return all > 0 ? 1 - rest / all : 0;
}

/* ---- The record -------------------------------------------------------------------------------
 */

/* Of a server's log, as its process tells it. */
typedef struct log_size {
    uint64_t count, lost;
} log_size;

static ls_status open_record(const char *path, FILE **out)
{
    *out = fopen(path, "w");
    if (!*out)
        return ls_fail(LS_CODE_MISSING, "ps-record", path, "%s; a file that can be written works",
                       strerror(errno));
    fprintf(*out, "lockstep ps order 1\n");
    return LS_OK;
}

static ls_status close_record(const char *path, FILE *file)
{
    const bool bad = ferror(file) != 0;
    if (fclose(file) == 0 && !bad)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "ps-record", path, "%s; is the disk full?", strerror(errno));
}

static void write_log(FILE *file, int server, const ls_ps_event *events, log_size size)
{
    static const char *const kinds[] = {[LS_PS_PULL] = "pull",
                                        [LS_PS_PUSH] = "push",
                                        [LS_PS_EMPTY] = "empty",
                                        [LS_PS_DROP] = "drop"};
    for (size_t i = 0; i < size.count; i++)
        fprintf(file, "%d %s %u\n", server, kinds[events[i].kind], events[i].worker);
    if (size.lost)
        fprintf(file, "%d lost %llu\n", server, (unsigned long long)size.lost);
}

static int process_of(const ls_served *me, int server)
{
    return me->layout.members[me->layout.server_rank[server]].process;
}

/* Sends one server's log from its process to process 0, which has room for it, and writes it. */
static ls_status bring_log(const ls_served *me, ls_comm *comm, int number, log_size size,
                           ls_ps_event *room, FILE *file)
{
    const ls_served_server *server = &me->servers[number];
    const ls_ps_event *events = server->shard.replica ? server->serving.log.events : NULL;
    const size_t bytes = size.count * sizeof *room;
    if (comm && comm->rank > 0)
        return events ? comm->backend->send(comm, 0, TAG, events, bytes) : LS_OK;
    if (!events) {
        LS_TRY(comm->backend->receive(comm, process_of(me, number), TAG, room, bytes));
    }
    write_log(file, number, events ? events : room, size);
    return LS_OK;
}

/* Process 0 has opened the file and allocated memory before any process sends: a message that
 * nobody received would be taken for another one. */
static ls_status write_record(const ls_served *me, ls_comm *comm, const char *path,
                              const log_size *sizes)
{
    const bool writes = !comm || comm->rank == 0;
    const int servers = me->layout.servers;
    FILE *file = NULL;
    ls_ps_event *room = NULL;
    uint64_t most = 0;
    for (int s = 0; s < servers; s++)
        most = sizes[s].count > most ? sizes[s].count : most;
    ls_status status = LS_OK;
    if (writes && !(room = calloc(most + 1, sizeof *room)))
        status = ls_fail_memory("ps", most * sizeof *room);
    else if (writes)
        status = open_record(path, &file);
    status = ls_comm_agree(comm, status);
    for (int s = 0; s < servers && !status; s++)
        status = bring_log(me, comm, s, sizes[s], room, file);
    free(room);
    if (file)
        status = ls_status_first(status, close_record(path, file));
    return status;
}

ls_status ls_ps_record(const ls_run *run, const char *path)
{
    const ls_served *me = ls_served_of(run);
    ls_comm *comm = run->job->comm;
    const size_t n = (size_t)me->layout.servers, processes = comm ? (size_t)comm->size : 1;
    log_size *mine = calloc(n * (1 + processes), sizeof *mine), *all = mine ? mine + n : NULL;
    ls_status status = mine ? LS_OK : ls_fail_memory("ps", n * processes * sizeof *mine);
    for (size_t s = 0; s < n && !status; s++)
        mine[s] = (log_size){me->servers[s].serving.log.count, me->servers[s].serving.log.lost};
    status = ls_comm_bring(comm, status, mine, n * sizeof *mine, all);
    for (size_t s = 0; s < n && !status; s++)
        mine[s] = all[(size_t)process_of(me, (int)s) * n + s];
    if (!status)
        status = ls_comm_agree(comm, write_record(me, comm, path, mine));
    free(mine);
    return status;
}

ls_status ls_ps_record_writable(const char *path)
{
    int error = 0;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
        close(file);
        unlink(path);
    } else {
        error = errno;
    }
    if (error == EEXIST)
        error = access(path, W_OK) ? errno : 0;
    struct stat facts;
    if (!error && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (!error)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "ps-record", path, "%s; a file that can be written works",
                   strerror(error));
}
