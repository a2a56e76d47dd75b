/* SPDX-License-Identifier: MIT */
/* Exact mode against fast mode; see run_parts.h. */
#include "bench/commands/run_parts.h"

#include "bench/statistics/statistics.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"

#include <string.h>

enum { BLOCKS = 5, MOST_STEPS = 40, WARM_STEPS = 3 }; /* per block; before the first block */

/* The median step; if an epoch's last batch is smaller, the two are at other places of an epoch,
 * and the mean time of a sample is compared. */
static ls_status take_turns(ls_session *const sessions[2], uint64_t count, ls_step_times *times,
                            double *out)
{
    double ms[2][BLOCKS * MOST_STEPS];
    uint64_t trained[2];
    ls_statistics statistics[2];
    for (int s = 0; s < 2; s++) {
        LS_TRY(ls_session_steps(sessions[s], count < WARM_STEPS ? count : WARM_STEPS));
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step);
    }
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (int s = 0; s < 2; s++) {
            LS_TRY(ls_time_steps(sessions[s], count, false, times));
            memcpy(ms[s] + block * count, times->ms, count * sizeof *times->ms);
        }
    for (int s = 0; s < 2; s++) {
        ls_statistics_compute(ms[s], BLOCKS * count, &statistics[s]);
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step) - trained[s];
    }
    *out = ls_job_tail(&sessions[0]->job)
               ? statistics[0].mean / (double)trained[0] / (statistics[1].mean / (double)trained[1])
               : statistics[0].median / statistics[1].median;
    return LS_OK;
}

ls_status ls_exact_cost(ls_workplace *workplace, ls_session *session, uint64_t at_once, double *out)
{
    ls_case fast = *session->plan->config;
    ls_comm *comm = session->job.ranks.comm;
    ls_plan_of_case plan;
    ls_session other = {0};
    ls_step_times times;
    uint64_t count = at_once < MOST_STEPS ? at_once : MOST_STEPS;
    count = count < session->job.records ? count : session->job.records;
    fast.reduce = LS_REDUCE_FAST;
    memset(fast.allreduce, 0, sizeof fast.allreduce);
    memcpy(fast.allreduce, "auto", sizeof "auto");
    LS_TRY(ls_world_turn(comm, LS_OK, &count, NULL));
    ls_status status = ls_plan_open(workplace, &fast, &plan);
    if (!status)
        status = ls_plan_draw(workplace, &plan); /* the case's own values */
    status = ls_status_first(status, ls_step_times_open(MOST_STEPS, &times));
    status = ls_world_agree(comm, status);
    if (!status)
        status = ls_session_open(workplace, &plan, (ls_opening){0}, &other);
    if (!status)
        status = take_turns((ls_session *const[]){session, &other}, count, &times, out);
    ls_session_close(&other);
    ls_step_times_close(&times);
    if (!*workplace->left) /* unless threads of a lost device still use it */
        ls_plan_close(&plan);
    return status;
}
