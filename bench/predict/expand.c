/* SPDX-License-Identifier: MIT */
/* Expanded all-reduces; see expand.h. */
#include "bench/predict/expand.h"

#include "common/base/grow.h"
#include "common/comm/comm_parts.h"

#include <stdlib.h>

/* ---- Messages: what `build` makes ------------------------------------------------------------ */

/* A communicator whose exchanges are appended to the moves. One operation stands for all. */
typedef struct reader {
    ls_comm base;
    ls_op op;
    ls_expanded *to;
    size_t count;
} reader;

static void keep(ls_op *op)
{
    (void)op;
}

static ls_status append_move(reader *r, const ls_move *move)
{
    LS_TRY(ls_grow("all-reduce", &r->to->moves, r->count, sizeof *move));
    r->to->moves[r->count++] = *move;
    return LS_OK;
}

static ls_status read_exchange(ls_comm *base, const ls_exchange *x, ls_op **out)
{
    reader *r = (reader *)base;
    const ls_move move = ls_move_of(x);
    free(r->op.accesses);
    free(r->op.messages);
    r->op = (ls_op){.name = "exchange", .destroy = keep};
    *out = &r->op;
    return append_move(r, &move);
}

static const ls_comm_backend reading = {
    .name = "virtual", .help = "", .exchange = read_exchange, .alone = true};

/* Operations that are not exchanges are local sums: elements that they add. */
static ls_status add_local_sums(reader *r, ls_op_list *ops)
{
    size_t at = 0;
    double summed = 0;
    const size_t begin = r->to->first[r->base.rank];
    for (size_t i = 0; i < ops->count; i++) {
        if (ops->items[i] != &r->op) {
            summed += ops->items[i]->flops;
            ls_op_free(ops->items[i]);
            continue;
        }
        r->to->moves[begin + at++].summed = summed;
        summed = 0;
    }
    free(ops->items);
    *ops = (ls_op_list){0};
    if (summed > 0)
        return append_move(r, &(ls_move){.to = -1, .from = -1, .summed = summed});
    return LS_OK;
}

/* `build` only computes with such addresses. Each sum has separate memory, far from other sums. */
static float *address_of(size_t number, size_t count)
{
    static const uintptr_t base = (uintptr_t)1 << 40;
    return (float *)(base + number * ((count + 64) / 16 * 16) * sizeof(float)); // NOLINT
}

static ls_status read_rank(reader *r)
{
    const ls_virtual_comm *what = &r->to->what;
    const ls_allreduce *a = r->to->algorithm;
    ls_subtree trees[LS_SUBTREES];
    float *sums[LS_SUBTREES];
    const size_t count = what->extent.count;
    ls_allreduce_args args = {.data = address_of(1, count),
                              .count = count,
                              .cut = &what->extent,
                              .scratch = address_of(LS_SUBTREES + 2, count),
                              .shards = what->shards,
                              .of = what->of};
    const int groups = what->of.groups ? what->of.groups : 1;
    if (what->shards && what->half != LS_ALL_GATHER) {
        args.sum_count = ls_canonical_subtrees(what->of.group * what->size + r->base.rank,
                                               groups * what->size, what->shards, trees);
        args.sums = sums;
        for (size_t k = 0; k < args.sum_count; k++)
            sums[k] = address_of(1 + k, count);
    }
    ls_op_list ops = {0};
    ls_status status = what->half == LS_HALVES ? a->build(&r->base, &args, &ops)
                                               : a->half(&r->base, what->half, &args, &ops);
    return ls_status_first(status, add_local_sums(r, &ops));
}

static ls_status read_messages(ls_expanded *e)
{
    reader r = {.to = e};
    ls_status status = LS_OK;
    for (int rank = 0; rank < e->what.size && !status; rank++) {
        r.base = (ls_comm){.backend = &reading,
                           .rank = rank,
                           .size = e->what.size,
                           .device = e->what.devices[rank],
                           .layout = e->what.layout,
                           .linked = true};
        e->first[rank] = r.count;
        status = read_rank(&r);
    }
    e->first[e->what.size] = r.count;
    free(r.op.accesses);
    free(r.op.messages);
    return status;
}

/* ---- Flows of `ring` ------------------------------------------------------------------------ */

/* Reduce-scatter: rank r sends all blocks but its own, r. All-gather: all but block r + 1, which
 * the next rank has (allreduce_ring.c). Empty blocks are not sent. */
static void sum_ring(const ls_virtual_comm *what, int rank, size_t *sent, uint32_t *rounds,
                     size_t *added)
{
    const ls_extent extent = what->extent;
    const size_t own = ls_comm_parts(extent, rank, 1, what->size).count;
    const size_t after = ls_comm_parts(extent, (rank + 1) % what->size, 1, what->size).count;
    const size_t filled = (size_t)ls_comm_filled(extent, what->size); /* that are not empty */
    *sent = *added = 0;
    *rounds = 0;
    if (what->half != LS_ALL_GATHER) {
        *sent += extent.count - own;
        *added += extent.count - own;
        *rounds += (uint32_t)(filled - (own > 0));
    }
    if (what->half != LS_REDUCE_SCATTER) {
        *sent += extent.count - after;
        *rounds += (uint32_t)(filled - (after > 0));
    }
}

static ls_status make_flows(ls_expanded *e)
{
    const int ranks = e->what.size;
    LS_TRY(ls_allocate("all-reduce", &e->moves, (size_t)ranks, sizeof *e->moves));
    for (int rank = 0; rank <= ranks; rank++)
        e->first[rank] = (size_t)rank;
    for (int rank = 0; rank < ranks; rank++) {
        const int next = (rank + 1) % ranks;
        ls_move *own = &e->moves[rank], *next_move = &e->moves[next];
        size_t added;
        own->to = next;
        next_move->from = rank;
        sum_ring(&e->what, rank, &own->sent, &own->sent_rounds, &added);
        next_move->received = own->sent;
        next_move->came_rounds = own->sent_rounds;
        next_move->added = added;
    }
    return LS_OK;
}

const char *const ls_expansion_words[] = {[LS_EXPAND_FLOWS] = "flows",
                                          [LS_EXPAND_MESSAGES] = "messages",
                                          [LS_EXPAND_FORMULA] = "formula",
                                          NULL};

/* ---- The list ------------------------------------------------------------------------------- */

/* Whether the same processes share hosts; hosts are numbered in order. */
static bool is_alike(const ls_layout *a, const ls_layout *b)
{
    if (!a || !b || a->processes != b->processes)
        return a == b;
    for (int p = 1; p < a->processes; p++)
        if (a->host[p] - *a->host != b->host[p] - *b->host)
            return false;
    return true;
}

/* The host of a rank, as far from the first rank's. */
static int host_of(const ls_virtual_comm *what, int rank, int per_host)
{
    return ls_virtual_number(what->devices[rank]) / per_host -
           ls_virtual_number(*what->devices) / per_host;
}

/* Which group it is counts only for the sums of exact mode. */
static bool is(const ls_expansions *list, const ls_expanded *e, const ls_allreduce *algorithm,
               const ls_virtual_comm *what)
{
    const ls_virtual_comm *known = &e->what;
    const ls_extent a = known->extent, b = what->extent;
    if (e->algorithm != algorithm || known->half != what->half || known->size != what->size ||
        a.count != b.count || a.blocks != b.blocks || a.begin != b.begin ||
        known->shards != what->shards || !is_alike(known->layout, what->layout) ||
        (known->shards &&
         (known->of.group != what->of.group || known->of.groups != what->of.groups)))
        return false;
    for (int r = 0, each = list->devices_per_host; each && r < what->size; r++)
        if (host_of(known, r, each) != host_of(what, r, each))
            return false;
    return true;
}

ls_status ls_expand(ls_expansions *list, const ls_allreduce *algorithm, const ls_virtual_comm *what,
                    size_t *number)
{
    ls_expanded *e;
    for (*number = list->count; (*number)-- > 0;)
        if (is(list, list->items[*number], algorithm, what))
            return LS_OK;
    *number = list->count;
    LS_TRY(ls_grow("all-reduce", &list->items, list->count, sizeof *list->items));
    LS_TRY(ls_allocate("all-reduce", &e, 1, sizeof *e));
    list->items[list->count++] = e;
    *e = (ls_expanded){.algorithm = algorithm, .what = *what};
    if (!algorithm)
        return LS_OK;
    LS_TRY(ls_allocate("all-reduce", &e->first, (size_t)what->size + 1, sizeof *e->first));
    if (list->level != LS_EXPAND_MESSAGES && algorithm == &ls_allreduce_ring && what->size > 1)
        return make_flows(e);
    return read_messages(e);
}

void ls_expansions_close(ls_expansions *list)
{
    for (size_t i = 0; i < list->count; i++) {
        ls_play_close(&list->items[i]->alone);
        free(list->items[i]->first);
        free(list->items[i]->moves);
        free(list->items[i]);
    }
    free(list->items);
    *list = (ls_expansions){0};
}
