/* SPDX-License-Identifier: MIT */
/*
 * Export as Chakra execution traces, which ASTRA-sim reads (mlcommons/chakra,
 * schema/protobuf/et_def.proto): a file for each device, of messages of protocol buffers, each
 * behind its length: GlobalMetadata, then a Node for each delay and each end of a message, with the
 * nodes that it waits for. A message has a unique tag. A wait for an activity of another device
 * becomes a message of one byte. A duration there is a number of microseconds: what rounding leaves
 * of it is added to the device's next one. Delays of lanes that communicate are operations of a
 * CPU, while other operations compute.
 */
#include "common/base/whole_file.h"
#include "bench/predict/predict_parts.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Protocol buffers (protobuf.dev, Encoding) ------------------------------------------------
 */

/* A message that is written; the first failure stays. */
typedef struct message {
    unsigned char *bytes; /* [count] */
    size_t count;
    ls_status status;
} message;

static void put_byte(message *m, uint64_t byte)
{
    if (!m->status)
        m->status = ls_grow("trace", &m->bytes, m->count, 1);
    if (!m->status)
        m->bytes[m->count++] = (unsigned char)byte;
}

static void put_varint(message *m, uint64_t value)
{
    for (; value > 127; value >>= 7)
        put_byte(m, (value & 127) | 128);
    put_byte(m, value);
}

enum { VARINT = 0, LENGTH = 2 }; /* types on the wire */

static void put_number(message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3 | VARINT);
    put_varint(m, value);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t count)
{
    put_varint(m, field << 3 | LENGTH);
    put_varint(m, count);
    for (size_t i = 0; i < count; i++)
        put_byte(m, ((const unsigned char *)bytes)[i]);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

enum { COMP_NODE = 4, COMM_SEND_NODE = 5, COMM_RECV_NODE = 6 };                     /* NodeType */
enum { ID = 1, NAME = 2, TYPE = 3, DATA_DEPS = 5, DURATION_MICROS = 7, ATTR = 10 }; /* Node */
enum { INT32 = 7, INT64 = 9, BOOL = 27 }; /* values of AttributeProto, whose name is 1 */

/* The file of one device. */
typedef struct chakra {
    const ls_play *play;
    const size_t *first;    /* [nodes + 1] where the edges to a node begin */
    const size_t *incoming; /* [edges] their numbers */
    const uint32_t *before; /* [edges] by number: the node that is waited for */
    int device;
    double left_ns[2]; /* that rounding has left, of other delays and of computing */
    message node, part;
    FILE *file;
} chakra;

static void put_part(chakra *c, unsigned field)
{
    put_bytes(&c->node, field, c->part.bytes, c->part.count);
    c->part.count = 0;
}

static void put_attribute(chakra *c, const char *name, unsigned type, uint64_t value)
{
    put_bytes(&c->part, 1, name, strlen(name));
    put_number(&c->part, type, value);
    put_part(c, ATTR);
}

static void begin_node(chakra *c, size_t id, const char *name, uint64_t type)
{
    put_number(&c->node, ID, id);
    put_bytes(&c->node, NAME, name, strlen(name));
    put_number(&c->node, TYPE, type);
}

/* Appends the message that was made to the file. */
static void write_node(chakra *c)
{
    put_varint(&c->part, c->node.count);
    fwrite(c->part.bytes, 1, c->part.count, c->file);
    fwrite(c->node.bytes, 1, c->node.count, c->file);
    c->part.count = c->node.count = 0;
}

static void put_end(chakra *c, bool sends, int partner, double bytes, size_t tag)
{
    put_attribute(c, "is_cpu_op", BOOL, 0);
    put_attribute(c, "comm_src", INT32, (uint64_t)(sends ? c->device : partner));
    put_attribute(c, "comm_dst", INT32, (uint64_t)(sends ? partner : c->device));
    put_attribute(c, "comm_size", INT64, (uint64_t)fmax(bytes, 1));
    put_attribute(c, "comm_tag", INT32, tag);
}

static void put_delay(chakra *c, double ns, bool computes)
{
    double *left = &c->left_ns[computes];
    *left += ns;
    const double us = fmax(floor(*left * 1e-3 + 0.5), 0);
    *left -= us * 1e3;
    put_number(&c->node, DURATION_MICROS, (uint64_t)us);
    put_attribute(c, "is_cpu_op", BOOL, !computes);
}

/* A signal's number comes after all nodes' numbers. */
static size_t signal_of(const chakra *c, size_t edge)
{
    return c->play->graph->count + edge;
}

/* What a node waits for: nodes of this device, and signals. */
static void put_waits(chakra *c, size_t number)
{
    const ls_activity_node *nodes = c->play->graph->nodes;
    int from, to;
    for (size_t i = c->first[number]; i < c->first[number + 1]; i++) {
        const size_t edge = c->incoming[i];
        const ls_activity_node *before = &nodes[c->before[edge]];
        const bool is_signal = ls_activity_signal(before, &nodes[number], &from, &to);
        if (!is_signal && ls_activity_is_at(before, c->device))
            put_varint(&c->part, c->before[edge]);
        if (is_signal && to == c->device)
            put_varint(&c->part, signal_of(c, edge));
    }
    if (c->part.count)
        put_part(c, DATA_DEPS);
}

static void write_activity(chakra *c, size_t number)
{
    const ls_play_graph *graph = c->play->graph;
    const ls_activity_node *node = &graph->nodes[number];
    const ls_play_label *label = &graph->labels[number];
    const bool delays = node->to < 0, sends = node->from == c->device;
    const char *name = label->name ? label->name : delays ? "delay" : "message";
    begin_node(c, number, name, delays ? COMP_NODE : sends ? COMM_SEND_NODE : COMM_RECV_NODE);
    put_waits(c, number);
    if (delays)
        put_delay(c, ls_play_amount(c->play, node), label->use < LS_TIME_COMMUNICATION);
    else
        put_end(c, sends, sends ? node->to : node->from, node->amount, number);
    write_node(c);
}

/* The end of an edge's signal that is at this device, if the edge needs one. */
static void write_signal(chakra *c, size_t edge, size_t before, size_t after)
{
    const ls_activity_node *nodes = c->play->graph->nodes;
    int from, to;
    if (!ls_activity_signal(&nodes[before], &nodes[after], &from, &to) ||
        (from != c->device && to != c->device))
        return;
    const bool sends = from == c->device;
    begin_node(c, signal_of(c, edge), "signal", sends ? COMM_SEND_NODE : COMM_RECV_NODE);
    if (sends)
        put_number(&c->node, DATA_DEPS, before);
    put_end(c, sends, sends ? to : from, 1, signal_of(c, edge));
    write_node(c);
}

static ls_status write_device(FILE *file, void *context)
{
    chakra *c = context;
    const ls_play_graph *graph = c->play->graph;
    static const char version[] = "0.0.4"; /* of the schema */
    c->file = file;
    c->left_ns[0] = c->left_ns[1] = 0;
    put_bytes(&c->node, 1, version, strlen(version)); /* GlobalMetadata */
    write_node(c);
    for (size_t n = 0; n < graph->count; n++)
        if (ls_activity_is_at(&graph->nodes[n], c->device))
            write_activity(c, n);
    for (size_t n = 0; n < graph->count; n++)
        for (size_t e = graph->first[n]; e < graph->first[n + 1]; e++)
            write_signal(c, e, n, graph->next[e]);
    return ls_status_first(c->node.status, c->part.status);
}

/* ---- All devices ----------------------------------------------------------------------------- */

static void free_parts(chakra *c)
{
    free(c->node.bytes);
    free(c->part.bytes);
}

/* The edges, by the node that waits. */
static void sort_edges(const ls_play_graph *graph, size_t *first, size_t *incoming,
                       uint32_t *before)
{
    for (size_t e = 0; e < graph->edge_count; e++)
        first[graph->next[e] + 2]++;
    for (size_t n = 2; n < graph->count + 2; n++)
        first[n] += first[n - 1];
    for (size_t n = 0; n < graph->count; n++)
        for (size_t e = graph->first[n]; e < graph->first[n + 1]; e++) {
            incoming[first[graph->next[e] + 1]++] = e;
            before[e] = (uint32_t)n;
        }
}

ls_status ls_chakra_write(const char *folder, const ls_play *play)
{
    const ls_play_graph *graph = play->graph;
    ls_auto size_t *first = NULL, *incoming = NULL;
    ls_auto uint32_t *before = NULL;
    LS_TRY(ls_allocate("trace", &first, graph->count + 2, sizeof *first));
    LS_TRY(ls_allocate("trace", &incoming, graph->edge_count + 1, sizeof *incoming));
    LS_TRY(ls_allocate("trace", &before, graph->edge_count + 1, sizeof *before));
    sort_edges(graph, first, incoming, before);
    ls_closing(free_parts)
        chakra c = {.play = play, .first = first, .incoming = incoming, .before = before};
    LS_TRY(ls_folder_make("option --chakra", folder));
    for (c.device = 0; c.device < play->devices; c.device++) {
        ls_auto char *path = NULL;
        if (asprintf(&path, "%s/steps.%d.et", folder, c.device) < 0)
            return ls_fail_memory("trace", strlen(folder));
        LS_TRY(ls_whole_file("option --chakra", path, write_device, &c));
    }
    return LS_OK;
}
