/* SPDX-License-Identifier: MIT */
/* The window of the steps shown, its contents, and its waterfall; see whole.h. */
#include "bench/trace/whole.h"
#include "common/base/grow.h"

/* The latest end of a step on any main lane. */
static uint64_t end_of(const ls_whole_trace *whole, int32_t step)
{
    const ls_trace *t = &whole->trace;
    uint64_t end = 0;
    for (size_t i = 0; i < t->slice_count; i++)
        if (t->lanes[t->slices[i].lane].main && t->slices[i].step == step &&
            t->slices[i].end_ns > end)
            end = t->slices[i].end_ns;
    return end;
}

static void find_all(ls_whole_trace *whole)
{
    const ls_trace *t = &whole->trace;
    whole->begin_ns = UINT64_MAX;
    for (size_t i = 0; i < t->slice_count; i++) {
        const ls_trace_slice *s = &t->slices[i];
        if (!t->lanes[s->lane].main)
            continue;
        whole->begin_ns = s->begin_ns < whole->begin_ns ? s->begin_ns : whole->begin_ns;
        whole->end_ns = s->end_ns > whole->end_ns ? s->end_ns : whole->end_ns;
    }
}

/* Adds a piece of a slice, clipped to the window. */
static void show(ls_whole_trace *whole, int64_t slice, uint64_t begin, uint64_t end, int32_t use)
{
    const bool hidden = use == LS_TIME_HARNESS || use == LS_TIME_IDLE;
    begin = begin > whole->begin_ns ? begin : whole->begin_ns;
    end = end < whole->end_ns ? end : whole->end_ns;
    if (hidden || begin >= end)
        return;
    whole->shown[whole->shown_count++] =
        (ls_shown){.begin_ns = begin, .end_ns = end, .slice = slice, .use = use};
}

static void show_all(ls_whole_trace *whole)
{
    const ls_trace *t = &whole->trace;
    size_t part = 0;
    for (size_t l = 0; l < t->lane_count; l++) {
        whole->shown_first[l] = whole->shown_count;
        for (size_t i = whole->first[l]; i < whole->first[l + 1]; i++) {
            const ls_trace_slice *s = &t->slices[i];
            if (s->kind != LS_STRETCH_EVENT)
                show(whole, (int64_t)i, s->begin_ns, s->end_ns, s->use);
            for (; part < t->part_count && t->parts[part].slice == (int64_t)i; part++)
                show(whole, (int64_t)i, t->parts[part].begin_ns, t->parts[part].end_ns,
                     t->parts[part].use);
        }
        if (t->lanes[l].main && whole->first[l + 1] > whole->first[l])
            show(whole, LS_SHOWN_END, t->slices[whole->first[l + 1] - 1].end_ns, whole->end_ns,
                 LS_TIME_WAIT);
    }
    whole->shown_first[t->lane_count] = whole->shown_count;
}

/* Time without any slice is the harness's. */
static void sum_up(ls_whole_trace *whole)
{
    const ls_trace *t = &whole->trace;
    for (size_t l = 0; l < t->lane_count; l++) {
        uint64_t left = whole->end_ns - whole->begin_ns;
        if (!t->lanes[l].main)
            continue;
        whole->main_lanes++;
        for (size_t i = whole->shown_first[l]; i < whole->shown_first[l + 1]; i++) {
            const ls_shown *s = &whole->shown[i];
            whole->parts.ns[s->use] += s->end_ns - s->begin_ns;
            left -= s->end_ns - s->begin_ns;
        }
        whole->parts.ns[LS_TIME_HARNESS] += left;
    }
}

ls_status ls_whole_trace_window(ls_whole_trace *whole, bool synchronous)
{
    const ls_trace *t = &whole->trace;
    const size_t most = t->slice_count + t->part_count + t->lane_count + 1;
    LS_TRY(ls_allocate("trace", &whole->shown, most, sizeof *whole->shown));
    LS_TRY(
        ls_allocate("trace", &whole->shown_first, t->lane_count + 1, sizeof *whole->shown_first));
    if (synchronous) {
        whole->begin_ns = end_of(whole, 0);
        whole->end_ns = end_of(whole, (int32_t)whole->steps);
    } else {
        find_all(whole);
    }
    if (whole->end_ns <= whole->begin_ns)
        return ls_fail(
            LS_CODE_MISSING, "trace", "steps",
            "no task of the traced steps was recorded; use --steps and --trace-steps of 1 or more");
    show_all(whole);
    sum_up(whole);
    return LS_OK;
}
