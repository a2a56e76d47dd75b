/* SPDX-License-Identifier: MIT */
/* Traffic of replicas that add up batch statistics, and parts of what many steps counted. */
#include "impl/replicas.h"
#include "impl/traffic.h"

uint64_t ls_steps_part_of_one(const uint64_t steps[LS_BATCHES], uint64_t all, uint64_t tail,
                              uint64_t expected)
{
    all -= steps[LS_TAIL] * tail;
    return all / steps[LS_FULL] + (all / steps[LS_FULL] >= expected && all % steps[LS_FULL]);
}

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
    sent->bytes_sent =
        ls_steps_part_of_one(run->steps, sent->bytes_sent, tail.bytes_sent, formula->bytes_sent);
    sent->messages_sent = ls_steps_part_of_one(run->steps, sent->messages_sent, tail.messages_sent,
                                               formula->messages_sent);
    return LS_OK;
}
