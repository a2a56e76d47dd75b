/* SPDX-License-Identifier: MIT */
/*
 * Losses: softmax cross-entropy with class labels, mean squared error, and logistic loss. The loss
 * is the mean over the global batch: rows are summed and scaled by 1 / global batch size, as are
 * gradients. Softmax of a sequence [T,V] has a label at each of the T positions, and is the mean
 * over positions, too.
 */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = graph->nodes[node->inputs[0]].shape;
    return LS_OK;
}

static ls_status softmax_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const int64_t positions = ls_shape_positions(&site->node->shape);
    const int64_t whole = site->graph->blocks.whole; /* 0 if all are here */
    const ls_softmax_cross_entropy_args args = {
        .rows = site->rows * positions,
        .classes = ls_shape_elements(&site->node->shape) / positions,
        .logits = site->input[0],
        .labels = site->target,
        .scale = site->scale / (double)(whole ? whole : positions),
        .scale_at = site->scale_at,
        .dlogits = site->input_gradient[0],
        .loss = site->loss,
    };
    return ls_layer_put_softmax_cross_entropy(site, &args, ops);
}

static ls_status squared_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_squared_error_args args = {
        .rows = site->rows,
        .outputs = ls_shape_elements(&site->node->shape),
        .y = site->input[0],
        .target = site->target,
        .scale = site->scale,
        .dy = site->input_gradient[0],
        .loss = site->loss,
    };
    return ls_layer_put_squared_error(site, &args, ops);
}

static ls_status logistic_infer(ls_graph *graph, ls_node *node)
{
    LS_TRY(infer(graph, node));
    if (ls_shape_elements(&node->shape) == 1)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "graph", "logistic_loss",
                   "the input of this loss must be one value per sample, the logit; put `dense: 1` "
                   "before the loss");
}

static ls_status logistic_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_logistic_loss_args args = {
        .rows = site->rows,
        .logits = site->input[0],
        .labels = site->target,
        .scale = site->scale,
        .dlogits = site->input_gradient[0],
        .loss = site->loss,
    };
    return ls_layer_put_logistic_loss(site, &args, ops);
}

const ls_layer ls_layer_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .help = "loss: -log softmax(x)[label], mean over the global batch",
    .role = LS_LAYER_LOSS,
    .inputs = 1,
    .integer_target = true,
    .infer = infer,
    .forward = softmax_forward,
};

const ls_layer ls_layer_squared_error = {
    .name = "squared_error",
    .help = "loss: (x - target)^2, mean over the global batch",
    .role = LS_LAYER_LOSS,
    .inputs = 1,
    .infer = infer,
    .forward = squared_forward,
};

const ls_layer ls_layer_logistic_loss = {
    .name = "logistic_loss",
    .help = "loss: -log sigmoid(x) or -log(1 - sigmoid(x)) of labels 1 and 0, mean over the batch",
    .role = LS_LAYER_LOSS,
    .inputs = 1,
    .integer_target = true,
    .infer = logistic_infer,
    .forward = logistic_forward,
};
