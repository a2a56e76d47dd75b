/* SPDX-License-Identifier: MIT */
/*
 * Fork and join: where slices of split layers begin and end (graph_split.h). A join is the sum of
 * its inputs, plus a bias; its output is in the memory of its first input, and its inputs have its
 * gradient. A fork's output is its input, and its gradient the sum of its users'. What is summed is
 * added in place, in the first addend, and copied from there if the sum has another type.
 */
#include "common/comm/comm.h"
#include "common/nn/layers.h"

static const ls_graph_slices *slices_of(const ls_layer_site *site)
{
    return &site->graph->slices;
}

static size_t subtrees(const ls_layer_site *site, ls_subtree out[LS_SUBTREES])
{
    const ls_graph_slices *s = slices_of(site);
    return ls_canonical_subtrees(s->place, s->places, s->splits, out);
}

/* The first slice here. */
static int64_t first_slice(const ls_graph_slices *s)
{
    return (int64_t)ls_comm_share((size_t)s->splits, s->place, s->places);
}

int ls_layer_part_sums(const ls_layer_site *site, void *out[LS_LAYER_TREES])
{
    ls_subtree trees[LS_SUBTREES];
    const size_t count = subtrees(site, trees);
    for (size_t k = 0; k < count; k++)
        out[k] = site->part[trees[k].first - first_slice(slices_of(site))];
    return (int)count;
}

static int64_t elements_of(const ls_layer_site *site)
{
    return site->rows * ls_shape_elements(&site->node->shape);
}

static ls_status put_sum(const ls_layer_site *site, const void *a, const void *b, void *y,
                         int64_t count, ls_op_list *ops)
{
    const ls_add_args args = {.count = count, .a = a, .b = b, .y = y};
    return ls_layer_put_add(site, &args, ops);
}

/* sum(lo, hi) of slices that are all here, in the memory of the first. */
static ls_status add_tree(const ls_layer_site *site, int64_t lo, int64_t hi, ls_op_list *ops)
{
    const int64_t first = first_slice(slices_of(site));
    if (hi - lo == 1)
        return LS_OK;
    const int64_t mid = ls_canonical_middle(lo, hi);
    LS_TRY(add_tree(site, lo, mid, ops));
    LS_TRY(add_tree(site, mid, hi, ops));
    void *left = site->part[lo - first];
    return put_sum(site, left, site->part[mid - first], left, elements_of(site), ops);
}

/* A node's samples; with blocks of positions in the order of their reduction: block after block,
 * each of all samples. */
static ls_extent extent_of(const ls_graph_slices *s, const ls_shape *shape, int64_t rows)
{
    const size_t count = (size_t)(rows * ls_shape_elements(shape));
    return s->sequence ? (ls_extent){count, (size_t)shape->size[0], NULL} : ls_elements(count);
}

/* The order of an all-reduce of a node's samples by as many ranks as there are slices. */
static ls_status order_of(const ls_graph_slices *s, const ls_shape *shape, int64_t rows,
                          ls_sum_order *out)
{
    *out = (ls_sum_order){0};
    LS_TRY(s->order->oracle(s->splits, extent_of(s, shape, rows), NULL, out));
    return ls_sum_order_sort(out);
}

static char *at(const ls_layer_site *site, const void *memory, size_t element)
{
    return (char *)memory + element * site->kernels->table->real_bytes;
}

/* y = a + b in a step's elements; b NULL means y = a. Blocks of positions lie apart in each sample.
 */
static ls_status put_step(const ls_layer_site *site, const ls_order_step *step, const void *a,
                          const void *b, const void *y, ls_op_list *ops)
{
    const size_t samples = (size_t)site->rows, all = (size_t)elements_of(site);
    const ls_graph_slices *s = slices_of(site);
    if (!s->sequence || step->count == all)
        return put_sum(site, at(site, a, step->first), b ? at(site, b, step->first) : NULL,
                       at(site, y, step->first), (int64_t)step->count, ops);
    const ls_extent extent = extent_of(s, &site->node->shape, site->rows);
    for (int j = 0; j < s->splits; j++) {
        const size_t begin = ls_comm_cut(extent, j, s->splits);
        const size_t end = ls_comm_cut(extent, j + 1, s->splits);
        if (begin < step->first || end > step->first + step->count)
            continue;
        for (size_t i = 0; i < samples; i++) {
            const size_t first = i * (all / samples) + begin / samples;
            LS_TRY(put_sum(site, at(site, a, first), b ? at(site, b, first) : NULL,
                           at(site, y, first), (int64_t)((end - begin) / samples), ops));
        }
    }
    return LS_OK;
}

/* All parts in an algorithm's order: its sums are kept apart from them; the first is the result. */
static ls_status add_in_order(const ls_layer_site *site, ls_op_list *ops)
{
    const int64_t count = elements_of(site);
    ls_sum_order order;
    ls_status status = order_of(slices_of(site), &site->node->shape, site->rows, &order);
    for (size_t i = 0; i < order.count && !status; i++) {
        const ls_order_step *step = &order.steps[i];
        void *into = at(site, site->kept, (size_t)step->into * (size_t)count);
        const void *from = step->input == LS_SUM_OTHER
                               ? at(site, site->kept, (size_t)step->from * (size_t)count)
                               : site->part[step->input < 0 ? 0 : step->input];
        if (step->input == LS_SUM_ZEROS)
            status = ls_fail(LS_CODE_USAGE, "graph", "split",
                             "the algorithm of the chosen --allreduce has a bug: one of its steps "
                             "adds nothing; use another --allreduce");
        else
            status = put_step(site, step, step->begins ? from : into, step->begins ? NULL : from,
                              into, ops);
    }
    ls_sum_order_close(&order);
    return status ? status : put_sum(site, site->kept, NULL, site->part[0], count, ops);
}

static ls_status add_parts(const ls_layer_site *site, ls_op_list *ops)
{
    ls_subtree trees[LS_SUBTREES];
    if (slices_of(site)->order && site->parts > 1)
        return add_in_order(site, ops);
    const size_t count = subtrees(site, trees);
    for (size_t k = 0; k < count; k++)
        LS_TRY(add_tree(site, trees[k].first, trees[k].last, ops));
    return LS_OK;
}

/* Memory for the sums of an order. */
static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    const int64_t count = rows * ls_shape_elements(&node->shape);
    ls_sum_order order;
    if (!graph->slices.order)
        return 0;
    ls_status_free(order_of(&graph->slices, &node->shape, rows, &order));
    const size_t sums = (size_t)order.sums;
    ls_sum_order_close(&order);
    return sums * (size_t)count * real_bytes;
}

static ls_status nothing(const ls_layer_site *site, ls_op_list *ops)
{
    (void)site;
    (void)ops;
    return LS_OK;
}

static int64_t outputs_of(const ls_layer_site *site)
{
    return site->node->shape.size[site->node->shape.rank - 1];
}

/* A sum to where it belongs, which may be elsewhere. */
static ls_status put_result(const ls_layer_site *site, void *result, ls_op_list *ops)
{
    return site->part[0] == result
               ? LS_OK
               : put_sum(site, site->part[0], NULL, result, elements_of(site), ops);
}

static ls_status add_bias(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_positions_forward_args args = {.rows = elements_of(site) / outputs_of(site),
                                            .count = outputs_of(site),
                                            .x = site->part[0],
                                            .weight = site->variable[0],
                                            .y = site->output};
    return site->node->variable_count ? ls_layer_put_positions_forward(site, &args, ops)
                                      : put_result(site, site->output, ops);
}

static ls_status give_gradient(const ls_layer_site *site, ls_op_list *ops)
{
    return put_result(site, site->output_gradient, ops);
}

static ls_status sum_bias(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_positions_backward_args args = {.rows = elements_of(site) / outputs_of(site),
                                             .count = outputs_of(site),
                                             .dy = site->output_gradient,
                                             .dweight = site->variable_gradient[0]};
    return site->node->variable_count ? ls_layer_put_positions_backward(site, &args, ops) : LS_OK;
}

const ls_layer ls_layer_fork = {
    .name = "fork",
    .help = "gives its input to each slice of split layers",
    .inputs = 1,
    .kept_bytes = kept_bytes,
    .forward = nothing,
    .backward = add_parts,
    .backward_rest = give_gradient,
};

const ls_layer ls_layer_join = {
    .name = "join",
    .help = "sum of the slices of split layers",
    .inputs = 1,
    .more_inputs = LS_NODE_INPUTS - 1,
    .kept_bytes = kept_bytes,
    .forward = add_parts,
    .forward_rest = add_bias,
    .backward = sum_bias,
};
