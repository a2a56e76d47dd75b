/* SPDX-License-Identifier: MIT */
/* A trial's figures: which timed steps count, and how precisely their median is known. */
#include "bench/statistics/steady.h"
#include "bench/train/world.h"
#include "bench/train/trial.h"

#include "common/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the records of steps: no interval is narrower. */
static const double tick_ms = 1e-6;

/* Discards the first samples of a block that are not yet steady, if samples are single steps and
 * workers wait for each other. */
static ls_status leave_out(ls_trial *trial, uint64_t first_step)
{
    const size_t begin = trial->blocks ? trial->ends[trial->blocks - 1] : 0;
    const size_t count = trial->samples - begin;
    double *times = trial->step_ms + begin;
    const uint64_t steps = trial->session.step - first_step;
    size_t out = 0;
    if (count == steps && !ls_ps_by_arrival(&trial->session.job.ps))
        LS_TRY(ls_steady_from(times, count, &out));
    ls_account_take(trial, times, out);
    for (size_t i = 0; i < out; i++)
        trial->discarded_ms += times[i];
    memmove(times, times + out, (count - out) * sizeof *times);
    trial->samples -= out;
    trial->discarded += out;
    trial->discarded_samples += ls_job_samples(&trial->session.job, first_step + out) -
                                ls_job_samples(&trial->session.job, first_step);
    return LS_OK;
}

/* Timed steps that count. */
static uint64_t counted(const ls_trial *trial)
{
    return trial->timed_done - trial->discarded;
}

double ls_trial_mean_ms(const ls_trial *trial)
{
    return (trial->timed_ms - trial->discarded_ms) / (double)counted(trial);
}

uint64_t ls_trial_trained(const ls_trial *trial)
{
    const ls_job *job = &trial->session.job;
    const uint64_t warmup = (uint64_t)trial->plan->warmup;
    return ls_job_samples(job, warmup + trial->timed_done) - ls_job_samples(job, warmup) -
           trial->discarded_samples;
}

double ls_trial_step_samples(const ls_trial *trial)
{
    return (double)ls_trial_trained(trial) / (double)counted(trial);
}

bool ls_trial_is_even(const ls_trial *trial)
{
    const ls_job *job = &trial->session.job;
    const bool alone = ls_strategy_serves(trial->plan->strategy) && job->ps.mode != LS_PS_SYNC;
    return !alone && ls_trial_trained(trial) == counted(trial) * (uint64_t)job->batch;
}

ls_status ls_trial_begin_block(ls_trial *trial, bool reopens)
{
    if (reopens) {
        const uint64_t begin_ns = ls_clock_ns();
        LS_TRY(ls_session_reopen(trial->workplace, &trial->session));
        trial->reopen_ns += ls_clock_ns() - begin_ns;
        trial->reopened++;
        trial->fresh = true;
    }
    ls_noise_begin(&trial->noise, trial->session.devices, trial->session.device_count);
    return LS_OK;
}

ls_status ls_trial_end_block(ls_trial *trial, uint64_t first_step)
{
    LS_TRY(leave_out(trial, first_step));
    if (trial->samples > (trial->blocks ? trial->ends[trial->blocks - 1] : 0)) {
        trial->ends[trial->blocks] = trial->samples;
        trial->work[trial->blocks++] =
            (ls_worked){(double)ls_trial_trained(trial), trial->timed_ms - trial->discarded_ms};
    }
    return LS_OK;
}

ls_status ls_trial_statistics(const ls_trial *trial, ls_statistics *out, double ci95[2])
{
    double *sorted = calloc(trial->samples + 1, sizeof *sorted);
    if (!sorted)
        return ls_fail_memory("statistics", trial->samples * sizeof *sorted);
    memcpy(sorted, trial->step_ms, trial->samples * sizeof *sorted);
    ls_statistics_compute(sorted, trial->samples, out);
    free(sorted);
    if (!ci95)
        return LS_OK;
    LS_TRY(ls_statistics_interval(trial->step_ms, trial->ends, trial->blocks, ci95));
    if (isnan(ci95[0]))
        return LS_OK;
    ci95[0] = fmin(ci95[0], out->median - 0.5 * tick_ms); /* few draws may miss the median */
    ci95[1] = fmax(ci95[1], out->median + 0.5 * tick_ms);
    return LS_OK;
}

ls_status ls_trial_sample_ms(const ls_trial *trial, ls_sample_ms *out)
{
    ls_statistics s;
    *out = (ls_sample_ms){0};
    LS_TRY(ls_trial_statistics(trial, &s, NULL));
    out->median = s.median / (double)trial->session.job.batch;
    out->mean = (trial->timed_ms - trial->discarded_ms) / (double)ls_trial_trained(trial);
    out->even = ls_trial_is_even(trial);
    return LS_OK;
}

ls_status ls_trial_rate(const ls_trial *trial, double *rate, double ci95[2])
{
    *rate = (double)ls_trial_trained(trial) / ((trial->timed_ms - trial->discarded_ms) * 1e-3);
    LS_TRY(ls_statistics_rate_interval(trial->work, trial->blocks, ci95));
    if (isnan(ci95[0]))
        return LS_OK;
    ci95[0] = fmin(ci95[0], *rate);
    ci95[1] = fmax(ci95[1], *rate);
    return LS_OK;
}

/* Whether the interval is narrow enough. With many blocks it is slow to compute, so it is only
 * computed again when there are 10% more blocks. */
static ls_status is_precise(ls_trial *trial, double precision, bool late, bool *out)
{
    ls_statistics steps;
    double ci95[2], figure;
    *out = false;
    if (trial->blocks < LS_STATISTICS_BLOCKS ||
        (!late && trial->looked && trial->blocks < trial->looked + trial->looked / 10))
        return LS_OK;
    trial->looked = trial->blocks;
    if (ls_trial_is_even(trial)) {
        LS_TRY(ls_trial_statistics(trial, &steps, ci95));
        figure = steps.median;
    } else {
        LS_TRY(ls_trial_rate(trial, &figure, ci95));
    }
    const double over = (ci95[1] - ci95[0]) / 2 / (precision * figure); /* 20 blocks have ci95 */
    *out = over <= 1;
    if (!*out) /* four times the blocks halve the interval */
        trial->planned = (uint64_t)((double)trial->timed_done * over * over);
    return LS_OK;
}

ls_status ls_trial_wants_more(ls_trial *trial, double precision, bool late, bool *out)
{
    bool precise = true, stop = false;
    ls_status status =
        trial->stopped || !trial->samples ? LS_OK : is_precise(trial, precision, late, &precise);
    uint64_t answer = (uint64_t)(precise ? 0 : 1) + (uint64_t)(late ? 2 : 0);
    LS_TRY(ls_world_turn(trial->session.job.comm, status, &answer, &stop));
    *out = answer == 1;
    trial->imprecise = answer == 3;
    return LS_OK;
}
