/* SPDX-License-Identifier: MIT */
/* make_parallel's function of a graph: a net over the part's rows; see parallel.h. */
#include "common/nn/net.h"
#include "impl/examples/parallel.h"

static ls_status check_row(const char *where, const ls_batch *batch, size_t row_bytes)
{
    if (batch->row_bytes == row_bytes)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "make_parallel", where,
                   "this batch has rows of %zu bytes, but the graph needs rows of %zu bytes; give "
                   "rows of that size",
                   batch->row_bytes, row_bytes);
}

/* Number of inputs of the graph: with gradients, the part's last input is the target. */
static int own_inputs(const ls_part *part)
{
    return part->input_count - (part->gradients != NULL);
}

static ls_status check_rows(const ls_part *part)
{
    const ls_graph *graph = part->context;
    const ls_node *loss = &graph->nodes[graph->count - 1];
    const size_t real = part->kernels->table->real_bytes;
    const size_t output = real * (size_t)ls_shape_elements(&graph->nodes[loss->inputs[0]].shape);
    const int inputs = own_inputs(part);
    for (int i = 0; i < inputs; i++) {
        const ls_node *node = ls_graph_input(graph, i);
        if (node)
            LS_TRY(check_row("input", &part->input[i],
                             real * (size_t)ls_shape_elements(&node->shape)));
    }
    if (inputs < 1 || !ls_graph_input(graph, inputs - 1) || ls_graph_input(graph, inputs) ||
        part->output_count > 1)
        return ls_fail(LS_CODE_USAGE, "make_parallel", "batches",
                       "%d inputs and %d outputs do not fit the graph; give all its inputs in "
                       "order, then the target if gradients are computed, and at most one output",
                       part->input_count, part->output_count);
    if (part->gradients)
        LS_TRY(check_row("target", &part->input[inputs],
                         ls_graph_takes_labels(graph) ? sizeof(int32_t) : output));
    return part->output_count ? check_row("output", &part->output[0], output) : LS_OK;
}

static ls_status open_part(ls_part *part)
{
    LS_TRY(check_rows(part));
    const ls_net_options options = {.graph = part->context,
                                    .kernels = part->kernels,
                                    .rows = part->rows,
                                    .divisor = (uint64_t)part->batch,
                                    .parameters = part->variables,
                                    .gradients = part->gradients,
                                    .loss = part->loss};
    ls_net *net = NULL;
    ls_status status = ls_net_open(&options, &net);
    part->own = net;
    return status;
}

static ls_status enqueue_batch(const ls_part *part, ls_queue *queue, void *to, const ls_batch *from)
{
    return ls_queue_copy(queue, to, part->device, from->data, part->device,
                         (size_t)part->rows * from->row_bytes);
}

static ls_status enqueue_part(ls_part *part, ls_queue *queue)
{
    ls_net *net = part->own;
    const int inputs = own_inputs(part);
    for (int i = 0; i < inputs; i++)
        LS_TRY(enqueue_batch(part, queue, ls_net_input(net, i), &part->input[i]));
    if (part->gradients) {
        LS_TRY(enqueue_batch(part, queue, ls_net_target(net), &part->input[inputs]));
        LS_TRY(ls_net_forward(net, queue));
        LS_TRY(ls_net_backward(net, queue));
    } else {
        LS_TRY(ls_net_predict(net, queue));
    }
    if (!part->output_count)
        return LS_OK;
    const ls_batch output = part->output[0];
    return ls_queue_copy(queue, output.data, part->device, ls_net_output(net), part->device,
                         (size_t)part->rows * output.row_bytes);
}

static void close_part(ls_part *part)
{
    ls_net_close(part->own);
}

const ls_part_function ls_part_graph = {
    .open = open_part,
    .enqueue = enqueue_part,
    .close = close_part,
};
