/* SPDX-License-Identifier: MIT */
/*
 * Softmax cross-entropy of logits in slices of the classes (graph_split.h), which are never in one
 * place: of each row a slice gives its largest logit, its sum and the label's logit; from all
 * slices' numbers follow the loss and each slice's gradient. In evaluation it gives its largest
 * logit and whose that is. Other places' numbers arrive between the halves.
 */
#include "common/comm/comm.h"
#include "common/nn/layers.h"

/* Rows of the softmax: positions of all samples. */
static int64_t rows_of(const ls_layer_site *site)
{
    return site->rows * ls_shape_positions(&site->node->shape);
}

static int64_t classes_of(const ls_node *node)
{
    return node->shape.size[node->shape.rank - 1];
}

/* Number of an input's slice, and its first class. */
static int64_t slice_of(const ls_layer_site *site, int input, int64_t *first)
{
    const int slice = site->input_node[input]->slice - 1;
    *first =
        (int64_t)ls_comm_share((size_t)classes_of(site->node), slice, site->graph->slices.splits);
    return slice;
}

static ls_status put_parts(const ls_layer_site *site, bool terms, bool largest, ls_op_list *ops)
{
    const size_t each =
        (size_t)(rows_of(site) * LS_SOFTMAX_PART) * site->kernels->table->real_bytes;
    for (int i = 0; i < site->node->input_count; i++) {
        ls_softmax_part_args args = {.rows = rows_of(site),
                                     .classes = classes_of(site->input_node[i]),
                                     .all = classes_of(site->node),
                                     .logits = site->input[i],
                                     .labels = site->target,
                                     .ragged = site->scale_at,
                                     .largest = largest,
                                     .terms = terms ? site->input_gradient[i] : NULL};
        args.part = (char *)site->kept + (size_t)slice_of(site, i, &args.first) * each;
        LS_TRY(ls_layer_put_softmax_part(site, &args, ops));
    }
    return LS_OK;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    return put_parts(site, !site->rounds, false, ops);
}

static ls_status predict(const ls_layer_site *site, ls_op_list *ops)
{
    return put_parts(site, false, true, ops);
}

/* Terms are made again where they would have been rounded. */
static ls_status forward_rest(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->rounds)
        LS_TRY(put_parts(site, true, false, ops));
    for (int i = 0; i < site->node->input_count; i++) {
        ls_softmax_whole_args args = {.rows = rows_of(site),
                                      .slices = site->graph->slices.splits,
                                      .parts = site->kept,
                                      .scale = site->scale /
                                               (double)ls_shape_positions(&site->node->shape),
                                      .scale_at = site->scale_at,
                                      .loss = i ? NULL : site->loss,
                                      .classes = classes_of(site->input_node[i]),
                                      .labels = site->target,
                                      .dlogits = site->input_gradient[i]};
        args.slice = slice_of(site, i, &args.first);
        if (args.loss || args.dlogits)
            LS_TRY(ls_layer_put_softmax_whole(site, &args, ops));
    }
    return LS_OK;
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    return (size_t)(graph->slices.splits * LS_SOFTMAX_PART) *
           (size_t)(rows * ls_shape_positions(&node->shape)) * real_bytes;
}

const ls_layer ls_layer_split_loss = {
    .name = "softmax_cross_entropy",
    .help = "loss of logits in slices of the classes",
    .role = LS_LAYER_LOSS,
    .inputs = 1,
    .more_inputs = LS_NODE_INPUTS - 1,
    .integer_target = true,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .forward_rest = forward_rest,
    .predict = predict,
};
