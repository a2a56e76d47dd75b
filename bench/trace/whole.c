/* SPDX-License-Identifier: MIT */
/* Gathers the traces of all processes, and finds the window; see whole.h. */
#include "bench/trace/whole.h"

#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <stdlib.h>

enum { CLOCK_TAG = 0x636c6b, ARRAYS = 4, ROUNDS = 64 };

/* ---- Clocks ----------------------------------------------------------------------------------
 *
 * Rank 0 sends each other process a message and gets its time back. It was read within the round
 * trip, so that half of the shortest one bounds the error, whatever the network does. */

static ls_status ask(ls_comm *comm, int rank, ls_clock_offset *out)
{
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begin_ns = ls_clock_ns();
        uint64_t its_ns = begin_ns;
        LS_TRY(comm->backend->send(comm, rank, CLOCK_TAG, &its_ns, sizeof its_ns));
        LS_TRY(comm->backend->receive(comm, rank, CLOCK_TAG, &its_ns, sizeof its_ns));
        const uint64_t trip_ns = ls_clock_ns() - begin_ns;
        if (trip_ns >= shortest)
            continue;
        shortest = trip_ns;
        *out = (ls_clock_offset){(int64_t)(its_ns - begin_ns - trip_ns / 2), (trip_ns + 1) / 2};
    }
    return LS_OK;
}

static ls_status compare_clocks(ls_comm *comm, ls_clock_offset *offsets)
{
    offsets[0] = (ls_clock_offset){0, 0};
    if (!comm)
        return LS_OK;
    if (comm->rank > 0) {
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t now_ns;
            LS_TRY(comm->backend->receive(comm, 0, CLOCK_TAG, &now_ns, sizeof now_ns));
            now_ns = ls_clock_ns();
            LS_TRY(comm->backend->send(comm, 0, CLOCK_TAG, &now_ns, sizeof now_ns));
        }
        return LS_OK;
    }
    for (int r = 1; r < comm->size; r++)
        LS_TRY(ask(comm, r, &offsets[r]));
    return LS_OK;
}

/* ---- Bringing together ----------------------------------------------------------------------- */

/* An array of one process, or of all. */
typedef struct array {
    void **items;
    size_t *count;
    size_t size; /* of an item */
} array;

static void list_arrays(ls_trace *t, array out[ARRAYS])
{
    out[0] = (array){(void **)&t->slices, &t->slice_count, sizeof *t->slices};
    out[1] = (array){(void **)&t->parts, &t->part_count, sizeof *t->parts};
    out[2] = (array){(void **)&t->messages, &t->message_count, sizeof *t->messages};
    out[3] = (array){(void **)&t->lanes, &t->lane_count, sizeof *t->lanes};
}

/* Renumbers a process's items within all, and converts times to rank 0's clock. `at`: where its
 * arrays begin. */
static void take_in(ls_whole_trace *whole, int rank, const uint64_t *count, const size_t *at)
{
    ls_trace *t = &whole->trace;
    const uint64_t offset = (uint64_t)whole->clocks[rank].ns;
    const int64_t runs = (int64_t)rank << 40;
    for (size_t i = at[0]; i < at[0] + count[0]; i++) {
        ls_trace_slice *s = &t->slices[i];
        s->begin_ns -= offset;
        s->end_ns -= offset;
        s->lane += (int32_t)at[3];
        s->run += runs;
        s->cause += s->cause >= 0 ? (int64_t)at[0] : 0;
    }
    for (size_t i = at[1]; i < at[1] + count[1]; i++) {
        t->parts[i].begin_ns -= offset;
        t->parts[i].end_ns -= offset;
        t->parts[i].slice += (int64_t)at[0];
    }
    for (size_t i = at[2]; i < at[2] + count[2]; i++) {
        t->messages[i].slice += (int64_t)at[0];
        if (t->messages[i].channel != LS_TRACE_COPY)
            continue;
        t->messages[i].from += (int32_t)at[3];
        t->messages[i].to += (int32_t)at[3];
    }
    for (size_t i = at[3]; i < at[3] + count[3]; i++)
        whole->process[i] = rank;
}

static ls_status bring(ls_session *session, ls_trace *own, ls_whole_trace *whole)
{
    ls_comm *comm = session->job.ranks.comm;
    array own_arrays[ARRAYS], all[ARRAYS];
    uint64_t count[ARRAYS];
    size_t at[ARRAYS] = {0};
    ls_auto uint64_t *counts = NULL;
    ls_status status = ls_allocate("trace", &counts, (size_t)whole->ranks, sizeof count);
    list_arrays(own, own_arrays);
    list_arrays(&whole->trace, all);
    for (int a = 0; a < ARRAYS; a++)
        count[a] = *own_arrays[a].count;
    LS_TRY(ls_comm_bring(comm, status, count, sizeof count, counts));
    for (int a = 0; a < ARRAYS; a++)
        LS_TRY(ls_comm_gather(comm, LS_OK, *own_arrays[a].items, count[a] * all[a].size,
                              all[a].items, NULL));
    if (!ls_session_leads(session))
        return LS_OK;
    for (int i = 0; i < whole->ranks * ARRAYS; i++)
        *all[i % ARRAYS].count += counts[i];
    LS_TRY(ls_allocate("trace", &whole->process, whole->trace.lane_count, sizeof *whole->process));
    for (int r = 0; r < whole->ranks; r++) {
        take_in(whole, r, counts + r * ARRAYS, at);
        for (int a = 0; a < ARRAYS; a++)
            at[a] += counts[r * ARRAYS + a];
    }
    whole->trace.lost = own->lost;
    return LS_OK;
}

/* ---- The window of the steps shown, its contents, and its waterfall -------------------------- */

/* When the slices of a step on main lanes begin and end; -1 means of all steps. */
static void find_ends(const ls_whole_trace *whole, int32_t step, uint64_t *begin, uint64_t *end)
{
    const ls_trace *t = &whole->trace;
    *begin = UINT64_MAX;
    *end = 0;
    for (size_t i = 0; i < t->slice_count; i++) {
        const ls_trace_slice *s = &t->slices[i];
        if (!t->lanes[s->lane].main || (step >= 0 && s->step != step))
            continue;
        *begin = s->begin_ns < *begin ? s->begin_ns : *begin;
        *end = s->end_ns > *end ? s->end_ns : *end;
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

static ls_status find_window(ls_whole_trace *whole, bool synchronous)
{
    const ls_trace *t = &whole->trace;
    const size_t most = t->slice_count + t->part_count + t->lane_count + 1;
    LS_TRY(ls_allocate("trace", &whole->shown, most, sizeof *whole->shown));
    LS_TRY(
        ls_allocate("trace", &whole->shown_first, t->lane_count + 1, sizeof *whole->shown_first));
    uint64_t begin;
    find_ends(whole, synchronous ? (int32_t)whole->steps : -1, &whole->begin_ns, &whole->end_ns);
    if (synchronous)
        find_ends(whole, 0, &begin, &whole->begin_ns);
    if (whole->end_ns <= whole->begin_ns)
        return ls_fail(
            LS_CODE_MISSING, "trace", "steps",
            "no task of the traced steps was recorded; use --steps and --trace-steps of 1 or more");
    show_all(whole);
    sum_up(whole);
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

static ls_status take_own(ls_session *session, uint64_t steps, ls_trace *own)
{
    const ls_run_functions *run = session->run->functions;
    LS_TRY(run->step(session->run, LS_FULL, steps));
    LS_TRY(run->sync(session->run));
    LS_TRY(run->profile(session->run, 0));
    return ls_steps_trace(session->run, LS_TRACE_NAMED, own);
}

static ls_status digest(ls_whole_trace *whole, bool synchronous)
{
    const ls_trace *t = &whole->trace;
    LS_TRY(ls_allocate("trace", &whole->first, t->lane_count + 1, sizeof *whole->first));
    for (size_t i = 0; i < t->slice_count; i++)
        whole->first[t->slices[i].lane + 1] = i + 1;
    for (size_t l = 0; l < t->lane_count; l++)
        if (!whole->first[l + 1])
            whole->first[l + 1] = whole->first[l];
    LS_TRY(find_window(whole, synchronous));
    LS_TRY(ls_whole_trace_flows(whole, synchronous));
    return ls_whole_trace_path(whole);
}

/* The better of the comparisons before and after the steps; adds their difference to the error. */
static void join_clocks(ls_clock_offset *first, const ls_clock_offset *second, int ranks)
{
    for (int r = 1; r < ranks; r++) {
        const int64_t drift = second[r].ns - first[r].ns;
        first[r].ns += drift / 2;
        first[r].error_ns =
            (first[r].error_ns > second[r].error_ns ? first[r].error_ns : second[r].error_ns) +
            (uint64_t)(drift < 0 ? -drift : drift) / 2;
    }
}

ls_status ls_whole_trace_take(ls_session *session, uint64_t steps, ls_whole_trace *out)
{
    ls_comm *comm = session->job.ranks.comm;
    const size_t ranks = comm ? (size_t)comm->size : 1;
    const bool synchronous = !ls_ps_by_arrival(&session->job.ps);
    uint64_t all = synchronous ? steps + 2 : steps;
    ls_trace own = {0};
    *out = (ls_whole_trace){.ranks = (int)ranks, .steps = steps, .lead = synchronous};
    ls_status status = ls_allocate("trace", &out->clocks, 2 * ranks, sizeof *out->clocks);
    LS_TRY(ls_world_agree(comm, status));
    LS_TRY(ls_world_agree(comm, compare_clocks(comm, out->clocks)));
    LS_TRY(ls_world_turn(comm, session->run->functions->profile(session->run, all), &all, NULL));
    status = take_own(session, all, &own);
    status = ls_world_agree(comm, status);
    if (!status)
        status = ls_world_agree(comm, compare_clocks(comm, out->clocks + ranks));
    join_clocks(out->clocks, out->clocks + ranks, (int)ranks);
    if (!status)
        status = bring(session, &own, out);
    if (!status && ls_session_leads(session))
        status = digest(out, synchronous);
    ls_trace_close(&own);
    return ls_world_agree(comm, status);
}

void ls_whole_trace_close(ls_whole_trace *whole)
{
    ls_trace_close(&whole->trace);
    free(whole->process);
    free(whole->first);
    free(whole->other);
    free(whole->next);
    free(whole->critical);
    free(whole->message_of);
    free(whole->clocks);
    free(whole->shown);
    free(whole->shown_first);
    free(whole->flows);
    *whole = (ls_whole_trace){0};
}
