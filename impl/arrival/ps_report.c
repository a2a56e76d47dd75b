/* SPDX-License-Identifier: MIT */
/* Gathers statistics and logs of servers from all processes; see ps_report.h. */
#include "common/base/grow.h"
#include "common/base/whole_file.h"
#include "impl/arrival/ps_report.h"
#include "impl/ps/served.h"
#include "impl/step/run/run.h"

#include <stdlib.h>

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

/* Prints what a server logged: nothing, if it is in another process. */
static void put_log(FILE *stream, int server, const ls_ps_log *log)
{
    static const char *const kinds[] = {[LS_PS_PULL] = "pull",
                                        [LS_PS_PUSH] = "push",
                                        [LS_PS_EMPTY] = "empty",
                                        [LS_PS_DROP] = "drop"};
    for (size_t i = 0; i < log->count; i++)
        fprintf(stream, "%d %s %u\n", server, kinds[log->events[i].kind], log->events[i].worker);
    if (log->lost)
        fprintf(stream, "%d lost %zu\n", server, log->lost);
}

/* The logs of all processes, whose servers' numbers ascend. */
typedef struct record {
    char *text; /* [bytes] */
    size_t bytes;
} record;

static ls_status put_record(FILE *stream, void *context)
{
    const record *r = context;
    fprintf(stream, "lockstep ps order 1\n");
    fwrite(r->text, 1, r->bytes, stream);
    return LS_OK;
}

ls_status ls_ps_record(const ls_run *run, const char *path, ls_status *unsaved)
{
    const ls_served_server *servers = ls_step_run_of(run)->resources.served->servers;
    const int n = ls_step_run_of(run)->plan.placed.servers;
    ls_comm *comm = run->job->ranks.comm;
    ls_auto char *own_text = NULL, *text = NULL;
    size_t bytes = 0;
    record all = {0};
    FILE *stream = open_memstream(&own_text, &bytes);
    for (int k = 0; k < n && stream; k++)
        put_log(stream, k, &servers[k].serving.log);
    const bool whole = stream && fclose(stream) == 0;
    LS_TRY(ls_comm_gather(comm, whole ? LS_OK : ls_fail_memory("ps", bytes), own_text, bytes, &text,
                          &all.bytes));
    all.text = text;
    const bool writes = ls_job_process(run->job) == 0;
    *unsaved = ls_comm_agree(
        comm, writes ? ls_whole_file("option --ps-record", path, put_record, &all) : LS_OK);
    return LS_OK;
}
