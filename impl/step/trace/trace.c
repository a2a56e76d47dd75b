/* SPDX-License-Identifier: MIT */
/*
 * Makes slices of tasks from the queues' logs; see trace.h.
 *
 * A queue logs what it ran, but does not know tasks. What was enqueued on a lane is known: each
 * task's waits, operations and copy, step after step. Both lists are walked together. A log also
 * has entries of communicators themselves; the next operation, unique in a step, realigns the walk.
 */
#include "impl/step/trace/trace.h"

#include "impl/step/trace/trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The walk over a lane's log and over what was enqueued on it. */
typedef struct lane_walk {
    ls_tracing *w;
    int lane;
    size_t next;        /* next item of w->enqueued[lane] */
    size_t peers;       /* waits for peers that the log has before the current entry */
    const ls_item *now; /* the item found last */
} lane_walk;

/* Returns the next enqueued item of that kind and operation, and advances behind it; NULL if there
 * is none. */
static const ls_item *find(lane_walk *l, const ls_stretch *stretch)
{
    const ls_item_list *list = &l->w->enqueued[l->lane];
    for (size_t i = l->next; i < list->count; i++) {
        const ls_item *one = &list->items[i];
        if (one->kind == stretch->kind && one->op == stretch->op) {
            l->next = i + 1;
            return l->now = one;
        }
        if (stretch->kind == LS_STRETCH_EVENT ||
            (stretch->kind == LS_STRETCH_COPY && one->kind == LS_STRETCH_OP))
            return NULL;
    }
    return NULL;
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static void emit(lane_walk *l, ls_trace_slice *slice)
{
    ls_tracing *w = l->w;
    ls_trace *out = w->out;
    slice->lane = l->lane;
    slice->step = l->now ? l->now->number : -1;
    if (w->named)
        ls_tracing_for(w, l->lane, l->now, slice);
    out->slices = ls_tracing_grow(w, out->slices, out->slice_count, sizeof *out->slices);
    if (w->status)
        return;
    if (l->now && slice->kind != LS_STRETCH_EVENT)
        w->last[l->now->id] = (int64_t)out->slice_count;
    out->slices[out->slice_count++] = *slice;
}

/* `found` is NULL for a communicator's own wait. */
static void emit_event(lane_walk *l, const ls_stretch *s, const ls_item *found)
{
    ls_trace_slice slice = {.begin_ns = s->begin_ns,
                            .end_ns = s->end_ns,
                            .kind = LS_STRETCH_EVENT,
                            .use = LS_TIME_IDLE,
                            .run = l->w->runs++,
                            .cause = found ? found->awaited : -1};
    if (l->w->named)
        snprintf(slice.name, sizeof slice.name, "wait for %.30s", found ? found->verb : "a queue");
    emit(l, &slice);
}

static void add_message(ls_tracing *w, const ls_trace_message *message)
{
    ls_trace *out = w->out;
    out->messages = ls_tracing_grow(w, out->messages, out->message_count, sizeof *out->messages);
    if (!w->status)
        out->messages[out->message_count++] = *message;
}

/* Emits an entry, split where it waited for peers. Returns its first slice. */
static int64_t emit_work(lane_walk *l, const ls_stretch *s, ls_trace_slice *work, double bytes,
                         double flops)
{
    const ls_stretch *peer = s - l->peers;
    ls_trace_slice wait = {
        .kind = LS_STRETCH_PEER, .use = LS_TIME_WAIT, .run = work->run, .cause = -1};
    int64_t first = -1;
    if (l->w->named)
        snprintf(wait.name, sizeof wait.name, "wait in %.30s", work->name);
    memcpy(wait.layer, work->layer, sizeof wait.layer);
    for (work->begin_ns = s->begin_ns; peer <= s; peer++) {
        const bool last = peer == s;
        work->end_ns = last ? s->end_ns : peer->begin_ns;
        work->bytes = last ? bytes : 0;
        work->flops = last ? flops : 0;
        if (last || work->end_ns > work->begin_ns) {
            emit(l, work);
            first = first < 0 ? (int64_t)l->w->out->slice_count - 1 : first;
        }
        if (last)
            break;
        wait.begin_ns = peer->begin_ns;
        wait.end_ns = work->begin_ns = peer->end_ns;
        emit(l, &wait);
    }
    return first;
}

static void emit_copy(lane_walk *l, const ls_stretch *s)
{
    const ls_task_copy *copied = l->now && l->now->task->copy.to ? &l->now->task->copy : NULL;
    ls_trace_slice work = {
        .kind = LS_STRETCH_COPY, .use = LS_TIME_COPY, .run = l->w->runs++, .cause = -1};
    if (l->w->named)
        snprintf(work.name, sizeof work.name, "copy.%.30s",
                 copied ? l->now->task->verb : "communicator");
    const int64_t first = emit_work(l, s, &work, copied ? (double)copied->bytes : 0, 0);
    if (!copied || !copied->crosses)
        return;
    const ls_trace_message copy = {.slice = first,
                                   .bytes = copied->bytes,
                                   .channel = LS_TRACE_COPY,
                                   .from = copied->from_member,
                                   .to = copied->to_member,
                                   .sends = copied->from_member ==
                                            l->w->run->plan.lanes.items[l->lane].member};
    add_message(l->w, &copy);
}

static void add_messages(lane_walk *l, const ls_op *op, int64_t slice)
{
    for (size_t m = 0; m < op->message_count; m++) {
        const ls_op_message *one = &op->messages[m];
        const ls_comm *end = one->channel;
        const ls_trace_message message = {.slice = slice,
                                          .bytes = one->bytes,
                                          .channel =
                                              ls_connection_number(&l->w->run->resources, end),
                                          .from = one->from,
                                          .to = one->to,
                                          .sends = one->from == end->rank,
                                          .index = (int32_t)m};
        add_message(l->w, &message);
    }
}

static void walk_lane(ls_tracing *w, int lane)
{
    const ls_time_log *log = &w->run->queues[lane].log;
    lane_walk l = {.w = w, .lane = lane};
    w->out->lost += log->lost;
    for (size_t i = 0; i < log->count && !w->status; i++) {
        const ls_stretch *s = &log->items[i];
        if (s->kind == LS_STRETCH_PEER) {
            l.peers++;
            continue;
        }
        const ls_item *found = find(&l, s);
        if (s->kind == LS_STRETCH_EVENT)
            emit_event(&l, s, found);
        else if (s->kind == LS_STRETCH_COPY)
            emit_copy(&l, s);
        else {
            ls_trace_slice work = {
                .kind = LS_STRETCH_OP, .use = (int32_t)s->op->use, .run = l.w->runs++, .cause = -1};
            if (l.w->named) {
                snprintf(work.name, sizeof work.name, "%.39s", s->op->name);
                ls_tracing_layer(l.w, l.now, s->op, work.layer);
            }
            add_messages(&l, s->op, emit_work(&l, s, &work, s->op->bytes, s->op->flops));
        }
        l.peers = 0;
    }
}

ls_status ls_steps_trace(const ls_run *run, ls_trace_of what, ls_trace *out)
{
    ls_tracing w = {.run = ls_step_run_of(run), .out = out, .named = what == LS_TRACE_NAMED};
    *out = (ls_trace){0};
    ls_tracing_open(&w);
    for (int l = 0; l < w.run->plan.lanes.count && !w.status; l++) {
        w.begin[l] = out->slice_count;
        if (w.run->components.component[l] >= 0)
            walk_lane(&w, l);
        w.begin[l + 1] = out->slice_count;
        out->lanes[l].used = w.begin[l + 1] > w.begin[l];
    }
    if (!w.status) {
        /* in place of the task that each wait was for, its slice */
        for (size_t i = 0; i < w.out->slice_count; i++) {
            int64_t *cause = &w.out->slices[i].cause;
            *cause = *cause >= 0 ? w.last[*cause] : -1;
        }
        ls_tracing_blame(&w);
    }
    const ls_status status = w.status;
    ls_tracing_close(&w);
    return status;
}

void ls_trace_close(ls_trace *trace)
{
    free(trace->slices);
    free(trace->parts);
    free(trace->messages);
    free(trace->lanes);
    *trace = (ls_trace){0};
}
