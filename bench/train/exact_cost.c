/* SPDX-License-Identifier: MIT */
/* Exact mode against fast mode; see trial.h. */
#include "bench/statistics/statistics.h"
#include "bench/train/world.h"
#include "bench/train/trial.h"

#include <string.h>

enum { BLOCKS = 5, MOST_STEPS = 40, WARM_STEPS = 3 }; /* per block; before the first block */

/* Appends the times of `count` steps in ms; `out` NULL discards them. */
static ls_status time_steps(ls_session *session, uint64_t count, double *out)
{
    ls_step_record records[MOST_STEPS];
    uint64_t before;
    LS_TRY(ls_session_steps(session, count));
    LS_TRY(ls_session_records(session, count, records, &before));
    for (uint64_t i = 0; i < count && out; i++) {
        out[i] = (double)(records[i].end_ns - before) * 1e-6;
        before = records[i].end_ns;
    }
    return LS_OK;
}

/* The median step; if an epoch's last batch is smaller, the two are at other places of an epoch,
 * and the mean time of a sample is compared. */
static ls_status take_turns(ls_session *const sessions[2], uint64_t count, double *out)
{
    double ms[2][BLOCKS * MOST_STEPS];
    uint64_t trained[2];
    ls_statistics statistics[2];
    for (int s = 0; s < 2; s++) {
        LS_TRY(time_steps(sessions[s], count < WARM_STEPS ? count : WARM_STEPS, NULL));
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step);
    }
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (int s = 0; s < 2; s++)
            LS_TRY(time_steps(sessions[s], count, ms[s] + block * count));
    for (int s = 0; s < 2; s++) {
        ls_statistics_compute(ms[s], BLOCKS * count, &statistics[s]);
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step) - trained[s];
    }
    *out = ls_job_tail(&sessions[0]->job)
               ? statistics[0].mean / (double)trained[0] / (statistics[1].mean / (double)trained[1])
               : statistics[0].median / statistics[1].median;
    return LS_OK;
}

ls_status ls_exact_cost(ls_workplace *workplace, ls_trial *trial, double *out)
{
    ls_case fast = *trial->plan->config;
    ls_plan_of_case plan;
    ls_session session;
    uint64_t count = trial->chunk < MOST_STEPS ? trial->chunk : MOST_STEPS;
    count = count < trial->session.job.records ? count : trial->session.job.records;
    fast.reduce = LS_REDUCE_FAST;
    memset(fast.allreduce, 0, sizeof fast.allreduce);
    memcpy(fast.allreduce, "auto", sizeof "auto");
    bool stop = false;
    ls_comm *comm = trial->session.job.comm;
    LS_TRY(ls_world_turn(comm, LS_OK, &count, &stop));
    ls_status status = ls_plan_open(workplace, &fast, &plan);
    const bool planned = !status;
    status = ls_world_agree(comm, status);
    if (!status) {
        status = ls_session_open(workplace, &plan, &session);
        const bool open = !status;
        if (!status)
            status = take_turns((ls_session *const[]){&trial->session, &session}, count, out);
        if (open)
            ls_session_close(&session);
    }
    if (planned && !*workplace->left) /* unless threads of a lost device still use it */
        ls_plan_close(&plan);
    return status;
}
