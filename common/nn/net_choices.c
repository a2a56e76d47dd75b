/* SPDX-License-Identifier: MIT */
/* Choices of kinks; see choices.h. Taking over changes an output only where a unit is above 0 in
 * one net alone, that is by a rounding error: to 0, or to the least number that counts as above. */
#include "common/nn/choices.h"

#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/nn/layers.h"
#include "common/nn/net_private.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ls_net_fuses_relu(const ls_net_options *o, int n)
{
    const bool takes = o->choices && o->choices->nodes > 0;
    return ls_graph_fuses_relu(o->graph, n) &&
           !(takes && o->graph->nodes[o->graph->nodes[n].inputs[0]].layer->masks_relu);
}

typedef struct choices_op {
    ls_op op;
    const ls_net *net;
    ls_choices *choices;
} choices_op;

/* Whether a node's layer chooses, here. */
static bool chooses(const ls_net *net, int n)
{
    const ls_layer *layer = graph_node(net, n)->layer;
    return n >= ls_net_begin(&net->options) && n < ls_net_end(&net->options) &&
           (layer == &ls_layer_relu || layer == &ls_layer_max_pool ||
            layer == &ls_layer_global_max_pool ||
            (layer == &ls_layer_conv && kept_bytes(&net->options, n)));
}

/* An element of what a node has stored. */
static double stored(const void *memory, size_t bytes, size_t i)
{
    return bytes == sizeof(uint16_t) ? (double)ls_float_of_bf16(((const uint16_t *)memory)[i])
           : bytes == sizeof(float)  ? (double)((const float *)memory)[i]
                                     : ((const double *)memory)[i];
}

static bool is_above(const ls_net *net, int n, const void *y, size_t i)
{
    const size_t bytes = ls_net_stored_bytes(&net->options, n);
    const double value = stored(y, bytes, i);
    return bytes == sizeof(uint16_t) ? value >= (double)FLT_MIN : value > 0;
}

static void set(const ls_net *net, int n, size_t i, bool above)
{
    void *y = net->nodes[n].output;
    if (real_bytes_of(&net->options) == sizeof(float))
        ((float *)y)[i] = above ? FLT_MIN : 0;
    else
        ((double *)y)[i] = above ? DBL_MIN : 0;
}

static ls_status fetch(ls_queue *queue, void *host, const void *from, size_t bytes)
{
    if (ls_device_describe(ls_queue_device(queue))->name.kind == LS_DEVICE_GPU)
        return ls_queue_read(queue, host, from, bytes);
    memcpy(host, from, bytes);
    return LS_OK;
}

/* On a GPU the host waits for what the queue has computed: such a net is not captured. */
static ls_status note(const ls_net *net, int n, ls_queue *queue, ls_node_choices *out)
{
    const size_t bytes = (size_t)node_bytes(&net->options, n);
    void *y;
    out->count = (size_t)node_elements(&net->options, n);
    out->kept_bytes = kept_bytes(&net->options, n);
    LS_TRY(ls_allocate("choices", &out->above, out->count + 1, sizeof *out->above));
    LS_TRY(ls_allocate("choices", &out->kept, out->kept_bytes + 1, 1));
    LS_TRY(ls_allocate("choices", &y, bytes + 1, 1));
    ls_status status = fetch(queue, y, net->nodes[n].output, bytes);
    if (!status && out->kept_bytes)
        status = fetch(queue, out->kept, net->nodes[n].kept, out->kept_bytes);
    for (size_t i = 0; i < out->count && !status; i++)
        out->above[i] = is_above(net, n, y, i);
    free(y);
    return status;
}

static ls_status take(const ls_net *net, int n, const ls_node_choices *from)
{
    const size_t count = (size_t)node_elements(&net->options, n);
    const size_t kept = kept_bytes(&net->options, n);
    if (from->count < count || from->kept_bytes < kept)
        return ls_fail(LS_CODE_CHECK, "choices", graph_node(net, n)->layer->name,
                       "the recorded mask (which elements this layer lets pass) has fewer samples "
                       "than this net's batch; record a mask of at least as many samples");
    for (size_t i = 0; i < count; i++)
        if (is_above(net, n, net->nodes[n].output, i) != from->above[i])
            set(net, n, i, from->above[i]);
    if (kept)
        memcpy(net->nodes[n].kept, from->kept, kept);
    return LS_OK;
}

static ls_status begin(ls_choices *c, const ls_graph *graph)
{
    return c->node ? LS_OK
                   : ls_allocate("choices", &c->node, (size_t)graph->count, sizeof *c->node);
}

static ls_status run(ls_op *base, ls_queue *queue)
{
    const choices_op *op = (const choices_op *)base;
    const ls_graph *graph = op->net->options.graph;
    ls_choices *c = op->choices;
    const bool noted = c->nodes > 0;
    LS_TRY(begin(c, graph));
    c->nodes = graph->count;
    for (int n = 0; n < graph->count; n++)
        if (chooses(op->net, n))
            LS_TRY(noted ? take(op->net, n, &c->node[n]) : note(op->net, n, queue, &c->node[n]));
    return LS_OK;
}

ls_status ls_net_append_choices(const ls_net *net, ls_op_list *ops)
{
    choices_op *op;
    LS_TRY(ls_allocate("choices", &op, 1, sizeof *op));
    *op = (choices_op){
        .op = {.name = "choices.plain", .run = run}, .net = net, .choices = net->options.choices};
    ls_status status = LS_OK;
    for (int n = 0; n < net->options.graph->count && !status; n++) {
        const ls_access touched[] = {{net->nodes[n].output, node_bytes(&net->options, n), true},
                                     {net->nodes[n].kept, kept_bytes(&net->options, n), true}};
        if (chooses(net, n))
            status = ls_op_touches(&op->op, touched, 2);
    }
    if (!status)
        return ls_op_list_add(ops, &op->op);
    ls_op_free(&op->op);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

typedef struct values_op {
    ls_op op;
    const ls_net *net;
    int node;
    bool gradient, takes;
    void *memory; /* where the node has them */
    size_t bytes; /* of an element */
} values_op;

static ls_status note_values(const values_op *v, ls_queue *queue, size_t count)
{
    const ls_net_options *o = &v->net->options;
    double **noted = &o->choices->node[v->node].value[v->gradient];
    void *all;
    if (*noted)
        return LS_OK;
    LS_TRY(ls_allocate("choices", noted, count + 1, sizeof **noted));
    LS_TRY(ls_allocate("choices", &all, count + 1, v->bytes));
    const ls_status status = fetch(queue, all, v->memory, count * v->bytes);
    for (size_t i = 0; i < count && !status; i++)
        (*noted)[i] = stored(all, v->bytes, i) * (v->gradient ? (double)o->divisor : 1);
    free(all);
    return status;
}

/* Compares, then takes over. Values that are not finite count as equal where both sides have one.
 */
static void take_values(const values_op *v, size_t count)
{
    const ls_net_options *o = &v->net->options;
    const double *noted = o->choices->node[v->node].value[v->gradient];
    const double divisor = v->gradient ? (double)o->divisor : 1;
    uint64_t wrong = 0;
    double squares = 0, size = 0;
    for (size_t i = 0; i < count && noted; i++) {
        const double own = stored(v->memory, v->bytes, i);
        size += isfinite(own) ? own * own : 0;
    }
    const double rms = sqrt(size / fmax((double)count, 1));
    for (size_t i = 0; i < count && noted; i++) {
        const double given = noted[i] / divisor, own = stored(v->memory, v->bytes, i);
        squares += isfinite(given) || isfinite(own) ? (given - own) * (given - own) : 0;
        wrong += !(fabs(given - own) <= o->choices->tolerance * (fabs(own) + rms));
        if (v->bytes == sizeof(float))
            ((float *)v->memory)[i] = (float)given;
        else
            ((double *)v->memory)[i] = given;
    }
    o->choices->node[v->node].wrong[v->gradient] = wrong;
    const double distance = sqrt(size > 0 ? squares / size : squares);
    if (distance <= o->choices->distance)
        return;
    char name[LS_NODE_NAME];
    o->choices->distance = distance;
    snprintf(o->choices->worst, sizeof o->choices->worst, "%s of %.40s",
             v->gradient ? "gradient" : "output", ls_graph_node_name(o->graph, v->node, name));
}

static ls_status run_values(ls_op *base, ls_queue *queue)
{
    const values_op *v = (const values_op *)base;
    const ls_net_options *o = &v->net->options;
    const ls_choices *c = o->choices;
    const size_t count = (size_t)(c->rows * ls_shape_elements(&graph_node(v->net, v->node)->shape));
    LS_TRY(begin(o->choices, o->graph));
    if (!v->takes)
        return note_values(v, queue, count);
    take_values(v, count);
    return LS_OK;
}

ls_status ls_net_append_values(const ls_net *net, int n, bool gradient, ls_op_list *ops)
{
    const ls_net_options *o = &net->options;
    const int user = net->nodes[n].last_use;
    void *memory = gradient ? net->nodes[n].gradient : net->nodes[n].output;
    const bool is_loss = graph_node(net, n)->layer->role == LS_LAYER_LOSS;
    values_op *v;
    if (!o->choices || !o->choices->rows || is_loss || !memory ||
        (user >= 0 && net->nodes[user].fused_forward)) /* the ReLU after it has other values */
        return LS_OK;
    LS_TRY(ls_allocate("choices", &v, 1, sizeof *v));
    *v = (values_op){
        .op = {.name = "choices.plain", .run = run_values},
        .net = net,
        .node = n,
        .gradient = gradient,
        .takes = o->choices->nodes > 0,
        .memory = memory,
        .bytes = gradient ? ls_net_gradient_bytes(o, n) : ls_net_stored_bytes(o, n),
    };
    const ls_access touched = {memory, (size_t)node_elements(o, n) * v->bytes, true};
    const ls_status status = ls_op_touches(&v->op, &touched, 1);
    if (!status)
        return ls_op_list_add(ops, &v->op);
    ls_op_free(&v->op);
    return status;
}

void ls_choices_close(ls_choices *choices)
{
    for (int n = 0; n < choices->nodes; n++) {
        free(choices->node[n].above);
        free(choices->node[n].kept);
        free(choices->node[n].value[0]);
        free(choices->node[n].value[1]);
    }
    free(choices->node);
    *choices = (ls_choices){0};
}
