/* SPDX-License-Identifier: MIT */
/*
 * The critical path, traced backwards from the end of the last step shown. If its end is a working
 * slice, the path continues with the slice before it on its lane. A wait for another lane ended
 * with a task there: the path continues with this task. A wait for peers ended with the last peer:
 * the path continues where this peer reached the exchange, or worked on it. A wait without a known
 * cause (a message in flight) is on the path itself. So slices of the path follow each other
 * without overlap; the time between two is the handover.
 */
#include "bench/trace/whole.h"
#include "common/base/grow.h"

/* Where the path continues: a slice, and the time at which this slice ended the wait. */
typedef struct step_back {
    int64_t slice; /* -1 means at the beginning */
    uint64_t ns;
} step_back;

static const ls_trace_slice *at(const ls_whole_trace *whole, int64_t slice)
{
    return &whole->trace.slices[slice];
}

static step_back before(const ls_whole_trace *whole, int64_t slice)
{
    const ls_trace_slice *s = at(whole, slice);
    const bool first = (size_t)slice == whole->first[s->lane];
    return (step_back){first ? -1 : slice - 1, first ? 0 : s[-1].end_ns};
}

static bool same_run(const ls_trace_slice *a, const ls_trace_slice *b)
{
    return a->run == b->run && a->lane == b->lane;
}

static int64_t first_of_run(const ls_whole_trace *whole, int64_t slice)
{
    const int64_t lane = (int64_t)whole->first[at(whole, slice)->lane];
    while (slice > lane && same_run(at(whole, slice), at(whole, slice - 1)))
        slice--;
    return slice;
}

/* How a peer's part of the exchange ended a wait that lasted until `ns`: by the work done there
 * until then, or by the peer's arrival. */
static step_back released_by(const ls_whole_trace *whole, int64_t peer, uint64_t ns)
{
    const int64_t first = first_of_run(whole, peer);
    const int64_t end = (int64_t)whole->first[at(whole, peer)->lane + 1];
    step_back back = before(whole, first);
    back.ns = at(whole, first)->begin_ns;
    for (int64_t i = first; i < end && same_run(at(whole, i), at(whole, first)); i++)
        if (at(whole, i)->kind != LS_STRETCH_PEER && at(whole, i)->end_ns <= ns)
            back = (step_back){i, at(whole, i)->end_ns};
    return back;
}

/* An exchange waits for its data, and then until its own data are taken. */
static bool is_to_be_taken(const ls_whole_trace *whole, int64_t wait)
{
    const ls_trace_slice *w = at(whole, wait);
    const int64_t end = (int64_t)whole->first[w->lane + 1];
    for (int64_t i = first_of_run(whole, wait); i < end && same_run(at(whole, i), w); i++) {
        if (i < wait && at(whole, i)->kind == LS_STRETCH_PEER)
            return true;
        for (int64_t m = whole->message_of[i]; m >= 0; m = whole->next[m])
            if (!whole->trace.messages[m].sends)
                return false;
    }
    return true;
}

/* For a wait for peers: the last peer that arrived or worked during the wait. */
static step_back latest_peer(const ls_whole_trace *whole, int64_t wait)
{
    const ls_trace_slice *w = at(whole, wait);
    const bool sends = is_to_be_taken(whole, wait);
    step_back latest = {-1, w->begin_ns};
    const int64_t end = (int64_t)whole->first[w->lane + 1];
    for (int64_t i = first_of_run(whole, wait); i < end && same_run(at(whole, i), w); i++)
        for (int64_t m = whole->message_of[i]; m >= 0; m = whole->next[m]) {
            if (whole->other[m] < 0 || whole->trace.messages[m].sends != sends)
                continue;
            const ls_trace_message *peer = &whole->trace.messages[whole->other[m]];
            const step_back back = released_by(whole, peer->slice, w->end_ns);
            if (back.ns > latest.ns && back.ns <= w->end_ns)
                latest = back;
        }
    return latest;
}

/* What ended a wait; slice -1 if unknown. */
static step_back cause_of(const ls_whole_trace *whole, int64_t slice)
{
    const ls_trace_slice *s = at(whole, slice);
    if (s->kind == LS_STRETCH_PEER)
        return latest_peer(whole, slice);
    if (s->kind != LS_STRETCH_EVENT || s->cause < 0)
        return (step_back){-1, 0};
    const uint64_t end = at(whole, s->cause)->end_ns;
    if (end <= s->begin_ns) /* it had ended before */
        return before(whole, slice);
    return (step_back){s->cause, end < s->end_ns ? end : s->end_ns};
}

ls_status ls_whole_trace_path(ls_whole_trace *whole)
{
    const size_t slices = whole->trace.slice_count;
    LS_TRY(ls_allocate("trace", &whole->critical, slices, sizeof *whole->critical));
    const ls_trace *t = &whole->trace;
    step_back now = {(int64_t)slices - 1, whole->end_ns}; /* the last one of a main queue */
    while (now.slice >= 0 && (!t->lanes[t->slices[now.slice].lane].main ||
                              t->slices[now.slice].end_ns != whole->end_ns))
        now.slice--;
    for (size_t looks = 0; now.slice >= 0 && looks < 4 * slices; looks++) {
        const ls_trace_slice *s = at(whole, now.slice);
        const bool waits = s->kind == LS_STRETCH_EVENT || s->kind == LS_STRETCH_PEER;
        step_back next = waits ? cause_of(whole, now.slice) : (step_back){-1, 0};
        uint64_t reached = now.ns;
        if (next.slice < 0) {
            /* on the path, clipped to the window */
            const uint64_t from = s->begin_ns > whole->begin_ns ? s->begin_ns : whole->begin_ns;
            whole->critical[now.slice] = true;
            if (s->end_ns > from)
                whole->path.ns[s->kind == LS_STRETCH_EVENT ? LS_TIME_WAIT : s->use] +=
                    s->end_ns - from;
            reached = s->begin_ns;
            next = before(whole, now.slice);
        }
        whole->path.begin_ns = reached > whole->begin_ns ? reached : whole->begin_ns;
        if (reached <= whole->begin_ns || next.slice < 0)
            break;
        if (next.ns > reached) /* clocks of two hosts */
            next.ns = reached;
        const uint64_t until = next.ns > whole->begin_ns ? next.ns : whole->begin_ns;
        const bool same = reached == s->begin_ns; /* in the same lane: nothing covers it */
        *(same ? &whole->path.ns[LS_TIME_HARNESS] : &whole->path.handover_ns) += reached - until;
        now = next;
        whole->path.begin_ns = until;
        if (until == whole->begin_ns)
            break;
    }
    return LS_OK;
}
