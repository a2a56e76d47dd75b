/* SPDX-License-Identifier: MIT */
/*
 * A slice whose pieces advance node by node: so a bucket's parameters are needed once in each pass,
 * and its gradients are final before other nodes' gradients begin (windows.h); and statistics can
 * be of the whole batch (--sync-bn):
 *
 *     for each node, forward and then backward: the first half of each piece; its sums are reduced
 *     over pieces and replicas; the second half of each piece
 *
 * The pieces' gradients of a node are on the stack of slice.c, and added there before the next
 * node's, so that few are held at once. Sums of statistics are reduced in the order of the
 * gradients, so they have the same bits everywhere: in exact mode up the tree of shards (each
 * replica computes its finished subtrees, an all-gather exchanges them, and each replica adds the
 * rest); in fast mode ((s0 + s1) + s2) + ... by replica number.
 */
#include "common/base/grow.h"
#include "impl/replica/slice_private.h"

#include <stdlib.h>

/* ---- Pieces and gradients ------------------------------------------------------------------- */

/* Rows of the memory of piece number `piece`, for the full batch and the tail, of which either may
 * have more. In a tree, and where exchanges share a slot, it has room for any piece. */
static int64_t rows_of(const ls_slice *s, int piece, int64_t largest)
{
    const ls_job *job = s->options.replica->job;
    const int64_t batches[] = {s->options.batch, job->batch, ls_job_tail(job)};
    int64_t most = 0, at, last;
    if (!s->chained || ls_job_pieces(job) == 1 || ls_slice_exchanges(job) > 1)
        return largest;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        ls_slice_options of = s->options;
        of.batch = batches[b];
        const int64_t all = ls_slice_find_pieces(job, &of, 0, &at, &last);
        for (int left = piece; at < last && left >= 0; at++) {
            const int64_t rows = ls_slice_share(of.batch, at, all);
            left -= rows > 0;
            most = left < 0 && rows > most ? rows : most;
        }
    }
    return most;
}

/* Gives pieces memory and loss: the first piece of a sum has the sum's number, all others come
 * behind. */
static ls_status find_slots(ls_slice *s)
{
    size_t sum = 0, next = s->order.sums;
    for (size_t i = 0; i < s->order.count; i++) {
        const bool begins = sum < s->order.sums && s->order.begins[sum] == i;
        if (!s->order.items[i].adds)
            s->order.items[i].slot = begins ? sum++ : next++;
    }
    return next <= LS_REPLICA_LOSSES
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                         "a device has %zu shards in flight at once, and the limit is %d; give "
                         "fewer shards, or more devices",
                         next, (int)LS_REPLICA_LOSSES);
}

static ls_status build_pieces(ls_slice *s, int64_t rows)
{
    const ls_slice_item *end = s->order.items + s->order.count;
    ls_net *net;
    LS_TRY(find_slots(s));
    for (const ls_slice_item *i = s->order.items; i < end; i++)
        LS_TRY(ls_slice_need_level(s, i->level));
    /* A slot's largest, whose memory others share; the largest of all, whose scratch is, first. */
    for (int smaller = 0; smaller < 2; smaller++)
        for (const ls_slice_item *i = s->order.items; i < end; i++) {
            const int64_t taken = i->adds ? 0 : rows_of(s, i->piece - s->piece, rows);
            for (int c = 0; c < ls_slice_chunks(s) && taken && (taken < rows) == smaller; c++)
                LS_TRY(ls_slice_need_net(s, i->level, taken, c, (int)i->slot, &net));
        }
    for (const ls_slice_item *i = s->order.items; i < end; i++)
        if (!i->adds)
            LS_TRY(ls_slice_feed(s, i->of, i->level, (int)i->slot));
    return LS_OK;
}

/* ---- Statistics ----------------------------------------------------------------------------- */

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
    LS_TRY(ls_kernel_table_need(kernels->table, "add_sums", "--sync-bn"));
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
    size_t *offsets, next = 0;
    LS_TRY(ls_allocate("slice", &offsets, 2 * (size_t)replicas, sizeof *offsets));
    for (int d = 0; d < replicas; next += offsets[replicas + d++]) {
        offsets[d] = next;
        offsets[replicas + d] =
            width * ls_slice_count_sums(s->options.replica->job, s->options.batch, d, replicas);
    }
    ls_status status = ls_allgather_build(s->options.comm, (float *)(void *)s->gathered, offsets,
                                          offsets + replicas, ops);
    free(offsets);
    return status;
}

/* Reduces the gathered sums, in exact mode up the rest of the tree, to sum number 0. */
static ls_status append_rest(const ls_slice *s, size_t width, ls_op_list *ops)
{
    ls_addition *sums;
    size_t count;
    LS_TRY(
        ls_slice_tree(s->options.replica->job, s->options.batch, count_replicas(s), &sums, &count));
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        double *left = s->gathered + sums[i].into * width;
        const double *const parts[2] = {left, s->gathered + sums[i].from * width};
        status = append_add(s, parts, left, width, ops);
    }
    free(sums);
    return status;
}

/* The reduction of a node's sums in one direction: of pieces, then of replicas. */
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

/* ---- Passes --------------------------------------------------------------------------------- */

/* Appends the reduction of a node's sums, and the second halves. Where layers are split over
 * places, what is between the halves is not an act. */
static ls_status build_rest(ls_slice *s, int n, bool backward)
{
    const bool split = s->options.replica->graph->slices.places > 1;
    const ls_act_kind whole = backward ? LS_ACT_BACKWARD : LS_ACT_FORWARD,
                      rest = backward ? LS_ACT_BACKWARD_REST : LS_ACT_FORWARD_REST;
    ls_act *meet;
    if (!s->options.synced && !split)
        return LS_OK;
    if (s->options.synced) {
        LS_TRY(ls_slice_act(s, whole, 0, n, &meet));
        LS_TRY(build_meeting(s, n, backward, &meet->own));
    }
    for (int piece = s->piece; piece < s->piece_count; piece++)
        LS_TRY(ls_slice_act_node(s, split ? rest : whole, piece, n,
                                 backward ? LS_NET_BACKWARD_REST : LS_NET_FORWARD_REST));
    return LS_OK;
}

/* Notes that the last act belongs to a node's pass for a piece. */
static void belongs(ls_slice *s, int piece, int node)
{
    s->acts[s->act_count - 1].piece = piece;
    s->acts[s->act_count - 1].node = node;
}

/* Whether a node's weight pass makes its gradients final. */
static bool splits(const ls_slice *s, int n)
{
    return s->order.count && ls_net_splits(s->work[s->piece], n);
}

/* Adds a node's gradients of a level and the next, behind piece number `behind`. */
static ls_status add_gradients(ls_slice *s, int n, int behind, size_t level)
{
    ls_range left;
    const ls_act_kind kind = splits(s, n) ? LS_ACT_SUM_WEIGHTS : LS_ACT_SUM;
    const ls_windows *windows = s->options.replica->windows.gradients;
    if (!ls_net_node_final(s->work[s->piece], n, &left.first, &left.count))
        return LS_OK;
    while (left.count) {
        const ls_range part = windows ? ls_windows_part(windows, left) : left;
        if (!part.count) /* a copy's gradient, which its owner adds */
            return LS_OK;
        LS_TRY(ls_slice_add(s, kind, level, level + 1, part));
        belongs(s, behind, n);
        left.first += part.count;
        left.count -= part.count;
    }
    return LS_OK;
}

/* The first halves of a node's backward pass, or its weight passes, and behind them what they make
 * possible of the sums. */
static ls_status build_halves(ls_slice *s, int n, bool weights)
{
    int piece = s->piece;
    for (const ls_slice_item *i = s->order.items; i < s->order.items + s->order.count; i++) {
        if (!i->adds) {
            piece = i->piece;
            LS_TRY(ls_slice_act_node(s, weights ? LS_ACT_WEIGHTS : LS_ACT_BACKWARD, piece, n,
                                     weights ? LS_NET_WEIGHTS : LS_NET_BACKWARD_HALF));
        } else if (splits(s, n) == weights) {
            LS_TRY(add_gradients(s, n, piece, i->level));
        }
    }
    return LS_OK;
}

/* With windows, a node's gradients are final after its last act. The injected fault is in the first
 * bucket that is whole. */
static ls_status end_node(ls_slice *s, const ls_slice_exchange *x, int n)
{
    const ls_windows *windows = s->options.replica->windows.gradients;
    ls_range final;
    if (!windows || !s->order.count ||
        !ls_net_node_final(s->work[s->piece], n, &final.first, &final.count) ||
        final.first >= windows->owned)
        return LS_OK;
    if (!x->number && ls_range_common(final, (ls_range){windows->buckets->items[0].first, 1}).count)
        LS_TRY(ls_slice_fault(s, windows->buckets->items[0]));
    belongs(s, s->piece_count - 1, n);
    s->acts[s->act_count - 1].final = final;
    return LS_OK;
}

int ls_slice_first_slot(const ls_slice *s, int chunk)
{
    const ls_job *job = s->options.replica->job;
    int64_t most = 1, first, last;
    if (!ls_slice_abreast(s))
        return 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++) {
        ls_slice_find_pieces(job, &s->options, e, &first, &last);
        most = last - first > most ? last - first : most;
    }
    const int flying = s->options.slots ? s->options.slots[chunk] / (int)most : 1;
    return s->building % (flying > 1 ? flying : 1) * (int)most;
}

ls_status ls_slice_build_abreast(ls_slice *s, ls_slice_exchange *x, int64_t rows)
{
    const ls_graph *graph = s->options.replica->graph;
    size_t most = 0;
    LS_TRY(build_pieces(s, rows));
    for (int n = 0; n < graph->count && s->options.synced; n++)
        most = sums_of_node(graph, n) > most ? sums_of_node(graph, n) : most;
    if (s->options.synced)
        LS_TRY(ls_replica_take(s->options.replica, NULL, LS_MEMORY_COMMUNICATION,
                               sums_before(s, count_replicas(s)) * most * sizeof *s->gathered,
                               &s->gathered));
    for (int n = 0; n < graph->count; n++) {
        for (int piece = s->piece; piece < s->piece_count; piece++)
            LS_TRY(ls_slice_act_node(s, LS_ACT_FORWARD, piece, n, LS_NET_FORWARD_HALF));
        LS_TRY(build_rest(s, n, false));
    }
    for (const ls_slice_item *i = s->order.items; i < s->order.items + s->order.count; i++)
        if (i->adds)
            LS_TRY(
                ls_slice_add_loss(s, s->order.items[i->left].slot, s->order.items[i->right].slot));
    if (ls_slice_accumulates(s) && s->begun && s->order.count)
        LS_TRY(ls_slice_add_loss(s, 0, 1));
    for (int n = graph->count; n-- > 0;) {
        LS_TRY(ls_slice_build_again(s, s->piece, n));
        LS_TRY(build_halves(s, n, false));
        LS_TRY(build_rest(s, n, true));
        if (!splits(s, n))
            LS_TRY(end_node(s, x, n));
    }
    for (int n = graph->count; n-- > 0;)
        if (splits(s, n)) {
            LS_TRY(build_halves(s, n, true));
            LS_TRY(end_node(s, x, n));
        }
    return LS_OK;
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
