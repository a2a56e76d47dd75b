/* SPDX-License-Identifier: MIT */
/*
 * Divides the time that a lane waited for a task of another lane by what that one did meanwhile.
 * While it communicated or copied, the time counts as that; while it waited for a third lane, as
 * what this did, and so on; else as waiting.
 */
#include "common/base/numbers.h"
#include "impl/step/trace_private.h"

#include <stdlib.h>

enum { DEEPEST = 16 };

/* A wait that is divided into parts. */
typedef struct blocked {
    int64_t slice;
    size_t first; /* part of it */
} blocked;

static ls_time_use use_of(const ls_trace_slice *s)
{
    if (s->kind == LS_STRETCH_COPY)
        return LS_TIME_COPY;
    return s->use == LS_TIME_COMMUNICATION ? LS_TIME_COMMUNICATION : LS_TIME_WAIT;
}

/* Adds a part, or extends the one before where that is of the same use. */
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

/* The first slice of a lane that ends after a time. */
static size_t first_after(const ls_tracing *w, int lane, uint64_t ns)
{
    const size_t begin = w->begin[lane];
    const ls_trace_slice *s = w->out->slices + begin;
    return begin + ls_count_up_to(ns, &s->end_ns, w->begin[lane + 1] - begin, sizeof *s);
}

/* Divides [begin, end) by what the lane of slice `cause` did. */
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

ls_status ls_lanes_blame(ls_stepped *run)
{
    ls_trace trace;
    ls_status status = ls_stepped_trace(&run->base, false, &trace);
    for (int l = 0; l < run->lane_count; l++)
        run->lanes[l].blamed = run->lanes[l].times;
    for (size_t i = 0; i < trace.part_count && !status; i++) {
        const ls_trace_part *part = &trace.parts[i];
        uint64_t *ns = run->lanes[trace.slices[part->slice].lane].blamed.ns;
        ns[LS_TIME_IDLE] -= part->end_ns - part->begin_ns;
        ns[part->use] += part->end_ns - part->begin_ns;
    }
    ls_trace_close(&trace);
    return status;
}
