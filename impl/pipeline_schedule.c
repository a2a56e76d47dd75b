/* SPDX-License-Identifier: MIT */
/* The order of a pipeline's passes; see pipeline_schedule.h. */
#include "impl/pipeline_schedule.h"

#include <stdlib.h>

int ls_schedule_in_flight(const ls_schedule *s, int stage)
{
    const int most = s->one_f_one_b ? s->stages - stage : s->microbatches;
    return most < s->microbatches ? most : s->microbatches;
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* How many forward and backward passes of a stage have been visited. */
typedef struct progress {
    int forward, backward;
} progress;

/* Whether the stage's next pass is a forward one: as many are in flight as its schedule lets. */
static bool wants_forward(const ls_schedule *s, const progress *at, int stage)
{
    return at[stage].forward < s->microbatches &&
           at[stage].forward - at[stage].backward < ls_schedule_in_flight(s, stage);
}

/* Whether what the stage's next pass waits for has been visited: the passes beside it, and, since
 * what goes forward needs room, the next stage's end of the micro-batch that was there before. */
static bool is_ready(const ls_schedule *s, const progress *at, int stage)
{
    const bool last = stage + 1 == s->stages;
    if (!wants_forward(s, at, stage))
        return at[stage].backward < at[stage].forward &&
               (last || at[stage + 1].backward > at[stage].backward);
    return (stage == 0 || at[stage - 1].forward > at[stage].forward) &&
           (last ||
            at[stage].forward - at[stage + 1].backward < ls_schedule_in_flight(s, stage + 1));
}

ls_status ls_schedule_each(const ls_schedule *s, ls_pass_visit visit, void *context)
{
    progress *at = calloc((size_t)s->stages, sizeof *at);
    ls_status status = at ? LS_OK : ls_fail_memory("pipeline", (size_t)s->stages * sizeof *at);
    while (!status && at[0].backward < s->microbatches) {
        for (int stage = 0; stage < s->stages && !status; stage++) {
            if (!is_ready(s, at, stage))
                continue;
            const bool backward = !wants_forward(s, at, stage);
            int *next = backward ? &at[stage].backward : &at[stage].forward;
            status = visit(context, &(ls_pass){stage, (*next)++, backward});
        }
    }
    free(at);
    return status;
}

/* ---- Time ----------------------------------------------------------------------------------- */

typedef struct clocks {
    const ls_schedule *schedule;
    const ls_stage_time *times;
    double *free_at; /* [stages] */
    double *done[2]; /* [stages, microbatches] ends of forward and of backward passes */
} clocks;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* A pass begins when its stage is free and what it works on is there; a forward one ends when the
 * next stage has room for its output. */
static ls_status take_time(void *context, const ls_pass *pass)
{
    clocks *c = context;
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
    return LS_OK;
}

ls_status ls_schedule_span(const ls_schedule *s, const ls_stage_time *times, double *out)
{
    const size_t stages = (size_t)s->stages, passes = stages * (size_t)s->microbatches;
    double *memory = calloc(stages + 2 * passes, sizeof *memory);
    if (!memory)
        return ls_fail_memory("pipeline", (stages + 2 * passes) * sizeof *memory);
    clocks c = {.schedule = s,
                .times = times,
                .free_at = memory,
                .done = {memory + stages, memory + stages + passes}};
    const ls_status status = ls_schedule_each(s, take_time, &c);
    *out = 0;
    for (size_t i = 0; i < stages; i++)
        *out = later(*out, c.free_at[i] + times[i].rest);
    free(memory);
    return status;
}
