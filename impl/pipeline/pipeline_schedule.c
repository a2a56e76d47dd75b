/* SPDX-License-Identifier: MIT */
/* The order of a pipeline's passes; see pipeline_schedule.h. */
#include "impl/pipeline/pipeline_schedule.h"

#include "common/base/grow.h"

#include <stdlib.h>

#define RULE(name, ...) const ls_schedule_rule ls_schedule_##name = {__VA_ARGS__};
#include "impl/pipeline/schedules.def"

#define RULE(name, ...) &ls_schedule_##name,
static const ls_schedule_rule *const rules[] = {
#include "impl/pipeline/schedules.def"
    NULL};
const ls_registry ls_schedules = {"pipeline schedule", (const void *const *)rules};

const ls_schedule_rule *ls_schedule_rule_of(const ls_declared_values *options)
{
    return rules[ls_declared_number(options, &ls_option_pipeline_schedule)];
}

bool ls_schedule_frees(const ls_schedule *s, const ls_pass *pass)
{
    return pass->kind == (s->rule->split ? LS_PASS_WEIGHTS : LS_PASS_BACKWARD);
}

/* ---- A stage's order ------------------------------------------------------------------------- */

/* Passes of one direction, of micro-batches up to a multiple of the stages if there are chunks: an
 * epoch's smaller batch may have fewer, and the missing ones are left out. */
static int directed_passes(const ls_schedule *s)
{
    const int p = s->stages, v = ls_schedule_chunks(s), m = s->microbatches;
    return v > 1 ? v * ((m + p - 1) / p * p) : m;
}

size_t ls_schedule_passes(const ls_schedule *s)
{
    return (size_t)(s->rule->split ? 3 : 2) * (size_t)directed_passes(s);
}

/* A stage's passes while they are appended. */
typedef struct stage_order {
    const ls_schedule *schedule;
    int stage, count, weights; /* weight passes so far */
    ls_pass *passes;
} stage_order;

static void append(stage_order *o, ls_pass_kind kind, int chunk, int microbatch)
{
    if (microbatch < o->schedule->microbatches)
        o->passes[o->count++] = (ls_pass){o->stage, kind, chunk, microbatch};
}

static void append_forward(stage_order *o, int k)
{
    const int p = o->schedule->stages, v = ls_schedule_chunks(o->schedule);
    append(o, LS_PASS_FORWARD, k % (p * v) / p, k / (p * v) * p + k % p);
}

static void append_backward(stage_order *o, int k)
{
    const ls_schedule *s = o->schedule;
    const int p = s->stages, v = ls_schedule_chunks(s);
    append(o, LS_PASS_BACKWARD, v - 1 - k % (p * v) / p, k / (p * v) * p + k % p);
    if (s->rule->split && k >= s->rule->ahead * o->stage)
        append(o, LS_PASS_WEIGHTS, 0, o->weights++);
}

int ls_schedule_stage(const ls_schedule *s, int stage, ls_pass *out)
{
    stage_order o = {.schedule = s, .stage = stage, .passes = out};
    const int all = directed_passes(s), p = s->stages, further = ls_schedule_chunks(s) - 1;
    const int wanted = s->rule->ahead * (p - stage - 1) + (s->rule->chunked ? further * p : 0);
    const int ahead = s->rule->fills || wanted > all ? all : wanted;
    for (int k = 0; k < ahead; k++)
        append_forward(&o, k);
    for (int k = 0; k < all; k++) {
        if (ahead + k < all)
            append_forward(&o, ahead + k);
        append_backward(&o, k);
    }
    while (s->rule->split && o.weights < s->microbatches)
        append(&o, LS_PASS_WEIGHTS, 0, o.weights++);
    return o.count;
}

ls_pass_before ls_pass_before_of(const ls_pass *pass, const ls_pass *before)
{
    return before->chunk != pass->chunk      ? LS_BEFORE_OTHER
           : before->kind == LS_PASS_FORWARD ? LS_BEFORE_FORWARD
                                             : LS_BEFORE_BACKWARD;
}

ls_status ls_schedule_count(const ls_schedule *s, int stage, int chunk, ls_schedule_most *out)
{
    ls_auto ls_pass *passes = NULL;
    int done[LS_PASS_KINDS] = {0}, held = 0;
    LS_TRY(ls_allocate("pipeline", &passes, ls_schedule_passes(s) + 1, sizeof *passes));
    const int count = ls_schedule_stage(s, stage, passes);
    ls_schedule_most most = {0};
    for (int k = 0; k < count; k++) {
        done[passes[k].kind]++;
        if (passes[k].chunk == chunk)
            held += (passes[k].kind == LS_PASS_FORWARD) - ls_schedule_frees(s, &passes[k]);
        if (passes[k].chunk == chunk && passes[k].kind == LS_PASS_BACKWARD)
            most.before[ls_pass_before_of(&passes[k], &passes[k - 1])]++;
        const int flying = done[LS_PASS_FORWARD] - done[LS_PASS_BACKWARD];
        const int waiting = s->rule->split ? done[LS_PASS_BACKWARD] - done[LS_PASS_WEIGHTS] : 0;
        most.in_flight = flying > most.in_flight ? flying : most.in_flight;
        most.weights_waiting = waiting > most.weights_waiting ? waiting : most.weights_waiting;
        most.held = held > most.held ? held : most.held;
    }
    *out = most;
    return LS_OK;
}

/* ---- All stages ------------------------------------------------------------------------------ */

size_t ls_schedule_number(const ls_schedule *s, const ls_pass *pass)
{
    const int parts = s->stages * ls_schedule_chunks(s),
              part = pass->chunk * s->stages + pass->stage;
    return (size_t)(((int)pass->kind * parts + part) * s->microbatches + pass->microbatch);
}

bool ls_schedule_input(const ls_schedule *s, const ls_pass *pass, ls_pass *out)
{
    const int at = pass->chunk * s->stages + pass->stage;
    const bool forward = pass->kind == LS_PASS_FORWARD, back = pass->kind == LS_PASS_BACKWARD;
    const bool last = at + 1 == s->stages * ls_schedule_chunks(s);
    const int part = forward ? at - 1 : back && !last ? at + 1 : at;
    *out = (ls_pass){.stage = part % s->stages,
                     .kind = forward || (back && last) ? LS_PASS_FORWARD : LS_PASS_BACKWARD,
                     .chunk = part / s->stages,
                     .microbatch = pass->microbatch};
    return part >= 0;
}

/* All stages' passes while they are put into one order. */
typedef struct merge {
    const ls_schedule *schedule;
    ls_pass *passes; /* [stages, ls_schedule_passes] */
    int *count;      /* [stages] passes of each */
    int *next;       /* [stages] the first that is left */
    int *tick;       /* [ls_schedule_number] when a pass ran, from 1; else 0 */
} merge;

/* Whether a pass can run at a tick: what it needs ran before. */
static bool is_ready(const merge *m, const ls_pass *pass, int tick)
{
    ls_pass input;
    if (!ls_schedule_input(m->schedule, pass, &input))
        return true;
    const int before = m->tick[ls_schedule_number(m->schedule, &input)];
    return before && before < tick;
}

static ls_status open_merge(const ls_schedule *s, merge *m)
{
    const size_t stages = (size_t)s->stages, passes = ls_schedule_passes(s);
    *m = (merge){.schedule = s};
    LS_TRY(ls_allocate("pipeline", &m->passes, stages * passes + 1, sizeof *m->passes));
    LS_TRY(
        ls_allocate("pipeline", &m->count, 2 * stages + ls_schedule_numbers(s), sizeof *m->count));
    m->next = m->count + stages;
    m->tick = m->next + stages;
    for (int i = 0; i < s->stages; i++)
        m->count[i] = ls_schedule_stage(s, i, m->passes + (size_t)i * passes);
    return LS_OK;
}

static void close_merge(merge *m)
{
    free(m->passes);
    free(m->count);
}

/* Runs each stage's next pass in a tick, the last stage's first. */
static size_t run_tick(merge *m, int tick, ls_pass *out)
{
    const ls_schedule *s = m->schedule;
    size_t ran = 0;
    for (int i = s->stages; i-- > 0;) {
        const ls_pass *pass = &m->passes[(size_t)i * ls_schedule_passes(s) + (size_t)m->next[i]];
        if (m->next[i] == m->count[i] || !is_ready(m, pass, tick))
            continue;
        m->tick[ls_schedule_number(s, pass)] = tick;
        m->next[i]++;
        out[ran++] = *pass;
    }
    return ran;
}

ls_status ls_schedule_order(const ls_schedule *s, ls_pass **out, size_t *count)
{
    ls_closing(close_merge) merge m;
    size_t all = 0, ran = 1;
    *out = NULL;
    *count = 0;
    LS_TRY(open_merge(s, &m));
    for (int i = 0; i < s->stages; i++)
        all += (size_t)m.count[i];
    LS_TRY(ls_allocate("pipeline", out, all + 1, sizeof **out));
    for (int tick = 1; *count < all && ran; tick++)
        *count += ran = run_tick(&m, tick, *out + *count);
    if (*count == all)
        return LS_OK;
    free(*out);
    *out = NULL;
    *count = 0;
    return ls_fail(LS_CODE_USAGE, "pipeline schedule", s->rule->name,
                   "the stages of this schedule wait for each other forever with %d stages and %d "
                   "micro-batches; use another --pipeline-schedule",
                   s->stages, s->microbatches);
}
