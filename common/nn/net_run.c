/* SPDX-License-Identifier: MIT */
/* A net's buffers and operations: reading and enqueuing them; see net.h. */
#include "common/nn/net_private.h"

void *ls_net_input(const ls_net *net, int index)
{
    const ls_graph *graph = net->options.graph;
    const ls_node *node = ls_graph_input(graph, index);
    return node ? net->nodes[node - graph->nodes].output : NULL;
}

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

static bool feeds_a_layer(const ls_net *net, int n)
{
    for (int user = n + 1; user < net->options.graph->count; user++) {
        const ls_node *node = graph_node(net, user);
        for (int i = 0; i < node->input_count; i++)
            if (node->inputs[i] == n && node->layer->role == LS_LAYER_COMPUTE)
                return true;
    }
    return false;
}

bool ls_net_kept(const ls_net *net, size_t index, void **memory, size_t *bytes)
{
    const ls_net_options *o = &net->options;
    const int loss = o->graph->count - 1;
    const size_t real = o->kernels->table->real_bytes;
    for (int n = 0; n < loss; n++) {
        if (net->nodes[n].fused_forward || !feeds_a_layer(net, n) || index-- > 0)
            continue;
        *memory = net->nodes[n].output;
        *bytes = node_bytes(o->graph, n, real, o->rows);
        return true;
    }
    for (int n = 0; n < loss; n++) {
        if (!net->nodes[n].kept || !net->nodes[n].wants_gradient || index-- > 0)
            continue;
        *memory = net->nodes[n].kept;
        *bytes = kept_bytes(o->graph, n, real, o->rows);
        return true;
    }
    if (index >= (size_t)graph_node(net, loss)->input_count)
        return false;
    const int logits = graph_node(net, loss)->inputs[index];
    void *scratch = net->nodes[loss].input_scratch[index];
    *memory = scratch ? scratch : net->nodes[logits].gradient;
    *bytes = node_bytes(o->graph, logits, real, o->rows);
    return true;
}

const ls_op_list *ls_net_node_ops(const ls_net *net, int node, bool backward)
{
    return backward ? &net->nodes[node].backward : &net->nodes[node].forward;
}

void *ls_net_loss_parts(const ls_net *net)
{
    return net->nodes[net->options.graph->count - 1].kept;
}

void *ls_net_gradients(const ls_net *net)
{
    return net->options.gradients;
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
    const bool back =
        pass == LS_NET_BACKWARD || pass == LS_NET_BACKWARD_HALF || pass == LS_NET_BACKWARD_REST;
    const bool half = pass != LS_NET_FORWARD_REST && pass != LS_NET_BACKWARD_REST;
    const bool rest = pass != LS_NET_FORWARD_HALF && pass != LS_NET_BACKWARD_HALF;
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
