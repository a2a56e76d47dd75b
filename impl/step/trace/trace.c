/* SPDX-License-Identifier: MIT */
/*
 * Makes slices of tasks from the queues' logs; see trace.h.
 *
 * A queue logs what it ran, but does not know tasks. What was enqueued on a lane is known: each
 * task's waits, operations and copy, step after step. Both lists are walked together. A log also
 * has entries of communicators themselves; the next operation, unique in a step, realigns the walk.
 */
#include "impl/step/trace/trace.h"

#include "impl/step/program/names.h"
#include "impl/step/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An item enqueued on a lane for a task: a wait, an operation or a copy. */
typedef struct item {
    ls_stretch_kind kind;
    int32_t number; /* of the step; -1 means before or after steps */
    const ls_task *task;
    int64_t id;       /* index of the task in tracing.last */
    const ls_op *op;  /* of LS_STRETCH_OP; otherwise NULL */
    int node;         /* of the member's graph, whose pass the operation is of; or -1 */
    int64_t awaited;  /* of LS_STRETCH_EVENT: index of the awaited task in tracing.last; -1 if
                           none */
    const char *verb; /* of the awaited task */
} item;

/* All items enqueued on a lane, in order. */
typedef struct item_list {
    item *items;
    size_t count;
    int64_t ended; /* index of its last task of earlier steps; -1 if none */
    const char *verb;
} item_list;

typedef struct tracing {
    const ls_step_run *run;
    ls_trace *out;
    bool named; /* slices get names and layers */
    ls_status status;
    item_list *enqueued; /* [lanes] in order */
    int64_t *last;       /* [tasks] each task's last slice, by step; or -1 */
    size_t tasks;        /* of all steps */
    size_t *begin;       /* [lanes + 1] a lane's first slice */
    int64_t runs;
} tracing;

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { LEAST = 64, LEAST_BYTES = 2048 };

/* Allocates zero-filled memory. */
static void *take_room(tracing *w, size_t count, size_t size)
{
    const size_t bytes = count * size < LEAST_BYTES ? LEAST_BYTES : count * size;
    void *room = w->status ? NULL : calloc(1, bytes);
    if (!room && !w->status)
        w->status = ls_fail_memory("trace", bytes);
    return room;
}

/* Reallocates at powers of two. */
void *ls_trace_grow(ls_status *status, void *items, size_t count, size_t size)
{
    const bool full = !count || (count >= LEAST && !(count & (count - 1)));
    const size_t bytes = (count ? 2 * count : LEAST) * size;
    void *grown = full && !*status ? realloc(items, bytes) : items;
    if (!grown && !*status)
        *status = ls_fail_memory("trace", bytes);
    return grown ? grown : items;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void add_item(tracing *w, const item *one)
{
    item_list *list = &w->enqueued[one->task->lane];
    list->items = ls_trace_grow(&w->status, list->items, list->count, sizeof *list->items);
    if (!w->status)
        list->items[list->count++] = *one;
}

/* Adds a task's waits, operations and copy; `base` is the number of its step's first task. */
static void add_task(tracing *w, const ls_step_program *p, size_t t, size_t base, int32_t number)
{
    const ls_task *task = &p->tasks[t];
    item one = {
        .kind = LS_STRETCH_EVENT, .number = number, .task = task, .id = (int64_t)(base + t)};
    if (task->begins) {
        const ls_components *all = &w->run->components;
        const item_list *driver = &w->enqueued[all->items[all->component[task->lane]].driver];
        one.awaited = driver->ended;
        one.verb = driver->verb;
        add_item(w, &one);
    }
    for (size_t i = 0; i < task->waits.count; i++) {
        const size_t awaited = p->waits[task->waits.first + i];
        one.awaited = (int64_t)(base + awaited);
        one.verb = p->tasks[awaited].verb;
        add_item(w, &one);
    }
    one.kind = LS_STRETCH_OP;
    for (size_t i = 0; i < task->ops.count; i++) {
        one.op = p->ops[task->ops.first + i];
        one.node = p->nodes[task->ops.first + i];
        add_item(w, &one);
    }
    one.kind = LS_STRETCH_COPY;
    one.op = NULL;
    if (task->copy.to)
        add_item(w, &one);
}

static void add_program(tracing *w, const ls_step_program *p, int32_t number)
{
    for (size_t t = 0; t < p->task_count; t++)
        add_task(w, p, t, w->tasks, number);
    for (size_t t = 0; t < p->task_count; t++) {
        w->enqueued[p->tasks[t].lane].ended = (int64_t)(w->tasks + t);
        w->enqueued[p->tasks[t].lane].verb = p->tasks[t].verb;
    }
    w->tasks += p->task_count;
}

static void list_steps(tracing *w)
{
    const ls_step_run *run = w->run;
    int32_t number = 0;
    for (int l = 0; l < run->plan.lanes.count; l++)
        w->enqueued[l] = (item_list){.ended = -1, .verb = "a queue"};
    for (size_t e = 0; e < run->profile.count; e++)
        for (uint64_t i = 0; i < run->profile.list[e].times; i++) {
            const ls_step_program *p = run->profile.list[e].program;
            add_program(w, p, p >= &run->program[run->kinds] ? -1 : number++);
        }
    w->last = take_room(w, w->tasks, sizeof *w->last);
    for (size_t i = 0; i < w->tasks && w->last; i++)
        w->last[i] = -1;
}

/* ---- Layers, partners ------------------------------------------------------------------------ */

/* The length of "dense0" in "dense0.weight". */
static int stem(const char *name)
{
    return (int)strcspn(name, ".");
}

/* The layers of the variables in a range. */
static void name_range(const ls_graph *graph, ls_range range, char out[LS_TRACE_TEXT])
{
    const ls_variables *v = &graph->variables;
    const char *first = NULL, *last = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const ls_range elements = {v->items[i].offset, v->items[i].count};
        if (!ls_range_common(elements, range).count)
            continue;
        first = first ? first : v->items[i].name;
        last = v->items[i].name;
    }
    if (!first)
        return;
    if (stem(first) == stem(last) && strncmp(first, last, (size_t)stem(first)) == 0)
        snprintf(out, LS_TRACE_TEXT, "%.*s", stem(first), first);
    else
        snprintf(out, LS_TRACE_TEXT, "%.*s to %.*s", stem(first) < 16 ? stem(first) : 16, first,
                 stem(last) < 16 ? stem(last) : 16, last);
}

/* The layer of an operation that was found, or the layers of the range that the last one is for. */
static void find_layer(const tracing *w, const item *found, const item *last,
                       char out[LS_TRACE_TEXT])
{
    const ls_step_plan *plan = &w->run->plan;
    char text[LS_NODE_NAME];
    if (found && found->node >= 0) {
        /* The node's name in the whole model. */
        const int member = plan->lanes.items[found->task->lane].member;
        snprintf(out, LS_TRACE_TEXT, "%.38s",
                 plan->parts.count
                     ? ls_names_node(&plan->parts, plan->members[member].place, found->node, text)
                     : ls_graph_node_name(w->run->resources.members[member].replica->graph,
                                          found->node, text));
    } else if (last && last->task->range.count && plan->job->model)
        name_range(plan->job->model->graph, last->task->range, out);
}

/* Whom and what the work of an item on a lane is for: micro-batch, stage, partner. `of` is NULL
 * before the first one. */
static void find_partner(const tracing *w, int lane, const item *of, ls_trace_slice *slice)
{
    const ls_step_plan *plan = &w->run->plan;
    const ls_planned_member *own = &plan->members[plan->lanes.items[lane].member];
    const int across = plan->mesh.size[LS_SLICE];
    slice->stage = -1;
    if (plan->parts.count > across && own->place >= 0)
        slice->stage = own->place / across;
    slice->microbatch = of ? of->task->microbatch - 1 : -1;
    const ls_task_copy *copy = of ? &of->task->copy : NULL;
    int peer = of ? of->task->end.peer : -1;
    if (copy && copy->to && copy->crosses)
        peer = own == &plan->members[copy->to_member] ? copy->from_member : copy->to_member;
    if (peer < 0)
        return;
    ls_member_name name;
    ls_steps_name_member(w->run, peer, &name);
    snprintf(slice->partner, sizeof slice->partner, "%.39s", name.text);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void name_lane(const ls_step_run *run, int l, ls_trace_lane *out)
{
    const ls_step_plan *plan = &run->plan;
    const ls_lane *lane = &plan->lanes.items[l];
    const ls_replica *replica = run->resources.members[lane->member].replica;
    const int trains = ls_step_plan_training(plan), number = plan->members[lane->member].device;
    out->member = lane->member;
    out->channel = out->rank = -1;
    if (!replica)
        return;
    if (number < (int)plan->job->device_count)
        out->number = number;
    if (ls_step_plan_two_ended(plan) && plan->lanes.channels[LS_MESSAGES].lane[lane->member] == l) {
        const ls_comm *end = run->resources.ends[LS_MESSAGES].items[lane->member].comm;
        out->channel = ls_connection_number(&run->resources, end);
        out->rank = end->rank;
    }
    const char *device = ls_device_describe(replica->device)->text;
    const char *what = l < plan->total && l >= trains ? "server" : lane->name;
    const bool shadow = lane->member >= plan->total;
    out->main = l < trains && run->components.component[l] >= 0;
    snprintf(out->device, sizeof out->device, "%.39s", device);
    snprintf(out->name, sizeof out->name, "%.32s %.32s%s", device, what,
             shadow ? " for another" : "");
}

/* Lists what was enqueued on each lane, and names the lanes. A failure is in w->status. */
static void open_tracing(tracing *w)
{
    const size_t lanes = (size_t)w->run->plan.lanes.count;
    w->begin = take_room(w, lanes + 1, sizeof *w->begin);
    w->enqueued = take_room(w, lanes, sizeof *w->enqueued);
    w->out->lanes = take_room(w, lanes, sizeof *w->out->lanes);
    if (w->status)
        return;
    w->out->lane_count = lanes;
    for (int l = 0; l < w->run->plan.lanes.count; l++)
        name_lane(w->run, l, &w->out->lanes[l]);
    list_steps(w);
}

static void close_tracing(tracing *w)
{
    for (int l = 0; w->enqueued && l < w->run->plan.lanes.count; l++)
        free(w->enqueued[l].items);
    free(w->enqueued);
    free(w->last);
    free(w->begin);
}

/* ---- Lanes' logs ----------------------------------------------------------------------------- */

/* The walk over a lane's log and over what was enqueued on it. */
typedef struct lane_walk {
    tracing *w;
    int lane;
    size_t next;     /* next item of w->enqueued[lane] */
    size_t peers;    /* waits for peers that the log has before the current entry */
    const item *now; /* the item found last */
} lane_walk;

/* Returns the next enqueued item of that kind and operation, and advances behind it; NULL if there
 * is none. */
static const item *find(lane_walk *l, const ls_stretch *stretch)
{
    const item_list *list = &l->w->enqueued[l->lane];
    for (size_t i = l->next; i < list->count; i++) {
        const item *one = &list->items[i];
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
    tracing *w = l->w;
    ls_trace *out = w->out;
    slice->lane = l->lane;
    slice->step = l->now ? l->now->number : -1;
    if (w->named)
        find_partner(w, l->lane, l->now, slice);
    out->slices = ls_trace_grow(&w->status, out->slices, out->slice_count, sizeof *out->slices);
    if (w->status)
        return;
    if (l->now && slice->kind != LS_STRETCH_EVENT)
        w->last[l->now->id] = (int64_t)out->slice_count;
    out->slices[out->slice_count++] = *slice;
}

/* `found` is NULL for a communicator's own wait. */
static void emit_event(lane_walk *l, const ls_stretch *s, const item *found)
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

static void add_message(tracing *w, const ls_trace_message *message)
{
    ls_trace *out = w->out;
    out->messages =
        ls_trace_grow(&w->status, out->messages, out->message_count, sizeof *out->messages);
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

static void walk_lane(tracing *w, int lane)
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
        const item *found = find(&l, s);
        if (s->kind == LS_STRETCH_EVENT)
            emit_event(&l, s, found);
        else if (s->kind == LS_STRETCH_COPY)
            emit_copy(&l, s);
        else {
            ls_trace_slice work = {
                .kind = LS_STRETCH_OP, .use = (int32_t)s->op->use, .run = l.w->runs++, .cause = -1};
            if (l.w->named) {
                snprintf(work.name, sizeof work.name, "%.39s", s->op->name);
                find_layer(l.w, found, l.now, work.layer);
            }
            add_messages(&l, s->op, emit_work(&l, s, &work, s->op->bytes, s->op->flops));
        }
        l.peers = 0;
    }
}

ls_status ls_steps_trace(const ls_run *run, ls_trace_of what, ls_trace *out)
{
    tracing w = {.run = ls_step_run_of(run), .out = out, .named = what == LS_TRACE_NAMED};
    *out = (ls_trace){0};
    open_tracing(&w);
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
        w.status = ls_trace_blame(out, w.begin);
    }
    const ls_status status = w.status;
    close_tracing(&w);
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
