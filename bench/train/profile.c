/* SPDX-License-Identifier: MIT */
/* Profiles of trials; see profile.h. */
#include "bench/train/profile.h"

#include "bench/train/bubble.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
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

/* Parts of the mean timed step: the mean over all devices' times, and each local device's own.
 * `all`: [devices, uses] of all processes. */
static void measure_parts(double mean_ms, const ls_accounts *a, const double *all, size_t devices,
                          ls_profile *out)
{
    double sum = 0;
    size_t training = 0;
    for (size_t d = 0; d < devices; d++) {
        sum += sum_of(all + d * LS_TIME_USES);
        training += sum_of(all + d * LS_TIME_USES) > 0;
    }
    out->profiled_ms = sum * 1e-6 / fmax((double)training, 1) / (double)a->steps;
    out->residual = a->ms > 0 ? out->profiled_ms * (double)a->steps / a->ms - 1 : 0;
    for (size_t i = 0; i < devices * LS_TIME_USES && sum > 0; i++)
        out->part_ms[i % LS_TIME_USES] += all[i] / sum * mean_ms;
    for (size_t d = 0; d < a->devices; d++) {
        const double *mine = a->ns + d * LS_TIME_USES, its = sum_of(mine);
        const double ms = its > 0 ? mean_ms / its : 0, wait_ms = mine[LS_TIME_WAIT] * ms;
        out->loads[d] = (ls_device_load){.busy_ms = its * ms - wait_ms,
                                         .wait_ms = wait_ms,
                                         .gather_ms = mine[LS_TIME_GATHER] * ms};
    }
}

static ls_status bring_parts(ls_comm *comm, double mean_ms, const ls_accounts *a, ls_profile *out)
{
    const size_t numbers = a->devices * LS_TIME_USES;
    const size_t processes = comm ? (size_t)comm->size : 1;
    double *all;
    ls_status status = ls_allocate("profile", &all, processes * numbers, sizeof *all);
    if (!status)
        status = ls_allocate("profile", &out->loads, a->devices, sizeof *out->loads);
    status = ls_comm_bring(comm, status, a->ns, numbers * sizeof *all, all);
    if (!status)
        measure_parts(mean_ms, a, all, processes * a->devices, out);
    free(all);
    return status;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* The rounds of a profile. */
typedef struct rounds {
    ls_session *session;
    size_t here, devices;               /* of this process; of all */
    ls_time_profile *times;             /* [devices] of the latest round */
    ls_time_profile *mine;              /* [here] this process's */
    double measured[LS_PROFILE_ROUNDS]; /* idle shares */
    double formula[LS_PROFILE_ROUNDS];
} rounds;

/* Runs some steps on the devices of all processes; none starts if one cannot. */
static ls_status take_round(rounds *r, uint64_t steps)
{
    ls_session *session = r->session;
    LS_TRY(ls_account_begin(session, steps));
    LS_TRY(ls_time_steps(session, steps, true, NULL));
    for (size_t d = 0; d < r->here; d++)
        r->mine[d] = session->run->functions->times(session->run, d);
    return ls_comm_bring(session->job.comm, LS_OK, r->mine, r->here * sizeof *r->mine, r->times);
}

static double median(double *values, uint64_t count)
{
    ls_statistics s;
    ls_statistics_compute(values, count, &s);
    return s.median;
}

/* Whether the devices are the stages of a pipeline. */
static bool is_pipeline(const ls_session *session)
{
    return session->job.microbatches > 0 && !session->plan->strategy->replicated;
}

static ls_status take_rounds(rounds *r, uint64_t count, uint64_t steps, ls_profile *out)
{
    const ls_job *job = &r->session->job;
    const bool staged = is_pipeline(r->session);
    const ls_schedule schedule = {(int)r->devices, job->microbatches,
                                  ls_declared_number(&job->options, &ls_option_pipeline_schedule) ==
                                      LS_SCHEDULE_1F1B};
    for (uint64_t i = 0; i < count; i++) {
        ls_bubble bubble = {0, 0};
        LS_TRY(take_round(r, steps));
        LS_TRY(ls_world_agree(job->comm,
                              staged ? ls_bubble_measure(&schedule, r->times, &bubble) : LS_OK));
        r->measured[i] = bubble.measured;
        r->formula[i] = bubble.formula;
    }
    if (staged)
        out->bubble = (ls_bubble){median(r->measured, count), median(r->formula, count)};
    return LS_OK;
}

static ls_status profile_rounds(ls_session *session, uint64_t count, uint64_t steps,
                                ls_profile *out)
{
    const ls_comm *comm = session->job.comm;
    const size_t here = session->device_count, devices = here * (comm ? (size_t)comm->size : 1);
    ls_time_profile *times;
    ls_status status = ls_allocate("profile", &times, devices + here, sizeof *times);
    status = ls_world_agree(session->job.comm, status);
    rounds r = {.session = session,
                .here = here,
                .devices = devices,
                .times = times,
                .mine = times + devices};
    if (!status)
        status = take_rounds(&r, count, steps, out);
    free(times);
    return status;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

ls_profile ls_profile_begin(void)
{
    return (ls_profile){.bubble = {NAN, NAN}};
}

void ls_profile_close(ls_profile *profile)
{
    free(profile->loads);
    *profile = (ls_profile){0};
}

/* Runs and accounts `steps` extra steps. */
static ls_status account_more(ls_session *session, uint64_t steps, ls_accounts *accounts,
                              ls_step_times *times)
{
    LS_TRY(ls_account_begin(session, steps));
    LS_TRY(ls_time_steps(session, steps, true, times));
    LS_TRY(ls_account_add(accounts, session, times));
    ls_account_take(accounts, NULL, 0);
    return LS_OK;
}

/* Long steps are profiled a few times only. */
ls_status ls_profile_take(const ls_timed *timed, uint64_t at_once, ls_session *session,
                          ls_accounts *accounts, ls_step_times *times, ls_profile *out)
{
    const uint64_t all = least(timed->done, LS_PROFILED_MOST);
    const uint64_t count = is_pipeline(session) ? least(all, LS_PROFILE_ROUNDS) : 1;
    uint64_t chunk = least(at_once, session->job.records);
    bool stop = false;
    LS_TRY(ls_world_turn(session->job.comm, LS_OK, &chunk, &stop)); /* as rank 0 has it */
    if (!accounts->steps)
        LS_TRY(account_more(session, least(all, chunk), accounts, times));
    else
        out->accounted = accounts->steps;
    LS_TRY(bring_parts(session->job.comm, ls_timed_mean_ms(timed), accounts, out));
    if (is_pipeline(session) || ls_strategy_serves(session->plan->strategy))
        return profile_rounds(session, count, least(all / count, chunk), out);
    return LS_OK;
}
