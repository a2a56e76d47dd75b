/* SPDX-License-Identifier: MIT */
/* The input of a trace: enqueued steps, layers of operations, names and logs of lanes. */
#include "impl/step/names.h"
#include "impl/step/served.h"
#include "impl/step/trace_private.h"

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

static void give(ls_tracing *w, const ls_given *one)
{
    ls_given_list *list = &w->given[one->task->lane];
    list->items = ls_tracing_grow(w, list->items, list->count, sizeof *list->items);
    if (!w->status)
        list->items[list->count++] = *one;
}

/* Adds a task's waits, operations and copy; `base` is the number of its step's first task. */
static void give_task(ls_tracing *w, const ls_step *s, size_t t, size_t base, int32_t number)
{
    const ls_task *task = &s->tasks[t];
    ls_given one = {.kind = LS_STRETCH_EVENT,
                    .number = number,
                    .step = s,
                    .task = task,
                    .id = (int64_t)(base + t)};
    if (task->begins) {
        const ls_given_list *driver =
            &w->given[w->run->components[w->run->component[task->lane]].driver];
        one.awaited = driver->ended;
        one.verb = driver->verb;
        give(w, &one);
    }
    for (size_t i = task->wait; i < task->wait + task->wait_count; i++) {
        one.awaited = (int64_t)(base + s->waits[i]);
        one.verb = s->tasks[s->waits[i]].verb;
        give(w, &one);
    }
    one.kind = LS_STRETCH_OP;
    for (size_t i = task->op; i < task->op + task->op_count; i++) {
        one.op = s->ops[i];
        give(w, &one);
    }
    one.kind = LS_STRETCH_COPY;
    one.op = NULL;
    if (task->to.memory)
        give(w, &one);
}

static void give_step(ls_tracing *w, const ls_step *s, int32_t number)
{
    for (size_t t = 0; t < s->task_count; t++)
        give_task(w, s, t, w->tasks, number);
    for (size_t t = 0; t < s->task_count; t++) {
        w->given[s->tasks[t].lane].ended = (int64_t)(w->tasks + t);
        w->given[s->tasks[t].lane].verb = s->tasks[t].verb;
    }
    w->tasks += s->task_count;
}

static void list_steps(ls_tracing *w)
{
    const ls_stepped *run = w->run;
    int32_t number = 0;
    for (int l = 0; l < run->lane_count; l++)
        w->given[l] = (ls_given_list){.ended = -1, .verb = "a queue"};
    for (size_t p = 0; p < run->put_count; p++)
        for (uint64_t i = 0; i < run->puts[p].times; i++) {
            const ls_step *s = run->puts[p].step;
            give_step(w, s,
                      s == &run->step[LS_BEFORE] || s == &run->step[LS_AFTER] ? -1 : number++);
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
    const ls_slice *slice = w->run->members[m].slice[LS_FULL];
    size_t count = 0;
    const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
    for (size_t a = 0; a < count; a++) {
        const bool pass = acts[a].kind == LS_ACT_FORWARD || acts[a].kind == LS_ACT_BACKWARD;
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

/* The node's name in the whole model. */
static void name_node(const ls_stepped *run, int m, int node, char out[LS_TRACE_TEXT])
{
    const int place = m % run->places;
    char text[LS_NODE_NAME];
    snprintf(out, LS_TRACE_TEXT, "%.38s",
             run->parts.count ? ls_names_node(run, place, node, text)
                              : ls_graph_node_name(run->members[m].replica->graph, node, text));
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
        const ls_range its = {v->items[i].offset, v->items[i].count};
        if (!ls_range_common(its, range).count)
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

void ls_tracing_layer(const ls_tracing *w, const ls_given *given, const ls_op *op,
                      char out[LS_TRACE_TEXT])
{
    const ls_op_node key = {.op = op};
    const ls_op_node *at =
        w->node_count ? bsearch(&key, w->nodes, w->node_count, sizeof key, compare_nodes) : NULL;
    const ls_model *model = w->run->base.job->model;
    *out = 0;
    if (at)
        name_node(w->run, at->member, at->node, out);
    else if (given && given->task->range.count && model)
        name_range(model->graph, given->task->range, out);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void name_lane(const ls_stepped *run, int l, ls_trace_lane *out)
{
    const ls_lane *lane = &run->lanes[l];
    const ls_replica *replica = run->members[lane->member].replica;
    const int trains = ls_members_training(run);
    out->member = lane->member;
    out->served = out->rank = -1;
    if (!replica)
        return;
    const ls_job *job = run->base.job;
    for (size_t d = 0; d < job->device_count; d++)
        if (job->devices[d] == replica->device)
            out->number = (int32_t)d;
    if (run->served && run->ends[lane->member].lane == l) {
        out->served = ls_held_channel(&run->held, run->ends[lane->member].comm);
        out->rank = run->ends[lane->member].comm->rank;
    }
    const char *device = ls_device_describe(replica->device)->text;
    const char *what = l < run->total && l >= trains ? "server" : lane->name;
    const bool shadow = lane->member >= run->total;
    out->main = l < trains && run->component[l] >= 0;
    snprintf(out->device, sizeof out->device, "%.39s", device);
    snprintf(out->name, sizeof out->name, "%.32s %.32s%s", device, what,
             shadow ? " for another" : "");
}

void ls_tracing_open(ls_tracing *w)
{
    const size_t lanes = (size_t)w->run->lane_count;
    w->begin = take_room(w, lanes + 1, sizeof *w->begin);
    w->given = take_room(w, lanes, sizeof *w->given);
    w->out->lanes = take_room(w, lanes, sizeof *w->out->lanes);
    if (w->status)
        return;
    w->out->lane_count = lanes;
    for (int l = 0; l < w->run->lane_count; l++)
        name_lane(w->run, l, &w->out->lanes[l]);
    list_steps(w);
    for (int m = 0; m < w->run->all; m++)
        if (w->run->members[m].replica)
            note_nodes(w, m);
    if (w->node_count)
        qsort(w->nodes, w->node_count, sizeof *w->nodes, compare_nodes);
}

void ls_tracing_close(ls_tracing *w)
{
    for (int l = 0; w->given && l < w->run->lane_count; l++)
        free(w->given[l].items);
    free(w->given);
    free(w->last);
    free(w->nodes);
    free(w->begin);
}

/* ---- Logs ------------------------------------------------------------------------------------ */

/* A lane's log entries per step; 64 more for a joint call, which may enqueue other operations. */
static size_t count_in(const ls_step *s, int lane)
{
    size_t count = 0;
    for (size_t t = 0; t < s->task_count; t++)
        if (s->tasks[t].lane == lane)
            count += s->tasks[t].begins + s->tasks[t].wait_count + s->tasks[t].op_count + 1 +
                     (s->tasks[t].call >= 0 ? 64 : 0);
    return count;
}

/* The most in any kind of step, and what is enqueued once before and after steps. */
static size_t count_stretches(const ls_stepped *run, int lane)
{
    size_t most = 0;
    for (int k = 0; k < LS_KINDS; k++) {
        const size_t count = count_in(&run->step[k], lane);
        most = count > most ? count : most;
    }
    return most + count_in(&run->step[LS_BEFORE], lane) + count_in(&run->step[LS_AFTER], lane);
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

/* A call enqueues at least one step, and may enqueue tasks before and after its steps. */
static ls_status open_puts(ls_stepped *run, uint64_t steps)
{
    const size_t room = 3 * steps;
    run->put_count = 0;
    if (room <= run->put_room)
        return LS_OK;
    free(run->puts);
    run->puts = malloc(room * sizeof *run->puts);
    run->put_room = run->puts ? room : 0;
    return run->puts ? LS_OK : ls_fail_memory("profile", room * sizeof *run->puts);
}

void ls_lanes_note_put(ls_stepped *run, const ls_step *step, uint64_t times)
{
    if (run->profiled && step->task_count && run->put_count < run->put_room)
        run->puts[run->put_count++] = (ls_step_put_times){step, times};
}

ls_status ls_lanes_open_logs(ls_stepped *run, uint64_t steps)
{
    for (int l = 0; l < run->lane_count; l++) {
        const size_t each = count_stretches(run, l);
        if (steps && each)
            LS_TRY(open_log(&run->lanes[l].log, (steps + 1) * each));
    }
    return open_puts(run, steps);
}
