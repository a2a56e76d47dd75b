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

int64_t ls_slice_find_pieces(const ls_job *job, const ls_slice_options *o, int exchange,
                             int64_t *first, int64_t *last)
{
    const int64_t count = (int64_t)o->count * ls_slice_exchanges(job);
    const int64_t all = ls_slice_pieces(job, o->batch, o->count, o->pieces);
    const int64_t number = ls_slice_number(job, o->number, exchange);
    *first = ls_slice_begin(all, number, count);
    *last = ls_slice_begin(all, number + 1, count);
    return all;
}

static int64_t piece_begin(const ls_slice *s, int64_t piece)
{
    return ls_slice_begin(s->options.batch, piece, s->pieces);
}

int64_t ls_slice_piece_rows(const ls_slice *s, int64_t piece)
{
    return piece_begin(s, piece + 1) - piece_begin(s, piece);
}

int64_t ls_slice_rows(const ls_job *job, const ls_slice_options *o)
{
    int64_t most = 0, piece, last;
    for (int e = 0; e < ls_slice_exchanges(job); e++) {
        const int64_t all = ls_slice_find_pieces(job, o, e, &piece, &last);
        for (; piece < last; piece++) {
            const int64_t rows = ls_slice_share(o->batch, piece, all);
            most = rows > most ? rows : most;
        }
    }
    return most;
}

/* ---- Acts ----------------------------------------------------------------------------------- */

ls_status ls_slice_act(ls_slice *s, ls_act_kind kind, int piece, int node, ls_act **out)
{
    LS_TRY(ls_grow("slice", &s->acts, s->act_count, sizeof *s->acts));
    *out = &s->acts[s->act_count++];
    **out = (ls_act){.kind = kind, .piece = piece, .node = node};
    return LS_OK;
}

ls_status ls_slice_act_node(ls_slice *s, ls_act_kind kind, int piece, int node, ls_net_pass pass)
{
    ls_act *act;
    LS_TRY(ls_slice_act(s, kind, piece, node, &act));
    act->chunk = ls_graph_part_chunk(s->options.replica->part, node);
    ls_net_node_lists(ls_slice_node_net(s, piece, node), node, pass, act->lists);
    return LS_OK;
}

ls_status ls_slice_act_op(ls_slice *s, ls_act_kind kind, int chunk, ls_status made, ls_op *op)
{
    ls_act *act;
    LS_TRY(made);
    ls_status status = ls_slice_act(s, kind, s->piece_count ? s->piece_count - 1 : 0, 0, &act);
    if (status) {
        ls_op_free(op);
        return status;
    }
    act->chunk = chunk;
    return ls_op_list_add(&act->own, op);
}

static int slots(const ls_slice_options *o, int chunk)
{
    return o->slots && o->slots[chunk] > 1 ? o->slots[chunk] : 1;
}

ls_status ls_slice_feed(ls_slice *s, int64_t piece, size_t index, int slot)
{
    ls_replica_part part = {.first = (uint64_t)piece_begin(s, piece)};
    part.divisor = ls_slice_divisor(s, &part.divided);
    const int chunks = ls_slice_chunks(s), p = s->piece_count++;
    for (int c = 0; c < chunks; c++) {
        ls_act *feed;
        const size_t at = (size_t)(p * chunks + c);
        const int slot_of_piece = slot < 0 ? p % slots(&s->options, c) : slot;
        LS_TRY(ls_grow("slice", &s->work, at, sizeof *s->work));
        LS_TRY(ls_slice_need_net(s, index, ls_slice_piece_rows(s, piece), c, slot_of_piece,
                                 &s->work[at]));
        LS_TRY(ls_slice_act(s, LS_ACT_FEED, p, 0, &feed));
        feed->chunk = c;
        LS_TRY(ls_replica_feed(s->options.replica, s->work[at], &part, &feed->own));
    }
    return LS_OK;
}

/* A node's pass, in two acts if sums over places may come between. */
static ls_status build_pass(ls_slice *s, int piece, int node, ls_act_kind kind)
{
    static const struct {
        ls_net_pass whole, half, rest;
        ls_act_kind behind;
    } passes[] = {
        [LS_ACT_FORWARD] = {LS_NET_FORWARD, LS_NET_FORWARD_HALF, LS_NET_FORWARD_REST,
                            LS_ACT_FORWARD_REST},
        [LS_ACT_BACKWARD] = {LS_NET_BACKWARD, LS_NET_BACKWARD_HALF, LS_NET_BACKWARD_REST,
                             LS_ACT_BACKWARD_REST},
        [LS_ACT_AGAIN] = {LS_NET_AGAIN, LS_NET_AGAIN_HALF, LS_NET_AGAIN_REST, LS_ACT_AGAIN_REST}};
    if (s->options.replica->graph->slices.places < 2)
        return ls_slice_act_node(s, kind, piece, node, passes[kind].whole);
    LS_TRY(ls_slice_act_node(s, kind, piece, node, passes[kind].half));
    return ls_slice_act_node(s, passes[kind].behind, piece, node, passes[kind].rest);
}

/* A replica's last unit is not repeated: its window still has it. The passes of places run in
 * another order. */
ls_status ls_slice_build_again(ls_slice *s, int from, int node)
{
    const ls_replica *r = s->options.replica;
    const ls_repeat *repeated = r->repeats ? &r->repeats[node] : NULL;
    if (!repeated || !repeated->unit || repeated->last != node ||
        (!ls_job_divides(r->job) && repeated->unit == ls_repeats_units(r->graph, r->repeats)))
        return LS_OK;
    for (int n = repeated->first; n <= repeated->last; n++) {
        if (r->repeats[n].unit != repeated->unit || !r->repeats[n].again)
            continue;
        for (int piece = from; piece < s->piece_count; piece++)
            LS_TRY(build_pass(s, piece, n, LS_ACT_AGAIN));
    }
    return LS_OK;
}

/* Whether a bit of the gradient is flipped: of the first exchange. */
static bool is_flipped(const ls_slice *s)
{
    return s->options.replica->job->faults.flip_replica == s->options.replica->number;
}

/* When a piece's gradients are final: behind the exchange's last act; node by node, if the exchange
 * has no other piece; or node by node, as each is added to the other pieces' sum, like the loss. */
typedef enum final_by { BY_EXCHANGE, BY_NODE, BY_NODE_ADDED } final_by;

/* Feeds the next piece, and runs its passes; pieces use the slots in turn. */
static ls_status build_piece(ls_slice *s, int64_t piece, size_t level, final_by by)
{
    const int nodes = s->options.replica->graph->count, p = s->piece_count;
    LS_TRY(ls_slice_feed(s, piece, level, -1));
    for (int n = 0; n < nodes; n++)
        LS_TRY(build_pass(s, p, n, LS_ACT_FORWARD));
    if (by == BY_NODE_ADDED || (by == BY_NODE && s->begun && s->chained))
        LS_TRY(ls_slice_add_loss(s, 0, 1));
    for (int n = nodes; n-- > 0;) {
        ls_range final;
        LS_TRY(ls_slice_build_again(s, p, n));
        LS_TRY(build_pass(s, p, n, LS_ACT_BACKWARD));
        if (!by || !ls_net_node_final(ls_slice_node_net(s, p, n), n, &final.first, &final.count))
            continue;
        if (by == BY_NODE_ADDED)
            LS_TRY(ls_slice_add(s, LS_ACT_SUM, 0, level, final));
        s->acts[s->act_count - 1].final = final;
    }
    for (int n = nodes; n-- > 0;) /* of nodes that have separate weight passes */
        if (ls_net_splits(ls_slice_node_net(s, p, n), n))
            LS_TRY(ls_slice_act_node(s, LS_ACT_WEIGHTS, p, n, LS_NET_WEIGHTS));
    return LS_OK;
}

/* The work of an exchange. */
static ls_status build_sums(ls_slice *s, ls_slice_exchange *x)
{
    const bool several = s->order.count > 1, flips = is_flipped(s) && !x->number;
    x->by_node =
        s->order.count && !flips && (!several || (s->chained && !s->options.replica->part));
    const size_t end = s->order.count - (x->by_node ? 1 + several : 0);
    for (const ls_slice_item *i = s->order.items; i < s->order.items + end; i++)
        LS_TRY(i->adds ? ls_slice_add_level(s, i->level)
                       : build_piece(s, i->of, i->level, BY_EXCHANGE));
    return x->by_node ? build_piece(s, s->order.items[end].of, several || (s->chained && x->number),
                                    several ? BY_NODE_ADDED : BY_NODE)
                      : LS_OK;
}

/* Builds the acts up to an exchange. Gradients are final node by node, or behind the last act. */
static ls_status build_exchange(ls_slice *s, ls_slice_exchange *x, int64_t rows)
{
    const ls_replica *r = s->options.replica;
    ls_slice_find_pieces(r->job, &s->options, x->exchange, &s->order.first, &s->order.last);
    s->piece = s->piece_count;
    s->building = x->number;
    LS_TRY(ls_slice_list(s));
    x->sums = s->order.sums;
    LS_TRY(ls_slice_abreast(s) ? ls_slice_build_abreast(s, x, rows) : build_sums(s, x));
    s->loss += s->chained ? 0 : x->sums;
    s->begun |= x->sums > 0;
    if (!x->number && !r->windows.gradients)
        LS_TRY(ls_slice_fault(s, (ls_range){0, r->elements}));
    if (x->sums && !x->by_node && !r->windows.gradients)
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
        ls_slice_exchange *x = &s->exchanges[s->exchange_count++];
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

ls_status ls_slice_fault(ls_slice *s, ls_range range)
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

/* ---- The interface -------------------------------------------------------------------------- */

ls_status ls_slice_open(const ls_slice_options *options, ls_slice **out)
{
    ls_slice *slice;
    LS_TRY(ls_allocate("slice", &slice, 1, sizeof *slice));
    slice->options = *options;
    slice->chained = !options->replica->job->exact.on && !options->unsummed;
    slice->pieces = ls_slice_find_pieces(options->replica->job, options, 0, &slice->order.first,
                                         &slice->order.last);
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

int64_t ls_slice_first_rows(const ls_slice *s)
{
    return ls_slice_piece_rows(s, 0);
}

int ls_slice_test_piece(const ls_slice *s)
{
    for (int p = 0; p < s->piece_count; p++)
        if (s->chained || ls_net_rows(ls_slice_piece_net(s, p)) == ls_slice_first_rows(s))
            return p;
    return -1;
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
