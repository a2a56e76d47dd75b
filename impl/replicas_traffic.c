/* SPDX-License-Identifier: MIT */
/* Traffic of replicas that add up batch statistics, and parts of what many steps counted. */
#include "impl/replicas.h"
#include "impl/traffic.h"

ls_time_profile ls_times_exposing(ls_time_profile own, const ls_time_profile *other)
{
    const double work = (double)other->ns[LS_TIME_COMMUNICATION];
    const double waits = (double)other->ns[LS_TIME_WAIT];
    if (work == 0)
        return own;
    const uint64_t exposed = (uint64_t)((double)own.ns[LS_TIME_IDLE] * work / (work + waits));
    own.ns[LS_TIME_IDLE] -= exposed;
    own.ns[LS_TIME_COMMUNICATION] += exposed;
    return own;
}

ls_status ls_replicated_statistics_traffic(const ls_replicated *run, ls_traffic *sent,
                                           ls_traffic *formula)
{
    const ls_job *job = run->base.job;
    const int n = ls_job_replicas(job);
    *sent = *formula = (ls_traffic){0};
    if (!run->meetings)
        return LS_OK;
    ls_traffic mine = {0}, tail = {0};
    for (int i = 0; i < run->count; i++)
        ls_traffic_add(&mine, run->meetings[i]->backend->traffic(run->meetings[i]));
    LS_TRY(ls_traffic_collect(job->comm, mine, sent));
    *formula = ls_slice_statistics_formula(job, job->batch, n);
    if (ls_job_tail(job))
        tail = ls_slice_statistics_formula(job, ls_job_tail(job), n);
    *sent = ls_traffic_of_step(sent, &tail, run->steps, formula);
    return LS_OK;
}
