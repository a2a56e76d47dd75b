/* SPDX-License-Identifier: MIT */
/* The ranking of an advice: in order, and of many devices corrected by those that are played. */
#include "bench/predict/advise/advise_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static int by_rate(const void *x, const void *y)
{
    const ls_advised *a = x, *b = y;
    return (a->samples_per_s < b->samples_per_s) - (a->samples_per_s > b->samples_per_s);
}

void ls_advising_rank(ls_advice *advice)
{
    if (advice->count)
        qsort(advice->ranking, advice->count, sizeof *advice->ranking, by_rate);
}

/* What playing changes: the mean ratio, the largest difference from it, the widest interval. */
static void rate_others(ls_advice *advice)
{
    double sum = 0, count = 0, apart = 0, half = 0;
    for (size_t i = 0; i < advice->count; i++) {
        const ls_advised *one = &advice->ranking[i];
        if (!one->played)
            continue;
        const double width = (one->ci95[1] - one->ci95[0]) / 2 / one->samples_per_s;
        sum += one->samples_per_s / one->quick_per_s;
        count++;
        half = width > half ? width : half;
    }
    const double ratio = count > 0 ? sum / count : 1;
    for (size_t i = 0; i < advice->count; i++) {
        const ls_advised *one = &advice->ranking[i];
        const double off = fabs(one->samples_per_s / (one->quick_per_s * ratio) - 1);
        apart = one->played && off > apart ? off : apart;
    }
    for (size_t i = 0; i < advice->count; i++) {
        ls_advised *one = &advice->ranking[i];
        if (one->played)
            continue;
        one->samples_per_s = one->quick_per_s * ratio;
        one->ci95[0] = one->samples_per_s * fmax(1 - apart - half, 0);
        one->ci95[1] = one->samples_per_s * (1 + apart + half);
    }
}

/* The best one that was not played, of the first `most`. */
static size_t find_unplayed(const ls_advice *advice, size_t most)
{
    size_t i = 0;
    while (i < advice->count && i < most && advice->ranking[i].played)
        i++;
    return i < advice->count && i < most ? i : SIZE_MAX;
}

static ls_status play_one(ls_advising *a, ls_advised *one)
{
    ls_predicted predicted;
    ls_status refused;
    ls_advising_show(a, one->config.strategy->name, one->options);
    LS_TRY(ls_advising_predict(a, one, &predicted, &refused));
    ls_predicted_close(&predicted);
    one->played = true;
    return refused;
}

ls_status ls_advising_play_first(ls_advising *a, size_t first)
{
    enum { MOST = 12 };
    ls_advice *out = a->out;
    for (size_t i = 0; i < out->count; i++)
        out->ranking[i].quick_per_s = out->ranking[i].samples_per_s;
    size_t at = 0;
    for (size_t plays = 0; at != SIZE_MAX && out->count; plays++) {
        at = find_unplayed(out, plays < MOST ? first : 1);
        if (at != SIZE_MAX)
            LS_TRY(play_one(a, &out->ranking[at]));
        rate_others(out);
        ls_advising_rank(out);
    }
    return LS_OK;
}

void ls_advising_ties(ls_advice *advice)
{
    while (advice->tied < advice->count &&
           advice->ranking[advice->tied].ci95[1] >= advice->ranking[0].ci95[0])
        advice->tied++;
}
