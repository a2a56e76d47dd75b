/* SPDX-License-Identifier: MIT */
/* Traces of virtual steps; see predict_parts.h. A message goes from the sender's slice that ends
 * with it, or later, to the receiver's. */
#include "common/base/whole_file.h"
#include "bench/predict/predict_parts.h"
#include "bench/trace/whole.h"

#include <math.h>
#include <stdio.h>

typedef struct trace {
    const ls_play *play;
    const ls_step_run *run;
    const double *end_ns;
    uint32_t first;
    double begin_ns; /* of the steps that are shown */
    FILE *file;
    size_t events, flows;
} trace;

static void begin_event(trace *t)
{
    fputs(t->events++ ? ",\n" : "\n", t->file);
}

static double us_of(const trace *t, double ns)
{
    return (ns - t->begin_ns) * 1e-3;
}

static double begin_of(const trace *t, uint32_t node)
{
    const ls_play_graph *g = t->play->graph;
    const uint32_t begin = g->labels[node].begin;
    if (begin != LS_PLAY_NONE)
        return t->end_ns[begin];
    return t->end_ns[node] - (g->nodes[node].to < 0 ? ls_play_amount(t->play, &g->nodes[node]) : 0);
}

static bool is_shown(const trace *t, uint32_t node)
{
    return t->play->graph->labels[node].lane >= 0 && t->play->graph->nodes[node].step >= t->first;
}

static void put_slice(trace *t, uint32_t node)
{
    const ls_play_graph *g = t->play->graph;
    const ls_play_label *label = &g->labels[node];
    const double begin = begin_of(t, node);
    begin_event(t);
    fprintf(t->file,
            "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.4f,"
            "\"dur\":%.4f,\"args\":{\"layer\":\"\",\"bytes\":0,\"flops\":0,\"step\":%u",
            label->name, ls_trace_categories[label->use], label->lane + 1, us_of(t, begin),
            (t->end_ns[node] - begin) * 1e-3, g->nodes[node].step - t->first + 1);
    if (label->microbatch)
        fprintf(t->file, ",\"microbatch\":%d", label->microbatch - 1);
    fputs(label->use == LS_TIME_WEIGHTS ? ",\"pass\":\"weights\"}}" : "}}", t->file);
}

static void put_end(trace *t, char phase, double bytes, int lane, double ns)
{
    begin_event(t);
    fprintf(t->file,
            "{\"name\":\"message\",\"cat\":\"flow\",\"ph\":\"%c\",\"id\":%zu%s,\"pid\":0,"
            "\"tid\":%d,\"ts\":%.4f,\"args\":{\"bytes\":%.0f}}",
            phase, t->flows, phase == 'f' ? ",\"bp\":\"e\"" : "", lane + 1, us_of(t, ns), bytes);
}

/* The slice of a device that waits for a message: its end of it. */
static uint32_t end_at(const trace *t, uint32_t message, int device)
{
    const ls_play_graph *g = t->play->graph;
    if (g->labels[message].lane >= 0) /* a copy: its own slice */
        return message;
    for (size_t e = g->first[message]; e < g->first[message + 1]; e++) {
        uint32_t next = g->next[e];
        if (g->labels[next].lane < 0 && g->first[next] < g->first[next + 1])
            next = g->next[g->first[next]]; /* behind the sum of the arrived values */
        if (g->labels[next].lane >= 0 && g->nodes[next].from == device)
            return next;
    }
    return LS_PLAY_NONE;
}

static void put_flow(trace *t, uint32_t message)
{
    const ls_activity_node *node = &t->play->graph->nodes[message];
    const uint32_t from = end_at(t, message, node->from), to = end_at(t, message, node->to);
    if (from == LS_PLAY_NONE && to == LS_PLAY_NONE)
        return;
    const uint32_t sends = from == LS_PLAY_NONE ? to : from, takes = to == LS_PLAY_NONE ? from : to;
    t->flows++;
    put_end(t, 's', node->amount, t->play->graph->labels[sends].lane, begin_of(t, sends));
    put_end(t, 'f', node->amount, t->play->graph->labels[takes].lane, t->end_ns[message]);
}

static void put_names(trace *t)
{
    const ls_step_plan *plan = &t->run->plan;
    begin_event(t);
    fputs("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":1,\"args\":{\"name\":\"rank "
          "0\"}}",
          t->file);
    for (int lane = 0; lane < plan->lanes.count; lane++) {
        begin_event(t);
        fprintf(t->file,
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":"
                "\"device %d, lane %d\"}}",
                lane + 1, plan->members[plan->lanes.items[lane].member].device, lane);
    }
}

static ls_status write_all(FILE *file, void *context)
{
    trace *t = context;
    const ls_play_graph *g = t->play->graph;
    t->file = file;
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"predicted\":true},\"traceEvents\":[", file);
    put_names(t);
    for (uint32_t n = 0; n < g->count; n++)
        if (is_shown(t, n) && t->end_ns[n] > begin_of(t, n))
            put_slice(t, n);
    for (uint32_t n = 0; n < g->count; n++)
        if (g->nodes[n].to >= 0 && g->nodes[n].step >= t->first)
            put_flow(t, n);
    fputs("\n]}\n", file);
    return LS_OK;
}

ls_status ls_virtual_trace_write(const char *path, const ls_play *play, const ls_step_run *run,
                                 const double *end_ns, uint32_t first)
{
    trace t = {.play = play, .run = run, .end_ns = end_ns, .first = first, .begin_ns = INFINITY};
    for (uint32_t n = 0; n < play->graph->count; n++)
        if (is_shown(&t, n))
            t.begin_ns = fmin(t.begin_ns, begin_of(&t, n));
    return ls_whole_file("option --trace", path, write_all, &t);
}
