/* SPDX-License-Identifier: MIT */
/*
 * Divides the time that a lane waited for a task of another lane by what that lane did meanwhile.
 * Its communication and copies count as such; while it waited for a third lane, what the third one
 * did counts, and so on; all other time counts as waiting.
 */
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/run/run.h"
#include "impl/step/trace/trace_private.h"

#include <string.h>

enum { DEEPEST = 16 };

/* ---- Waits for other lanes ------------------------------------------------------------------- */

/* A wait, to be divided into parts. */
typedef struct blocked {
    int64_t slice;
    size_t first; /* its first part */
} blocked;

static ls_time_use use_of(const ls_trace_slice *s)
{
    if (s->kind == LS_STRETCH_COPY)
        return LS_TIME_COPY;
    return s->use == LS_TIME_COMMUNICATION ? LS_TIME_COMMUNICATION : LS_TIME_WAIT;
}

/* Adds a part, or extends the previous part if it has the same use. */
static void add_part(ls_tracing *w, const blocked *b, uint64_t begin, uint64_t end, ls_time_use use)
{
    ls_trace *out = w->out;
    ls_trace_part *last = out->part_count > b->first ? &out->parts[out->part_count - 1] : NULL;
    if (begin >= end || w->status)
        return;
    if (last && last->use == (int32_t)use && last->end_ns == begin) {
        last->end_ns = end;
        return;
    }
    out->parts = ls_tracing_grow(w, out->parts, out->part_count, sizeof *out->parts);
    if (w->status)
        return;
    out->parts[out->part_count++] =
        (ls_trace_part){.begin_ns = begin, .end_ns = end, .slice = b->slice, .use = (int32_t)use};
}

/* A lane's first slice that ends after a time. */
static size_t first_after(const ls_tracing *w, int lane, uint64_t ns)
{
    const size_t begin = w->begin[lane];
    const ls_trace_slice *s = w->out->slices + begin;
    return begin + ls_count_up_to(ns, &s->end_ns, w->begin[lane + 1] - begin, sizeof *s);
}

/* Divides [begin, end) among the causes that the lane of slice `cause` had meanwhile. */
static void cut(ls_tracing *w, const blocked *b, uint64_t begin, uint64_t end, int64_t cause,
                int depth)
{
    const int lane = w->out->slices[cause].lane;
    size_t i = first_after(w, lane, begin);
    for (; i < w->begin[lane + 1] && w->out->slices[i].begin_ns < end; i++) {
        const ls_trace_slice *s = &w->out->slices[i];
        const uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
        const uint64_t to = s->end_ns < end ? s->end_ns : end;
        add_part(w, b, begin, from, LS_TIME_WAIT);
        if (s->kind == LS_STRETCH_EVENT && s->cause >= 0 && depth < DEEPEST)
            cut(w, b, from, to, s->cause, depth + 1);
        else
            add_part(w, b, from, to, use_of(s));
        begin = to;
    }
    add_part(w, b, begin, end, LS_TIME_WAIT);
}

void ls_tracing_blame(ls_tracing *w)
{
    for (size_t i = 0; i < w->out->slice_count && !w->status; i++) {
        const ls_trace_slice *s = &w->out->slices[i];
        const blocked b = {(int64_t)i, w->out->part_count};
        if (s->kind != LS_STRETCH_EVENT)
            continue;
        if (s->cause >= 0)
            cut(w, &b, s->begin_ns, s->end_ns, s->cause, 0);
        else
            add_part(w, &b, s->begin_ns, s->end_ns, LS_TIME_WAIT);
    }
}

/* ---- A profile's parts ----------------------------------------------------------------------- */

/* Adds the part of a stretch within the window to a profile; returns its duration. */
static uint64_t add_within(ls_time_profile *sum, const uint64_t window[2], uint64_t begin,
                           uint64_t end, int32_t use)
{
    begin = begin > window[0] ? begin : window[0];
    end = end < window[1] ? end : window[1];
    const uint64_t ns = end > begin ? end - begin : 0;
    sum->ns[use] += ns;
    return ns;
}

/* Adds a lane's time within the window: its slices from number *at on, with their parts from *part
 * on. Uncovered time counts as idle, after the lane's last slice as waiting. */
static void add_lane(const ls_trace *t, int lane, size_t *at, size_t *part,
                     const uint64_t window[2], ls_time_profile *sum)
{
    uint64_t covered = 0, last_ns = 0;
    for (; *at < t->slice_count && t->slices[*at].lane == lane; ++*at) {
        const ls_trace_slice *s = &t->slices[*at];
        last_ns = s->end_ns;
        if (s->kind != LS_STRETCH_EVENT)
            covered += add_within(sum, window, s->begin_ns, s->end_ns, s->use);
        for (; *part < t->part_count && t->parts[*part].slice == (int64_t)*at; ++*part)
            covered += add_within(sum, window, t->parts[*part].begin_ns, t->parts[*part].end_ns,
                                  t->parts[*part].use);
    }
    if (!last_ns) /* no member trains here */
        return;
    covered += add_within(sum, window, last_ns, window[1], LS_TIME_WAIT);
    sum->ns[LS_TIME_IDLE] += window[1] - window[0] - covered;
}

ls_status ls_steps_parts(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                         ls_time_profile *out)
{
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    const uint64_t window[] = {mark_ns, end_ns > mark_ns ? end_ns : mark_ns};
    ls_closing(ls_trace_close) ls_trace trace = {0};
    size_t at = 0, part = 0, d;
    memset(out, 0, devices * sizeof *out);
    LS_TRY(ls_steps_trace(run, LS_TRACE_TIMES, &trace));
    for (int m = 0; m < ls_step_plan_training(plan); m++) {
        const bool is_local = plan->members[m].device >= 0;
        for (d = 0; is_local && !ls_step_plan_is_on(plan, m, d); d++)
            ;
        if (is_local)
            add_lane(&trace, m, &at, &part, window, &out[d]);
    }
    return LS_OK;
}

/* ---- Steps one by one ------------------------------------------------------------------------ */

/* The steps in which a lane's time is counted. */
typedef struct steps_of_lane {
    const uint64_t *ends_ns; /* [steps + 1] */
    size_t steps, devices, at;
    ls_time_profile *out; /* [steps, devices], of the lane's device */
} steps_of_lane;

/* Adds a stretch to the steps that it lies in. Stretches come in the order of their begins. */
static void add_to_steps(steps_of_lane *l, uint64_t begin, uint64_t end, int32_t use)
{
    while (l->at < l->steps && l->ends_ns[l->at + 1] <= begin)
        l->at++;
    for (size_t k = l->at; k < l->steps && l->ends_ns[k] < end; k++)
        add_within(&l->out[k * l->devices], l->ends_ns + k, begin, end, use);
}

ls_status ls_steps_times(const ls_run *run, size_t devices, const uint64_t *ends_ns, size_t steps,
                         ls_time_profile *out)
{
    ls_closing(ls_trace_close) ls_trace t = {0};
    memset(out, 0, steps * devices * sizeof *out);
    LS_TRY(ls_steps_trace(run, LS_TRACE_TIMES, &t));
    for (size_t i = 0; i < t.slice_count;) {
        const int32_t lane = t.slices[i].lane;
        steps_of_lane l = {ends_ns, steps, devices, 0, out + t.lanes[lane].number};
        uint64_t last_ns = 0;
        for (; i < t.slice_count && t.slices[i].lane == lane; i++) {
            const ls_trace_slice *s = &t.slices[i];
            if (!t.lanes[lane].main)
                continue;
            add_to_steps(&l, last_ns, s->begin_ns, last_ns ? LS_TIME_HARNESS : LS_TIME_IDLE);
            add_to_steps(&l, s->begin_ns, s->end_ns,
                         s->kind == LS_STRETCH_EVENT ? LS_TIME_WAIT : s->use);
            last_ns = s->end_ns;
        }
        if (last_ns)
            add_to_steps(&l, last_ns, UINT64_MAX, LS_TIME_WAIT);
    }
    return LS_OK;
}
