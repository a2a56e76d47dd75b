/* SPDX-License-Identifier: MIT */
/*
 * Remaining work; see work_left.h. A part's expected time is multiplied by the ratio of spent to
 * expected time of all parts so far whose expected times come from the same source: a count of
 * operations, or measured steps. Openings, which no count predicts, are left out.
 */
#include "bench/progress/work_left.h"

/* Below the following fractions and times, a part does not predict its own rest. */
static const double least_share = 0.02, least_s = 0.02, sure_share = 0.2;

void ls_work_expect(ls_work *work, size_t index, const double seconds[LS_PHASES], bool measured)
{
    ls_work_case *c = &work->cases[index];
    for (int phase = 0; phase < LS_PHASES; phase++) {
        if (measured && phase <= LS_PHASE_CHECKING)
            continue; /* counted parts are only compared with other counted parts */
        if (measured && phase <= LS_PHASE_TIMING) { /* steps */
            work->counted += c->part[phase].expected;
            work->measured += seconds[phase];
        }
        c->part[phase].expected = seconds[phase];
    }
    c->measured = measured;
}

void ls_work_enter(ls_work *work, size_t index, ls_phase phase)
{
    if (work->now < work->count && work->phase != LS_PHASE_TIMING)
        ls_work_share(work, 1);
    work->now = index;
    work->phase = phase;
}

void ls_work_spend(ls_work *work, double seconds)
{
    if (work->now < work->count)
        work->cases[work->now].part[work->phase].spent += seconds;
}

void ls_work_share(ls_work *work, double share)
{
    ls_work_part *part = &work->cases[work->now].part[work->phase];
    part->share = share > part->share ? share < 1 ? share : 1 : part->share;
    part->at = part->spent;
}

void ls_work_end(ls_work *work, size_t index)
{
    for (int phase = 0; phase < LS_PHASES; phase++) {
        ls_work_part *part = &work->cases[index].part[phase];
        part->at = part->spent;
        part->share = 1;
    }
}

/* ---- What is left --------------------------------------------------------------------------- */

typedef struct sums {
    double spent, expected;
} sums;

static double ratio(const sums *s)
{
    return s->expected > 0 && s->spent > 0 ? s->spent / s->expected : 0;
}

static void add(const ls_work_part *part, sums *to)
{
    if (part->share >= least_share && part->at >= least_s) {
        to->spent += part->at;
        to->expected += part->expected * part->share;
    }
}

/* For the current part: the more of it is done, the more its own pace counts. */
static double part_left(const ls_work_part *part, double times, bool at_work)
{
    const double sure = part->share < least_share || part->at < least_s ? 0
                        : part->share < sure_share                      ? part->share / sure_share
                                                                        : 1;
    const double whole = sure > 0
                             ? sure * part->at / part->share + (1 - sure) * part->expected * times
                             : part->expected * times;
    const double left = whole * (1 - part->share) - (at_work ? part->spent - part->at : 0);
    return left > 0 ? left : 0;
}

double ls_work_left(const ls_work *work)
{
    sums counts = {0}, steps = {0}; /* of parts by a count of operations; by measured steps */
    double left = 0;
    for (size_t i = 0; i < work->count; i++)
        for (int p = LS_PHASE_OPENING + 1; p < LS_PHASES; p++)
            add(&work->cases[i].part[p],
                p > LS_PHASE_CHECKING && work->cases[i].measured ? &steps : &counts);
    const double counted = ratio(&counts), measured = ratio(&steps) > 0 ? ratio(&steps) : 1;
    if (counted <= 0 && work->counted <= 0)
        return -1;
    const double later = work->counted > 0 ? measured * work->measured / work->counted : counted;
    for (size_t i = 0; i < work->count; i++)
        for (int p = 0; p < LS_PHASES; p++) {
            const ls_work_part *part = &work->cases[i].part[p];
            const double times = p <= LS_PHASE_CHECKING    ? counted
                                 : work->cases[i].measured ? measured
                                                           : later;
            if (part->share < 1)
                left += part_left(part, times > 0 ? times : 1,
                                  i == work->now && (ls_phase)p == work->phase);
        }
    return left;
}
