/* SPDX-License-Identifier: MIT */
/* The input of a trace: enqueued steps, layers of operations, names and logs of lanes. */
#include "impl/step/program/names.h"
#include "impl/step/trace/trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { LEAST = 64, LEAST_BYTES = 2048 };

/* Allocates zero-filled memory. */
static void *take_room(ls_tracing *w, size_t count, size_t size)
{
    const size_t bytes = count * size < LEAST_BYTES ? LEAST_BYTES : count * size;
    void *room = w->status ? NULL : calloc(1, bytes);
    if (!room && !w->status)
        w->status = ls_fail_memory("trace", bytes);
    return room;
}

/* Reallocates at powers of two. */
void *ls_tracing_grow(ls_tracing *w, void *items, size_t count, size_t size)
{
    const bool full = !count || (count >= LEAST && !(count & (count - 1)));
    const size_t bytes = (count ? 2 * count : LEAST) * size;
    void *grown = full && !w->status ? realloc(items, bytes) : items;
    if (!grown && !w->status)
        w->status = ls_fail_memory("trace", bytes);
    return grown ? grown : items;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void add_item(ls_tracing *w, const ls_item *one)
{
    ls_item_list *list = &w->enqueued[one->task->lane];
    list->items = ls_tracing_grow(w, list->items, list->count, sizeof *list->items);
    if (!w->status)
        list->items[list->count++] = *one;
}

/* Adds a task's waits, operations and copy; `base` is the number of its step's first task. */
static void add_task(ls_tracing *w, const ls_step_program *p, size_t t, size_t base, int32_t number)
{
    const ls_task *task = &p->tasks[t];
    ls_item one = {.kind = LS_STRETCH_EVENT,
                   .number = number,
                   .program = p,
                   .task = task,
                   .id = (int64_t)(base + t)};
    if (task->begins) {
        const ls_components *all = &w->run->components;
        const ls_item_list *driver = &w->enqueued[all->items[all->component[task->lane]].driver];
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
        add_item(w, &one);
    }
    one.kind = LS_STRETCH_COPY;
    one.op = NULL;
    if (task->copy.to)
        add_item(w, &one);
}

static void add_program(ls_tracing *w, const ls_step_program *p, int32_t number)
{
    for (size_t t = 0; t < p->task_count; t++)
        add_task(w, p, t, w->tasks, number);
    for (size_t t = 0; t < p->task_count; t++) {
        w->enqueued[p->tasks[t].lane].ended = (int64_t)(w->tasks + t);
        w->enqueued[p->tasks[t].lane].verb = p->tasks[t].verb;
    }
    w->tasks += p->task_count;
}

static void list_steps(ls_tracing *w)
{
    const ls_step_run *run = w->run;
    int32_t number = 0;
    for (int l = 0; l < run->plan.lanes.count; l++)
        w->enqueued[l] = (ls_item_list){.ended = -1, .verb = "a queue"};
    for (size_t e = 0; e < run->profile.count; e++)
        for (uint64_t i = 0; i < run->profile.list[e].times; i++) {
            const ls_step_program *p = run->profile.list[e].program;
            add_program(w, p, p >= &run->program[run->kinds] ? -1 : number++);
        }
    w->last = take_room(w, w->tasks, sizeof *w->last);
    for (size_t i = 0; i < w->tasks && w->last; i++)
        w->last[i] = -1;
}

/* ---- Operations and layers ------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b)
{
    const ls_op_node *x = a, *y = b;
    return ((uintptr_t)x->op > (uintptr_t)y->op) - ((uintptr_t)x->op < (uintptr_t)y->op);
}

/* Adds the node of each operation of a member's passes. */
static void note_nodes(ls_tracing *w, int m)
{
    const ls_slice *slice = w->run->resources.members[m].slice[LS_FULL];
    size_t count = 0;
    const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
    for (size_t a = 0; a < count; a++) {
        const bool pass = acts[a].kind == LS_ACT_FORWARD || acts[a].kind == LS_ACT_BACKWARD ||
                          acts[a].kind == LS_ACT_WEIGHTS;
        for (int l = 0; l < LS_NET_LISTS && pass; l++)
            for (size_t i = 0; acts[a].lists[l] && i < acts[a].lists[l]->count; i++) {
                w->nodes = ls_tracing_grow(w, w->nodes, w->node_count, sizeof *w->nodes);
                if (w->status)
                    return;
                w->nodes[w->node_count++] =
                    (ls_op_node){acts[a].lists[l]->items[i], acts[a].node, m};
            }
    }
}

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

void ls_tracing_layer(const ls_tracing *w, const ls_item *item, const ls_op *op,
                      char out[LS_TRACE_TEXT])
{
    const ls_op_node key = {.op = op};
    const ls_op_node *at =
        w->node_count ? bsearch(&key, w->nodes, w->node_count, sizeof key, compare_nodes) : NULL;
    const ls_model *model = w->run->plan.job->model;
    *out = 0;
    if (at) {
        /* The node's name in the whole model. */
        char text[LS_NODE_NAME];
        snprintf(out, LS_TRACE_TEXT, "%.38s",
                 w->run->plan.parts.count
                     ? ls_names_node(&w->run->plan.parts, w->run->plan.members[at->member].place,
                                     at->node, text)
                     : ls_graph_node_name(w->run->resources.members[at->member].replica->graph,
                                          at->node, text));
    } else if (item && item->task->range.count && model)
        name_range(model->graph, item->task->range, out);
}

void ls_tracing_for(const ls_tracing *w, int lane, const ls_item *item, ls_trace_slice *slice)
{
    const ls_step_plan *plan = &w->run->plan;
    const ls_planned_member *own = &plan->members[plan->lanes.items[lane].member];
    const int across = plan->mesh.size[LS_SLICE];
    slice->stage = -1;
    if (plan->parts.count > across && own->place >= 0)
        slice->stage = own->place / across;
    slice->microbatch = item ? item->task->microbatch - 1 : -1;
    const ls_task_copy *copy = item ? &item->task->copy : NULL;
    int peer = item ? item->task->end.peer : -1;
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
    const int trains = ls_step_plan_training(plan);
    out->member = lane->member;
    out->channel = out->rank = -1;
    if (!replica)
        return;
    const ls_job *job = plan->job;
    for (size_t d = 0; d < job->device_count; d++)
        if (job->devices[d] == replica->device)
            out->number = (int32_t)d;
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

void ls_tracing_open(ls_tracing *w)
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
    for (int m = 0; m < w->run->plan.all; m++)
        if (w->run->resources.members[m].replica)
            note_nodes(w, m);
    if (w->node_count)
        qsort(w->nodes, w->node_count, sizeof *w->nodes, compare_nodes);
}

void ls_tracing_close(ls_tracing *w)
{
    for (int l = 0; w->enqueued && l < w->run->plan.lanes.count; l++)
        free(w->enqueued[l].items);
    free(w->enqueued);
    free(w->last);
    free(w->nodes);
    free(w->begin);
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
