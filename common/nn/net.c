/* SPDX-License-Identifier: MIT */
/*
 * Net: the operations of a graph for a number of rows; see net.h. A second use of an output adds
 * its gradient if its layer can; else it computes it into scratch, and adds that. So does a second
 * use of variables, in forward order, once backward is done with the first use. Memory:
 * net_memory.c.
 */
#include "common/base/grow.h"
#include "common/nn/layers.h"
#include "common/nn/net_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Operations ----------------------------------------------------------------------------- */

static void *at_variable(const ls_net *net, void *flat, const size_t *at, int variable, size_t real)
{
    const size_t offset = net->options.graph->variables.items[variable].offset;
    return flat ? (char *)flat + (at ? at[variable] : offset) * real : NULL;
}

static void *at_flat_gradient(const ls_net *net, int variable)
{
    return at_variable(net, net->options.gradients, net->options.gradient_at, variable,
                       real_bytes_of(&net->options));
}

/* Where backward leaves the gradient of node n's variable v: in the flat buffer, or with that
 * layout in memory of a node that shares it, or waits. */
static void *at_gradient(const ls_net *net, int n, int v)
{
    const ls_node *node = graph_node(net, n);
    const ls_variable *items = net->options.graph->variables.items;
    char *own = net->nodes[n].own_gradient;
    if (node->shares < 0 && !net->nodes[n].waits)
        return at_flat_gradient(net, node->variables[v]);
    return own ? own + (items[node->variables[v]].offset - items[node->variables[0]].offset) *
                           net->options.kernels->table->real_bytes
               : NULL;
}

/* What a fork or join adds up. */
static void list_parts(const ls_net *net, int n, ls_layer_site *site)
{
    const ls_node *node = graph_node(net, n);
    for (int i = 0; i < node->input_count && net->nodes[n].is_join; i++)
        site->part[site->parts++] = net->nodes[node->inputs[i]].output;
    for (int user = n + 1; user < net->options.graph->count && net->nodes[n].is_fork; user++) {
        const net_node *user_node = &net->nodes[user];
        if (graph_node(net, user)->input_count && graph_node(net, user)->inputs[0] == n)
            site->part[site->parts++] = user_node->inputs[0].scratch ? user_node->inputs[0].scratch
                                                                     : net->nodes[n].gradient;
    }
}

/* Where gradients of node n's inputs go: the input's buffer, or scratch for later uses, unless they
 * are added by the layer. */
static void aim_gradients(ls_net *net, int n, ls_layer_site *site)
{
    const ls_node *node = graph_node(net, n);
    for (int i = 0; i < node->input_count && net->options.gradients; i++) {
        net_node *input = &net->nodes[node->inputs[i]];
        if (!input->wants_gradient)
            continue;
        site->input_gradient[i] =
            net->nodes[n].inputs[i].scratch ? net->nodes[n].inputs[i].scratch : input->gradient;
        if (input->fused_backward && !input->masked_before)
            site->input_relu = input->output;
        site->adds = node->layer->adds && input->last_use != n && !net->nodes[n].inputs[i].scratch;
    }
}

ls_layer_site ls_net_site(ls_net *net, int n)
{
    const ls_net_options *o = &net->options;
    const ls_node *node = graph_node(net, n);
    ls_layer_site site = {
        .graph = o->graph,
        .node = node,
        .kernels = o->kernels,
        .rows = o->rows,
        .batch = (int64_t)o->divisor,
        .synced = o->synced,
        .weights_apart = net->nodes[n].splits,
        .scale = 1.0 / (double)o->divisor,
        .scale_at = o->scale_at,
        .output = net->nodes[n].output,
        .output_gradient = net->nodes[n].gradient,
        .forward = &net->nodes[n].forward,
        .kept = net->nodes[n].kept,
        .loss = o->loss,
        .target = net->target,
        .seed = o->seed,
        .first = ls_net_first(net),
    };
    for (int i = 0; i < node->input_count; i++) {
        site.input_node[i] = graph_node(net, node->inputs[i]);
        site.input[i] = net->nodes[node->inputs[i]].output;
    }
    for (int v = 0; v < node->variable_count; v++) {
        site.variable[v] = at_variable(net, o->parameters, o->parameter_at, node->variables[v],
                                       ls_net_parameter_bytes(o));
        site.variable_gradient[v] = at_gradient(net, n, v);
    }
    const int user = net->nodes[n].last_use;
    site.relu_follows = user >= 0 && net->nodes[user].fused_forward;
    list_parts(net, n, &site);
    aim_gradients(net, n, &site);
    return site;
}

uint64_t *ls_net_first(const ls_net *net)
{
    for (int n = ls_net_begin(&net->options); n < ls_net_end(&net->options); n++)
        if (graph_node(net, n)->layer == &ls_layer_dropout)
            return net->nodes[n].kept;
    return NULL;
}

/* Whether sums of other parts come between the halves of a node's pass: synced batch statistics;
 * else, where layers are split over places, sums of nodes without statistics. */
static bool in_halves(const ls_net *net, const ls_node *node)
{
    return net->options.synced || (net->options.graph->slices.places > 1 && !node->layer->sums);
}

/* Whether a pass is made of halves, wherever the sums between them come from: so that what is
 * rounded between them does not depend on it. */
static bool has_halves(const ls_net *net, const ls_node *node)
{
    return net->options.synced || !node->layer->sums;
}

static ls_status build_forward(ls_net *net, int n)
{
    const ls_node *node = graph_node(net, n);
    net_node *my = &net->nodes[n];
    if (node->layer->role == LS_LAYER_INPUT || my->fused_forward)
        return LS_OK;
    if (has_halves(net, node) && node->layer->forward_rest) {
        LS_TRY(ls_net_put(net, n, false, node->layer->forward, &my->forward));
        LS_TRY(ls_net_put(net, n, false, node->layer->forward_rest,
                          in_halves(net, node) ? &my->forward_rest : &my->forward));
    } else {
        LS_TRY(ls_net_put(net, n, false, ls_layer_forward, &my->forward));
    }
    if (repeat_of(&net->options, n).again && node->layer->again)
        LS_TRY(ls_net_put(net, n, false, node->layer->again, &my->again));
    return node->layer->predict ? ls_net_put(net, n, false, node->layer->predict, &my->predict)
                                : LS_OK;
}

/* Elements of node n's variables from number v on that adjoin in the flat buffer; *next: the first
 * that does not. */
static size_t count_adjoining(const ls_net *net, int n, int v, int *next)
{
    const ls_node *node = graph_node(net, n);
    const ls_variable *items = net->options.graph->variables.items;
    const char *first = at_flat_gradient(net, node->variables[v]);
    size_t count = items[node->variables[v]].count;
    for (*next = v + 1; *next < node->variable_count; ++*next) {
        if ((char *)at_flat_gradient(net, node->variables[*next]) !=
            first + count * net->options.kernels->table->real_bytes)
            break;
        count += items[node->variables[*next]].count;
    }
    return count;
}

/* Adds what node `later` computed for variables that node n owns, as many at once as adjoin. */
static ls_status add_shared_of(ls_net *net, int n, int later, ls_op_list *ops)
{
    for (int v = 0, next; v < graph_node(net, n)->variable_count; v = next) {
        const size_t count = count_adjoining(net, n, v, &next);
        LS_TRY(ls_net_append_add(net, at_gradient(net, n, v), at_gradient(net, later, v),
                                 (int64_t)count, ops));
    }
    return LS_OK;
}

/* Copies the gradients of a node that waits to the flat buffer. */
static ls_status release_gradients(ls_net *net, int n)
{
    for (int v = 0, next; v < graph_node(net, n)->variable_count; v = next) {
        const ls_add_args copy = {.count = (int64_t)count_adjoining(net, n, v, &next),
                                  .a = at_gradient(net, n, v),
                                  .y = at_flat_gradient(net, graph_node(net, n)->variables[v])};
        ls_op *op;
        LS_TRY(net->options.kernels->table->add(net->options.kernels, &copy, &op));
        LS_TRY(ls_op_list_add(&net->nodes[n].weights, op));
    }
    return LS_OK;
}

/* As above, for all later nodes, in forward order. */
static ls_status add_shared(ls_net *net, int n, ls_op_list *ops)
{
    for (int later = n + 1; later < net->options.graph->count; later++)
        if (graph_node(net, later)->shares == n)
            LS_TRY(add_shared_of(net, n, later, ops));
    return LS_OK;
}

static ls_status build_backward(ls_net *net, int n)
{
    const ls_node *node = graph_node(net, n);
    net_node *my = &net->nodes[n];
    if (node->layer->role != LS_LAYER_COMPUTE || !my->wants_gradient)
        return LS_OK;
    ls_op_list *last = &my->backward;
    if (has_halves(net, node) && node->layer->backward_rest) {
        last = in_halves(net, node) ? &my->backward_rest : &my->backward;
        LS_TRY(ls_net_put(net, n, true, node->layer->backward, &my->backward));
        LS_TRY(ls_net_put(net, n, true, node->layer->backward_rest, last));
    } else if (!my->fused_backward) {
        LS_TRY(ls_net_put(net, n, true, ls_layer_backward, last));
    }
    if (my->splits)
        LS_TRY(ls_net_put(net, n, true, node->layer->backward_weights, &my->weights));
    if (my->waits)
        LS_TRY(release_gradients(net, n));
    for (int i = 0; i < node->input_count; i++)
        if (my->inputs[i].scratch && !net->nodes[node->inputs[i]].is_fork)
            LS_TRY(ls_net_add_use(net, node->inputs[i], my->inputs[i].scratch, last));
    return node->shares < 0 ? add_shared(net, n, my->splits ? &my->weights : last) : LS_OK;
}

/* ---- The interface -------------------------------------------------------------------------- */

ls_status ls_net_allocate_nodes(const ls_graph *graph, net_node **out)
{
    size_t inputs = 0;
    for (int n = 0; n < graph->count; n++)
        inputs += (size_t)graph->nodes[n].input_count;
    LS_TRY(ls_allocate("net", out, 1,
                       (size_t)graph->count * sizeof **out + inputs * sizeof(net_input)));
    net_input *next = (net_input *)(*out + graph->count);
    for (int n = 0; n < graph->count; next += graph->nodes[n++].input_count)
        (*out)[n].inputs = next;
    return LS_OK;
}

ls_status ls_net_open(const ls_net_options *options, ls_net **out)
{
    if (options->rows < 0 || !options->divisor ||
        (options->memory_of && options->memory_of->options.rows < options->rows))
        return ls_fail(LS_CODE_USAGE, "net", "rows and divisor",
                       "the divisor is 0, or the number of rows is negative or larger than in the "
                       "net whose memory this net uses; correct the divisor or the rows");
    ls_net *net;
    LS_TRY(ls_allocate("net", &net, 1, sizeof *net));
    net->options = *options;
    ls_status status = ls_net_plan(options, &net->nodes);
    if (!status)
        status = ls_net_take_buffers(net);
    for (int n = ls_net_begin(options); n < ls_net_end(options) && !status; n++) {
        status = build_forward(net, n);
        if (!status)
            status = ls_net_append_values(net, n, false, &net->nodes[n].forward);
    }
    if (!status && options->choices)
        status = ls_net_append_choices(net, &net->nodes[ls_net_end(options) - 1].forward);
    for (int n = ls_net_end(options);
         n-- > ls_net_begin(options) && options->gradients && !status;) {
        status = ls_net_append_values(net, n, true, &net->nodes[n].backward);
        if (!status)
            status = build_backward(net, n);
        /* for profiles */
        const ls_op_list *lists[] = {&net->nodes[n].backward, &net->nodes[n].backward_rest,
                                     &net->nodes[n].weights};
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
            for (size_t i = 0; i < lists[l]->count; i++)
                if (lists[l]->items[i]->use == LS_TIME_COMPUTE)
                    lists[l]->items[i]->use =
                        lists[l] == &net->nodes[n].weights ? LS_TIME_WEIGHTS : LS_TIME_BACKWARD;
    }
    if (status) {
        ls_net_close(net);
        return status;
    }
    *out = net;
    return LS_OK;
}

void ls_net_close(ls_net *net)
{
    if (!net)
        return;
    for (int n = 0; net->nodes && n < net->options.graph->count; n++) {
        net_node *my = &net->nodes[n];
        ls_op_list *lists[] = {&my->forward, &my->forward_rest, &my->backward, &my->backward_rest,
                               &my->weights, &my->again,        &my->predict};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            ls_op_list_clear(lists[i]);
    }
    for (size_t i = 0; i < net->memory_count; i++)
        ls_device_release(net->options.kernels->device, net->memory[i]);
    free(net->memory);
    free(net->nodes);
    free(net);
}

/* ---- Buffers and operations: reading and enqueuing them ----------------------------------------
 */

void *ls_net_target(const ls_net *net)
{
    return net->target;
}

const void *ls_net_output(const ls_net *net)
{
    return net->nodes[graph_node(net, net->options.graph->count - 1)->inputs[0]].output;
}

void *ls_net_node_output(const ls_net *net, int node)
{
    return net->nodes[node].output;
}

void *ls_net_node_gradient(const ls_net *net, int node)
{
    return net->nodes[node].gradient;
}

/* Whether backward reads memory that node n's forward pass wrote: in n's own pass, or in a later
 * node's pass up to its last use. */
static bool is_read_back(const ls_net *net, int n, const void *memory, size_t bytes)
{
    int last = net->nodes[n].last_use;
    while (last >= 0 && net->nodes[last].fused_forward) /* which has the same output */
        last = net->nodes[last].last_use;
    for (int user = n; user <= last; user++)
        if (ls_net_touches(&net->nodes[user].backward, memory, bytes, false) ||
            ls_net_touches(&net->nodes[user].backward_rest, memory, bytes, false) ||
            ls_net_touches(&net->nodes[user].weights, memory, bytes, false))
            return true;
    return false;
}

bool ls_net_kept(const ls_net *net, size_t index, void **memory, size_t *bytes)
{
    const ls_net_options *o = &net->options;
    const int loss = o->graph->count - 1;
    for (int n = 0; n < loss; n++) {
        *memory = net->nodes[n].output;
        *bytes = node_bytes(o, n);
        if (!net->nodes[n].fused_forward && is_read_back(net, n, *memory, *bytes) && index-- == 0)
            return true;
    }
    for (int n = 0; n < loss; n++) {
        *memory = net->nodes[n].kept;
        *bytes = net->nodes[n].kept ? kept_bytes(o, n) : 0;
        if (*memory && is_read_back(net, n, *memory, *bytes) && index-- == 0)
            return true;
    }
    if (index >= (size_t)graph_node(net, loss)->input_count)
        return false;
    const int logits = graph_node(net, loss)->inputs[index];
    void *scratch = net->nodes[loss].inputs[index].scratch;
    *memory = scratch ? scratch : net->nodes[logits].gradient;
    *bytes = node_bytes(o, logits);
    return true;
}

const ls_op_list *ls_net_node_ops(const ls_net *net, int node, bool backward)
{
    return backward ? &net->nodes[node].backward : &net->nodes[node].forward;
}

bool ls_net_splits(const ls_net *net, int node)
{
    return net->nodes[node].splits || net->nodes[node].waits;
}

void *ls_net_loss_parts(const ls_net *net)
{
    return net->nodes[net->options.graph->count - 1].kept;
}

void *ls_net_gradient(const ls_net *net, size_t index)
{
    const ls_net_options *o = &net->options;
    for (int n = ls_net_begin(o); n < ls_net_end(o) && o->waits; n++) {
        size_t first, count;
        if (net->nodes[n].waits && ls_net_node_final(net, n, &first, &count) && index >= first &&
            index < first + count)
            return (char *)net->nodes[n].own_gradient +
                   (index - first) * o->kernels->table->real_bytes;
    }
    return (char *)o->gradients + ls_variables_at(&o->graph->variables, o->gradient_at, index) *
                                      o->kernels->table->real_bytes;
}

int64_t ls_net_rows(const ls_net *net)
{
    return net->options.rows;
}

size_t ls_net_workspace(const ls_net *net)
{
    size_t bytes = 0;
    for (int n = 0; n < net->options.graph->count; n++) {
        const net_node *my = &net->nodes[n];
        bytes += ls_op_list_workspace(&my->forward) + ls_op_list_workspace(&my->forward_rest) +
                 ls_op_list_workspace(&my->backward) + ls_op_list_workspace(&my->backward_rest) +
                 ls_op_list_workspace(&my->weights) + ls_op_list_workspace(&my->again) +
                 ls_op_list_workspace(&my->predict);
    }
    return bytes;
}

double *ls_net_node_sums(ls_net *net, int node, bool backward, size_t *count)
{
    const ls_layer *layer = graph_node(net, node)->layer;
    const ls_layer_site site = ls_net_site(net, node);
    return layer->sums ? layer->sums(&site, backward, count) : NULL;
}

int ls_net_node_part_sums(ls_net *net, int node, void *out[LS_LAYER_TREES])
{
    const ls_layer_site site = ls_net_site(net, node);
    return ls_layer_part_sums(&site, out);
}

void ls_net_node_lists(const ls_net *net, int node, ls_net_pass pass,
                       const ls_op_list *out[LS_NET_LISTS])
{
    const net_node *my = &net->nodes[node];
    if (pass == LS_NET_PREDICT && graph_node(net, node)->layer->predict) {
        out[0] = &my->predict;
        out[1] = NULL;
        return;
    }
    if (pass == LS_NET_WEIGHTS) {
        out[0] = &my->weights;
        out[1] = NULL;
        return;
    }
    const bool again =
        pass == LS_NET_AGAIN || pass == LS_NET_AGAIN_HALF || pass == LS_NET_AGAIN_REST;
    if (again && graph_node(net, node)->layer->again) {
        out[0] = pass == LS_NET_AGAIN_REST ? NULL : &my->again;
        out[1] = NULL;
        return;
    }
    const bool back =
        pass == LS_NET_BACKWARD || pass == LS_NET_BACKWARD_HALF || pass == LS_NET_BACKWARD_REST;
    const bool half =
        pass != LS_NET_FORWARD_REST && pass != LS_NET_BACKWARD_REST && pass != LS_NET_AGAIN_REST;
    const bool rest =
        pass != LS_NET_FORWARD_HALF && pass != LS_NET_BACKWARD_HALF && pass != LS_NET_AGAIN_HALF;
    out[0] = half ? (back ? &my->backward : &my->forward) : NULL;
    out[1] = rest ? (back ? &my->backward_rest : &my->forward_rest) : NULL;
}

ls_status ls_net_node_enqueue(const ls_net *net, int node, ls_net_pass pass, ls_queue *queue)
{
    const ls_op_list *lists[LS_NET_LISTS];
    ls_net_node_lists(net, node, pass, lists);
    for (int l = 0; l < LS_NET_LISTS; l++)
        if (lists[l])
            LS_TRY(ls_op_list_enqueue(lists[l], queue));
    return LS_OK;
}

ls_status ls_net_predict(ls_net *net, ls_queue *queue)
{
    for (int n = 0; n < net->options.graph->count; n++)
        if (ls_layer_predicts(graph_node(net, n)->layer))
            LS_TRY(ls_net_node_enqueue(net, n, LS_NET_PREDICT, queue));
    return LS_OK;
}

ls_status ls_net_forward(ls_net *net, ls_queue *queue)
{
    for (int n = 0; n < net->options.graph->count; n++)
        LS_TRY(ls_net_node_enqueue(net, n, LS_NET_FORWARD, queue));
    return LS_OK;
}

bool ls_net_node_final(const ls_net *net, int n, size_t *first, size_t *count)
{
    const ls_variable *variables = net->options.graph->variables.items;
    const ls_node *node = graph_node(net, n);
    if (!node->variable_count || node->shares >= 0)
        return false; /* the node that it shares with, which backward reaches later, adds to it */
    const ls_variable *last = &variables[node->variables[node->variable_count - 1]];
    *first = variables[node->variables[0]].offset;
    *count = last->offset + last->count - *first;
    return true;
}

ls_status ls_net_backward(ls_net *net, ls_queue *queue)
{
    for (int n = net->options.graph->count - 1; n >= 0; n--)
        LS_TRY(ls_net_node_enqueue(net, n, LS_NET_BACKWARD, queue));
    return LS_OK;
}
