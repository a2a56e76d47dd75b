/* SPDX-License-Identifier: MIT */
/*
 * Blocks of positions, one for each slice of split layers (graph_split.h). `block` takes a block of
 * a sequence [T,C], and adds a bias; `gather` puts blocks together. Where a place has one block of
 * a sequence, the other ones come between the halves. Blocks of one sequence write their gradients
 * to the same memory, each to its positions.
 */
#include "common/comm/comm.h"
#include "common/nn/layers.h"

/* Between rows of a block, or the whole sequence, of a sample. */
typedef struct range {
    int64_t first, width, whole; /* elements of a sample */
} range;

/* The block of [T,C] that a node has. */
static range range_of(const ls_layer_site *site, const ls_shape *whole, const ls_node *node)
{
    const int splits = site->graph->slices.splits;
    const size_t T = (size_t)whole->size[0];
    const int64_t C = whole->size[1], first = (int64_t)ls_comm_share(T, node->block - 1, splits);
    return (range){first * C, (int64_t)ls_comm_share(T, node->block, splits) * C - first * C,
                   ls_shape_elements(whole)};
}

static char *at(const ls_layer_site *site, const void *memory, int64_t element)
{
    return (char *)memory + (size_t)element * site->kernels->table->real_bytes;
}

/* A block of all samples out of their sequences, or (`in`) into them. */
static ls_status copy(const ls_layer_site *site, const range *r, const void *from, const void *to,
                      bool in, ls_op_list *ops)
{
    const ls_copy_columns_args args = {.rows = site->rows,
                                       .width = r->width,
                                       .x_pitch = in ? r->width : r->whole,
                                       .y_pitch = in ? r->whole : r->width,
                                       .x = in ? from : at(site, from, r->first),
                                       .y = in ? at(site, to, r->first) : at(site, to, 0)};
    return ls_layer_put_copy_columns(site, &args, ops);
}

static ls_status block_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const range r = range_of(site, &site->input_node[0]->shape, site->node);
    const int64_t C = site->node->shape.size[1];
    const ls_positions_forward_args bias = {.rows = site->rows * r.width / C,
                                            .count = C,
                                            .x = site->output,
                                            .weight = site->variable[0],
                                            .y = site->output};
    LS_TRY(copy(site, &r, site->input[0], site->output, false, ops));
    return site->node->variable_count ? ls_layer_put_positions_forward(site, &bias, ops) : LS_OK;
}

static ls_status block_backward(const ls_layer_site *site, ls_op_list *ops)
{
    const range r = range_of(site, &site->input_node[0]->shape, site->node);
    const int64_t C = site->node->shape.size[1];
    const ls_positions_backward_args bias = {.rows = site->rows * r.width / C,
                                             .count = C,
                                             .dy = site->output_gradient,
                                             .dweight = site->variable_gradient[0]};
    if (site->node->variable_count)
        LS_TRY(ls_layer_put_positions_backward(site, &bias, ops));
    return copy(site, &r, site->output_gradient, site->input_gradient[0], true, ops);
}

static ls_status gather_forward(const ls_layer_site *site, ls_op_list *ops)
{
    for (int i = 0; i < site->node->input_count; i++) {
        const range r = range_of(site, &site->node->shape, site->input_node[i]);
        LS_TRY(copy(site, &r, site->input[i], site->output, true, ops));
    }
    return LS_OK;
}

static ls_status gather_backward(const ls_layer_site *site, ls_op_list *ops)
{
    for (int i = 0; i < site->node->input_count; i++) {
        const range r = range_of(site, &site->node->shape, site->input_node[i]);
        LS_TRY(copy(site, &r, site->output_gradient, site->input_gradient[i], false, ops));
    }
    return LS_OK;
}

static ls_status nothing(const ls_layer_site *site, ls_op_list *ops)
{
    (void)site;
    (void)ops;
    return LS_OK;
}

const ls_layer ls_layer_block = {
    .name = "block",
    .help = "a block of a sequence's positions",
    .inputs = 1,
    .writes_part = true,
    .forward = block_forward,
    .backward = block_backward,
};

const ls_layer ls_layer_gather = {
    .name = "gather",
    .help = "puts blocks of positions together",
    .inputs = 1,
    .more_inputs = LS_NODE_INPUTS - 1,
    .forward = gather_forward,
    .forward_rest = nothing,
    .backward = nothing,
    .backward_rest = gather_backward,
};
