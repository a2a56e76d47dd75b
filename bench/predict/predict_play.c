/* SPDX-License-Identifier: MIT */
/* Plays a case that was built on virtual devices, some times over; see predict_parts.h. */
#include "bench/predict/predict_parts.h"

#include "bench/case/profile.h"
#include "bench/predict/durations_parts.h"
#include "bench/predict/unroll.h"
#include "bench/statistics/statistics.h"
#include "bench/train/interrupt.h"
#include "common/base/digest.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const ls_durations *ls_predictor_durations(const ls_predictor *p, const ls_plan_of_case *plan)
{
    static const ls_durations of_profile = {.profile = true};
    return ls_profile_is(plan->config->model) ? &of_profile : &p->durations;
}

/* ---- Draws ---------------------------------------------------------------------------------- */

static size_t repetitions_of(const ls_durations *d)
{
    return d->spread_count < LS_REPETITIONS_MOST ? d->spread_count : LS_REPETITIONS_MOST;
}

double ls_durations_error(const ls_durations *d)
{
    double sum = 0, squares = 0;
    const double n = (double)d->spread_count;
    for (size_t i = 0; i < d->spread_count; i++) {
        sum += d->spread[i];
        squares += d->spread[i] * d->spread[i];
    }
    if (d->spread_count < 2)
        return 0;
    /* 1.96 standard errors of a median, of values with a normal distribution's */
    const double deviation = sqrt(fmax(squares / n - sum / n * (sum / n), 0));
    return 1.96 * 1.2533 * deviation / sqrt((double)repetitions_of(d)) / (sum / n);
}

static double drawn(const ls_durations *d, uint64_t seed, uint64_t number, uint64_t i)
{
    const uint64_t key[3] = {seed, number, i};
    return d->spread[ls_hash64(key, sizeof key) % d->spread_count];
}

/* Another median that the repetitions might have had: all durations of a draw are as much longer
 * (bootstrap). */
static double other_median(const ls_durations *d, uint64_t seed, uint64_t number)
{
    double values[LS_REPETITIONS_MOST];
    const size_t count = repetitions_of(d);
    for (size_t i = 0; i < count; i++)
        values[i] = drawn(d, seed, number, UINT64_MAX - i);
    return ls_statistics_median(values, count);
}

/* Each device in each step is as much slower than the median as some measured repetition was, and
 * the median is as uncertain as they make it. */
static void draw(const ls_predictor *p, const ls_durations *d, const ls_play *play, uint64_t seed,
                 uint64_t number, bool medians, size_t steps, double *factors)
{
    const bool same = medians || !d->spread_count;
    const double all = same ? 1 : other_median(d, seed, number);
    for (size_t i = 0; i < steps * (size_t)play->devices; i++) {
        factors[i] = same ? 1 : all * drawn(d, seed, number, i);
        if ((int)(i % (size_t)play->devices) == p->slow_device)
            factors[i] *= p->slow_factor;
    }
}

/* The times of the counted steps, from the ends of all. */
static void take_steps(const ls_unrolled *u, const double *end_ns, size_t warmup, size_t steps,
                       double *ends, double *step_ms)
{
    const ls_play_graph *g = &u->graph;
    memset(ends, 0, (warmup + steps) * sizeof *ends);
    for (size_t i = 0; i < u->end_count; i++) {
        const bool repeats = u->ends[i] >= g->count - g->repeated;
        for (size_t n = u->ends[i]; n < g->played; n = repeats ? n + g->repeated : g->played) {
            const uint32_t step = ls_play_activity(g, n).step;
            ends[step] = end_ns[n] > ends[step] ? end_ns[n] : ends[step];
        }
    }
    for (size_t s = 0; s < steps; s++)
        step_ms[s] = (ends[warmup + s] - (warmup + s ? ends[warmup + s - 1] : 0)) * 1e-6;
}

typedef struct play_room {
    double *end_ns, *factors, *ends, *sorted;
} play_room;

static void free_room(play_room *room)
{
    free(room->end_ns);
    free(room->factors);
    free(room->ends);
    free(room->sorted);
}

static ls_status take_draw(const ls_unrolled *u, const double *end_ns, size_t warmup,
                           play_room *room, size_t number, ls_predicted *out)
{
    double *step_ms = out->step_ms + number * out->steps;
    take_steps(u, end_ns, warmup, out->steps, room->ends, step_ms);
    for (size_t i = 0; i < out->steps; i++) {
        out->all_ms += step_ms[i];
        if (!isfinite(step_ms[i]))
            return ls_fail(LS_CODE_MISSING, "predict", "times",
                           "the simulated times are too large to compute with; use a higher rate "
                           "in --durations, or a smaller factor in --slowdown");
    }
    return LS_OK;
}

static ls_status play_draws(const ls_predictor *p, const ls_plan_of_case *plan,
                            const ls_unrolled *u, ls_play *play, size_t warmup, play_room *room,
                            ls_predicted *out)
{
    /* How many draws are played at once, of which SimGrid's helper reads the graph once: their
     * times have room. */
    enum { TIMES = 1 << 23 };
    const size_t fit = p->engine == LS_ENGINE_PORTS ? 1 : TIMES / (u->graph.played + 1);
    const size_t all = warmup + out->steps, batch = fit < 1            ? 1
                                                    : fit < out->draws ? fit
                                                                       : out->draws;
    play->factor_count = all * (size_t)play->devices;
    LS_TRY(ls_allocate("predict", &room->end_ns, batch * u->graph.played, sizeof(double)));
    LS_TRY(ls_allocate("predict", &room->factors, batch * play->factor_count, sizeof(double)));
    LS_TRY(ls_allocate("predict", &room->ends, all, sizeof(double)));
    LS_TRY(ls_allocate("predict", &room->sorted, out->steps, sizeof(double)));
    LS_TRY(ls_allocate("predict", &out->step_ms, out->draws * out->steps, sizeof(double)));
    if (ls_plan_is_pipeline(plan))
        LS_TRY(ls_allocate("predict", &out->uses_ns, (size_t)play->devices * LS_TIME_USES,
                           sizeof(double)));
    play->factors = room->factors;
    for (size_t first = 0; first < out->draws; first += batch) {
        const size_t left = out->draws - first, count = left < batch ? left : batch;
        if (ls_interrupted())
            return ls_engine_interrupted();
        for (size_t d = 0; d < count; d++)
            draw(p, ls_predictor_durations(p, plan), play, plan->config->seed, first + d,
                 out->draws == 1, all, room->factors + d * play->factor_count);
        LS_TRY(ls_engine_play(p->engine, play, count, room->end_ns));
        for (size_t d = 0; d < count; d++) {
            ls_play drawn = *play;
            drawn.factors += d * play->factor_count;
            /* what all devices did in the counted steps */
            double ns = 0;
            for (size_t n = 0; n < drawn.graph->played; n++) {
                const ls_play_graph *g = drawn.graph;
                const ls_activity_node node = ls_play_activity(g, n);
                if (node.to >= 0 || node.rounds || node.step < warmup)
                    continue;
                const double amount = ls_play_amount(&drawn, &node);
                ns += amount;
                if (out->uses_ns)
                    out->uses_ns[node.from * LS_TIME_USES +
                                 (int)g->labels[n - ls_play_again(g, n) * g->repeated].use] +=
                        amount;
            }
            out->busy_ms += ns * 1e-6;
            LS_TRY(take_draw(u, room->end_ns + d * u->graph.played, warmup, room, first + d, out));
        }
    }
    return LS_OK;
}

/* Rounded up, as of `run`. */
static ls_traffic per_step(ls_traffic sum, size_t steps)
{
    return (ls_traffic){(sum.bytes_sent + steps - 1) / steps,
                        (sum.messages_sent + steps - 1) / steps};
}

/* The median step on another platform, or with a period the mean one, with median durations. */
static ls_status play_other(const ls_predictor *p, const ls_plan_of_case *plan, ls_play play,
                            const ls_platform *platform, ls_unrolled *unrolled, play_room *room,
                            double *out)
{
    const size_t warmup = (size_t)plan->warmup, steps = (size_t)plan->timed;
    const bool ports = platform->kind != LS_PLATFORM_FILE; /* an estimate is enough */
    play.platform = platform;
    draw(p, ls_predictor_durations(p, plan), &play, 0, 0, true, warmup + steps, room->factors);
    LS_TRY(ls_unrolled_move(unrolled, platform, p->devices_per_host));
    LS_TRY(ls_engine_play(ports ? LS_ENGINE_PORTS : p->engine, &play, 1, room->end_ns));
    take_steps(unrolled, room->end_ns, warmup, steps, room->ends, room->sorted);
    *out = plan->job.update.period > 1 ? ls_statistics_mean(room->sorted, steps)
                                       : ls_statistics_median(room->sorted, steps);
    return LS_OK;
}

/* For other simulators, which have no flows. */
static ls_status write_graph(const ls_prediction_request *files, const ls_play *play,
                             ls_predicted *out)
{
    for (size_t n = 0; n < play->graph->count; n++)
        if (play->graph->nodes[n].to >= 0 && play->graph->nodes[n].rounds > 1)
            return ls_fail(
                LS_CODE_USAGE, files->goal ? "option --goal" : "option --chakra",
                files->goal ? files->goal : files->chakra,
                "this file needs a simulation of each message; add --collectives messages");
    if (files->goal)
        out->unsaved = ls_goal_write(files->goal, play);
    if (files->chakra)
        out->unsaved = ls_status_first(out->unsaved, ls_chakra_write(files->chakra, play));
    return LS_OK;
}

ls_status ls_predictor_play(const ls_predictor *p, const ls_plan_of_case *plan,
                            const ls_virtual_run *run, ls_predicted *out)
{
    const ls_prediction_request *files = p->request;
    /* the mean of the counted steps, which are whole periods */
    ls_traffic sum = {0};
    for (int64_t s = plan->warmup; s < plan->warmup + plan->timed; s++)
        ls_traffic_add(&sum,
                       ls_build_formula(&ls_step_run_of(run->run)->resources,
                                        ls_kind_of_step(&plan->job, LS_FULL, (uint64_t)s)),
                       1);
    out->formula = plan->timed ? per_step(sum, (size_t)plan->timed) : sum;
    if (!plan->timed)
        return LS_OK;
    out->steps = (size_t)plan->timed;
    const size_t steps = (size_t)(plan->warmup + plan->timed);
    const bool whole = files->trace || files->goal || files->chakra;
    const ls_unroll what = {.run = ls_step_run_of(run->run),
                            .algorithm = run->algorithm,
                            .durations = ls_predictor_durations(p, plan),
                            .platform = &p->platform,
                            .devices_per_host = p->devices_per_host,
                            .level = p->level,
                            .steps = steps,
                            .labelled = whole || ls_plan_is_pipeline(plan),
                            .whole = whole,
                            .warmup = (uint64_t)plan->warmup};
    ls_play play = {.platform = &p->platform,
                    .devices = (int)run->count,
                    .devices_per_host = p->devices_per_host,
                    .cores = ls_durations_cores(what.durations, p->devices_per_host),
                    .turn_ns = what.durations->turn_ns};
    ls_closing(ls_unrolled_close) ls_unrolled unrolled = {0};
    ls_closing(free_room) play_room room = {0};
    const ls_status unrolls = ls_unroll_steps(&what, &unrolled);
    play.graph = &unrolled.graph;
    out->activities = unrolled.graph.played;
    out->sent = per_step(unrolled.sent, out->steps);
    out->draws = !what.durations->spread_count ? 1 /* without a spread all are the same */
                 : p->draws                    ? (size_t)p->draws
                 : run->count > 256            ? 8
                                               : 32;
    LS_TRY(unrolls);
    LS_TRY(play_draws(p, plan, &unrolled, &play, (size_t)plan->warmup, &room, out));
    LS_TRY(ls_allocate("predict", &out->other_ms, p->other_count + 1, sizeof *out->other_ms));
    for (size_t i = 0; i < p->other_count; i++)
        LS_TRY(play_other(p, plan, play, &p->others[i], &unrolled, &room, &out->other_ms[i]));
    if (p->other_count)
        LS_TRY(ls_unrolled_move(&unrolled, &p->platform, p->devices_per_host));
    if (files->goal || files->chakra) { /* the first draw */
        draw(p, what.durations, &play, plan->config->seed, 0, out->draws == 1, steps, room.factors);
        LS_TRY(write_graph(files, &play, out));
    }
    if (!files->trace)
        return LS_OK;
    draw(p, what.durations, &play, 0, 0, true, steps, room.factors);
    LS_TRY(ls_engine_play(p->engine, &play, 1, room.end_ns)); /* once more, with median durations */
    out->unsaved = ls_status_first(
        out->unsaved, ls_virtual_trace_write(files->trace, &play, ls_step_run_of(run->run),
                                             room.end_ns, (uint32_t)plan->warmup));
    return LS_OK;
}
