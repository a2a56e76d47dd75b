/* SPDX-License-Identifier: MIT */
/*
 * Exports of a play's graph for other simulators. A message has a unique tag. A wait for an
 * activity of another device becomes a message of one byte, a signal.
 *
 * GOAL, the language of LogGOPSim and ATLAHS (Hoefler, Siebert, Lumsdaine: Group Operation Assembly
 * Language, ICPP 2009): for each device a list of `calc NS`, `send BYTESb to RANK tag TAG`,
 * `recv ..`, and what requires what. cpu 0 computes; other lanes are cpu 1.
 *
 * Chakra execution traces, which ASTRA-sim reads (mlcommons/chakra, schema/protobuf/et_def.proto):
 * a file for each device, of messages of protocol buffers, each behind its length: GlobalMetadata,
 * then a Node for each delay and each end of a message, with the nodes that it waits for. A
 * duration there is a number of microseconds: what rounding leaves of it is added to the device's
 * next one. Delays of lanes that communicate are operations of a CPU, while other operations
 * compute.
 */
#include "bench/predict/predict_parts.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message of protocol buffers that is written. */
typedef struct message {
    FILE *stream;
    char *bytes; /* [count] since the stream was flushed */
    size_t count;
} message;

typedef struct export
{
    const ls_play *play;
    int device; /* whose part is written */
    FILE *file;
    void (*put_activity)(struct export *, size_t number);
    void (*put_edge)(struct export *, size_t edge, size_t before, size_t after);
    /* of Chakra: */
    size_t *incoming;   /* [nodes] first edge to a node, from 1; 0 if none */
    size_t *later;      /* [edges] the next one to the same node */
    uint32_t *before;   /* [edges] the node that is waited for */
    double left_ns[2];  /* that rounding has left, of other delays and of computing */
    message node, part; /* that are written: a Node, and a part of it */
}
export;

static const ls_activity_node *node_at(const export *x, size_t number)
{
    return &x->play->graph->nodes[number];
}

static bool is_at(const ls_activity_node *node, int device)
{
    return node->from == device || node->to == device;
}

/* Whether an activity waits for one that no device of it knows: then a signal goes from one device
 * to the other. */
static bool needs_signal(const ls_activity_node *before, const ls_activity_node *after, int *from,
                         int *to)
{
    *from = before->to >= 0 ? before->to : before->from;
    *to = after->from;
    return !is_at(after, before->from) && (before->to < 0 || !is_at(after, before->to));
}

/* A signal's number comes after all nodes' numbers. */
static size_t signal_of(const export *x, size_t edge)
{
    return x->play->graph->count + edge;
}

/* The part of the device. */
static void put_all(export *x)
{
    const ls_play_graph *graph = x->play->graph;
    for (size_t n = 0; n < graph->count; n++)
        if (is_at(&graph->nodes[n], x->device))
            x->put_activity(x, n);
    for (size_t n = 0; n < graph->count; n++)
        for (size_t e = graph->first[n]; e < graph->first[n + 1]; e++)
            x->put_edge(x, e, n, graph->next[e]);
}

/* ---- GOAL ------------------------------------------------------------------------------------ */

/* Names of a node's lines on the device: m12s, m12r (send, receive), c12. */
static void put_name(const export *x, size_t node)
{
    const ls_activity_node *n = node_at(x, node);
    if (n->to < 0)
        fprintf(x->file, "c%zu", node);
    else
        fprintf(x->file, "m%zu%c", node, n->from == x->device ? 's' : 'r');
}

static void put_line(export *x, size_t node)
{
    const ls_activity_node *n = node_at(x, node);
    put_name(x, node);
    if (n->to < 0)
        fprintf(x->file, ": calc %.0f cpu %d\n", ls_play_amount(x->play, n),
                x->play->graph->labels[node].use == LS_TIME_COMMUNICATION);
    else if (n->from == x->device)
        fprintf(x->file, ": send %.0fb to %d tag %zu cpu 1\n", fmax(n->amount, 1), n->to, node);
    else
        fprintf(x->file, ": recv %.0fb from %d tag %zu cpu 1\n", fmax(n->amount, 1), n->from, node);
}

static void put_requires(export *x, size_t edge, size_t before, size_t after)
{
    const ls_activity_node *a = node_at(x, before), *b = node_at(x, after);
    int from, to;
    if (!needs_signal(a, b, &from, &to)) {
        if (is_at(a, x->device) && is_at(b, x->device)) {
            put_name(x, after);
            fputs(" requires ", x->file);
            put_name(x, before);
            fputc('\n', x->file);
        }
    } else if (from == x->device) {
        fprintf(x->file, "x%zus: send 1b to %d tag %zu cpu 1\nx%zus requires ", edge, to,
                signal_of(x, edge), edge);
        put_name(x, before);
        fputc('\n', x->file);
    } else if (to == x->device) {
        fprintf(x->file, "x%zur: recv 1b from %d tag %zu cpu 1\n", edge, from, signal_of(x, edge));
        put_name(x, after);
        fprintf(x->file, " requires x%zur\n", edge);
    }
}

static ls_status write_goal(FILE *file, void *context)
{
    export x = {.play = context, .file = file, .put_activity = put_line, .put_edge = put_requires};
    fprintf(file, "num_ranks %d\n", x.play->devices);
    for (x.device = 0; x.device < x.play->devices; x.device++) {
        fprintf(file, "\nrank %d {\n", x.device);
        put_all(&x);
        fputs("}\n", file);
    }
    return LS_OK;
}

ls_status ls_goal_write(const char *path, const ls_play *play)
{
    return ls_whole_file("option --goal", path, write_goal, (void *)(size_t)play);
}

/* ---- Protocol buffers (protobuf.dev, Encoding) ----------------------------------------------- */

static void put_varint(FILE *to, uint64_t value)
{
    for (; value > 127; value >>= 7)
        fputc((int)(value & 127) | 128, to);
    fputc((int)value, to);
}

enum { VARINT = 0, LENGTH = 2 }; /* types on the wire */

static void put_number(FILE *to, unsigned field, uint64_t value)
{
    put_varint(to, field << 3 | VARINT);
    put_varint(to, value);
}

static void put_bytes(FILE *to, unsigned field, const void *bytes, size_t count)
{
    put_varint(to, field << 3 | LENGTH);
    put_varint(to, count);
    fwrite(bytes, 1, count, to);
}

/* ---- Chakra ---------------------------------------------------------------------------------- */

enum { COMP_NODE = 4, COMM_SEND_NODE = 5, COMM_RECV_NODE = 6 };                     /* NodeType */
enum { ID = 1, NAME = 2, TYPE = 3, DATA_DEPS = 5, DURATION_MICROS = 7, ATTR = 10 }; /* Node */
enum { INT32 = 7, INT64 = 9, BOOL = 27 }; /* values of AttributeProto, whose name is 1 */

static void put_part(export *x, unsigned field)
{
    fflush(x->part.stream);
    put_bytes(x->node.stream, field, x->part.bytes, x->part.count);
    rewind(x->part.stream);
}

static void put_attribute(export *x, const char *name, unsigned type, uint64_t value)
{
    put_bytes(x->part.stream, 1, name, strlen(name));
    put_number(x->part.stream, type, value);
    put_part(x, ATTR);
}

static void begin_node(export *x, size_t id, const char *name, uint64_t type)
{
    put_number(x->node.stream, ID, id);
    put_bytes(x->node.stream, NAME, name, strlen(name));
    put_number(x->node.stream, TYPE, type);
}

/* Appends the message that was made to the file. */
static void end_node(export *x)
{
    fflush(x->node.stream);
    put_varint(x->file, x->node.count);
    fwrite(x->node.bytes, 1, x->node.count, x->file);
    rewind(x->node.stream);
}

static void put_end(export *x, bool sends, int partner, double bytes, size_t tag)
{
    put_attribute(x, "is_cpu_op", BOOL, 0);
    put_attribute(x, "comm_src", INT32, (uint64_t)(sends ? x->device : partner));
    put_attribute(x, "comm_dst", INT32, (uint64_t)(sends ? partner : x->device));
    put_attribute(x, "comm_size", INT64, (uint64_t)fmax(bytes, 1));
    put_attribute(x, "comm_tag", INT32, tag);
}

static void put_delay(export *x, double ns, bool computes)
{
    double *left = &x->left_ns[computes];
    *left += ns;
    const double us = fmax(floor(*left * 1e-3 + 0.5), 0);
    *left -= us * 1e3;
    put_number(x->node.stream, DURATION_MICROS, (uint64_t)us);
    put_attribute(x, "is_cpu_op", BOOL, !computes);
}

/* What a node waits for: nodes of this device, and signals. */
static void put_waits(export *x, size_t number)
{
    int from, to;
    for (size_t e = x->incoming[number]; e; e = x->later[e - 1]) {
        const ls_activity_node *before = node_at(x, x->before[e - 1]);
        const bool is_signal = needs_signal(before, node_at(x, number), &from, &to);
        if (is_signal ? to == x->device : is_at(before, x->device))
            put_varint(x->part.stream, is_signal ? signal_of(x, e - 1) : x->before[e - 1]);
    }
    if (ftell(x->part.stream) > 0)
        put_part(x, DATA_DEPS);
}

static void put_node(export *x, size_t number)
{
    const ls_activity_node *node = node_at(x, number);
    const ls_play_label *label = &x->play->graph->labels[number];
    const bool delays = node->to < 0, sends = node->from == x->device;
    const char *name = label->name ? label->name : delays ? "delay" : "message";
    begin_node(x, number, name, delays ? COMP_NODE : sends ? COMM_SEND_NODE : COMM_RECV_NODE);
    put_waits(x, number);
    if (delays)
        put_delay(x, ls_play_amount(x->play, node), label->use < LS_TIME_COMMUNICATION);
    else
        put_end(x, sends, sends ? node->to : node->from, node->amount, number);
    end_node(x);
}

/* The end of an edge's signal that is at this device, if the edge needs one. */
static void put_signal(export *x, size_t edge, size_t before, size_t after)
{
    int from, to;
    if (!needs_signal(node_at(x, before), node_at(x, after), &from, &to) ||
        (from != x->device && to != x->device))
        return;
    const bool sends = from == x->device;
    begin_node(x, signal_of(x, edge), "signal", sends ? COMM_SEND_NODE : COMM_RECV_NODE);
    if (sends)
        put_number(x->node.stream, DATA_DEPS, before);
    put_end(x, sends, sends ? to : from, 1, signal_of(x, edge));
    end_node(x);
}

static ls_status write_chakra(FILE *file, void *context)
{
    static const char version[] = "0.0.4"; /* of the schema */
    export *x = context;
    x->file = file;
    x->left_ns[0] = x->left_ns[1] = 0;
    put_bytes(x->node.stream, 1, version, strlen(version)); /* GlobalMetadata */
    end_node(x);
    put_all(x);
    return ferror(x->node.stream) || ferror(x->part.stream) ? ls_fail_memory("trace", 0) : LS_OK;
}

static ls_status open_chakra(export *x)
{
    const ls_play_graph *graph = x->play->graph;
    x->node.stream = open_memstream(&x->node.bytes, &x->node.count);
    x->part.stream = open_memstream(&x->part.bytes, &x->part.count);
    if (!x->node.stream || !x->part.stream)
        return ls_fail_memory("trace", 0);
    LS_TRY(ls_allocate("trace", &x->incoming, graph->count, sizeof *x->incoming));
    LS_TRY(ls_allocate("trace", &x->later, graph->edge_count + 1, sizeof *x->later));
    LS_TRY(ls_allocate("trace", &x->before, graph->edge_count + 1, sizeof *x->before));
    for (size_t n = graph->count; n-- > 0;)
        for (size_t e = graph->first[n + 1]; e-- > graph->first[n];) {
            x->before[e] = (uint32_t)n;
            x->later[e] = x->incoming[graph->next[e]];
            x->incoming[graph->next[e]] = e + 1;
        }
    return LS_OK;
}

static void close_message(message *m)
{
    if (m->stream)
        fclose(m->stream);
    free(m->bytes);
}

static void close_chakra(export *x)
{
    close_message(&x->node);
    close_message(&x->part);
    free(x->incoming);
    free(x->later);
    free(x->before);
}

ls_status ls_chakra_write(const char *folder, const ls_play *play)
{
    ls_closing(close_chakra) export x = {
        .play = play, .put_activity = put_node, .put_edge = put_signal};
    LS_TRY(open_chakra(&x));
    LS_TRY(ls_folder_make("option --chakra", folder));
    for (x.device = 0; x.device < play->devices; x.device++) {
        ls_auto char *path = NULL;
        if (asprintf(&path, "%s/steps.%d.et", folder, x.device) < 0)
            return ls_fail_memory("trace", strlen(folder));
        LS_TRY(ls_whole_file("option --chakra", path, write_chakra, &x));
    }
    return LS_OK;
}
