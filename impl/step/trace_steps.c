/* SPDX-License-Identifier: MIT */
/* What a trace starts from: the steps that were enqueued, operations' layers, lanes' names and
 * logs. */
#include "impl/step/names.h"
#include "impl/step/served.h"
#include "impl/step/trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Steps ----------------------------------------------------------------------------------- */

enum { KINDS = 4 }; /* before, full, a period's last, after */

static const ls_step *step_of(const ls_stepped *run, int kind)
{
    const ls_step *const steps[KINDS] = {&run->before, &run->step[LS_FULL],
                                         &run->step[LS_FULL + LS_LAST], &run->after};
    return steps[kind];
}

static void give(ls_tracing *w, const ls_given *one)
{
    ls_given_list *list = &w->given[one->task->lane];
    list->items = ls_step_grow(&w->status, list->items, list->count, sizeof *list->items);
    if (!w->status)
        list->items[list->count++] = *one;
}

/* Adds a task's waits, operations and copy. `base`: number of its step's first task. */
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

static void give_step(ls_tracing *w, int kind, int32_t number)
{
    const ls_step *s = step_of(w->run, kind);
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
    const uint64_t period = (uint64_t)run->shared.base.job->period;
    for (int l = 0; l < run->lane_count; l++)
        w->given[l] = (ls_given_list){.ended = -1, .verb = "a queue"};
    give_step(w, 0, -1);
    for (uint64_t i = 0; i < run->profiled; i++) {
        const bool last = period && (run->profiled_from + i) % period == period - 1;
        give_step(w, last ? 2 : 1, (int32_t)i);
    }
    give_step(w, 3, -1);
    w->last = malloc((w->tasks + 1) * sizeof *w->last);
    if (!w->last)
        w->status = ls_fail_memory("trace", w->tasks * sizeof *w->last);
    for (size_t i = 0; i < w->tasks && w->last; i++)
        w->last[i] = -1;
}

/* ---- Operations and layers ------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b)
{
    const ls_op_node *x = a, *y = b;
    return ((uintptr_t)x->op > (uintptr_t)y->op) - ((uintptr_t)x->op < (uintptr_t)y->op);
}

/* The node of each operation of a member's passes. */
static void note_nodes(ls_tracing *w, int m)
{
    const ls_slice *slice = w->run->shared.members[m].slice[LS_FULL];
    size_t count = 0;
    const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
    for (size_t a = 0; a < count; a++) {
        const bool pass = acts[a].kind == LS_ACT_FORWARD || acts[a].kind == LS_ACT_BACKWARD;
        for (int l = 0; l < LS_NET_LISTS && pass; l++)
            for (size_t i = 0; acts[a].lists[l] && i < acts[a].lists[l]->count; i++) {
                w->nodes = ls_step_grow(&w->status, w->nodes, w->node_count, sizeof *w->nodes);
                if (w->status)
                    return;
                w->nodes[w->node_count++] =
                    (ls_op_node){acts[a].lists[l]->items[i], acts[a].node, m};
            }
    }
}

/* Its name in the whole model. */
static void name_node(const ls_stepped *run, int m, int node, char out[LS_TRACE_TEXT])
{
    const int place = run->shared.first + m % run->shared.places;
    char text[LS_NODE_NAME];
    snprintf(out, LS_TRACE_TEXT, "%.38s",
             run->shared.parts.count
                 ? ls_names_node(run, place, node, text)
                 : ls_graph_node_name(run->shared.members[m].replica->graph, node, text));
}

/* "dense0" of "dense0.weight". */
static int stem(const char *name)
{
    return (int)strcspn(name, ".");
}

/* The layers whose variables a range has. */
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
    const ls_model *model = w->run->shared.base.job->model;
    *out = 0;
    if (at)
        name_node(w->run, at->member, at->node, out);
    else if (given && given->task->range.count && model)
        name_range(model->graph, given->task->range, out);
}

/* ---- Communicators --------------------------------------------------------------------------- */

int ls_tracing_channel(const ls_stepped *run, const ls_comm *end)
{
    enum { PLACES = 1 << 20, SERVED, CONTROL, MEETINGS, OTHER };
    for (int g = 0; g < run->group_count; g++)
        for (int i = 0; i < run->groups[g].count; i++)
            if (run->groups[g].comms[i] == end)
                return g;
    for (size_t i = 0; run->places.ends && i < run->shared.base.job->device_count; i++)
        if (run->places.ends[i] == end)
            return PLACES;
    for (int m = 0; run->served && m < run->shared.total; m++)
        if (run->served->ends[m].comm == end || run->served->ends[m].control == end)
            return run->served->ends[m].comm == end ? SERVED : CONTROL;
    for (int i = 0; run->shared.meetings && i < run->shared.count; i++)
        if (run->shared.meetings[i] == end)
            return MEETINGS;
    return OTHER;
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

static void name_lane(const ls_stepped *run, int l, ls_trace_lane *out)
{
    const ls_lane *lane = &run->lanes[l];
    const ls_replica *replica = run->shared.members[lane->member].replica;
    const int trains = run->served ? run->shared.count : run->shared.total;
    out->member = lane->member;
    out->served = out->rank = -1;
    if (!replica)
        return;
    const ls_job *job = run->shared.base.job;
    for (size_t d = 0; d < job->device_count; d++)
        if (job->devices[d] == replica->device)
            out->number = (int32_t)d;
    if (run->served && run->served->ends[lane->member].lane == l) {
        out->served = ls_tracing_channel(run, run->served->ends[lane->member].comm);
        out->rank = run->served->ends[lane->member].comm->rank;
    }
    const char *device = ls_device_describe(replica->device)->text;
    const char *what = l < run->shared.total && l >= trains ? "server" : lane->name;
    const bool shadow = lane->member >= run->shared.total;
    out->main = l < trains && run->component[l] >= 0;
    snprintf(out->device, sizeof out->device, "%.39s", device);
    snprintf(out->name, sizeof out->name, "%.32s %.32s%s", device, what,
             shadow ? " for another" : "");
}

void ls_tracing_open(ls_tracing *w)
{
    const size_t lanes = (size_t)w->run->lane_count;
    w->begin = calloc(lanes + 1, sizeof *w->begin);
    w->given = calloc(lanes + 1, sizeof *w->given);
    w->out->lanes = calloc(lanes + 1, sizeof *w->out->lanes);
    if (!w->begin || !w->given || !w->out->lanes) {
        w->status = ls_fail_memory("trace", lanes * sizeof *w->out->lanes);
        return;
    }
    w->out->lane_count = lanes;
    for (int l = 0; l < w->run->lane_count; l++)
        name_lane(w->run, l, &w->out->lanes[l]);
    list_steps(w);
    for (int m = 0; m < w->run->shared.all; m++)
        if (w->run->shared.members[m].replica)
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

/* The most stretches of a lane in a step of any kind; a communicator may add some of its own. */
static size_t count_stretches(const ls_stepped *run, int lane)
{
    size_t most = 0;
    for (int k = 0; k < KINDS; k++) {
        const ls_step *s = step_of(run, k);
        size_t count = 0;
        for (size_t t = 0; t < s->task_count; t++)
            if (s->tasks[t].lane == lane)
                count += s->tasks[t].begins + s->tasks[t].wait_count + s->tasks[t].op_count + 1 +
                         (s->tasks[t].call >= 0 ? 64 : 0);
        most = count > most ? count : most;
    }
    return most;
}

ls_status ls_lanes_open_logs(ls_stepped *run, uint64_t steps)
{
    for (int l = 0; l < run->lane_count; l++) {
        ls_time_log *log = &run->lanes[l].log;
        free(log->items);
        *log = (ls_time_log){0};
        const size_t each = count_stretches(run, l), known = (steps + 2) * each;
        if (!steps || !each)
            continue;
        log->peers = 2 * known + 1024;
        log->capacity = known + log->peers;
        log->items = malloc(log->capacity * sizeof *log->items);
        if (!log->items)
            return ls_fail_memory("profile", log->capacity * sizeof *log->items);
        memset(log->items, 0, log->capacity * sizeof *log->items); /* its pages are there */
    }
    run->profiled = steps;
    run->profiled_from = run->at;
    return LS_OK;
}
