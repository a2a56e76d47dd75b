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

/* The slice's pieces, and its partial sums. */
typedef struct plan {
    ls_slice *s;
    ls_slice_partial of;
    int replicas;       /* whose sums are gathered and added */
    size_t before, all; /* sums of the replicas before this one, and of all */
    int base;           /* number of its first piece among the slice's */
} plan;

static bool starts_a_sum(const plan *p, int64_t piece, size_t *sum)
{
    for (*sum = 0; *sum < p->of.count; (*sum)++)
        if (p->of.sums[*sum].first == piece)
            return true;
    return false;
}

/* A piece's memory and loss: the first piece of a sum has the sum's number, all others come behind.
 */
static size_t slot_of(const plan *p, int64_t piece)
{
    size_t sum, slot = p->of.count;
    if (starts_a_sum(p, piece, &sum))
        return sum;
    for (int64_t earlier = p->of.sums[0].first; earlier < piece; earlier++)
        slot += !starts_a_sum(p, earlier, &sum);
    return slot;
}

/* The level of a piece's gradients on the stack. */
static size_t level_of(const plan *p, int64_t piece)
{
    size_t level = 0;
    while (p->of.sums[level].last <= piece)
        level++;
    int64_t lo = p->of.sums[level].first, hi = p->of.sums[level].last;
    while (hi - lo > 1) {
        const int64_t mid = ls_slice_middle(&p->of, lo, hi);
        level += piece >= mid;
        *(piece < mid ? &hi : &lo) = mid;
    }
    return level;
}

/* The number of a piece among the slice's. */
static int number_of(const plan *p, int64_t piece)
{
    int64_t before = 0;
    size_t k = 0;
    for (; p->of.sums[k].last <= piece; k++)
        before += p->of.sums[k].last - p->of.sums[k].first;
    return p->base + (int)(before + piece - p->of.sums[k].first);
}

static ls_status make_plan(ls_slice *s, const ls_slice_exchange *x, plan *p)
{
    const ls_slice_options *o = &s->options;
    *p = (plan){.s = s, .replicas = o->unsummed ? o->pieces : o->count, .base = s->piece};
    if (o->unsummed && o->pieces > LS_SUBTREES)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "has an oracle for %d replicas at most; use fewer", (int)LS_SUBTREES);
    ls_slice_find_sums(s, x->exchange, &p->of);
    for (int d = 0; d < p->replicas; d++) {
        const size_t sums = ls_slice_count_sums(o->replica->job, o->batch, d, p->replicas);
        p->before += d < o->number ? sums : 0;
        p->all += sums;
    }
    return LS_OK;
}

/* ---- Pieces and gradients ------------------------------------------------------------------- */

/* Adds up the pieces' losses. */
static ls_status add_losses(const plan *p, int64_t lo, int64_t hi)
{
    if (hi - lo == 1)
        return LS_OK;
    const int64_t mid = ls_slice_middle(&p->of, lo, hi);
    LS_TRY(add_losses(p, lo, mid));
    LS_TRY(add_losses(p, mid, hi));
    return ls_slice_add_loss(p->s, slot_of(p, lo), slot_of(p, mid));
}

/* Rows of a piece's memory, for the full batch and the tail, of which either may have more. Where
 * exchanges share a slot, it has room for any piece. */
static int64_t rows_of(const plan *p, int64_t piece, int64_t largest)
{
    const ls_job *job = p->s->options.replica->job;
    const int64_t batches[] = {p->s->options.batch, job->batch, ls_job_tail(job)};
    int64_t most = 0, at, last;
    if (!p->of.chained || ls_job_pieces(job) == 1 || ls_slice_exchanges(job) > 1)
        return largest;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        ls_slice_options of = p->s->options;
        of.batch = batches[b];
        const int64_t all = ls_slice_find_pieces(job, &of, 0, &at, &last);
        for (int64_t left = piece; at < last && left >= 0; at++) {
            const int64_t rows = ls_slice_share(of.batch, at, all);
            left -= rows > 0;
            most = left < 0 && rows > most ? rows : most;
        }
    }
    return most;
}

static ls_status build_pieces(const plan *p, int64_t rows)
{
    ls_slice *s = p->s;
    ls_net *net;
    const ls_subtree *last = p->of.sums + p->of.count;
    const int pieces = p->of.count ? number_of(p, last[-1].last - 1) + 1 - p->base : 0;
    if (pieces > LS_REPLICA_LOSSES)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                       "a device has %d shards in flight at once, and the limit is %d; give "
                       "fewer shards, or more devices",
                       pieces, (int)LS_REPLICA_LOSSES);
    LS_TRY(ls_slice_need_level(s, 0));
    for (const ls_subtree *sum = p->of.sums; sum < last; sum++)
        for (int64_t piece = sum->first; piece < sum->last; piece++)
            for (size_t l = 0; l <= level_of(p, piece); l++)
                LS_TRY(ls_slice_need_level(s, l));
    /* A slot's largest, whose memory others share; the largest of all, whose scratch is, first. */
    for (int smaller = 0; smaller < 2; smaller++)
        for (const ls_subtree *sum = p->of.sums; sum < last; sum++)
            for (int64_t piece = sum->first; piece < sum->last; piece++) {
                const int64_t its = rows_of(p, piece, rows);
                for (int c = 0; c < ls_slice_chunks(s) && (its < rows) == smaller; c++)
                    LS_TRY(ls_slice_need_net(s, level_of(p, piece), its, c, (int)slot_of(p, piece),
                                             &net));
            }
    for (const ls_subtree *sum = p->of.sums; sum < last; sum++)
        for (int64_t piece = sum->first; piece < sum->last; piece++)
            LS_TRY(ls_slice_feed(s, ls_slice_piece_at(s, &p->of, piece), level_of(p, piece),
                                 (int)slot_of(p, piece)));
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

static ls_status append_add(const plan *p, const double *const parts[2], double *out, size_t count,
                            ls_op_list *ops)
{
    ls_kernels *kernels = p->s->options.replica->kernels;
    const ls_add_sums_args args = {
        .count = (int64_t)count, .a = parts[0], .b = parts[1], .out = out};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(kernels->table, "add_sums", "--sync-bn"));
    LS_TRY(kernels->table->add_sums(kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

/* The reduction of a node's sums in one direction. */
typedef struct meeting {
    const plan *plan;
    double *at[LS_SLICE_LEVELS]; /* sums of each piece, from the slice's first */
    size_t count;
    ls_op_list *ops;
} meeting;

static ls_status add_tree(const meeting *m, int64_t lo, int64_t hi)
{
    const plan *p = m->plan;
    const int64_t mid = ls_slice_middle(&p->of, lo, hi);
    if (hi - lo == 1)
        return LS_OK;
    LS_TRY(add_tree(m, lo, mid));
    LS_TRY(add_tree(m, mid, hi));
    double *left = m->at[number_of(p, lo)];
    const double *const parts[2] = {left, m->at[number_of(p, mid)]};
    return append_add(p, parts, left, m->count, m->ops);
}

static double *gathered(const meeting *m, size_t sum)
{
    return m->plan->s->gathered + sum * m->count;
}

/* All-gathers the replicas' sums as pairs of floats, which are only copied. */
static ls_status append_gather(const meeting *m)
{
    const plan *p = m->plan;
    const ls_slice_options *o = &p->s->options;
    const size_t width = m->count * (sizeof(double) / sizeof(float));
    size_t *offsets, next = 0;
    LS_TRY(ls_allocate("slice", &offsets, 2 * (size_t)p->replicas, sizeof *offsets));
    for (int d = 0; d < p->replicas; d++) {
        offsets[d] = next * width;
        offsets[p->replicas + d] =
            width * ls_slice_count_sums(o->replica->job, o->batch, d, p->replicas);
        next += ls_slice_count_sums(o->replica->job, o->batch, d, p->replicas);
    }
    ls_status status = ls_allgather_build(o->comm, (float *)(void *)p->s->gathered, offsets,
                                          offsets + p->replicas, m->ops);
    free(offsets);
    return status;
}

/* Reduces the gathered sums, in exact mode up the rest of the tree, to sum number 0. */
static ls_status append_rest(const meeting *m)
{
    const plan *p = m->plan;
    const ls_slice_options *o = &p->s->options;
    ls_addition *sums;
    size_t count;
    LS_TRY(ls_slice_tree(o->replica->job, o->batch, p->replicas, &sums, &count));
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        double *left = gathered(m, sums[i].into);
        const double *const parts[2] = {left, gathered(m, sums[i].from)};
        status = append_add(p, parts, left, m->count, m->ops);
    }
    free(sums);
    return status;
}

static ls_status build_meeting(const plan *p, int n, bool backward, ls_op_list *ops)
{
    ls_slice *s = p->s;
    meeting m = {.plan = p, .count = sums_of_node(s->options.replica->graph, n), .ops = ops};
    if (!m.count)
        return LS_OK;
    for (int piece = 0; piece < s->piece_count; piece++)
        m.at[piece] = ls_net_node_sums(s->work[piece], n, backward, &m.count);
    for (size_t k = 0; k < p->of.count; k++) {
        const double *const sum[2] = {m.at[number_of(p, p->of.sums[k].first)], NULL};
        LS_TRY(add_tree(&m, p->of.sums[k].first, p->of.sums[k].last));
        LS_TRY(append_add(p, sum, gathered(&m, p->before + k), m.count, ops));
    }
    if (s->options.comm)
        LS_TRY(append_gather(&m));
    LS_TRY(append_rest(&m));
    const double *const whole[2] = {gathered(&m, 0), NULL};
    for (int piece = 0; piece < s->piece_count; piece++)
        LS_TRY(append_add(p, whole, m.at[piece], m.count, ops));
    return LS_OK;
}

/* ---- Passes --------------------------------------------------------------------------------- */

/* Appends the reduction of a node's sums, and the second halves. Where layers are split over
 * places, what is between the halves is not an act. */
static ls_status build_rest(const plan *p, int n, bool backward)
{
    ls_slice *s = p->s;
    const bool split = s->options.replica->graph->slices.places > 1;
    const ls_act_kind whole = backward ? LS_ACT_BACKWARD : LS_ACT_FORWARD,
                      rest = backward ? LS_ACT_BACKWARD_REST : LS_ACT_FORWARD_REST;
    ls_act *meet;
    if (!s->options.synced && !split)
        return LS_OK;
    if (s->options.synced) {
        LS_TRY(ls_slice_act(s, whole, 0, n, &meet));
        LS_TRY(build_meeting(p, n, backward, &meet->own));
    }
    for (int piece = p->base; piece < s->piece_count; piece++)
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
static bool splits(const plan *p, int n)
{
    return p->of.count && ls_net_splits(p->s->work[p->base], n);
}

/* Adds a node's gradients of two levels, behind piece number `behind`. */
static ls_status add_gradients(const plan *p, int n, int behind, size_t into, size_t from)
{
    ls_range left;
    const ls_act_kind kind = splits(p, n) ? LS_ACT_SUM_WEIGHTS : LS_ACT_SUM;
    const ls_windows *windows = p->s->options.replica->windows.gradients;
    if (!ls_net_node_final(p->s->work[p->base], n, &left.first, &left.count))
        return LS_OK;
    while (left.count) {
        const ls_range part = windows ? ls_windows_part(windows, left) : left;
        if (!part.count) /* a copy's gradient, which its owner adds */
            return LS_OK;
        LS_TRY(ls_slice_add(p->s, kind, into, from, part));
        belongs(p->s, behind, n);
        left.first += part.count;
        left.count -= part.count;
    }
    return LS_OK;
}

/* The first half of a node's backward pass, or its weight pass, over pieces [lo, hi), whose sum is
 * on a level. */
static ls_status build_tree(const plan *p, int n, int64_t lo, int64_t hi, size_t level,
                            bool weights)
{
    if (hi - lo == 1)
        return ls_slice_act_node(p->s, weights ? LS_ACT_WEIGHTS : LS_ACT_BACKWARD, number_of(p, lo),
                                 n, weights ? LS_NET_WEIGHTS : LS_NET_BACKWARD_HALF);
    const int64_t mid = ls_slice_middle(&p->of, lo, hi);
    LS_TRY(build_tree(p, n, lo, mid, level, weights));
    LS_TRY(build_tree(p, n, mid, hi, level + 1, weights));
    return splits(p, n) == weights ? add_gradients(p, n, number_of(p, hi - 1), level, level + 1)
                                   : LS_OK;
}

/* With windows, a node's gradients are final after its last act. The injected fault is in the first
 * bucket that is whole. */
static ls_status end_node(const plan *p, const ls_slice_exchange *x, int n)
{
    ls_slice *s = p->s;
    const ls_windows *windows = s->options.replica->windows.gradients;
    ls_range final;
    if (!windows || !p->of.count ||
        !ls_net_node_final(s->work[p->base], n, &final.first, &final.count) ||
        final.first >= windows->owned)
        return LS_OK;
    if (!x->number && ls_range_common(final, (ls_range){windows->buckets->items[0].first, 1}).count)
        LS_TRY(ls_slice_fault(s, windows->buckets->items[0]));
    belongs(s, s->piece_count - 1, n);
    s->acts[s->act_count - 1].final = final;
    return LS_OK;
}

static ls_status build_backward(const plan *p, const ls_slice_exchange *x, int n)
{
    for (size_t k = 0; k < p->of.count; k++)
        LS_TRY(build_tree(p, n, p->of.sums[k].first, p->of.sums[k].last, k, false));
    LS_TRY(build_rest(p, n, true));
    return splits(p, n) ? LS_OK : end_node(p, x, n);
}

static ls_status build_weights(const plan *p, const ls_slice_exchange *x, int n)
{
    for (size_t k = 0; k < p->of.count; k++)
        LS_TRY(build_tree(p, n, p->of.sums[k].first, p->of.sums[k].last, k, true));
    return end_node(p, x, n);
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
    plan p;
    size_t most = 0;
    LS_TRY(make_plan(s, x, &p));
    LS_TRY(build_pieces(&p, rows));
    for (int n = 0; n < graph->count && s->options.synced; n++)
        most = sums_of_node(graph, n) > most ? sums_of_node(graph, n) : most;
    if (s->options.synced)
        LS_TRY(ls_replica_take(s->options.replica, NULL, LS_MEMORY_COMMUNICATION,
                               p.all * most * sizeof *s->gathered, &s->gathered));
    for (int n = 0; n < graph->count; n++) {
        for (int piece = p.base; piece < s->piece_count; piece++)
            LS_TRY(ls_slice_act_node(s, LS_ACT_FORWARD, piece, n, LS_NET_FORWARD_HALF));
        LS_TRY(build_rest(&p, n, false));
    }
    for (size_t k = 0; k < p.of.count; k++)
        LS_TRY(add_losses(&p, p.of.sums[k].first, p.of.sums[k].last));
    if (ls_slice_accumulates(s) && s->begun && p.of.count)
        LS_TRY(ls_slice_add_loss(s, 0, 1));
    for (int n = graph->count; n-- > 0;) {
        LS_TRY(ls_slice_build_again(s, p.base, n));
        LS_TRY(build_backward(&p, x, n));
    }
    for (int n = graph->count; n-- > 0;)
        if (splits(&p, n))
            LS_TRY(build_weights(&p, x, n));
    x->sums = p.of.count;
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
