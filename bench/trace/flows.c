/* SPDX-License-Identifier: MIT */
/*
 * Matches the two ends of messages and copies between devices. Both ends list the messages of a
 * channel from one rank to another in order: the first one sent is the first one received. If only
 * one end is known (a server that serves on its own reports no messages), the other one is on the
 * peer's lane at that time.
 */
#include "bench/trace/whole.h"
#include "common/base/grow.h"

#include <stdlib.h>

/* Sorts by channel and direction, sends first, in the order reported. */
static int compare_ends(const void *a, const void *b)
{
    const ls_trace_message *x = a, *y = b;
    const int64_t of_x[] = {x->channel, x->from, x->to, y->sends, x->slice};
    const int64_t of_y[] = {y->channel, y->from, y->to, x->sends, y->slice};
    for (int i = 0; i < 5; i++)
        if (of_x[i] != of_y[i])
            return (of_x[i] > of_y[i]) - (of_x[i] < of_y[i]);
    return (x->index > y->index) - (x->index < y->index);
}

static void pair_up(ls_whole_trace *whole)
{
    ls_trace *t = &whole->trace;
    if (t->message_count)
        qsort(t->messages, t->message_count, sizeof *t->messages, compare_ends);
    for (size_t i = 0; i < t->message_count; i++)
        whole->other[i] = -1;
    for (size_t i = 0, received, end; i < t->message_count; i = end) {
        const ls_trace_message *m = &t->messages[i];
        for (end = i; end < t->message_count && t->messages[end].channel == m->channel &&
                      t->messages[end].from == m->from && t->messages[end].to == m->to;
             end++)
            ;
        for (received = i; received < end && t->messages[received].sends; received++)
            ;
        for (size_t s = i; s < received && m->channel != LS_TRACE_COPY; s++) {
            if (received + (s - i) >= end)
                break;
            whole->other[s] = (int64_t)(received + (s - i));
            whole->other[whole->other[s]] = (int64_t)s;
        }
    }
    for (size_t i = 0; i < t->slice_count; i++)
        whole->message_of[i] = -1;
    for (size_t i = t->message_count; i-- > 0;) {
        whole->next[i] = whole->message_of[t->messages[i].slice];
        whole->message_of[t->messages[i].slice] = (int64_t)i;
    }
}

/* The last slice of a run. */
static int64_t last_of(const ls_trace *t, int64_t slice)
{
    while (slice + 1 < (int64_t)t->slice_count &&
           t->slices[slice + 1].run == t->slices[slice].run &&
           t->slices[slice + 1].lane == t->slices[slice].lane)
        slice++;
    return slice;
}

/* The lane of a rank's messages in a channel; `own` if there is none. */
static int lane_of(const ls_trace *t, int channel, int rank, int own)
{
    for (size_t l = 0; l < t->lane_count; l++)
        if (t->lanes[l].channel == channel && t->lanes[l].rank == rank)
            return (int)l;
    return own;
}

/* A copy's other end is the lane of the other member. */
static ls_flow flow_of_copy(const ls_trace *t, const ls_trace_message *m)
{
    const int lane = t->slices[m->slice].lane;
    return (ls_flow){.from_slice = m->slice,
                     .to_slice = last_of(t, m->slice),
                     .from_lane = m->sends ? lane : m->from,
                     .to_lane = m->sends ? m->to : lane,
                     .bytes = m->bytes};
}

/* The flow of the end that is reported first: the sender's, or the only one. */
static ls_flow flow_of(const ls_whole_trace *whole, size_t i)
{
    const ls_trace *t = &whole->trace;
    const ls_trace_message *m = &t->messages[i];
    const int lane = t->slices[m->slice].lane;
    ls_flow flow = {m->slice, last_of(t, m->slice), lane, lane, m->bytes};
    if (whole->other[i] >= 0) {
        flow.to_slice = last_of(t, t->messages[whole->other[i]].slice);
        flow.to_lane = t->slices[flow.to_slice].lane;
    } else if (m->sends) {
        flow.to_lane = lane_of(t, m->channel, m->to, lane);
    } else {
        flow.from_lane = lane_of(t, m->channel, m->from, lane);
    }
    return flow;
}

ls_status ls_whole_trace_flows(ls_whole_trace *whole, bool synchronous)
{
    ls_trace *t = &whole->trace;
    LS_TRY(ls_allocate("trace", &whole->other, t->message_count, sizeof *whole->other));
    LS_TRY(ls_allocate("trace", &whole->message_of, t->slice_count, sizeof *whole->message_of));
    LS_TRY(ls_allocate("trace", &whole->flows, t->message_count, sizeof *whole->flows));
    LS_TRY(ls_allocate("trace", &whole->next, t->message_count, sizeof *whole->next));
    pair_up(whole);
    for (size_t i = 0; i < t->message_count; i++) {
        const ls_trace_message *m = &t->messages[i];
        const bool second = whole->other[i] >= 0 && !m->sends;
        const int32_t step = t->slices[m->slice].step, last = (int32_t)whole->steps;
        if (second || step < synchronous || (synchronous && step > last))
            continue;
        whole->flows[whole->flow_count++] =
            m->channel == LS_TRACE_COPY ? flow_of_copy(t, m) : flow_of(whole, i);
    }
    return LS_OK;
}
