/* SPDX-License-Identifier: MIT */
/*
 * Where a step's time goes, once all that the row and the user keep has been read. Uses the timed
 * steps if they were accounted (account.c); if that would have cost too much, some extra full
 * steps. With parameter servers, the parts are the workers'. Extra steps also run for a pipeline
 * (several rounds, for medians of its idle share, bubble.h) and for servers (one round, for how
 * busy they are).
 */
#include "bench/train/bubble.h"
#include "bench/statistics/statistics.h"
#include "bench/train/world.h"
#include "bench/train/trial.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>

/* ---- Parts ----------------------------------------------------------------------------------- */

static double sum_of(const double *ns)
{
    double all = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        all += ns[use];
    return all;
}

/* Runs and accounts `steps` extra steps. */
static ls_status account_more(ls_trial *trial, uint64_t steps)
{
    uint64_t mark_ns;
    LS_TRY(ls_account_begin(trial, steps));
    LS_TRY(ls_session_steps(&trial->session, steps));
    LS_TRY(ls_account_end(trial));
    LS_TRY(ls_session_records(&trial->session, steps, trial->records, &mark_ns));
    LS_TRY(ls_account_add(trial, steps, mark_ns, trial->records[steps - 1].end_ns));
    ls_account_take(trial, NULL, 0);
    return LS_OK;
}

/* Parts of the mean timed step: the mean over all devices' times, and each local device's own.
 * `all`: [devices, uses] of all processes. */
static void measure_parts(ls_trial *trial, const double *all, size_t devices)
{
    const ls_accounts *a = &trial->accounts;
    const double mean_ms = ls_trial_mean_ms(trial);
    double sum = 0;
    size_t training = 0;
    for (size_t d = 0; d < devices; d++) {
        sum += sum_of(all + d * LS_TIME_USES);
        training += sum_of(all + d * LS_TIME_USES) > 0;
    }
    trial->profiled_ms = sum * 1e-6 / fmax((double)training, 1) / (double)a->steps;
    trial->residual = a->ms > 0 ? trial->profiled_ms * (double)a->steps / a->ms - 1 : 0;
    for (size_t i = 0; i < devices * LS_TIME_USES && sum > 0; i++)
        trial->part_ms[i % LS_TIME_USES] += all[i] / sum * mean_ms;
    for (size_t d = 0; d < trial->session.device_count; d++) {
        const double *mine = a->ns + d * LS_TIME_USES, its = sum_of(mine);
        const double ms = its > 0 ? mean_ms / its : 0, wait_ms = mine[LS_TIME_WAIT] * ms;
        trial->loads[d] = (ls_device_load){.busy_ms = its * ms - wait_ms,
                                           .wait_ms = wait_ms,
                                           .gather_ms = mine[LS_TIME_GATHER] * ms};
    }
}

static ls_status bring_parts(ls_trial *trial)
{
    const ls_comm *comm = trial->session.job.comm;
    const size_t numbers = trial->session.device_count * LS_TIME_USES;
    const size_t processes = comm ? (size_t)comm->size : 1;
    double *all;
    ls_status status = ls_allocate("profile", &all, processes * numbers, sizeof *all);
    status = ls_comm_bring(trial->session.job.comm, status, trial->accounts.ns,
                           numbers * sizeof *all, all);
    if (!status)
        measure_parts(trial, all, processes * trial->session.device_count);
    free(all);
    return status;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* The rounds of a trial's profile. */
typedef struct profile {
    ls_trial *trial;
    size_t here, devices;               /* of this process; of all */
    ls_time_profile *times;             /* [devices] of the latest round */
    ls_time_profile *mine;              /* [here] this process's */
    double measured[LS_PROFILE_ROUNDS]; /* idle shares */
    double formula[LS_PROFILE_ROUNDS];
} profile;

/* Runs some steps on the devices of all processes; none starts if one cannot. */
static ls_status take_round(profile *p, uint64_t steps)
{
    ls_session *session = &p->trial->session;
    LS_TRY(ls_account_begin(p->trial, steps));
    LS_TRY(ls_session_steps(session, steps));
    LS_TRY(ls_account_end(p->trial));
    for (size_t d = 0; d < p->here; d++)
        p->mine[d] = session->run->kind->times(session->run, d);
    return ls_comm_bring(session->job.comm, LS_OK, p->mine, p->here * sizeof *p->mine, p->times);
}

static double median(double *values, uint64_t count)
{
    ls_statistics s;
    ls_statistics_compute(values, count, &s);
    return s.median;
}

/* Whether the devices are the stages of a pipeline. */
static bool is_pipeline(const ls_trial *trial)
{
    return trial->session.job.microbatches > 0 && !trial->plan->strategy->replicated;
}

static ls_status take_rounds(profile *p, uint64_t rounds, uint64_t steps)
{
    const ls_job *job = &p->trial->session.job;
    const bool staged = is_pipeline(p->trial);
    const ls_schedule schedule = {(int)p->devices, job->microbatches,
                                  ls_declared_number(&job->options, &ls_option_pipeline_schedule) ==
                                      LS_SCHEDULE_1F1B};
    for (uint64_t r = 0; r < rounds; r++) {
        ls_bubble bubble = {0, 0};
        LS_TRY(take_round(p, steps));
        LS_TRY(ls_world_agree(job->comm,
                              staged ? ls_bubble_measure(&schedule, p->times, &bubble) : LS_OK));
        p->measured[r] = bubble.measured;
        p->formula[r] = bubble.formula;
    }
    if (staged) {
        p->trial->bubble = median(p->measured, rounds);
        p->trial->bubble_formula = median(p->formula, rounds);
    }
    return LS_OK;
}

static ls_status profile_rounds(ls_trial *trial, uint64_t rounds, uint64_t steps)
{
    const ls_session *session = &trial->session;
    const ls_comm *comm = session->job.comm;
    const size_t here = session->device_count, devices = here * (comm ? (size_t)comm->size : 1);
    ls_time_profile *times;
    ls_ps_server server;
    ls_status status = ls_allocate("profile", &times, devices + here, sizeof *times);
    status = ls_world_agree(session->job.comm, status);
    profile p = {
        .trial = trial, .here = here, .devices = devices, .times = times, .mine = times + devices};
    if (!status)
        status = take_rounds(&p, rounds, steps);
    for (size_t s = 0; s < trial->server_count && !status; s++)
        if (ls_ps_report_server(session->run, s, &server))
            trial->servers[s].busy = server.busy;
    free(times);
    return status;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Long steps are profiled a few times only. */
ls_status ls_trial_profile(ls_trial *trial)
{
    const uint64_t all = least(trial->timed_done, LS_PROFILED_MOST);
    const uint64_t rounds = is_pipeline(trial) ? least(all, LS_PROFILE_ROUNDS) : 1;
    uint64_t chunk = least(trial->chunk, trial->session.job.records);
    bool stop = false;
    if (!trial->workplace->request->waterfall)
        return LS_OK;
    LS_TRY(ls_world_turn(trial->session.job.comm, LS_OK, &chunk, &stop)); /* as rank 0 has it */
    if (!trial->accounts.steps)
        LS_TRY(account_more(trial, least(all, chunk)));
    else
        trial->accounted = trial->accounts.steps;
    LS_TRY(bring_parts(trial));
    if (is_pipeline(trial) || ls_strategy_serves(trial->plan->strategy))
        return profile_rounds(trial, rounds, least(all / rounds, chunk));
    return LS_OK;
}
