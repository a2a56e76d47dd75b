/* SPDX-License-Identifier: MIT */
/*
 * Divides the time that a lane waited for a task of another lane by what that lane did meanwhile.
 * Its communication and copies count as such; while it waited for a third lane, what the third one
 * did counts, and so on; all other time counts as waiting.
 */
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/run/run.h"
#include "impl/step/trace/trace.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

/* ---- Waits for other lanes ------------------------------------------------------------------- */

/* A wait, to be divided into parts. */
typedef struct blocked {
    ls_trace *out;
    const size_t *begin; /* [lanes + 1] */
    ls_status status;
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
static void add_part(blocked *b, uint64_t begin, uint64_t end, ls_time_use use)
{
    ls_trace *out = b->out;
    ls_trace_part *last = out->part_count > b->first ? &out->parts[out->part_count - 1] : NULL;
    if (begin >= end || b->status)
        return;
    if (last && last->use == (int32_t)use && last->end_ns == begin) {
        last->end_ns = end;
        return;
    }
    out->parts = ls_trace_grow(&b->status, out->parts, out->part_count, sizeof *out->parts);
    if (b->status)
        return;
    out->parts[out->part_count++] =
        (ls_trace_part){.begin_ns = begin, .end_ns = end, .slice = b->slice, .use = (int32_t)use};
}

/* A lane's first slice that ends after a time. */
static size_t first_after(const blocked *b, int lane, uint64_t ns)
{
    const size_t begin = b->begin[lane];
    const ls_trace_slice *s = b->out->slices + begin;
    return begin + ls_count_up_to(ns, &s->end_ns, b->begin[lane + 1] - begin, sizeof *s);
}

/* Divides [begin, end) among the causes that the lane of slice `cause` had meanwhile. */
static void cut(blocked *b, uint64_t begin, uint64_t end, int64_t cause, int depth)
{
    const int lane = b->out->slices[cause].lane;
    size_t i = first_after(b, lane, begin);
    for (; i < b->begin[lane + 1] && b->out->slices[i].begin_ns < end; i++) {
        const ls_trace_slice *s = &b->out->slices[i];
        const uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
        const uint64_t to = s->end_ns < end ? s->end_ns : end;
        add_part(b, begin, from, LS_TIME_WAIT);
        if (s->kind == LS_STRETCH_EVENT && s->cause >= 0 && depth < DEEPEST)
            cut(b, from, to, s->cause, depth + 1);
        else
            add_part(b, from, to, use_of(s));
        begin = to;
    }
    add_part(b, begin, end, LS_TIME_WAIT);
}

ls_status ls_trace_blame(ls_trace *trace, const size_t *begin)
{
    blocked b = {.out = trace, .begin = begin};
    for (size_t i = 0; i < trace->slice_count && !b.status; i++) {
        const ls_trace_slice *s = &trace->slices[i];
        b.slice = (int64_t)i;
        b.first = trace->part_count;
        if (s->kind == LS_STRETCH_EVENT && s->cause >= 0)
            cut(&b, s->begin_ns, s->end_ns, s->cause, 0);
        else if (s->kind == LS_STRETCH_EVENT)
            add_part(&b, s->begin_ns, s->end_ns, LS_TIME_WAIT);
    }
    return b.status;
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

/* ---- Logs ------------------------------------------------------------------------------------ */

/* A lane's log entries per step; 64 more for a joint call, which may enqueue other operations. */
static size_t count_in(const ls_step_program *p, int lane)
{
    size_t count = 0;
    for (const ls_task *t = p->tasks; t < p->tasks + p->task_count; t++)
        if (t->lane == lane)
            count += t->begins + t->waits.count + t->ops.count + 1 + (t->call >= 0 ? 64 : 0);
    return count;
}

/* Reuses a log that is large enough. */
static ls_status open_log(ls_time_log *log, size_t known)
{
    const size_t peers = 2 * known + 1024, capacity = known + peers;
    if (capacity > log->capacity) {
        free(log->items);
        *log = (ls_time_log){.items = malloc(capacity * sizeof *log->items)};
        if (!log->items)
            return ls_fail_memory("profile", capacity * sizeof *log->items);
        memset(log->items, 0, capacity * sizeof *log->items); /* touches its pages */
        log->capacity = capacity;
    }
    log->count = log->lost = 0;
    log->peers = peers;
    return LS_OK;
}

void ls_steps_profile_note(ls_step_run *run, const ls_step_program *program, uint64_t times)
{
    ls_run_profile *p = &run->profile;
    if (p->steps && program->task_count && p->count < p->room)
        p->list[p->count++] = (ls_enqueued){program, times};
}

ls_status ls_steps_profile_open(ls_step_run *run, uint64_t steps)
{
    for (int l = 0; l < run->plan.lanes.count; l++) {
        /* The most in any kind of step, and what is enqueued once before and after steps. */
        size_t most = 0;
        for (int k = 0; k < run->kinds; k++) {
            const size_t count = count_in(&run->program[k], l);
            most = count > most ? count : most;
        }
        const ls_step_program *unordered = &run->program[run->kinds];
        const size_t each =
            most + count_in(&unordered[LS_BEFORE], l) + count_in(&unordered[LS_AFTER], l);
        if (steps && each)
            LS_TRY(open_log(&run->queues[l].log, (steps + 1) * each));
    }
    /* A call enqueues at least one step, and may enqueue tasks before and after its steps. */
    const size_t room = 3 * steps;
    run->profile.count = 0;
    if (room <= run->profile.room)
        return LS_OK;
    free(run->profile.list);
    run->profile.list = malloc(room * sizeof *run->profile.list);
    run->profile.room = run->profile.list ? room : 0;
    return run->profile.list ? LS_OK : ls_fail_memory("profile", room * sizeof *run->profile.list);
}
