/* SPDX-License-Identifier: MIT */
/* The order and times of a pipeline's passes; see pipeline_schedule.h. */
#include "impl/pipeline_schedule.h"

#include "common/base/grow.h"

#include <stdlib.h>

int ls_schedule_in_flight(const ls_schedule *s, int stage)
{
    const int most = s->one_f_one_b ? s->stages - stage : s->microbatches;
    return most < s->microbatches ? most : s->microbatches;
}

/* ---- Order ---------------------------------------------------------------------------------- */

int ls_schedule_ticks(const ls_schedule *s)
{
    return 2 * (s->microbatches + s->stages - 1);
}

/* Forward passes begin at tick `first`, backward passes at `back`, one every `every` ticks. */
bool ls_schedule_at(const ls_schedule *s, int tick, int stage, ls_pass *out)
{
    const int p = s->stages, m = s->microbatches, every = s->one_f_one_b ? 2 : 1;
    const int first = stage;
    const int back = s->one_f_one_b ? 2 * p - 1 - stage : m + 2 * (p - 1) - stage;
    for (int backward = 0; backward < 2; backward++) {
        const int since = tick - (backward ? back : first);
        *out = (ls_pass){stage, since / every, backward};
        if (since >= 0 && since % every == 0 && out->microbatch < m)
            return true;
    }
    return false;
}

/* ---- Time ----------------------------------------------------------------------------------- */

typedef struct clocks {
    const ls_schedule *schedule;
    const ls_stage_time *times;
    double *free_at; /* [stages] */
    double *done[2]; /* [stages, microbatches] when forward and backward passes end */
} clocks;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* A pass begins when its stage is free and its input has arrived. A forward pass ends when the next
 * stage has room for its output. */
static void take_time(const clocks *c, const ls_pass *pass)
{
    const ls_schedule *s = c->schedule;
    const int m = s->microbatches, at = pass->stage * m + pass->microbatch;
    const bool last = pass->stage + 1 == s->stages;
    double end = c->free_at[pass->stage];
    if (pass->backward) {
        end = later(end, last ? c->done[0][at] : c->done[1][at + m]);
        end += c->times[pass->stage].backward;
    } else {
        end = later(end, pass->stage ? c->done[0][at - m] : 0) + c->times[pass->stage].forward;
        const int room = last ? m : ls_schedule_in_flight(s, pass->stage + 1);
        if (pass->microbatch >= room)
            end = later(end, c->done[1][at + m - room]);
    }
    c->free_at[pass->stage] = c->done[pass->backward][at] = end;
}

ls_status ls_schedule_span(const ls_schedule *s, const ls_stage_time *times, double *out)
{
    const size_t stages = (size_t)s->stages, passes = stages * (size_t)s->microbatches;
    double *memory;
    LS_TRY(ls_allocate("pipeline", &memory, stages + 2 * passes, sizeof *memory));
    const clocks c = {.schedule = s,
                      .times = times,
                      .free_at = memory,
                      .done = {memory + stages, memory + stages + passes}};
    ls_pass pass;
    for (int tick = 0; tick < ls_schedule_ticks(s); tick++)
        for (int stage = s->stages; stage-- > 0;)
            if (ls_schedule_at(s, tick, stage, &pass))
                take_time(&c, &pass);
    *out = 0;
    for (size_t i = 0; i < stages; i++)
        *out = later(*out, c.free_at[i] + times[i].rest);
    free(memory);
    return LS_OK;
}
