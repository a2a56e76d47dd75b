/* SPDX-License-Identifier: MIT */
/* A slice's additions of gradients and losses; see slice.c. */
#include "impl/replica/slice_private.h"

/* Where an element is in a level's gradients. */
static void *gradient_at(const ls_slice *s, size_t level, size_t index)
{
    const ls_replica *r = s->options.replica;
    return (char *)s->gradients[level] +
           ls_variables_at(&r->graph->variables, ls_slice_gradients_at(s, level), index) *
               r->kernels->table->real_bytes;
}

ls_status ls_slice_add(ls_slice *s, ls_act_kind kind, size_t level, ls_range range, int chunk)
{
    ls_replica *r = s->options.replica;
    void *left = gradient_at(s, level, range.first);
    const ls_add_args add = {.count = (int64_t)range.count,
                             .a = left,
                             .b = gradient_at(s, level + 1, range.first),
                             .y = left};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->add(r->kernels, &add, &op);
    if (!status)
        op->use = kind == LS_ACT_SUM_WEIGHTS ? LS_TIME_WEIGHTS : LS_TIME_BACKWARD;
    return ls_slice_act_op(s, kind, chunk, status, op);
}

ls_status ls_slice_add_loss(ls_slice *s, size_t into, size_t from)
{
    ls_replica *r = s->options.replica;
    double *left = r->loss.parts + s->loss + into;
    const ls_add_loss_args loss = {.a = left, .b = r->loss.parts + s->loss + from, .out = left};
    ls_op *op = NULL;
    const ls_status status = r->kernels->table->add_loss(r->kernels, &loss, &op);
    return ls_slice_act_op(s, LS_ACT_LOSS, ls_slice_chunks(s) - 1, status, op);
}

/* Adds the gradients that weight passes make, or all others. */
static ls_status add_by_pass(ls_slice *s, size_t level, bool weights)
{
    const int nodes = s->options.replica->graph->count;
    const ls_act_kind kind = weights ? LS_ACT_SUM_WEIGHTS : LS_ACT_SUM;
    ls_range some = {0}, next;
    for (int n = 0; n < nodes; n++) {
        const ls_net *net = ls_slice_node_net(s, s->piece_count - 1, n);
        if (!ls_net_node_final(net, n, &next.first, &next.count) ||
            ls_net_splits(net, n) != weights)
            continue;
        if (some.count && some.first + some.count != next.first) {
            LS_TRY(ls_slice_add(s, kind, level, some, 0));
            some.count = 0;
        }
        next.first = some.count ? some.first : next.first;
        some = (ls_range){next.first, some.count + next.count};
    }
    return some.count ? ls_slice_add(s, kind, level, some, 0) : LS_OK;
}

ls_status ls_slice_add_level(ls_slice *s, size_t level)
{
    const ls_graph_part *part = s->options.replica->part;
    const bool separate = s->options.replica->job->division.weights_apart;
    const int chunks = ls_slice_chunks(s);
    for (int weights = 0; weights < 2 && separate; weights++)
        LS_TRY(add_by_pass(s, level, weights));
    for (int c = 0; c < chunks && !separate; c++) {
        ls_range range = {0, s->options.replica->elements};
        if (chunks > 1)
            range = (ls_range){part->chunk_element[c],
                               part->chunk_element[c + 1] - part->chunk_element[c]};
        if (range.count)
            LS_TRY(ls_slice_add(s, LS_ACT_SUM, level, range, c));
    }
    return ls_slice_add_loss(s, level, level + 1);
}
