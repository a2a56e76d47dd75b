/* SPDX-License-Identifier: MIT */
/* Profiles of trials; see profile.h. */
#include "bench/train/trial/profile.h"

#include "bench/statistics/statistics.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bubble --------------------------------------------------------------------------------- */

/* Mean times of a stage's passes in a step. */
static ls_stage_time stage_time(const ls_schedule *s, const ls_time_profile *profile, int stage)
{
    const double m = s->microbatches, copies = (double)profile->ns[LS_TIME_COPY];
    const double forward = ls_schedule_chunks(s) > 1 ? 0.5
                           : stage == 0              ? 1
                           : stage + 1 == s->stages  ? 0
                                                     : 0.5;
    return (ls_stage_time){
        .forward = ((double)(profile->ns[LS_TIME_COMPUTE] + profile->ns[LS_TIME_GATHER]) +
                    forward * copies) /
                   m,
        .backward = ((double)profile->ns[LS_TIME_BACKWARD] + (1 - forward) * copies) / m,
        .weights = (double)profile->ns[LS_TIME_WEIGHTS] / m,
        .rest = (double)(profile->ns[LS_TIME_OPTIMIZER] + profile->ns[LS_TIME_COMMUNICATION] +
                         profile->ns[LS_TIME_HARNESS])};
}

ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out)
{
    const size_t count = (size_t)schedule->stages;
    double work = 0, longest = 0, most = 0;
    ls_schedule_times span = {0};
    ls_auto ls_stage_time *times = NULL;
    LS_TRY(ls_allocate("profile", &times, count, sizeof *times));
    for (size_t s = 0; s < count; s++) {
        double all = 0;
        for (int use = 0; use < LS_TIME_USES; use++)
            all += (double)stages[s].ns[use];
        longest = all > longest ? all : longest;
        const double busy = all - (double)(stages[s].ns[LS_TIME_IDLE] + stages[s].ns[LS_TIME_WAIT]);
        work += busy;
        most = busy > most ? busy : most;
        times[s] = stage_time(schedule, &stages[s], (int)s);
    }
    ls_status status = ls_schedule_span(schedule, times, &span);
    *out = (ls_bubble){.measured = 1 - work / ((double)count * longest),
                       .formula = 1 - work / ((double)count * span.step),
                       .slowest = work > 0 ? most * (double)count / work : 1,
                       .stage = span.idle};
    for (size_t s = 0; s < count; s++) {
        out->forward_ms += times[s].forward / (double)count * 1e-6;
        out->backward_ms += times[s].backward / (double)count * 1e-6;
        out->weights_ms += times[s].weights / (double)count * 1e-6;
    }
    return status;
}

ls_status ls_bubble_median(const ls_schedule *schedule, const ls_time_profile *profiles,
                           size_t steps, ls_bubble *out)
{
    ls_auto double *room = NULL;
    ls_auto ls_bubble *all = NULL;
    LS_TRY(ls_allocate("profile", &all, steps, sizeof *all));
    LS_TRY(ls_allocate("profile", &room, steps, sizeof *room));
    for (size_t k = 0; k < steps; k++)
        LS_TRY(ls_bubble_measure(schedule, profiles + k * (size_t)schedule->stages, &all[k]));
    for (size_t at = 0; at < sizeof *out; at += sizeof(double)) { /* each member, at its offset */
        for (size_t k = 0; k < steps; k++)
            memcpy(&room[k], (const char *)&all[k] + at, sizeof *room);
        const double median = ls_statistics_median(room, steps);
        memcpy((char *)out + at, &median, sizeof median);
    }
    return LS_OK;
}

/* ---- Accounted steps ------------------------------------------------------------------------ */

/* Cost of accounting one operation and its waits: clock readings of 30 ns (results/README.md). */
static const double noted_ns = 50, most_cost = 0.01; /* fraction of the step */

static void count_op(void *context, const ls_op *op)
{
    (void)op;
    ++*(size_t *)context;
}

/* With no warm-up nothing is known of the first step's time: it is noted in case. */
bool ls_account_wanted(ls_accounts *a, const ls_session *session, bool waterfall, double step_ms)
{
    const bool wanted = waterfall && session->plan->devices->kind != LS_DEVICE_GPU;
    size_t ops = 0;
    if (a->which != LS_ACCOUNTS_UNKNOWN)
        return a->which == LS_ACCOUNTS_ALL;
    if (step_ms <= 0)
        return wanted;
    session->run->functions->each_op(session->run, count_op, &ops);
    const double each = (double)ops / (double)session->device_count;
    const bool cheap = each * noted_ns <= most_cost * step_ms * 1e6;
    a->which = wanted && cheap ? LS_ACCOUNTS_ALL : LS_ACCOUNTS_NONE;
    return a->which == LS_ACCOUNTS_ALL;
}

ls_status ls_account_begin(const ls_session *session, uint64_t steps)
{
    return ls_world_agree(session->job.ranks.comm,
                          session->run->functions->profile(session->run, steps));
}

ls_status ls_account_add(ls_accounts *a, const ls_session *session, const ls_step_times *steps)
{
    const uint64_t end_ns = steps->records[steps->count - 1].end_ns;
    ls_status status = ls_grow("account", &a->calls, a->count, sizeof *a->calls);
    if (!status)
        status = ls_grow("account", &a->parts, a->count, a->devices * sizeof *a->parts);
    if (!status)
        status = session->run->functions->parts(session->run, a->devices, steps->mark_ns, end_ns,
                                                a->parts + a->count * a->devices);
    LS_TRY(ls_world_agree(session->job.ranks.comm, status));
    a->calls[a->count++] = (ls_account){steps->count, (double)(end_ns - steps->mark_ns) * 1e-6};
    return LS_OK;
}

/* A batch of replays with both excluded and counted steps is split by the steps' times. */
void ls_account_take(ls_accounts *a, const double *step_ms, size_t left_out)
{
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t steps = a->calls[i].steps, out = left_out < steps ? left_out : steps;
        const uint64_t *ns = a->parts[i * a->devices].ns;
        double share = out < steps ? 1 : 0;
        for (uint64_t s = 0; s < out && out < steps; s++)
            share = fmax(share - step_ms[s] / a->calls[i].ms, 0);
        left_out -= out;
        step_ms += step_ms ? out : 0;
        for (size_t k = 0; k < a->devices * LS_TIME_USES; k++)
            a->ns[k] += share * (double)ns[k];
        a->steps += steps - out;
        a->ms += share * a->calls[i].ms;
    }
    a->count = 0;
}

ls_status ls_account_open(ls_accounts *a, size_t devices)
{
    *a = (ls_accounts){.devices = devices};
    return ls_allocate("account", &a->ns, devices * LS_TIME_USES, sizeof *a->ns);
}

void ls_account_close(ls_accounts *a)
{
    free(a->calls);
    free(a->parts);
    free(a->ns);
    *a = (ls_accounts){0};
}

/* ---- Parts ---------------------------------------------------------------------------------- */

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
        const double *uses_ns = a->ns + d * LS_TIME_USES, total_ns = sum_of(uses_ns);
        const double ms = total_ns > 0 ? mean_ms / total_ns : 0,
                     wait_ms = uses_ns[LS_TIME_WAIT] * ms;
        out->loads[d] = (ls_device_load){.busy_ms = total_ns * ms - wait_ms,
                                         .wait_ms = wait_ms,
                                         .gather_ms = uses_ns[LS_TIME_GATHER] * ms};
    }
}

static ls_status bring_parts(ls_comm *comm, double mean_ms, const ls_accounts *a, ls_profile *out)
{
    const size_t numbers = a->devices * LS_TIME_USES;
    const size_t processes = comm ? (size_t)comm->size : 1;
    ls_auto double *all = NULL;
    ls_status status = ls_allocate("profile", &all, processes * numbers, sizeof *all);
    if (!status)
        status = ls_allocate("profile", &out->loads, a->devices, sizeof *out->loads);
    LS_TRY(ls_comm_bring(comm, status, a->ns, numbers * sizeof *all, all));
    measure_parts(mean_ms, a, all, processes * a->devices, out);
    return LS_OK;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Runs some steps on the devices of all processes, and brings what each went to [processes, steps,
 * local]; none starts if one cannot. `sent`: room for this process's. */
static ls_status take_round(ls_session *session, uint64_t steps, ls_step_times *times,
                            uint64_t *ends_ns, ls_time_profile *sent, ls_time_profile *all)
{
    const size_t local = session->device_count;
    LS_TRY(ls_account_begin(session, steps));
    LS_TRY(ls_time_steps(session, steps, true, times));
    ends_ns[0] = times->mark_ns;
    for (size_t k = 0; k < steps; k++)
        ends_ns[k + 1] = times->records[k].end_ns;
    const ls_status status =
        session->run->functions->times(session->run, local, ends_ns, steps, sent);
    return ls_comm_bring(session->job.ranks.comm, status, sent, steps * local * sizeof *sent, all);
}

/* The rounds of a pipeline's profile. The first step of a round has its devices' waking up in it,
 * and counts only if it is alone. */
static ls_status profile_rounds(ls_session *session, uint64_t count, uint64_t steps,
                                ls_step_times *times, ls_bubble *out)
{
    const ls_job *job = &session->job;
    const size_t local = session->device_count,
                 processes = job->ranks.comm ? (size_t)job->ranks.comm->size : 1;
    const size_t each = steps * local;
    const ls_schedule schedule = {(int)(processes * local), job->division.microbatches,
                                  ls_schedule_rule_of(&job->options), job->division.chunks};
    ls_auto uint64_t *ends_ns = NULL;
    ls_auto ls_time_profile *sent = NULL;
    ls_status status = ls_allocate("profile", &ends_ns, steps + 1, sizeof *ends_ns);
    if (!status)
        status = ls_allocate("profile", &sent, each + (count + 1) * processes * each, sizeof *sent);
    LS_TRY(ls_world_agree(job->ranks.comm, status));
    ls_time_profile *all = sent + each, *kept = all + processes * each, *end = kept;
    for (uint64_t i = 0; i < count; i++) {
        LS_TRY(take_round(session, steps, times, ends_ns, sent, all));
        for (size_t k = steps > 1; k < steps; k++)
            for (size_t p = 0; p < processes; p++, end += local)
                memcpy(end, all + (p * steps + k) * local, local * sizeof *end);
    }
    const size_t steps_kept = (size_t)(end - kept) / (processes * local);
    return ls_world_agree(job->ranks.comm, ls_bubble_median(&schedule, kept, steps_kept, out));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

ls_profile ls_profile_begin(void)
{
    return (ls_profile){.bubble.measured = NAN, .bubble.formula = NAN};
}

void ls_profile_close(ls_profile *profile)
{
    free(profile->loads);
    *profile = (ls_profile){0};
}

/* Long steps are profiled a few times only. */
ls_status ls_profile_take(const ls_timed *timed, uint64_t at_once, ls_session *session,
                          ls_accounts *accounts, ls_step_times *times, ls_profile *out)
{
    const uint64_t all = least(timed->done, LS_PROFILED_MOST);
    uint64_t chunk = least(at_once, session->job.records);
    LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &chunk, NULL)); /* as rank 0 has it */
    const uint64_t steps = least(all, chunk);
    if (!accounts->steps) {
        LS_TRY(ls_account_begin(session, steps));
        LS_TRY(ls_time_steps(session, steps, true, times));
        LS_TRY(ls_account_add(accounts, session, times));
        ls_account_take(accounts, NULL, 0);
    } else {
        out->accounted = accounts->steps;
    }
    LS_TRY(bring_parts(session->job.ranks.comm, ls_timed_mean_ms(timed), accounts, out));
    if (ls_plan_is_pipeline(session->plan))
        return profile_rounds(session, least(all / steps, LS_PROFILE_ROUNDS), steps, times,
                              &out->bubble);
    if (!ls_strategy_serves(session->plan->strategy))
        return LS_OK;
    LS_TRY(ls_account_begin(session, steps));
    return ls_time_steps(session, steps, true, NULL);
}
