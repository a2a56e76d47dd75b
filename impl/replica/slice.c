/* SPDX-License-Identifier: MIT */
/*
 * Slice: pieces of a batch and the tree that sums them; see slice.h.
 *
 * Partial sums are on a stack of gradient buffers. sum(lo, hi) at level l computes sum(lo, mid) at
 * l and sum(mid, hi) at l + 1, and adds the second to the first. So a tree over S shards needs
 * about log2 S additional buffers. Finished subtree k starts at level k, and its sum stays there.
 */
#include "impl/replica/slice_private.h"

#include "common/base/grow.h"
#include "impl/delay.h"

#include <stdlib.h>
#include <string.h>

ls_slice_dealt ls_slice_deal(const ls_job *job, const ls_slice_options *o, int exchange)
{
    const int64_t count = (int64_t)o->count * ls_slice_exchanges(job);
    const int64_t all = ls_slice_pieces(job, o->batch, o->count, o->pieces);
    const int64_t number = ls_slice_number(job, o->number, exchange);
    return (ls_slice_dealt){all, ls_slice_begin(all, number, count),
                            ls_slice_begin(all, number + 1, count)};
}

static int64_t piece_begin(const ls_slice *s, int64_t piece)
{
    return ls_slice_begin(s->options.batch, piece, s->order.dealt.all);
}

int64_t ls_slice_piece_rows(const ls_slice *s, int64_t piece)
{
    return piece_begin(s, piece + 1) - piece_begin(s, piece);
}

int64_t ls_slice_rows(const ls_job *job, const ls_slice_options *o)
{
    int64_t most = 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++)
        for (ls_slice_dealt d = ls_slice_deal(job, o, e); d.first < d.last; d.first++) {
            const int64_t rows = ls_slice_share(o->batch, d.first, d.all);
            most = rows > most ? rows : most;
        }
    return most;
}

/* ---- Acts ----------------------------------------------------------------------------------- */

ls_status ls_slice_append_act(ls_slice *s, ls_act_kind kind, int piece, int node, ls_act **out)
{
    LS_TRY(ls_grow("slice", &s->acts, s->act_count, sizeof *s->acts));
    *out = &s->acts[s->act_count++];
    **out = (ls_act){.kind = kind, .piece = piece, .node = node};
    return LS_OK;
}

ls_status ls_slice_act_node(ls_slice *s, ls_act_kind kind, int piece, int node, ls_net_pass pass)
{
    ls_act *act;
    LS_TRY(ls_slice_append_act(s, kind, piece, node, &act));
    act->chunk = ls_graph_part_chunk(s->options.replica->part, node);
    ls_net_node_lists(ls_slice_node_net(s, piece, node), node, pass, act->lists);
    return LS_OK;
}

ls_status ls_slice_act_op(ls_slice *s, ls_act_kind kind, int chunk, ls_status made, ls_op *op)
{
    ls_act *act;
    LS_TRY(made);
    ls_status status =
        ls_slice_append_act(s, kind, s->piece_count ? s->piece_count - 1 : 0, 0, &act);
    if (status) {
        ls_op_free(op);
        return status;
    }
    act->chunk = chunk;
    return ls_op_list_add(&act->own, op);
}

static int slots(const ls_slice_options *o, int chunk)
{
    return o->slots ? ls_parts_of(o->slots[chunk]) : 1;
}

/* Appends the gathering of the next piece into its nets; pieces that are not abreast use the slots
 * in turn. */
static ls_status feed(ls_slice *s, const ls_slice_item *item)
{
    ls_replica_part part = {.first = (uint64_t)piece_begin(s, item->of)};
    part.divisor = ls_slice_divisor(s, &part.divided);
    const int chunks = ls_slice_chunks(s), p = s->piece_count++;
    for (int c = 0; c < chunks; c++) {
        ls_act *act;
        const size_t at = (size_t)(p * chunks + c);
        const int slot = ls_slice_abreast(s) ? (int)item->slot : p % slots(&s->options, c);
        LS_TRY(ls_grow("slice", &s->work, at, sizeof *s->work));
        LS_TRY(ls_slice_need_net(s, item->level, ls_slice_piece_rows(s, item->of), c, slot,
                                 &s->work[at]));
        LS_TRY(ls_slice_append_act(s, LS_ACT_FEED, p, 0, &act));
        act->chunk = c;
        LS_TRY(ls_replica_feed(s->options.replica, s->work[at], &part, &act->own));
    }
    return LS_OK;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* Items of an exchange whose pieces pass node by node together: one piece, or all (abreast). */
typedef struct group {
    const ls_slice_item *items, *end;
    int from;     /* number of the first piece */
    bool by_node; /* its gradients are final node by node */
} group;

/* Whether a node's weight pass makes its gradients final. */
static bool splits(const ls_slice *s, const group *g, int n)
{
    return g->items < g->end && ls_net_splits(ls_slice_node_net(s, g->from, n), n);
}

/* Adds a node's gradients of a level and the next, behind piece number `behind`. */
static ls_status add_gradients(ls_slice *s, const group *g, int n, int behind, size_t level)
{
    ls_range left;
    const ls_windows *windows = s->options.replica->windows.gradients;
    if (!ls_net_node_final(ls_slice_node_net(s, g->from, n), n, &left.first, &left.count))
        return LS_OK;
    while (left.count) {
        const ls_range part = windows ? ls_windows_part(windows, left) : left;
        if (!part.count) /* a copy's gradient, which its owner adds */
            return LS_OK;
        LS_TRY(ls_slice_add(s, splits(s, g, n) ? LS_ACT_SUM_WEIGHTS : LS_ACT_SUM, level, part, 0));
        s->acts[s->act_count - 1].piece = behind;
        s->acts[s->act_count - 1].node = n;
        left.first += part.count;
        left.count -= part.count;
    }
    return LS_OK;
}

/* A node's pass for the pieces of a group; behind what makes gradients final, additions. The pass
 * is in halves where sums of statistics come between, or sums over places, which are not acts. */
static ls_status build_pass(ls_slice *s, const group *g, int n, ls_act_kind kind)
{
    static const struct {
        ls_net_pass whole, half, rest;
        ls_act_kind behind;
    } passes[] = {
        [LS_ACT_FORWARD] = {LS_NET_FORWARD, LS_NET_FORWARD_HALF, LS_NET_FORWARD_REST,
                            LS_ACT_FORWARD_REST},
        [LS_ACT_BACKWARD] = {LS_NET_BACKWARD, LS_NET_BACKWARD_HALF, LS_NET_BACKWARD_REST,
                             LS_ACT_BACKWARD_REST},
        [LS_ACT_AGAIN] = {LS_NET_AGAIN, LS_NET_AGAIN_HALF, LS_NET_AGAIN_REST, LS_ACT_AGAIN_REST},
        [LS_ACT_WEIGHTS] = {.whole = LS_NET_WEIGHTS}};
    const bool split = s->options.replica->graph->slices.places > 1 && kind != LS_ACT_WEIGHTS;
    const bool meets = s->options.synced && (kind == LS_ACT_FORWARD || kind == LS_ACT_BACKWARD);
    const bool final = kind == (splits(s, g, n) ? LS_ACT_WEIGHTS : LS_ACT_BACKWARD);
    int piece = g->from;
    for (const ls_slice_item *i = g->items; i < g->end; i++)
        if (!i->adds)
            LS_TRY(ls_slice_act_node(s, kind, piece = i->piece, n,
                                     split || meets ? passes[kind].half : passes[kind].whole));
        else if (final)
            LS_TRY(add_gradients(s, g, n, piece, i->level));
    if (meets)
        LS_TRY(ls_slice_meet(s, n, kind));
    for (piece = g->from; piece < s->piece_count && (split || meets); piece++)
        LS_TRY(
            ls_slice_act_node(s, split ? passes[kind].behind : kind, piece, n, passes[kind].rest));
    return LS_OK;
}

/* The unit's repeated forward pass, behind its last node (repeat.h). A replica's last unit is not
 * repeated: its window still has it. The passes of places run in another order. */
static ls_status build_again(ls_slice *s, const group *g, int node)
{
    const ls_replica *r = s->options.replica;
    const ls_repeat *repeated = r->repeats ? &r->repeats[node] : NULL;
    if (!repeated || !repeated->unit || repeated->last != node ||
        (r->job->mesh.rest == LS_MEMBER &&
         repeated->unit == ls_repeats_units(r->graph, r->repeats)))
        return LS_OK;
    for (int n = repeated->first; n <= repeated->last; n++)
        if (r->repeats[n].unit == repeated->unit && r->repeats[n].again)
            LS_TRY(build_pass(s, g, n, LS_ACT_AGAIN));
    return LS_OK;
}

/* Whether a bit of the gradient is flipped: of the first exchange. */
static bool is_flipped(const ls_slice *s)
{
    return s->options.replica->job->faults.flip_replica == s->options.replica->number;
}

static ls_status build_fault(ls_slice *s, ls_range range)
{
    ls_replica *r = s->options.replica;
    const size_t first = ls_windows_at(r->windows.gradients, range.first);
    const ls_flip_bit_args args = {.count = (int64_t)range.count,
                                   .data = (float *)r->windows.whole_gradients + first,
                                   .state = r->state,
                                   .step = r->job->faults.flip_step};
    ls_op *op = NULL;
    if (!is_flipped(s) || !s->piece_count)
        return LS_OK;
    const ls_status status = r->kernels->table->flip_bit(r->kernels, &args, &op);
    return ls_slice_act_op(s, LS_ACT_FAULT, 0, status, op);
}

/* A node's gradients are final behind the last act. The injected fault is in the first bucket that
 * is whole in its window. */
static ls_status end_node(ls_slice *s, const ls_slice_exchange *x, const group *g, int n)
{
    const ls_windows *windows = s->options.replica->windows.gradients;
    ls_range final;
    if (!g->by_node || g->items == g->end ||
        !ls_net_node_final(ls_slice_node_net(s, g->from, n), n, &final.first, &final.count) ||
        (windows && final.first >= windows->owned))
        return LS_OK;
    if (windows && !x->number &&
        ls_range_common(final, (ls_range){windows->buckets->items[0].first, 1}).count)
        LS_TRY(build_fault(s, windows->buckets->items[0]));
    ls_act *last = &s->acts[s->act_count - 1];
    last->piece = s->piece_count - 1;
    last->node = n;
    last->final = final;
    return LS_OK;
}

static ls_status build_group(ls_slice *s, const ls_slice_exchange *x, group g)
{
    const int nodes = s->options.replica->graph->count;
    g.from = s->piece_count;
    for (const ls_slice_item *i = g.items; i < g.end; i++)
        if (!i->adds)
            LS_TRY(feed(s, i));
    for (int n = 0; n < nodes; n++)
        LS_TRY(build_pass(s, &g, n, LS_ACT_FORWARD));
    for (const ls_slice_item *i = g.items; i < g.end; i++)
        if (i->adds)
            LS_TRY(ls_slice_add_loss(s, ls_slice_loss_at(s, &s->order.items[i->left]),
                                     ls_slice_loss_at(s, &s->order.items[i->right])));
    if (ls_slice_accumulates(s) && s->begun && g.items < g.end)
        LS_TRY(ls_slice_add_loss(s, 0, 1));
    for (int n = nodes; n-- > 0;) {
        LS_TRY(build_again(s, &g, n));
        LS_TRY(build_pass(s, &g, n, LS_ACT_BACKWARD));
        if (!splits(s, &g, n))
            LS_TRY(end_node(s, x, &g, n));
    }
    for (int n = nodes; n-- > 0;)
        if (splits(s, &g, n)) {
            LS_TRY(build_pass(s, &g, n, LS_ACT_WEIGHTS));
            LS_TRY(end_node(s, x, &g, n));
        }
    return LS_OK;
}

/* The work of an exchange: piece by piece, with additions between; the last piece of a chain, the
 * only one, or all pieces (abreast) are a group whose gradients are added node by node. */
static ls_status build_sums(ls_slice *s, ls_slice_exchange *x)
{
    const ls_slice_order *o = &s->order;
    const bool several = o->count > 1, flips = is_flipped(s) && !x->number;
    const bool abreast = ls_slice_abreast(s), windows = s->options.replica->windows.gradients;
    const bool chain = !several || (s->chained && !s->options.replica->part);
    x->by_node = abreast ? windows : o->count && !flips && chain;
    const ls_slice_item *end = o->items + o->count;
    const ls_slice_item *last = abreast ? o->items : end - (x->by_node ? 1 + several : 0);
    for (const ls_slice_item *i = o->items; i < last; i++)
        LS_TRY(i->adds ? ls_slice_add_level(s, i->level)
                       : build_group(s, x, (group){.items = i, .end = i + 1}));
    return last < end || abreast
               ? build_group(s, x, (group){.items = last, .end = end, .by_node = x->by_node})
               : LS_OK;
}

/* Builds the acts up to an exchange. Gradients are final node by node, or behind the last act. */
static ls_status build_exchange(ls_slice *s, ls_slice_exchange *x, int64_t rows)
{
    const ls_replica *r = s->options.replica;
    s->order.dealt = ls_slice_deal(r->job, &s->options, x->exchange);
    s->piece = s->piece_count;
    s->building = x->number;
    LS_TRY(ls_slice_list(s));
    x->sums = s->order.sums;
    if (ls_slice_abreast(s))
        LS_TRY(ls_slice_open_abreast(s, rows));
    if (s->options.synced)
        LS_TRY(ls_slice_open_statistics(s));
    LS_TRY(build_sums(s, x));
    s->loss += s->chained ? 0 : x->sums;
    s->begun |= x->sums > 0;
    if (!x->number && !r->windows.gradients)
        LS_TRY(build_fault(s, (ls_range){0, r->updated.owned})); /* copies' gradients are sent */
    if (x->sums && !x->by_node)
        s->acts[s->act_count - 1].final = (ls_range){0, r->elements};
    return LS_OK;
}

static ls_status build(ls_slice *s)
{
    const ls_slice_options *o = &s->options;
    const ls_job *job = o->replica->job;
    const int exchanges = ls_slice_exchanges(job);
    int number = 0;
    const int64_t rows = ls_slice_rows(job, o);
    ls_net *net;
    LS_TRY(ls_slice_need_level(s, 0));
    if (ls_slice_accumulates(s) && !o->replica->windows.gradients)
        LS_TRY(ls_slice_need_level(s, 1)); /* also of a slice that has no samples for it */
    /* Opens the largest net of each slot first: the smaller ones share its memory. A tail batch may
     * have fewer samples than there are replicas. */
    for (int c = 0; c < ls_slice_chunks(s) && rows && !ls_slice_abreast(s); c++)
        for (int slot = 0; slot < slots(o, c); slot++)
            LS_TRY(ls_slice_need_net(s, 0, rows, c, slot, &net));
    LS_TRY(ls_allocate("slice", &s->exchanges, (size_t)exchanges, sizeof *s->exchanges));
    for (int e = 0; e < exchanges; e++) {
        ls_slice_exchange *x = &s->exchanges[e];
        *x = (ls_slice_exchange){.exchange = e, .number = number, .first = e ? s->act_count : 0};
        if (rows || ls_slice_abreast(s)) /* without samples, too, a replica passes statistics on */
            LS_TRY(build_exchange(s, x, rows));
        x->end = s->act_count;
        number += ls_slice_has_exchange(job, o->batch, o->count, e);
    }
    return LS_OK;
}

static ls_status build_delay(ls_slice *s)
{
    const ls_job *job = s->options.replica->job;
    const int number = s->options.replica->number;
    ls_op *op = NULL;
    if (!job->faults.delay_ns || number < job->faults.delay_replica ||
        number >= job->faults.delay_replica + job->faults.delay_count)
        return LS_OK;
    const ls_status status = ls_delay_open(job->faults.delay_ns, &op);
    return ls_slice_act_op(s, LS_ACT_DELAY, 0, status, op);
}

/* ---- The interface -------------------------------------------------------------------------- */

ls_status ls_slice_open(const ls_slice_options *options, ls_slice **out)
{
    ls_slice *slice;
    LS_TRY(ls_allocate("slice", &slice, 1, sizeof *slice));
    slice->options = *options;
    slice->chained = !ls_job_shards(options->replica->job, options->batch) && !options->unsummed;
    slice->order.dealt = ls_slice_deal(options->replica->job, options, 0);
    if (options->memory_of) { /* levels of the stack are shared, too */
        slice->level_count = options->memory_of->level_count;
        memcpy(slice->gradients, options->memory_of->gradients, sizeof slice->gradients);
    }
    ls_status status = build_delay(slice);
    if (!status)
        status = build(slice);
    if (status) {
        ls_slice_close(slice);
        return status;
    }
    for (size_t i = 0; i < slice->act_count; i++)
        if (slice->acts[i].own.count)
            slice->acts[i].lists[0] = &slice->acts[i].own;
    *out = slice;
    return LS_OK;
}

void ls_slice_close(ls_slice *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->act_count; i++)
        ls_op_list_clear(&s->acts[i].own);
    for (size_t i = s->net_count; i-- > 0;)
        ls_net_close(s->nets[i].net);
    free(s->exchanges);
    free(s->order.items);
    free(s->acts);
    free(s->work);
    free(s->nets);
    free(s);
}

ls_status ls_slice_enqueue(ls_slice *s)
{
    for (size_t i = 0; i < s->act_count; i++)
        for (int l = 0; l < LS_NET_LISTS; l++)
            if (s->acts[i].lists[l])
                LS_TRY(ls_op_list_enqueue(s->acts[i].lists[l], s->options.replica->queue));
    return LS_OK;
}

ls_net *ls_slice_piece_net(const ls_slice *slice, int piece)
{
    return piece < slice->piece_count ? slice->work[piece * ls_slice_chunks(slice)] : NULL;
}

ls_net *ls_slice_node_net(const ls_slice *slice, int piece, int node)
{
    const int chunk = ls_graph_part_chunk(slice->options.replica->part, node);
    return piece < slice->piece_count ? slice->work[piece * ls_slice_chunks(slice) + chunk] : NULL;
}

ls_net *const *ls_slice_piece_nets(const ls_slice *slice, int piece)
{
    return &slice->work[piece * ls_slice_chunks(slice)];
}

const ls_act *ls_slice_acts(const ls_slice *slice, size_t *count)
{
    *count = slice->act_count;
    return slice->acts;
}

size_t ls_slice_sums(const ls_slice *slice, int exchange)
{
    return slice->exchanges[exchange].sums;
}

void ls_slice_exchange_acts(const ls_slice *slice, int exchange, size_t *first, size_t *end)
{
    *first = slice->exchanges[exchange].first;
    *end = slice->exchanges[exchange].end;
}

void *ls_slice_gradients(const ls_slice *slice, size_t index)
{
    return slice->gradients[index];
}

double *ls_slice_loss(const ls_slice *slice, size_t index)
{
    return slice->options.replica->loss.parts + index;
}
