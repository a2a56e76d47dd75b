/* SPDX-License-Identifier: MIT */
/* Times of steps, and their figures; see timed.h. */
#include "bench/train/trial/timed.h"

#include "bench/statistics/statistics.h"
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The resolution of steps' records: no interval is narrower. */
static const double tick_ms = 1e-6;

ls_timed ls_timed_begin(const ls_plan_of_case *plan, const ls_request *request)
{
    ls_timed timed = {.plan = plan, .planned = (uint64_t)plan->timed};
    if (request->precision > 0 && request->blocks < LS_STATISTICS_BLOCKS)
        timed.planned = timed.planned * LS_STATISTICS_BLOCKS / (uint64_t)request->blocks;
    return timed;
}

void ls_timed_close(ls_timed *timed)
{
    free(timed->step_ms);
    free(timed->ends);
    free(timed->work);
    free(timed->enqueue_ns);
    *timed = (ls_timed){0};
}

ls_status ls_timed_expect(ls_timed *timed, uint64_t count)
{
    const size_t steps = timed->done + count + 1, room = steps + timed->room;
    if (timed->planned < timed->done + count)
        timed->planned = timed->done + count;
    if (steps <= timed->room)
        return LS_OK;
    LS_TRY(ls_enlarge("trial", &timed->step_ms, room, sizeof *timed->step_ms));
    LS_TRY(ls_enlarge("trial", &timed->enqueue_ns, room, sizeof *timed->enqueue_ns));
    LS_TRY(ls_enlarge("trial", &timed->ends, room, sizeof *timed->ends));
    LS_TRY(ls_enlarge("trial", &timed->work, room, sizeof *timed->work));
    timed->room = room;
    return LS_OK;
}

/* A sample is one step, or on GPUs with a timer of 1 us the mean of enough steps to make its
 * resolution negligible. */
void ls_timed_add(ls_timed *timed, const ls_step_times *steps)
{
    const bool gpu = timed->plan->devices->kind == LS_DEVICE_GPU;
    const size_t group = gpu ? ls_statistics_group_size(1e-3, steps->mean_ms) : 1;
    timed->samples +=
        ls_statistics_group(steps->ms, steps->count, group, timed->step_ms + timed->samples);
    timed->enqueue_ns[timed->calls++] = steps->host_ns;
    timed->done += steps->count;
    timed->ms += steps->mean_ms * (double)steps->count;
}

static size_t block_begin(const ls_timed *timed)
{
    return timed->blocks ? timed->ends[timed->blocks - 1] : 0;
}

const double *ls_timed_block_ms(const ls_timed *timed)
{
    return timed->step_ms + block_begin(timed);
}

/* The rest of a block is whole periods, wherever in a period it begins. A block that is shorter
 * counts with all its steps: together with its neighbours it may be whole periods. */
static size_t beyond_periods(size_t period, size_t count, size_t unsteady)
{
    const size_t kept = count - unsteady < period ? period : count - unsteady;
    return count < period ? 0 : count - kept / period * period;
}

ls_status ls_timed_unsteady(const ls_timed *timed, uint64_t steps, size_t *out)
{
    const size_t count = timed->samples - block_begin(timed);
    *out = 0;
    if (count != steps || ls_ps_by_arrival(&timed->plan->job.ps))
        return LS_OK;
    LS_TRY(ls_steady_from(ls_timed_block_ms(timed), count, out));
    if (timed->plan->job.update.period > 1)
        *out = beyond_periods((size_t)timed->plan->job.update.period, count, *out);
    return LS_OK;
}

void ls_timed_end_block(ls_timed *timed, uint64_t first_step, size_t left_out)
{
    const ls_job *job = &timed->plan->job;
    const size_t begin = block_begin(timed), kept = timed->samples - begin - left_out;
    double *times = timed->step_ms + begin;
    for (size_t i = 0; i < left_out; i++)
        timed->discarded_ms += times[i];
    memmove(times, times + left_out, kept * sizeof *times);
    timed->samples -= left_out;
    timed->discarded += left_out;
    timed->discarded_samples +=
        ls_job_samples(job, first_step + left_out) - ls_job_samples(job, first_step);
    if (!kept)
        return;
    timed->ends[timed->blocks] = timed->samples;
    timed->work[timed->blocks++] =
        (ls_worked){(double)ls_timed_trained(timed), timed->ms - timed->discarded_ms};
}

uint64_t ls_timed_counted(const ls_timed *timed)
{
    return timed->done - timed->discarded;
}

bool ls_timed_is_whole(const ls_timed *timed)
{
    const uint64_t period = (uint64_t)timed->plan->job.update.period;
    return period < 2 || ls_timed_counted(timed) % period == 0;
}

double ls_timed_mean_ms(const ls_timed *timed)
{
    return (timed->ms - timed->discarded_ms) / (double)ls_timed_counted(timed);
}

uint64_t ls_timed_trained(const ls_timed *timed)
{
    const ls_job *job = &timed->plan->job;
    const uint64_t first = timed->plan->job.start + (uint64_t)timed->plan->warmup;
    return ls_job_samples(job, first + timed->done) - ls_job_samples(job, first) -
           timed->discarded_samples;
}

double ls_timed_step_samples(const ls_timed *timed)
{
    return (double)ls_timed_trained(timed) / (double)ls_timed_counted(timed);
}

/* See ls_sample_ms. */
static bool is_even(const ls_timed *timed)
{
    const ls_job *job = &timed->plan->job;
    const bool alone = ls_strategy_serves(timed->plan->strategy) && job->ps.mode != LS_PS_SYNC;
    return !alone && job->update.period < 2 &&
           ls_timed_trained(timed) == ls_timed_counted(timed) * (uint64_t)job->batch;
}

ls_status ls_timed_statistics(const ls_timed *timed, ls_statistics *out, double ci95[2])
{
    ls_auto double *sorted = NULL;
    LS_TRY(ls_allocate("statistics", &sorted, timed->samples, sizeof *sorted));
    memcpy(sorted, timed->step_ms, timed->samples * sizeof *sorted);
    ls_statistics_compute(sorted, timed->samples, out);
    if (!ci95)
        return LS_OK;
    LS_TRY(ls_statistics_interval(timed->step_ms, timed->ends, timed->blocks, ci95));
    if (isnan(ci95[0]))
        return LS_OK;
    ci95[0] = fmin(ci95[0], out->median - 0.5 * tick_ms); /* few draws may miss the median */
    ci95[1] = fmax(ci95[1], out->median + 0.5 * tick_ms);
    return LS_OK;
}

ls_status ls_timed_sample_ms(const ls_timed *timed, ls_sample_ms *out)
{
    ls_statistics s;
    double ci95[2];
    *out = (ls_sample_ms){.ci95 = {NAN, NAN}};
    LS_TRY(ls_timed_statistics(timed, &s, ci95));
    out->median = s.median / (double)timed->plan->job.batch;
    for (size_t i = 0; i < 2; i++)
        out->ci95[i] = ci95[i] / (double)timed->plan->job.batch;
    out->mean = ls_timed_counted(timed) < (uint64_t)timed->plan->job.update.period
                    ? NAN
                    : (timed->ms - timed->discarded_ms) / (double)ls_timed_trained(timed);
    out->even = is_even(timed);
    return LS_OK;
}

ls_status ls_timed_rate(const ls_timed *timed, double *rate, double ci95[2])
{
    *rate = (double)ls_timed_trained(timed) / ((timed->ms - timed->discarded_ms) * 1e-3);
    LS_TRY(ls_statistics_rate_interval(timed->work, timed->blocks, ci95));
    if (isnan(ci95[0]))
        return LS_OK;
    ci95[0] = fmin(ci95[0], *rate);
    ci95[1] = fmax(ci95[1], *rate);
    return LS_OK;
}

/* Whether the interval is narrow enough. With many blocks it is slow to compute, so it is only
 * computed again when there are 10% more blocks. */
static ls_status is_precise(ls_timed *timed, double precision, bool late, bool *out)
{
    ls_statistics steps;
    double ci95[2], figure;
    *out = false;
    if (timed->blocks < LS_STATISTICS_BLOCKS ||
        (!late && timed->looked && timed->blocks < timed->looked + timed->looked / 10))
        return LS_OK;
    timed->looked = timed->blocks;
    if (is_even(timed)) {
        LS_TRY(ls_timed_statistics(timed, &steps, ci95));
        figure = steps.median;
    } else {
        LS_TRY(ls_timed_rate(timed, &figure, ci95));
    }
    const double over = (ci95[1] - ci95[0]) / 2 / (precision * figure); /* 20 blocks have ci95 */
    *out = over <= 1;
    if (!*out) /* four times the blocks halve the interval */
        timed->planned = (uint64_t)((double)timed->done * over * over);
    return LS_OK;
}

ls_status ls_timed_wants_more(ls_timed *timed, ls_comm *comm, bool stopped, double precision,
                              bool late, bool *out)
{
    bool precise = true;
    ls_status status =
        stopped || !timed->samples ? LS_OK : is_precise(timed, precision, late, &precise);
    uint64_t answer = (uint64_t)(precise ? 0 : 1) + (uint64_t)(late ? 2 : 0);
    LS_TRY(ls_world_turn(comm, status, &answer, NULL));
    *out = answer == 1;
    timed->imprecise = answer == 3;
    return LS_OK;
}
