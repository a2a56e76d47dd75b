/* SPDX-License-Identifier: MIT */
/* Memory and servers after the last step; see trial.h. */
#include "bench/train/trial/trial.h"

#include "bench/train/world.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <sys/resource.h>

ls_status ls_report_warm(const ls_session *session, ls_reported *out)
{
    return ls_strategy_serves(session->plan->strategy)
               ? ls_ps_report_collect(session->run, &out->warm)
               : LS_OK;
}

ls_status ls_report_memory(const ls_session *session, ls_reported *out)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->rss_peak = (size_t)usage.ru_maxrss * 1024;
    LS_TRY(ls_world_agree(
        session->job.ranks.comm,
        ls_allocate("trial", &out->ledgers, session->device_count, sizeof *out->ledgers)));
    for (size_t i = 0; i < session->device_count; i++)
        out->ledgers[i] = ls_device_ledger(session->devices[i]);
    return LS_OK;
}

/* Lists the servers of this process. */
static ls_status list_servers(const ls_run *run, ls_reported *out)
{
    ls_ps_server server;
    size_t count = 0;
    while (ls_ps_report_server(run, count, &server))
        count++;
    LS_TRY(ls_allocate("trial", &out->servers, count, sizeof *out->servers));
    for (size_t s = 0; s < count; s++)
        ls_ps_report_server(run, s, &out->servers[s]);
    out->server_count = count;
    return LS_OK;
}

ls_status ls_report_servers(const ls_session *session, const char *record, ls_reported *out)
{
    const ls_run *run = session->run;
    if (!ls_strategy_serves(session->plan->strategy))
        return LS_OK;
    LS_TRY(ls_ps_report_collect(run, &out->ended));
    LS_TRY(ls_world_agree(session->job.ranks.comm, list_servers(run, out)));
    return record ? ls_ps_record(run, record, &out->unsaved) : LS_OK;
}

void ls_report_busy(const ls_session *session, ls_reported *out)
{
    ls_ps_server server;
    for (size_t s = 0; s < out->server_count; s++)
        if (ls_ps_report_server(session->run, s, &server))
            out->servers[s].busy = server.busy;
}

void ls_reported_close(ls_reported *reported)
{
    free(reported->ledgers);
    free(reported->servers);
    ls_status_free(reported->unsaved);
    *reported = (ls_reported){0};
}
