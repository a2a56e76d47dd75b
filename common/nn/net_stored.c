/* SPDX-License-Identifier: MIT */
/*
 * What a net stores in bfloat16 (ls_precision): outputs of its nodes, their gradients, and the
 * parameters. Layers know nothing of it. A pass of a node works on reals in scratch memory:
 *
 *     widen       the stored values that the pass reads
 *     (layer)     its operations, in float32, with bias and fused ReLU
 *     narrow      each value that it wrote, rounded once
 *
 * Its operations declare these values. Large dense layers, attention, GELU and additions take them
 * as stored, where the kernel table can. Gradients of several uses of an output are added in the
 * order of backward passes, and each sum is rounded. Gradients of variables, what layers keep
 * besides their output, targets and losses are always float32; so are tokens, which are whole
 * numbers, and, unless the graph says otherwise (ls_graph_slices), what slices give to a sum.
 */
#include "common/nn/layers.h"
#include "common/nn/net_private.h"

#include <string.h>

enum { LINE = 64, VIEWS = 3 * LS_NODE_INPUTS + 2 + LS_NODE_VARIABLES };

/* A stored array and its reals. */
typedef struct net_view {
    uint16_t *stored;
    char *wide; /* real [count] */
    int64_t count;
    bool read; /* before it is written, if it is */
    bool written;
} net_view;

typedef struct net_views {
    char *scratch; /* not used yet */
    int count;
    net_view of[VIEWS];
} net_views;

static size_t line_bytes(const ls_net_options *o, int64_t count)
{
    return ((size_t)count * real_bytes_of(o) + LINE - 1) / LINE * LINE;
}

static bool is_tokens(const ls_graph *graph, int node)
{
    for (int n = node + 1; n < graph->count; n++)
        if (graph->nodes[n].layer->takes_tokens && graph->nodes[n].inputs[0] == node)
            return true;
    return false;
}

static bool rounds(const ls_graph *graph, int node, ls_precision precision)
{
    return precision == LS_PRECISION_BF16 && !is_tokens(graph, node);
}

size_t ls_net_element_bytes(const ls_graph *graph, int node, ls_precision precision)
{
    return rounds(graph, node, precision) ? sizeof(uint16_t) : sizeof(float);
}

/* Whether a node is a slice whose output is an addend of a join. */
static bool is_addend(const ls_graph *graph, int node)
{
    for (int n = node + 1; n < graph->count && graph->nodes[node].slice; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (graph->nodes[n].inputs[i] == node)
                return graph->nodes[n].layer == &ls_layer_join;
    return false;
}

static size_t bytes_of(const ls_net_options *o, int node, bool addend)
{
    return rounds(o->graph, node, o->precision) && (!addend || o->graph->slices.rounded)
               ? sizeof(uint16_t)
               : real_bytes_of(o);
}

size_t ls_net_stored_bytes(const ls_net_options *o, int node)
{
    return bytes_of(o, node, is_addend(o->graph, node));
}

size_t ls_net_gradient_bytes(const ls_net_options *o, int node)
{
    return bytes_of(o, node, false); /* an addend has the sum's */
}

size_t ls_net_given_bytes(const ls_net_options *o, int node, int i)
{
    const int input = o->graph->nodes[node].inputs[i];
    return bytes_of(o, input, o->graph->nodes[input].layer == &ls_layer_fork);
}

size_t ls_net_node_bytes(const ls_net *net, int node)
{
    return node_bytes(&net->options, node);
}

static bool is_narrow(const ls_net *net, int node)
{
    return ls_net_stored_bytes(&net->options, node) != real_bytes_of(&net->options);
}

/* Whether a node works on stored values directly. */
static bool takes_stored(const ls_net_options *o, int n)
{
    const ls_node *node = &o->graph->nodes[n];
    if (o->precision != LS_PRECISION_BF16 || !o->kernels || !node->layer->takes_stored)
        return false;
    if (ls_net_stored_bytes(o, n) != sizeof(uint16_t))
        return false;
    for (int i = 0; i < node->input_count; i++)
        if (ls_net_given_bytes(o, n, i) != sizeof(uint16_t))
            return false; /* a partial sum */
    return node->layer->takes_stored(o->graph, node, o->kernels);
}

size_t ls_net_scratch_bytes(const ls_net_options *o)
{
    size_t most = 0, inputs = 0;
    if (o->precision != LS_PRECISION_BF16 || o->memory_of ||
        (o->scratch_of && o->scratch_of->options.rows >= o->rows))
        return 0;
    for (int n = ls_net_begin(o); n < ls_net_end(o); n++) {
        const ls_node *node = &o->graph->nodes[n];
        const size_t own = line_bytes(o, node_elements(o, n));
        if (takes_stored(o, n))
            continue;
        const size_t parts = node->layer == &ls_layer_fork ? (size_t)o->graph->slices.splits : 0;
        size_t bytes = (2 + parts) * own; /* output and gradient, what slices give to it */
        for (int i = 0; i < node->input_count; i++)
            bytes += 2 * line_bytes(o, node_elements(o, node->inputs[i]));
        for (int v = 0; v < node->variable_count; v++)
            bytes += line_bytes(o, (int64_t)o->graph->variables.items[node->variables[v]].count);
        inputs += node->layer == &ls_layer_input ? own : 0;
        most = bytes > most ? bytes : most;
    }
    return inputs > most ? inputs : most;
}

/* ---- A pass ---------------------------------------------------------------------------------- */

/* The reals of a stored array; there may already be a view of them. */
static void *view(const ls_net *net, net_views *views, const void *stored, int64_t count, bool read)
{
    int i = 0;
    if (!stored)
        return NULL;
    while (i < views->count && views->of[i].stored != stored)
        i++;
    net_view *found = &views->of[i];
    if (i == views->count) {
        *found = (net_view){(uint16_t *)(uintptr_t)stored, views->scratch, count, false, false};
        views->scratch += line_bytes(&net->options, count);
        views->count++;
    }
    found->read |= read;
    return found->wide;
}

/* Has the site work on reals. */
static void widen_site(const ls_net *net, int n, bool backward, ls_layer_site *site,
                       net_views *views)
{
    const ls_net_options *o = &net->options;
    const ls_node *node = graph_node(net, n);
    const size_t real = real_bytes_of(o);
    const bool parts_narrow = is_narrow(net, n) && o->graph->slices.rounded;
    site->rounds = true;
    for (int i = 0; i < node->input_count; i++) {
        const int64_t count = node_elements(o, node->inputs[i]);
        if (is_narrow(net, node->inputs[i]))
            site->input[i] = view(net, views, site->input[i], count, true);
        if (ls_net_given_bytes(o, n, i) != real) /* of a part, the rest stays */
            site->input_gradient[i] = view(net, views, site->input_gradient[i], count,
                                           node->layer->writes_part || site->adds);
    }
    for (int i = 0; i < site->parts && parts_narrow; i++)
        site->part[i] = view(net, views, site->part[i], node_elements(o, n), true);
    if (site->input_relu)
        site->input_relu = site->input[0];
    for (int v = 0; v < node->variable_count; v++)
        site->variable[v] =
            view(net, views, site->variable[v],
                 (int64_t)o->graph->variables.items[node->variables[v]].count, true);
    if (node->layer->role == LS_LAYER_LOSS)
        return;
    if (is_narrow(net, n))
        site->output = view(net, views, site->output, node_elements(o, n), backward);
    if (ls_net_gradient_bytes(o, n) != real)
        site->output_gradient = view(net, views, site->output_gradient, node_elements(o, n), true);
}

bool ls_net_touches(const ls_op_list *ops, const void *memory, size_t bytes, bool writes)
{
    const char *begin = memory;
    for (size_t i = 0; i < ops->count; i++)
        for (size_t a = 0; a < ops->items[i]->access_count; a++) {
            const ls_access *access = &ops->items[i]->accesses[a];
            const char *first = access->memory;
            if (first < begin + bytes && begin < first + access->bytes &&
                (access->writes || !writes))
                return true;
        }
    return false;
}

static ls_status put_widen(const ls_net *net, const net_view *view, ls_op_list *ops)
{
    const ls_widen_args args = {view->count, view->stored, view->wide};
    ls_op *op;
    LS_TRY(net->options.kernels->table->widen(net->options.kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

static ls_status put_narrow(const ls_net *net, const net_view *view, ls_op_list *ops)
{
    const ls_narrow_args args = {view->count, view->wide, view->stored};
    ls_op *op;
    LS_TRY(net->options.kernels->table->narrow(net->options.kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

/* Moves what was made to `ops`, between what widens and what rounds. */
static ls_status surround(const ls_net *net, net_views *views, ls_op_list *made, ls_op_list *ops)
{
    const size_t real = real_bytes_of(&net->options);
    for (int i = 0; i < views->count; i++) {
        net_view *view = &views->of[i];
        const size_t bytes = (size_t)view->count * real;
        view->written = ls_net_touches(made, view->wide, bytes, true);
        if ((view->read || !view->written) && ls_net_touches(made, view->wide, bytes, false))
            LS_TRY(put_widen(net, view, ops));
    }
    while (made->count) {
        ls_op *first = made->items[0];
        memmove(made->items, made->items + 1, --made->count * sizeof(ls_op *));
        LS_TRY(ls_op_list_add(ops, first));
    }
    for (int i = 0; i < views->count; i++)
        if (views->of[i].written)
            LS_TRY(put_narrow(net, &views->of[i], ops));
    return LS_OK;
}

ls_status ls_net_put(ls_net *net, int n, bool backward, ls_layer_make make, ls_op_list *ops)
{
    ls_layer_site site = ls_net_site(net, n);
    if (net->options.precision != LS_PRECISION_BF16)
        return make(&site, ops);
    net_views views = {.scratch = net->scratch};
    ls_op_list made = {0};
    site.forward = NULL;
    site.stored = takes_stored(&net->options, n);
    if (!site.stored)
        widen_site(net, n, backward, &site, &views);
    ls_status status = make(&site, &made);
    if (!status)
        status = surround(net, &views, &made, ops);
    ls_op_list_clear(&made);
    return status;
}

/* ---- Sums of uses, inputs, the output -------------------------------------------------------- */

ls_status ls_net_append_add(ls_net *net, void *sum, const void *part, int64_t count,
                            ls_op_list *ops)
{
    const ls_add_args args = {.count = count, .a = sum, .b = part, .y = sum};
    ls_op *op;
    LS_TRY(net->options.kernels->table->add(net->options.kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

ls_status ls_net_add_use(ls_net *net, int n, const void *gradient, ls_op_list *ops)
{
    const int64_t count = node_elements(&net->options, n);
    net_views views = {.scratch = net->scratch};
    void *sum = net->nodes[n].gradient;
    if (!is_narrow(net, n))
        return ls_net_append_add(net, sum, gradient, count, ops);
    if (net->options.kernels->table->bf16_elements) {
        const ls_bf16_elements_args args = {LS_BF16_ADD, count, sum, gradient, sum};
        ls_op *op;
        LS_TRY(net->options.kernels->table->bf16_elements(net->options.kernels, &args, &op));
        return ls_op_list_add(ops, op);
    }
    void *wide_sum = view(net, &views, sum, count, true);
    const void *wide = view(net, &views, gradient, count, true);
    LS_TRY(put_widen(net, &views.of[0], ops));
    LS_TRY(put_widen(net, &views.of[1], ops));
    LS_TRY(ls_net_append_add(net, wide_sum, wide, count, ops));
    return put_narrow(net, &views.of[0], ops);
}

/* The view of an input's gathered values; false if it is gathered where it is stored. */
static bool gathered(const ls_net *net, int input, net_view *out)
{
    net_views views = {.scratch = net->scratch};
    for (int n = ls_net_begin(&net->options); n < ls_net_end(&net->options); n++) {
        if (graph_node(net, n)->layer != &ls_layer_input || !is_narrow(net, n))
            continue;
        view(net, &views, net->nodes[n].output, node_elements(&net->options, n), false);
        *out = views.of[views.count - 1];
        if (n == input)
            return true;
    }
    return false;
}

void *ls_net_input(const ls_net *net, int index)
{
    net_view view;
    for (int n = ls_net_begin(&net->options); n < ls_net_end(&net->options); n++)
        if (graph_node(net, n)->layer->role == LS_LAYER_INPUT &&
            graph_node(net, n)->options.input == index)
            return gathered(net, n, &view) ? view.wide : net->nodes[n].output;
    return NULL;
}

ls_status ls_net_store_inputs(ls_net *net, ls_op_list *ops)
{
    net_view view;
    for (int n = ls_net_begin(&net->options); n < ls_net_end(&net->options); n++)
        if (gathered(net, n, &view))
            LS_TRY(put_narrow(net, &view, ops));
    return LS_OK;
}

ls_status ls_net_read_output(ls_net *net, ls_op_list *ops, const void **out)
{
    const int n = graph_node(net, net->options.graph->count - 1)->inputs[0];
    const net_view view = {.stored = net->nodes[n].output,
                           .wide = net->scratch,
                           .count = node_elements(&net->options, n)};
    *out = is_narrow(net, n) ? view.wide : net->nodes[n].output;
    return is_narrow(net, n) ? put_widen(net, &view, ops) : LS_OK;
}
