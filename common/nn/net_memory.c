/* SPDX-License-Identifier: MIT */
/*
 * A net's memory. Every node has an output buffer and, if a gradient must reach it, a gradient
 * buffer, which other nodes' gradients have before and after it: a step that writes what the caches
 * still hold is faster. If a ReLU is the only user of a layer's output, that layer applies it in
 * its buffer if it can; the layer after it applies the mask if it can. Forks and joins
 * (graph_split.h) have memory of other nodes: a join the output of its first input, which has the
 * join's gradient, as all its inputs have; a fork its input's output and gradient. A fork's first
 * user computes its gradient there, and all other users into scratch. Inputs of an addition have
 * its gradient's memory, if none changes it before the other reads it. Blocks of one sequence write
 * theirs to the same memory, each to its positions.
 */
#include "common/base/grow.h"
#include "common/nn/net_private.h"

#include <stdlib.h>

/* ---- Plan: what is fused, what needs a gradient --------------------------------------------- */

static void plan_fusions(const ls_net_options *o, net_node *nodes)
{
    const ls_graph *graph = o->graph;
    for (int n = 0; n < graph->count; n++) {
        const ls_node *node = &graph->nodes[n];
        nodes[n].last_use = -1;
        nodes[n].wants_gradient = node->variable_count > 0 || node->border_gradient;
        nodes[n].is_fork = node->layer == &ls_layer_fork;
        nodes[n].is_join = node->layer == &ls_layer_join;
        nodes[n].borrows = nodes[n].is_fork ||
                           (nodes[n].is_join &&
                            ls_net_stored_bytes(o, n) == ls_net_stored_bytes(o, node->inputs[0]));
        for (int i = 0; i < node->input_count; i++) {
            net_node *input = &nodes[node->inputs[i]];
            if (!input->is_fork || input->last_use < 0)
                input->last_use = n;
            input->joined = nodes[n].is_join;
            nodes[n].wants_gradient |= input->wants_gradient;
        }
        nodes[n].borrows |= nodes[n].fused_forward = ls_net_fuses_relu(o, n);
        nodes[n].masked_before =
            nodes[n].fused_forward && graph->nodes[node->inputs[0]].layer->masks_relu;
    }
    for (int n = 0; n < graph->count; n++) {
        const ls_node *user = nodes[n].last_use >= 0 ? &graph->nodes[nodes[n].last_use] : NULL;
        nodes[n].fused_backward = nodes[n].masked_before;
        if (graph->nodes[n]
                .exported) { /* its last use is on another place, whose gradient comes first */
            nodes[n].last_use = -1;
            continue;
        }
        nodes[n].fused_backward |= nodes[n].fused_forward && graph->nodes[n].uses == 1 &&
                                   user->layer->fuses_relu_mask && user->inputs[0] == n;
    }
}

/* Either all uses of a variable have separate weight passes, or none: gradients are added in one
 * order, and other places' gradients behind the backward pass. */
bool ls_node_splits(const ls_graph *graph, int n)
{
    const ls_node *node = &graph->nodes[n];
    return node->layer->backward_weights && !node->copied &&
           (node->shares < 0 || graph->nodes[node->shares].layer->backward_weights);
}

static bool has_gradient(const net_node *my)
{
    return my->wants_gradient && !my->fused_forward && !my->is_fork && !my->joined;
}

/* Whether its input's gradient goes to scratch: the layer cannot add to it, or its type differs. */
static bool has_scratch(const ls_net_options *o, const net_node *nodes, int n, int i)
{
    const ls_node *node = &o->graph->nodes[n];
    const int input = node->inputs[i];
    const bool adds = node->layer->adds && !nodes[input].is_fork;
    return nodes[input].wants_gradient && !node->layer->writes_part &&
           ((nodes[input].last_use != n && !adds) ||
            ls_net_given_bytes(o, n, i) != ls_net_gradient_bytes(o, input));
}

static size_t scratch_bytes(const ls_net_options *o, int n, int i)
{
    return (size_t)node_elements(o, o->graph->nodes[n].inputs[i]) * ls_net_given_bytes(o, n, i);
}

/* The node whose gradient buffer node n has: its own, or the buffer of the node that it is fused
 * into. */
static int gradient_of(const ls_graph *graph, const net_node *nodes, int n)
{
    while (nodes[n].fused_forward)
        n = graph->nodes[n].inputs[0];
    return n;
}

/* Which gradients pass their memory on: gradients that are written first by their node's last use,
 * and read last by the node itself. Exceptions: what a weight pass or other places read, what
 * forks, joins and blocks write before that use or in parts, and a loss's, which forward writes.
 * Scratch is in use in its node's pass only, but of a fork's users until the fork has added it. */
static void plan_passing(const ls_graph *graph, net_node *nodes)
{
    for (int n = 0; n < graph->count; n++)
        nodes[n].passing = has_gradient(&nodes[n]) && nodes[n].last_use >= 0 && !nodes[n].is_join &&
                           !graph->nodes[n].border_gradient && !nodes[n].splits;
    for (int n = 0; n < graph->count; n++) {
        const ls_node *node = &graph->nodes[n];
        const bool plain = node->layer->role == LS_LAYER_COMPUTE && !nodes[n].is_fork &&
                           !nodes[n].is_join && !node->layer->writes_part;
        const bool seen = nodes[n].fused_forward && nodes[n].last_use < 0; /* by another place */
        nodes[n].scratch_passing = plain && !nodes[n].fused_forward;
        for (int i = 0; i < node->input_count; i++) {
            if (!plain || seen)
                nodes[gradient_of(graph, nodes, node->inputs[i])].passing = false;
            if (nodes[node->inputs[i]].is_fork)
                nodes[n].scratch_passing = false;
        }
    }
}

/* Whether backward reads the gradient of node `other` before uses of node `input`, but the last,
 * add to the gradient of `input`. */
static bool is_read_first(const ls_graph *graph, const net_node *nodes, int other, int input)
{
    for (int user = other; user < nodes[input].last_use; user++)
        for (int i = 0; i < graph->nodes[user].input_count; i++)
            if (graph->nodes[user].inputs[i] == input)
                return false;
    return true;
}

/* Whether an input of addition n can have its gradient: this use comes first in backward, and among
 * the nodes that have it already, and are not behind, none reads what another one adds. */
static bool can_have(const ls_graph *graph, const net_node *nodes, int input, int n)
{
    bool can = nodes[input].passing && nodes[input].last_use == n;
    for (int other = 0; other < n && can; other++)
        if (other != input && nodes[other].gradient_from == nodes[n].gradient_from)
            can = is_read_first(graph, nodes, other, input) &&
                  is_read_first(graph, nodes, input, other);
    return can;
}

/* Which inputs of an addition have its gradient's memory, which then needs no copy. Their backward
 * passes must not change it: of all layers only batch normalisation changes the gradient of its
 * output, where a ReLU follows it, and then the addition's input is that ReLU. */
static void plan_handing_on(const ls_graph *graph, net_node *nodes)
{
    for (int n = 0; n < graph->count; n++)
        nodes[n].gradient_from = n;
    for (int n = graph->count - 1; n >= 0; n--) {
        const ls_node *node = &graph->nodes[n];
        for (int i = 0; i < node->input_count && nodes[n].passing; i++) {
            nodes[n].inputs[i].hands_on =
                node->layer->passes_gradient && can_have(graph, nodes, node->inputs[i], n);
            if (nodes[n].inputs[i].hands_on)
                nodes[node->inputs[i]].gradient_from = nodes[n].gradient_from;
        }
    }
}

ls_status ls_net_plan(const ls_net_options *o, net_node **out)
{
    const ls_graph *graph = o->graph;
    LS_TRY(ls_net_allocate_nodes(graph, out));
    net_node *nodes = *out;
    for (int n = 0; n < graph->count; n++) {
        nodes[n].splits = o->weights_apart && ls_node_splits(graph, n);
        nodes[n].waits = o->waits && o->waits[n] && !nodes[n].splits;
    }
    plan_fusions(o, nodes);
    plan_passing(graph, nodes);
    plan_handing_on(graph, nodes);
    return LS_OK;
}

/* Elements of all variables of a node, which are contiguous. */
static size_t count_variables(const ls_graph *graph, const ls_node *node)
{
    const ls_variable *first = &graph->variables.items[node->variables[0]];
    const ls_variable *last = &graph->variables.items[node->variables[node->variable_count - 1]];
    return last->offset + last->count - first->offset;
}

typedef struct net_sizes {
    size_t activations, shared;
} net_sizes;

/* ---- The window: units take turns in it, largest buffers first ------------------------------- */

typedef struct net_dropped {
    int unit;
    size_t bytes;
    void **where;
} net_dropped;

static int compare_dropped(const void *a, const void *b)
{
    const net_dropped *x = a, *y = b;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Calls take(context, use, bytes, where) for each buffer of the plan. */
typedef ls_status (*take_memory)(void *context, ls_memory_use use, size_t bytes, void **where);

/* Lists what nodes drop, [2 nodes], unit by unit, largest first; returns how many buffers. */
static size_t list_dropped(const ls_net_options *o, net_node *nodes, net_dropped *out)
{
    size_t count = 0;
    for (int n = ls_net_begin(o); n < ls_net_end(o); n++) {
        const ls_repeat repeat = o->repeats[n];
        net_node *my = &nodes[n];
        if (repeat.drops_output && !my->borrows)
            out[count++] = (net_dropped){repeat.unit, node_bytes(o, n), &my->output};
        if (repeat.drops_kept)
            out[count++] = (net_dropped){repeat.unit, kept_bytes(o, n), &my->kept};
    }
    qsort(out, count, sizeof *out, compare_dropped);
    return count;
}

/* Buffer k of each unit has memory as large as the largest of them, which may be of another type.
 */
static ls_status take_window(const ls_net_options *o, net_node *nodes, take_memory take,
                             void *context)
{
    const ls_memory_use use =
        LS_MEMORY_AS(LS_MEMORY_ACTIVATIONS,
                     o->precision == LS_PRECISION_BF16 ? LS_MEMORY_OTHER : LS_MEMORY_FLOAT32);
    net_dropped *all;
    if (!o->repeats)
        return LS_OK;
    LS_TRY(ls_allocate("net", &all, 2 * (size_t)o->graph->count, sizeof *all));
    const size_t count = list_dropped(o, nodes, all);
    ls_status status = LS_OK;
    for (size_t k = 0, found = 1; found && !status; k++) {
        size_t most = found = 0;
        void *memory = NULL;
        for (size_t i = k; i < count; i++)
            if (all[i].unit == all[i - k].unit &&
                (i == k || all[i - k].unit != all[i - k - 1].unit)) {
                most = all[i].bytes > most ? all[i].bytes : most;
                found++;
            }
        if (found)
            status = take(context, use, most, &memory);
        for (size_t i = k; i < count; i++)
            if (all[i].unit == all[i - k].unit &&
                (i == k || all[i - k].unit != all[i - k - 1].unit))
                *all[i].where = memory;
    }
    free(all);
    return status;
}

/* Memory that gradients have in turn: as of one size is free again, the next has it. */
typedef struct net_pooled {
    size_t bytes;
    void *memory;
    int users; /* 0 means free */
} net_pooled;

typedef struct net_pool {
    take_memory take;
    void *context;
    ls_memory_use use;
    net_pooled *items;
    size_t count;
} net_pool;

/* *item: its number in the pool. */
static ls_status pool_take(net_pool *pool, size_t bytes, void **where, size_t *item)
{
    size_t i = 0;
    while (i < pool->count && (pool->items[i].users || pool->items[i].bytes != bytes))
        i++;
    if (i == pool->count) {
        LS_TRY(ls_grow("net", &pool->items, pool->count, sizeof *pool->items));
        pool->items[i] = (net_pooled){.bytes = bytes};
        LS_TRY(pool->take(pool->context, pool->use, bytes, &pool->items[i].memory));
        pool->count++;
    }
    pool->items[i].users = 1;
    *where = pool->items[i].memory;
    *item = i;
    return LS_OK;
}

/* Backward's order: a node's gradient is in use from its last use on, which writes it, to the node
 * itself. */
static ls_status pass_gradients(const ls_net_options *o, net_node *nodes, net_pool *pool)
{
    const ls_graph *graph = o->graph;
    for (int n = ls_net_end(o); n-- > ls_net_begin(o);) {
        net_node *my = &nodes[n];
        const ls_node *node = &graph->nodes[n];
        size_t scratch[LS_NODE_INPUTS];
        for (int i = 0; i < node->input_count && !my->fused_forward; i++) {
            net_node *whose = &nodes[gradient_of(graph, nodes, node->inputs[i])];
            if (my->inputs[i].hands_on) {
                whose->gradient = my->gradient;
                whose->pooled = my->pooled;
                pool->items[my->pooled].users++;
            } else if (whose->passing && nodes[node->inputs[i]].last_use == n) {
                LS_TRY(pool_take(pool, node_bytes(o, node->inputs[i]), &whose->gradient,
                                 &whose->pooled));
            }
            if (my->scratch_passing && has_scratch(o, nodes, n, i))
                LS_TRY(
                    pool_take(pool, scratch_bytes(o, n, i), &my->inputs[i].scratch, &scratch[i]));
        }
        for (int i = 0; i < node->input_count && !my->fused_forward; i++)
            if (my->scratch_passing && has_scratch(o, nodes, n, i))
                pool->items[scratch[i]].users--;
        if (my->passing)
            pool->items[my->pooled].users--;
    }
    return LS_OK;
}

/* The use for elements of so many bytes. */
static ls_memory_use typed_use(size_t each)
{
    return LS_MEMORY_AS(LS_MEMORY_ACTIVATIONS,
                        each == sizeof(uint16_t) ? LS_MEMORY_BF16 : LS_MEMORY_FLOAT32);
}

static ls_status each_buffer(const ls_net_options *o, net_node *nodes, void **target,
                             take_memory take, void *context)
{
    const ls_graph *graph = o->graph;
    const size_t real = real_bytes_of(o), rows = (size_t)o->rows;
    for (int n = ls_net_begin(o); n < ls_net_end(o); n++) {
        const ls_node *node = &graph->nodes[n];
        net_node *my = &nodes[n];
        size_t bytes = node_bytes(o, n);
        if (node->layer->role == LS_LAYER_LOSS) {
            size_t row = node->layer->integer_target
                             ? (size_t)ls_shape_positions(&node->shape) * sizeof(int32_t)
                             : (size_t)ls_shape_elements(&node->shape) * real;
            const ls_memory_type type =
                node->layer->integer_target ? LS_MEMORY_OTHER : LS_MEMORY_FLOAT32;
            LS_TRY(take(context, LS_MEMORY_AS(LS_MEMORY_ACTIVATIONS, type), rows * row, target));
            if (node->layer->kept_bytes)
                LS_TRY(take(context, LS_MEMORY_ACTIVATIONS, kept_bytes(o, n), &my->kept));
            continue;
        }
        const ls_repeat repeat = repeat_of(o, n);
        if (!my->borrows && !repeat.drops_output)
            LS_TRY(take(context, typed_use(ls_net_stored_bytes(o, n)), bytes, &my->output));
        if (node->layer->kept_bytes && !repeat.drops_kept &&
            (!(my->is_fork || my->is_join) || graph->slices.order))
            LS_TRY(take(context, LS_MEMORY_ACTIVATIONS, kept_bytes(o, n), &my->kept));
        if (!o->gradients)
            continue;
        if (has_gradient(my) && !my->passing)
            LS_TRY(take(context, typed_use(ls_net_stored_bytes(o, n)), bytes, &my->gradient));
        for (int i = 0; i < node->input_count; i++)
            if (has_scratch(o, nodes, n, i) && !my->scratch_passing)
                LS_TRY(take(context, typed_use(ls_net_given_bytes(o, n, i)), scratch_bytes(o, n, i),
                            &my->inputs[i].scratch));
        if (node->variable_count && (node->shares >= 0 || my->waits))
            LS_TRY(take(context, LS_MEMORY_WORKSPACE, count_variables(graph, node) * real,
                        &my->own_gradient));
    }
    if (!o->gradients)
        return LS_OK;
    net_pool pool = {.take = take, .context = context, .use = typed_use(ls_net_parameter_bytes(o))};
    const ls_status status = pass_gradients(o, nodes, &pool);
    free(pool.items);
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------- */

ls_status ls_net_allocate(void *context, ls_memory_use use, size_t bytes, void **where)
{
    ls_net *net = context;
    LS_TRY(ls_grow("net", &net->memory, net->memory_count, sizeof *net->memory));
    LS_TRY(ls_device_allocate(net->options.kernels->device, use, bytes, where));
    net->memory[net->memory_count++] = *where;
    return LS_OK;
}

/* Borrows the buffers of a net with an equal graph and at least as many rows. */
static void borrow(ls_net *net, const ls_net *other)
{
    for (int n = 0; n < net->options.graph->count; n++) {
        net_node *my = &net->nodes[n];
        const net_node *theirs = &other->nodes[n];
        my->output = theirs->output;
        my->gradient = theirs->gradient;
        my->kept = theirs->kept;
        for (int i = 0; i < graph_node(net, n)->input_count; i++)
            my->inputs[i].scratch = theirs->inputs[i].scratch;
        my->own_gradient = theirs->own_gradient;
    }
    net->target = other->target;
    net->scratch = other->scratch;
}

/* Borrows the other net's window, as large or larger. */
static void borrow_window(ls_net *net, const ls_net *other)
{
    for (int n = 0; n < net->options.graph->count; n++) {
        const ls_repeat repeat = repeat_of(&net->options, n);
        if (repeat.drops_output)
            net->nodes[n].output = other->nodes[n].output;
        if (repeat.drops_kept)
            net->nodes[n].kept = other->nodes[n].kept;
    }
}

static ls_status take_all(ls_net *net)
{
    const ls_net_options *o = &net->options;
    if (o->memory_of) {
        borrow(net, o->memory_of);
        return LS_OK;
    }
    LS_TRY(each_buffer(o, net->nodes, &net->target, ls_net_allocate, net));
    const size_t scratch = ls_net_scratch_bytes(o);
    if (scratch)
        LS_TRY(ls_net_allocate(net, LS_MEMORY_WORKSPACE, scratch, (void **)&net->scratch));
    else if (o->scratch_of)
        net->scratch = o->scratch_of->scratch;
    if (!o->window_of)
        return take_window(o, net->nodes, ls_net_allocate, net);
    borrow_window(net, o->window_of);
    return LS_OK;
}

ls_status ls_net_take_buffers(ls_net *net)
{
    const ls_net_options *o = &net->options;
    LS_TRY(take_all(net));
    for (int n = 0; n < o->graph->count; n++) {
        net_node *my = &net->nodes[n];
        const ls_node *node = graph_node(net, n);
        const net_node *input = node->input_count ? &net->nodes[node->inputs[0]] : NULL;
        if (my->borrows)
            my->output = input->output;
        if (my->fused_forward || my->is_fork)
            my->gradient = my->inputs[0].scratch ? my->inputs[0].scratch : input->gradient;
        for (int i = 0; i < node->input_count && my->is_join; i++)
            net->nodes[node->inputs[i]].gradient = my->gradient;
    }
    return LS_OK;
}

/* ---- The ledger's formula ------------------------------------------------------------------- */

static ls_status count_bytes(void *context, ls_memory_use use, size_t bytes, void **where)
{
    net_sizes *sizes = context;
    *(ls_memory_use_of(use) == LS_MEMORY_ACTIVATIONS ? &sizes->activations : &sizes->shared) +=
        bytes;
    *where = NULL;
    return LS_OK;
}

static net_sizes count_sizes(const ls_net_options *options)
{
    net_sizes sizes = {.shared = ls_net_scratch_bytes(options)};
    ls_auto net_node *nodes = NULL;
    void *target;
    ls_status_free(ls_net_plan(options, &nodes));
    if (nodes)
        ls_status_free(each_buffer(options, nodes, &target, count_bytes, &sizes));
    if (nodes && !options->window_of)
        ls_status_free(take_window(options, nodes, count_bytes, &sizes));
    return sizes;
}

/* The sizes of a whole graph. */
static net_sizes count_graph(const ls_graph *graph, size_t real_bytes, int64_t rows)
{
    net_sizes some;
    const ls_kernel_table table = {.real_bytes = real_bytes};
    ls_kernels kernels = {.table = &table};
    return count_sizes(
        &(ls_net_options){.graph = graph, .kernels = &kernels, .rows = rows, .gradients = &some});
}

size_t ls_net_activation_bytes(const ls_graph *graph, size_t real_bytes, int64_t rows)
{
    return count_graph(graph, real_bytes, rows).activations;
}

size_t ls_net_shared_bytes(const ls_graph *graph, size_t real_bytes)
{
    return count_graph(graph, real_bytes, 0).shared;
}

size_t ls_net_bytes(const ls_net *net, size_t *shared)
{
    const net_sizes sizes = count_sizes(&net->options);
    *shared = sizes.shared;
    return sizes.activations;
}
