/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the whole batch (--sync-bn): between the halves of a node's pass, forward and
 * backward, its sums are reduced over pieces and replicas, in the order of the gradients, so they
 * have the same bits everywhere: in exact mode up the tree of shards (each replica computes its
 * finished subtrees, an all-gather exchanges them, and each replica adds the rest); in fast mode
 * ((s0 + s1) + s2) + ... by replica number.
 */
#include "common/base/grow.h"
#include "impl/replica/slice_private.h"

/* Number of sums of a node in one direction; 0 if there is none. */
static size_t sums_of_node(const ls_graph *graph, int n)
{
    const ls_layer_site site = {.graph = graph, .node = &graph->nodes[n]};
    size_t count = 0;
    if (site.node->layer->sums)
        site.node->layer->sums(&site, false, &count);
    return count;
}

static ls_status append_add(const ls_slice *s, const double *const parts[2], double *out,
                            size_t count, ls_op_list *ops)
{
    ls_kernels *kernels = s->options.replica->kernels;
    const ls_add_sums_args args = {
        .count = (int64_t)count, .a = parts[0], .b = parts[1], .out = out};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(kernels->table, "add_sums", "--sync-bn yes", "--sync-bn no"));
    LS_TRY(kernels->table->add_sums(kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

/* Replicas whose sums are gathered and added. */
static int count_replicas(const ls_slice *s)
{
    return s->options.unsummed ? s->options.pieces : s->options.count;
}

/* Sums of the replicas before number `d`. */
static size_t sums_before(const ls_slice *s, int d)
{
    size_t before = 0;
    while (d-- > 0)
        before +=
            ls_slice_count_sums(s->options.replica->job, s->options.batch, d, count_replicas(s));
    return before;
}

/* All-gathers the replicas' sums as pairs of floats, which are only copied. */
static ls_status append_gather(const ls_slice *s, size_t count, ls_op_list *ops)
{
    const size_t width = count * (sizeof(double) / sizeof(float));
    const int replicas = count_replicas(s);
    ls_auto size_t *offsets = NULL;
    size_t next = 0;
    LS_TRY(ls_allocate("slice", &offsets, 2 * (size_t)replicas, sizeof *offsets));
    for (int d = 0; d < replicas; next += offsets[replicas + d++]) {
        offsets[d] = next;
        offsets[replicas + d] =
            width * ls_slice_count_sums(s->options.replica->job, s->options.batch, d, replicas);
    }
    return ls_allgather_build(s->options.comm, (float *)(void *)s->gathered, offsets,
                              offsets + replicas, ops);
}

/* Reduces the gathered sums, in exact mode up the rest of the tree, to sum number 0. */
static ls_status append_rest(const ls_slice *s, size_t width, ls_op_list *ops)
{
    ls_auto ls_addition *sums = NULL;
    size_t count;
    LS_TRY(
        ls_slice_tree(s->options.replica->job, s->options.batch, count_replicas(s), &sums, &count));
    for (size_t i = 0; i < count; i++) {
        double *left = s->gathered + sums[i].into * width;
        const double *const parts[2] = {left, s->gathered + sums[i].from * width};
        LS_TRY(append_add(s, parts, left, width, ops));
    }
    return LS_OK;
}

/* Reduces a node's sums in one direction: over pieces, then over replicas. */
static ls_status build_meeting(ls_slice *s, int n, bool backward, ls_op_list *ops)
{
    size_t count = sums_of_node(s->options.replica->graph, n);
    double *at[LS_SLICE_LEVELS]; /* sums of each piece, from the slice's first */
    if (!count)
        return LS_OK;
    for (int piece = 0; piece < s->piece_count; piece++)
        at[piece] = ls_net_node_sums(s->work[piece], n, backward, &count);
    for (const ls_slice_item *i = s->order.items; i < s->order.items + s->order.count; i++) {
        double *left = at[s->order.items[i->left].piece];
        const double *const parts[2] = {left, at[s->order.items[i->right].piece]};
        if (i->adds)
            LS_TRY(append_add(s, parts, left, count, ops));
    }
    for (size_t k = 0, first = sums_before(s, s->options.number); k < s->order.sums; k++) {
        const double *const sum[2] = {at[s->order.items[s->order.begins[k]].piece], NULL};
        LS_TRY(append_add(s, sum, s->gathered + (first + k) * count, count, ops));
    }
    if (s->options.comm)
        LS_TRY(append_gather(s, count, ops));
    LS_TRY(append_rest(s, count, ops));
    const double *const whole[2] = {s->gathered, NULL};
    for (int piece = 0; piece < s->piece_count; piece++)
        LS_TRY(append_add(s, whole, at[piece], count, ops));
    return LS_OK;
}

ls_status ls_slice_meet(ls_slice *s, int n, ls_act_kind pass)
{
    ls_act *meet;
    LS_TRY(ls_slice_append_act(s, pass, 0, n, &meet));
    return build_meeting(s, n, pass == LS_ACT_BACKWARD, &meet->own);
}

ls_status ls_slice_open_statistics(ls_slice *s)
{
    const ls_graph *graph = s->options.replica->graph;
    size_t most = 0;
    for (int n = 0; n < graph->count; n++)
        most = sums_of_node(graph, n) > most ? sums_of_node(graph, n) : most;
    return ls_replica_take(s->options.replica, NULL, LS_MEMORY_COMMUNICATION,
                           sums_before(s, count_replicas(s)) * most * sizeof *s->gathered,
                           &s->gathered);
}

ls_traffic ls_slice_statistics_formula(const ls_job *job, int64_t batch, int count)
{
    const ls_graph *graph = job->model->graph;
    ls_traffic all = {0};
    for (int n = 0; n < graph->count; n++) {
        const size_t width = sums_of_node(graph, n) * (sizeof(double) / sizeof(float));
        for (int d = 0; d < count && width; d++) {
            const uint64_t sums = ls_slice_count_sums(job, batch, d, count);
            all.messages_sent += sums ? 2 * (uint64_t)(count - 1) : 0;
            all.bytes_sent += 2 * (uint64_t)(count - 1) * sums * width * sizeof(float);
        }
    }
    return all;
}
