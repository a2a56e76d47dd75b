/* SPDX-License-Identifier: MIT */
/* Times of a pipeline's passes; see pipeline_times.h. */
#include "impl/pipeline/pipeline_times.h"

#include "common/base/grow.h"

double ls_schedule_equal(const ls_schedule *s)
{
    const double p = s->stages, m = s->microbatches;
    const double units = s->rule->split ? 3 : ls_schedule_chunks(s);
    return (p - 1) / (units * m + p - 1);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* When stages' passes begin and end. */
typedef struct clocks {
    const ls_schedule *schedule;
    const ls_stage_time *times;
    double *begun, *ended, *worked; /* [stages] the first pass; the last one; all */
    double *done;                   /* [ls_schedule_number] when passes end */
} clocks;

static void take_time(clocks *c, const ls_pass *pass)
{
    const ls_stage_time *t = &c->times[pass->stage];
    const double times[LS_PASS_KINDS] = {t->forward, t->backward, t->weights};
    const double takes = times[pass->kind] / ls_schedule_chunks(c->schedule);
    double begin = later(c->ended[pass->stage], 0), *first = &c->begun[pass->stage];
    ls_pass input;
    if (ls_schedule_input(c->schedule, pass, &input))
        begin = later(begin, c->done[ls_schedule_number(c->schedule, &input)]);
    if (*first < 0)
        *first = begin;
    c->worked[pass->stage] += takes;
    c->ended[pass->stage] = begin + takes;
    c->done[ls_schedule_number(c->schedule, pass)] = begin + takes;
}

ls_status ls_schedule_span(const ls_schedule *s, const ls_stage_time *times, ls_schedule_times *out)
{
    const size_t stages = (size_t)s->stages;
    ls_auto double *begun = NULL;
    ls_auto ls_pass *passes = NULL;
    size_t count;
    LS_TRY(ls_schedule_order(s, &passes, &count));
    LS_TRY(ls_allocate("pipeline", &begun, 3 * stages + ls_schedule_numbers(s), sizeof *begun));
    clocks c = {s, times, begun, begun + stages, begun + 2 * stages, begun + 3 * stages};
    for (int i = 0; i < s->stages; i++)
        begun[i] = -1;
    for (size_t i = 0; i < count; i++)
        take_time(&c, &passes[i]);
    *out = (ls_schedule_times){0};
    for (int i = 0; i < s->stages; i++) {
        const double span = c.ended[i] - later(begun[i], 0);
        out->step = later(out->step, c.ended[i] + times[i].rest);
        if (span > out->longest)
            out->idle = 1 - c.worked[i] / span;
        out->longest = later(out->longest, span);
    }
    return LS_OK;
}
