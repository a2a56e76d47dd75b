/* SPDX-License-Identifier: MIT */
/*
 * The ranking of an advice: which estimates are played, in which order, and how wide the interval
 * of an estimate is.
 *
 * Estimates of 150 combinations, on three two-level platforms with 16 and 32 devices, differed from
 * what SimGrid plays by less than 5%, except for many small messages at once (`towers`,
 * halving-doubling of a small model), where ports that share fairly took up to twice the time. On
 * flat platforms and files the play uses the estimates' engine. Where playing has changed an
 * estimate by more than that, the interval of all others is twice as wide as that change.
 */
#include "bench/predict/advise/advise_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int by_rate(const void *x, const void *y)
{
    const ls_advised *a = x, *b = y;
    if (a->samples_per_s < b->samples_per_s || a->samples_per_s > b->samples_per_s)
        return a->samples_per_s < b->samples_per_s ? 1 : -1;
    return (a->memory > b->memory) - (a->memory < b->memory);
}

/* The largest relative change by playing, with the interval of the played case. */
static double find_change(const ls_advice *advice)
{
    double most = 0;
    for (size_t i = 0; i < advice->count; i++) {
        const ls_advised *one = &advice->ranking[i];
        if (!one->played)
            continue;
        const double width = (one->ci95[1] - one->ci95[0]) / 2 / one->samples_per_s;
        most = fmax(most, fabs(one->samples_per_s / one->quick_per_s - 1) + width);
    }
    return most;
}

void ls_advising_rank(const ls_advising *a)
{
    static const double like = 0.05, slower = 0.5, faster = 0.1;
    const bool levels = a->predictor->platform.kind == LS_PLATFORM_TWO_LEVEL;
    ls_advice *advice = a->out;
    const double change = 2 * find_change(advice);
    for (size_t i = 0; i < advice->count; i++) {
        ls_advised *one = &advice->ranking[i];
        if (one->played)
            continue;
        const double below = fmax(levels ? slower : like, change);
        one->ci95[0] = one->samples_per_s * fmax(1 - below, 0);
        one->ci95[1] = one->samples_per_s * (1 + fmax(levels ? faster : like, change));
    }
    if (advice->count)
        qsort(advice->ranking, advice->count, sizeof *advice->ranking, by_rate);
}

size_t ls_advice_find(const ls_advice *advice, const ls_advised *one)
{
    size_t i = 0;
    while (i < advice->count && (advice->ranking[i].config.strategy != one->config.strategy ||
                                 strcmp(advice->ranking[i].options, one->options) != 0))
        i++;
    return i;
}

/* The best combination of another strategy than the first has; the length: there is none. */
static size_t find_second(const ls_advice *advice)
{
    size_t i = advice->count ? 1 : 0;
    while (i < advice->count &&
           advice->ranking[i].config.strategy == advice->ranking[0].config.strategy)
        i++;
    return i;
}

/* What is played next: one of the first `most`, then one that the answer's lines name. */
static size_t find_unplayed(const ls_advice *advice, size_t most)
{
    const size_t named[] = {find_second(advice), ls_advice_find(advice, &advice->usual)};
    for (size_t i = 0; i < advice->count && i < most; i++)
        if (!advice->ranking[i].played)
            return i;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i] < advice->count && !advice->ranking[named[i]].played)
            return named[i];
    return SIZE_MAX;
}

/* A case may be refused though its estimate was not: it is played for more steps. */
static ls_status play_one(ls_advising *a, size_t number)
{
    ls_advised *one = &a->out->ranking[number];
    ls_advising_show(a, one->config.strategy->name, one->options);
    ls_status refused = ls_advising_predict(a, one, NULL);
    one->played = !refused;
    return !refused || ls_status_code(refused) == LS_CODE_INTERRUPTED
               ? refused
               : ls_advising_withdraw(a, number, refused);
}

ls_status ls_advising_play_first(ls_advising *a)
{
    enum { FIRST = 6 };
    ls_status status = LS_OK;
    ls_advising_rank(a);
    for (size_t plays = 0; !status; plays++) {
        const size_t at = find_unplayed(a->out, FIRST);
        if (at == SIZE_MAX || (plays && ls_advising_spent(a) > LS_ADVICE_PLAY_S))
            return LS_OK;
        status = play_one(a, at);
        ls_advising_rank(a);
    }
    return status;
}

void ls_advising_ties(ls_advice *advice)
{
    const size_t second = find_second(advice);
    advice->second = second < advice->count ? second : 0;
    advice->tied = 0;
    while (advice->tied < advice->count &&
           advice->ranking[advice->tied].ci95[1] >= advice->ranking[0].ci95[0])
        advice->tied++;
}
