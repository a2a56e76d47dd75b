/* SPDX-License-Identifier: MIT */
/*
 * What a step's time goes to: some more full steps, with a reading of the clock after each
 * operation, after everything for the row and the user is done. With parameter servers it is the
 * workers' time; a device's wait for another queue counts as what that did (impl/step/blame.c). A
 * pipeline has several rounds, for medians of its idle share (bubble.h).
 */
#include "bench/train/bubble.h"
#include "bench/statistics/statistics.h"
#include "bench/train/world.h"
#include "bench/train/trial.h"

#include <math.h>
#include <stdlib.h>

enum { PROFILED = 100, ROUNDS = 15 }; /* steps at most; of a pipeline, in so many rounds */

/* A device's time: as its queues measured it, and with their waits divided. */
typedef struct device_time {
    ls_time_profile times, parts;
} device_time;

/* The rounds of a trial. */
typedef struct profile {
    ls_trial *trial;
    size_t here, devices;    /* of this process, of all */
    uint64_t steps;          /* of all rounds */
    device_time *all;        /* [devices] of the latest round */
    device_time *mine;       /* [here] */
    ls_time_profile *times;  /* [devices] of the latest round */
    ls_time_profile *sums;   /* [devices] parts of all rounds */
    double measured[ROUNDS]; /* idle shares of a pipeline */
    double formula[ROUNDS];
} profile;

/* Profiles some steps on this process's devices. */
static ls_status profile_here(profile *p, uint64_t steps)
{
    ls_session *session = &p->trial->session;
    LS_TRY(session->run->kind->step(session->run, false, steps));
    LS_TRY(session->run->kind->sync(session->run));
    LS_TRY(session->run->kind->profile(session->run, 0));
    for (size_t d = 0; d < p->here; d++)
        p->mine[d] = (device_time){session->run->kind->times(session->run, d),
                                   session->run->kind->parts(session->run, d)};
    return LS_OK;
}

/* The same on the devices of all processes; where one cannot, none begins. */
static ls_status take_round(profile *p, uint64_t steps)
{
    const ls_session *session = &p->trial->session;
    ls_comm *comm = session->job.comm;
    bool stop = false;
    LS_TRY(ls_world_turn(comm, session->run->kind->profile(session->run, steps), &steps, &stop));
    LS_TRY(ls_comm_bring(comm, profile_here(p, steps), p->mine, p->here * sizeof *p->mine, p->all));
    for (size_t d = 0; d < p->devices; d++) {
        p->times[d] = p->all[d].times;
        for (int use = 0; use < LS_TIME_USES; use++)
            p->sums[d].ns[use] += p->all[d].parts.ns[use];
    }
    return LS_OK;
}

static double median(double *values, uint64_t count)
{
    ls_statistics s;
    ls_statistics_compute(values, count, &s);
    return s.median;
}

/* Whether its devices are the stages of one. */
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

static double sum_of(const ls_time_profile *times)
{
    double all = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        all += (double)times->ns[use];
    return all;
}

/* The mean over all devices' times, as shares of the mean timed step; and each one's here. */
static void measure_parts(const profile *p)
{
    ls_trial *trial = p->trial;
    const ls_comm *comm = trial->session.job.comm;
    const ls_time_profile *mine = p->sums + (comm ? (size_t)comm->rank * p->here : 0);
    const double mean_ms = ls_trial_mean_ms(trial);
    double all = 0;
    size_t training = 0;
    for (size_t d = 0; d < p->devices; d++) {
        all += sum_of(&p->sums[d]);
        training += sum_of(&p->sums[d]) > 0;
    }
    trial->profiled_ms = all * 1e-6 / fmax((double)training, 1) / (double)p->steps;
    for (size_t d = 0; d < p->devices && all > 0; d++)
        for (int use = 0; use < LS_TIME_USES; use++)
            trial->part_ms[use] += (double)p->sums[d].ns[use] / all * mean_ms;
    for (size_t d = 0; d < p->here; d++) {
        const double its = sum_of(&mine[d]), ms = its > 0 ? mean_ms / its : 0;
        const double wait_ms = (double)mine[d].ns[LS_TIME_WAIT] * ms;
        trial->loads[d] = (ls_device_load){.busy_ms = its * ms - wait_ms,
                                           .wait_ms = wait_ms,
                                           .gather_ms = (double)mine[d].ns[LS_TIME_GATHER] * ms};
    }
}

/* Of long steps, few. */
ls_status ls_trial_profile(ls_trial *trial)
{
    const ls_session *session = &trial->session;
    const ls_comm *comm = session->job.comm;
    const size_t here = session->device_count, devices = here * (comm ? (size_t)comm->size : 1);
    const uint64_t all = trial->timed_done < PROFILED ? trial->timed_done : PROFILED;
    const uint64_t most = is_pipeline(trial) ? ROUNDS : 1;
    const uint64_t rounds = all < most ? all : most, each = all / rounds;
    device_time *memory = calloc(devices + here, sizeof *memory);
    ls_time_profile *sums = calloc(2 * devices, sizeof *sums);
    ls_status status =
        memory && sums ? LS_OK : ls_fail_memory("profile", (2 * devices + here) * sizeof *memory);
    status = ls_world_agree(session->job.comm, status);
    if (status) {
        free(memory);
        free(sums);
        return status;
    }
    profile p = {.trial = trial,
                 .here = here,
                 .devices = devices,
                 .steps = rounds * (trial->chunk < each ? trial->chunk : each),
                 .all = memory,
                 .mine = memory + devices,
                 .times = sums + devices,
                 .sums = sums};
    status = take_rounds(&p, rounds, p.steps / rounds);
    if (!status)
        measure_parts(&p);
    for (size_t s = 0; s < trial->server_count && !status; s++)
        trial->servers[s].busy = ls_ps_report_busy(session->run, s);
    free(memory);
    free(sums);
    return status;
}
