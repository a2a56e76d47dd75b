/* SPDX-License-Identifier: MIT */
/*
 * Remaining work; see work_left.h. A part's expected time is multiplied by the ratio of spent to
 * expected time of similar parts: for steps, the case's own or, before it has any, the steps of all
 * cases; for another phase, the same phase of other cases; otherwise everything so far except
 * openings, which a count of operations does not predict.
 */
#include "bench/progress/work_left.h"

/* Below the following fractions and times, a part does not predict its own rest. */
static const double least_share = 0.02, least_s = 0.02, sure_share = 0.2;

static bool is_steps(ls_phase phase)
{
    return phase == LS_PHASE_WARM_UP || phase == LS_PHASE_TIMING;
}

void ls_work_expect(ls_work *work, size_t index, const double seconds[LS_PHASES], bool measured)
{
    ls_work_case *c = &work->cases[index];
    for (int phase = 0; phase < LS_PHASES; phase++) {
        if (measured && phase <= LS_PHASE_CHECKING)
            continue; /* counted parts are only compared with other counted parts */
        if (measured && is_steps((ls_phase)phase)) {
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

/* Adds the parts of a case that are similar to a phase. */
static void add_like(const ls_work_case *c, ls_phase phase, sums *to)
{
    for (int p = 0; p < LS_PHASES; p++)
        if ((ls_phase)p == phase || (is_steps(phase) && is_steps((ls_phase)p)))
            add(&c->part[p], to);
}

typedef struct factors {
    double phase[LS_PHASES], all, counted;
} factors;

static double first_known(double a, double b, double c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

/* Factor for the expected seconds of a part; 0 if unknown. */
static double factor(const factors *f, const ls_work_case *c, ls_phase phase)
{
    const bool after = phase > LS_PHASE_CHECKING; /* seconds that are measured, or could be */
    const double measured = !after ? 0 : c->measured ? 1 : f->counted;
    const double like = f->phase[phase];
    sums own = {0};
    if (is_steps(phase))
        add_like(c, phase, &own);
    if (ratio(&own) > 0)
        return ratio(&own);
    return measured > 0 ? measured * first_known(like, 1, 1) : first_known(like, f->all, 0);
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

static factors find_factors(const ls_work *work)
{
    sums all = {0}, phases[LS_PHASES] = {{0}};
    factors f = {.counted = work->counted > 0 ? work->measured / work->counted : 0};
    for (size_t i = 0; i < work->count; i++)
        for (int p = 0; p < LS_PHASES; p++) {
            if (p != LS_PHASE_OPENING)
                add(&work->cases[i].part[p], &all);
            add_like(&work->cases[i], (ls_phase)p, &phases[p]);
        }
    f.all = ratio(&all);
    for (int p = 0; p < LS_PHASES; p++)
        f.phase[p] = ratio(&phases[p]);
    return f;
}

double ls_work_left(const ls_work *work)
{
    const factors f = find_factors(work);
    if (f.all <= 0 && f.counted <= 0)
        return -1;
    double left = 0;
    for (size_t i = 0; i < work->count; i++)
        for (int p = 0; p < LS_PHASES; p++) {
            const ls_work_part *part = &work->cases[i].part[p];
            const double times = factor(&f, &work->cases[i], (ls_phase)p);
            if (part->share < 1)
                left += part_left(part, times > 0 ? times : 1,
                                  i == work->now && (ls_phase)p == work->phase);
        }
    return left;
}
