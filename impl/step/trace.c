/* SPDX-License-Identifier: MIT */
/*
 * From what queues noted to slices of tasks; see trace.h.
 *
 * A queue notes what it does, and knows of no task. But what a lane is given is known: of each task
 * its waits, its operations, its copy, step after step. So both are walked together. An operation
 * is in a step once, so that the walk finds its way again where a communicator put more than was
 * said.
 */
#include "impl/step/trace.h"

#include "impl/step/trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lists that grow ------------------------------------------------------------------------- */

static ls_trace_slice *add_slice(ls_tracing *w, const ls_trace_slice *slice)
{
    ls_trace *out = w->out;
    if (out->slice_count == w->slice_room) {
        w->slice_room = 2 * w->slice_room + 256;
        ls_trace_slice *all = realloc(out->slices, w->slice_room * sizeof *all);
        if (!all) {
            w->status = ls_fail_memory("trace", w->slice_room * sizeof *all);
            w->slice_room = out->slice_count;
            return NULL;
        }
        out->slices = all;
    }
    out->slices[out->slice_count] = *slice;
    return &out->slices[out->slice_count++];
}

static void add_message(ls_tracing *w, const ls_trace_message *message)
{
    ls_trace *out = w->out;
    if (out->message_count == w->message_room) {
        w->message_room = 2 * w->message_room + 64;
        ls_trace_message *all = realloc(out->messages, w->message_room * sizeof *all);
        if (!all) {
            w->status = ls_fail_memory("trace", w->message_room * sizeof *all);
            w->message_room = out->message_count;
            return;
        }
        out->messages = all;
    }
    out->messages[out->message_count++] = *message;
}

/* ---- What a lane was given ------------------------------------------------------------------- */

/* A place in that: the next thing. */
typedef struct cursor {
    size_t sequence; /* in w->sequences */
    size_t task;     /* number among the lane's tasks there */
    size_t item;     /* of that task: its waits, operations, copy */
} cursor;

typedef struct item {
    ls_stretch_kind kind;
    size_t task;     /* of the step */
    const ls_op *op; /* of LS_STRETCH_OP */
    int64_t awaited; /* of LS_STRETCH_EVENT: the task that is waited for, in w->last; -1: none */
} item;

/* The last task of the component's step before. */
static int64_t before(const ls_tracing *w, size_t sequence, int lane)
{
    const ls_stepped *run = w->run;
    while (sequence-- > 0) {
        const ls_traced_step *step = &w->sequences[sequence];
        const int driver = run->components[run->component[lane]].driver;
        const size_t first = step->lanes->first[driver], end = step->lanes->first[driver + 1];
        if (end > first)
            return (int64_t)(step->base + step->lanes->tasks[end - 1]);
    }
    return -1;
}

/* What is at the cursor, which goes on to the next task where one is through. False: at the end. */
static bool look(const ls_tracing *w, int lane, cursor *c, item *out)
{
    for (; c->sequence < w->sequence_count; c->sequence++, c->task = c->item = 0) {
        const ls_traced_step *step = &w->sequences[c->sequence];
        const size_t first = step->lanes->first[lane], end = step->lanes->first[lane + 1];
        for (; first + c->task < end; c->task++, c->item = 0) {
            const size_t t = step->lanes->tasks[first + c->task];
            const ls_task *task = &step->step->tasks[t];
            size_t at = c->item;
            *out = (item){.kind = LS_STRETCH_EVENT, .task = t, .awaited = -1};
            if (at < task->begins) {
                out->awaited = before(w, c->sequence, lane);
                return true;
            }
            at -= task->begins;
            if (at < task->wait_count) {
                out->awaited = (int64_t)(step->base + step->step->waits[task->wait + at]);
                return true;
            }
            at -= task->wait_count;
            if (at < task->op_count) {
                out->kind = LS_STRETCH_OP;
                out->op = step->step->ops[task->op + at];
                return true;
            }
            at -= task->op_count;
            if (at < (task->to.memory != NULL)) {
                out->kind = LS_STRETCH_COPY;
                return true;
            }
        }
    }
    return false;
}

/* Goes behind the next thing of that kind, and operation; where there is none, the cursor stays. */
static bool find(const ls_tracing *w, int lane, const ls_stretch *stretch, cursor *c, item *out)
{
    cursor at = *c;
    if (stretch->kind == LS_STRETCH_OP && !ls_tracing_knows(w, stretch->op))
        return false;
    while (look(w, lane, &at, out)) {
        at.item++;
        const bool found = out->kind == stretch->kind && out->op == stretch->op;
        if (found)
            *c = at;
        if (found || (stretch->kind == LS_STRETCH_EVENT) ||
            (stretch->kind == LS_STRETCH_COPY && out->kind == LS_STRETCH_OP))
            return found;
    }
    return false;
}

/* ---- Slices ---------------------------------------------------------------------------------- */

/* What is walked: one lane's stretches. */
typedef struct lane_walk {
    ls_tracing *w;
    int lane;
    cursor at;
    const ls_step *step; /* of the task at hand */
    const ls_task *task; /* NULL: none yet */
    int64_t id;          /* the task's, in w->last */
    int32_t number;      /* the step's */
} lane_walk;

static void take_task(lane_walk *l, const item *found)
{
    const ls_traced_step *step = &l->w->sequences[l->at.sequence];
    l->step = step->step;
    l->task = &step->step->tasks[found->task];
    l->number = step->number;
    l->id = (int64_t)(step->base + found->task);
}

static void emit(lane_walk *l, ls_trace_slice *slice)
{
    slice->lane = l->lane;
    slice->step = l->number;
    const ls_trace_slice *added = add_slice(l->w, slice);
    if (added && l->id >= 0 && slice->kind != LS_STRETCH_EVENT)
        l->w->last[l->id] = (int64_t)l->w->out->slice_count - 1;
}

static void emit_event(lane_walk *l, const ls_stretch *s, const item *found)
{
    ls_trace_slice slice = {.begin_ns = s->begin_ns,
                            .end_ns = s->end_ns,
                            .kind = LS_STRETCH_EVENT,
                            .use = LS_TIME_IDLE,
                            .run = l->w->runs++,
                            .cause = found ? found->awaited : -1};
    const char *verb = slice.cause >= 0 ? ls_tracing_task(l->w, slice.cause)->verb : "a queue";
    snprintf(slice.name, sizeof slice.name, "wait for %.30s", verb);
    emit(l, &slice);
}

/* Between members of different devices. */
static bool crosses(const ls_step *s, const ls_task *task)
{
    return ls_step_replica(s, task->to.member)->device !=
           ls_step_replica(s, task->from.member)->device;
}

static void emit_copy(lane_walk *l, const ls_stretch *s)
{
    const ls_task *task = l->task && l->task->to.memory ? l->task : NULL;
    ls_trace_slice slice = {.begin_ns = s->begin_ns,
                            .end_ns = s->end_ns,
                            .kind = LS_STRETCH_COPY,
                            .use = LS_TIME_COPY,
                            .run = l->w->runs++,
                            .cause = -1,
                            .bytes = task ? (double)task->to.bytes : 0};
    snprintf(slice.name, sizeof slice.name, "copy.%.30s", task ? task->verb : "communicator");
    emit(l, &slice);
    if (!task || !crosses(l->step, task))
        return;
    const ls_trace_message copy = {.slice = (int64_t)l->w->out->slice_count - 1,
                                   .number = l->w->copies++,
                                   .bytes = task->to.bytes,
                                   .channel = LS_TRACE_COPY,
                                   .from = task->from.member,
                                   .to = task->to.member,
                                   .sends = task->from.member == l->w->run->lanes[l->lane].member};
    add_message(l->w, &copy);
}

static void tell_messages(lane_walk *l, const ls_op *op, int64_t slice)
{
    for (size_t m = 0; m < op->message_count; m++) {
        const ls_op_message *one = &op->messages[m];
        const ls_comm *end = one->channel;
        const ls_trace_message message = {.slice = slice,
                                          .bytes = one->bytes,
                                          .channel = ls_tracing_channel(l->w->run, end),
                                          .from = one->from,
                                          .to = one->to,
                                          .sends = one->from == end->rank};
        add_message(l->w, &message);
    }
}

/* An operation, cut where it waited for peers. */
static void emit_op(lane_walk *l, const ls_stretch *s, const ls_stretch *peers, size_t count)
{
    ls_trace_slice work = {
        .kind = LS_STRETCH_OP, .use = (int32_t)s->op->use, .run = l->w->runs++, .cause = -1};
    ls_trace_slice wait = {
        .kind = LS_STRETCH_PEER, .use = LS_TIME_WAIT, .run = work.run, .cause = -1};
    int64_t first = -1;
    snprintf(work.name, sizeof work.name, "%.39s", s->op->name);
    snprintf(wait.name, sizeof wait.name, "wait in %.30s", s->op->name);
    ls_tracing_layer(l->w, l->step, l->task, s->op, work.layer);
    memcpy(wait.layer, work.layer, sizeof wait.layer);
    work.begin_ns = s->begin_ns;
    for (size_t p = 0; p <= count; p++) {
        work.end_ns = p < count ? peers[p].begin_ns : s->end_ns;
        if (p == count) {
            work.bytes = s->op->bytes;
            work.flops = s->op->flops;
        }
        if (p == count || work.end_ns > work.begin_ns) {
            emit(l, &work);
            first = first < 0 ? (int64_t)l->w->out->slice_count - 1 : first;
        }
        if (p == count)
            break;
        wait.begin_ns = peers[p].begin_ns;
        wait.end_ns = work.begin_ns = peers[p].end_ns;
        emit(l, &wait);
    }
    tell_messages(l, s->op, first);
}

static void walk_lane(ls_tracing *w, int lane)
{
    const ls_time_log *log = &w->run->lanes[lane].log;
    lane_walk l = {.w = w, .lane = lane, .id = -1, .number = -1};
    size_t peers = 0;
    w->out->lost += log->lost;
    for (size_t i = 0; i < log->count && !w->status; i++) {
        const ls_stretch *s = &log->items[i];
        item found;
        if (s->kind == LS_STRETCH_PEER) {
            peers++;
            continue;
        }
        const bool known = find(w, lane, s, &l.at, &found);
        if (known)
            take_task(&l, &found);
        if (s->kind == LS_STRETCH_EVENT)
            emit_event(&l, s, known ? &found : NULL);
        else if (s->kind == LS_STRETCH_COPY)
            emit_copy(&l, s);
        else
            emit_op(&l, s, s - peers, peers);
        peers = 0;
    }
}

/* What waits were for, as slices. */
static void find_causes(ls_tracing *w)
{
    for (size_t i = 0; i < w->out->slice_count; i++) {
        int64_t *cause = &w->out->slices[i].cause;
        *cause = *cause >= 0 ? w->last[*cause] : -1;
    }
}

static int compare_messages(const void *a, const void *b)
{
    const ls_trace_message *x = a, *y = b;
    const int32_t of_x[] = {x->channel, x->from, x->to, x->sends};
    const int32_t of_y[] = {y->channel, y->from, y->to, y->sends};
    for (int i = 0; i < 4; i++)
        if (of_x[i] != of_y[i])
            return (of_x[i] > of_y[i]) - (of_x[i] < of_y[i]);
    return (x->number > y->number) - (x->number < y->number);
}

/* Ends of a communicator go to one lane each, in one order. */
static void number_messages(ls_trace *out)
{
    for (size_t i = 0; i < out->message_count; i++)
        if (out->messages[i].channel != LS_TRACE_COPY)
            out->messages[i].number = i;
    if (out->message_count)
        qsort(out->messages, out->message_count, sizeof *out->messages, compare_messages);
    for (size_t i = 0, same = 0; i < out->message_count; i++) {
        ls_trace_message *m = &out->messages[i];
        if (m->channel == LS_TRACE_COPY)
            continue;
        same = i && m[-1].channel == m->channel && m[-1].from == m->from && m[-1].to == m->to &&
                       m[-1].sends == m->sends
                   ? same + 1
                   : 0;
        m->number = same;
    }
}

ls_status ls_stepped_trace(const ls_run *run, ls_trace *out)
{
    ls_tracing w = {.run = (const ls_stepped *)run, .out = out};
    *out = (ls_trace){0};
    ls_tracing_open(&w);
    for (int l = 0; l < w.run->lane_count && !w.status; l++) {
        w.begin[l] = out->slice_count;
        if (w.run->component[l] >= 0)
            walk_lane(&w, l);
        w.begin[l + 1] = out->slice_count;
        out->lanes[l].used = w.begin[l + 1] > w.begin[l];
    }
    if (!w.status) {
        find_causes(&w);
        number_messages(out);
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
