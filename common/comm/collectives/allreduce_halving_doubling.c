/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `halving-doubling` (Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19, 2005). p is the largest power of two <= n. Share q
 * of P elements is elements floor(q P / n) to floor((q + 1) P / n) - 1. The lower shares are those
 * of ranks below p, and rank j represents leaf j of their tree; the upper shares are the others',
 * and rank p + j does, or rank j if there is no rank p + j.
 *   1. rank p + i sends the lower shares to rank i, which adds them, and rank i the upper ones back
 *   2. for the lower shares, then the upper ones, at distances d = p/2, ..., 1: the rank of leaf j
 *      keeps, of the shares that it still sums, those of the d leaves around j, sends the d around
 *      j xor d to that leaf's rank, and adds what it receives: a reduce-scatter
 *   3. at distances d = 1, ..., p/2: the same pairs exchange their finished shares
 *   4. ranks i and p + i exchange theirs: with 3, an all-gather
 * Messages of each half: sum over d of d times the nonempty groups of d leaves, of both trees; and
 * n
 * - p for the lower, n - p for the upper shares, if they have elements. Bytes: (n - 1) 4 P. (All on
 * ranks below p would be fewer messages, but leaves no sum on ranks p + i.) Sum of every element:
 * H(0, 1) with H(j, d) = H(j, 2d) + H(j xor d, 2d) and H(j, p) = g(j) + g(j + p), or g(j) if j + p
 * >= n; the order in which two are added does not matter.
 */
#include "common/comm/comm_parts.h"

static int power_below(int ranks)
{
    int p = 1;
    while (2 * p <= ranks)
        p *= 2;
    return p;
}

/* The shares of the d leaves that contain this leaf and begin at a multiple of d. */
static ls_range shares_of(size_t count, int ranks, bool upper, int leaf, int d)
{
    const int p = power_below(ranks), end = upper ? ranks : p;
    const int first = (upper ? p : 0) + leaf - leaf % d, last = first + d;
    if (first >= end)
        return (ls_range){count, 0};
    return ls_comm_parts(count, first, (last < end ? last : end) - first, ranks);
}

static int rank_of(int leaf, int ranks, bool upper)
{
    const int above = leaf + power_below(ranks);
    return upper && above < ranks ? above : leaf;
}

/* The leaf that a rank represents; -1: none. */
static int leaf_of(int rank, int ranks, bool upper)
{
    const int leaf = rank % power_below(ranks);
    return rank_of(leaf, ranks, upper) == rank ? leaf : -1;
}

static ls_status put_swap(ls_comm *comm, const ls_allreduce_args *a, int other, bool add,
                          ls_range out, ls_range in, ls_op_list *ops)
{
    return ls_comm_add_exchange(comm, ops,
                                &(ls_exchange){.to = other,
                                               .send = a->data + out.first,
                                               .send_count = out.count,
                                               .from = other,
                                               .receive = a->data + in.first,
                                               .receive_count = in.count,
                                               .add = add});
}

/* Step 1 (`add`) or step 4. */
static ls_status put_fold(ls_comm *comm, const ls_allreduce_args *a, bool add, ls_op_list *ops)
{
    const int n = comm->size, p = power_below(n);
    const bool above = comm->rank >= p;
    const int other = above ? comm->rank - p : comm->rank + p;
    const ls_range mine = shares_of(a->count, n, above, 0, p),
                   theirs = shares_of(a->count, n, !above, 0, p);
    if (other >= n)
        return LS_OK;
    return put_swap(comm, a, other, add, add ? theirs : mine, add ? mine : theirs, ops);
}

/* Step 2 (`add`) or step 3 with the leaf at distance d. */
static ls_status put_pair(ls_comm *comm, const ls_allreduce_args *a, bool upper, int d, bool add,
                          ls_op_list *ops)
{
    const int n = comm->size, leaf = leaf_of(comm->rank, n, upper), other = leaf ^ d;
    if (leaf < 0)
        return LS_OK;
    const ls_range mine = shares_of(a->count, n, upper, leaf, d),
                   theirs = shares_of(a->count, n, upper, other, d);
    return put_swap(comm, a, rank_of(other, n, upper), add, add ? theirs : mine,
                    add ? mine : theirs, ops);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    const int p = power_below(comm->size);
    const bool add = half == LS_REDUCE_SCATTER;
    if (add)
        LS_TRY(put_fold(comm, a, true, ops));
    for (int upper = 0; upper < 2; upper++)
        for (int d = add ? p / 2 : 1; d > 0 && d < p; d = add ? d / 2 : 2 * d)
            LS_TRY(put_pair(comm, a, upper, d, add, ops));
    return add ? LS_OK : put_fold(comm, a, false, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return ls_comm_add_halves(comm, &ls_allreduce_halving_doubling, a, ops);
}

/* Sums H(r, d) of all elements into sum `into`; higher-numbered sums are free. Shares differ only
 * in which of two sums is added to which. *visit: inputs used so far. */
static ls_status put_halving(int ranks, size_t count, int r, int d, int into, size_t *visit,
                             ls_sum_order *out)
{
    const int p = power_below(ranks);
    ls_order_step step = {
        .visit = *visit, .input = r, .into = into, .begins = true, .count = count};
    if (d == p) {
        LS_TRY(ls_sum_order_add(out, &step));
        step.visit = ++*visit;
        step.input = r + p;
        step.begins = false;
        if (r + p < ranks) {
            LS_TRY(ls_sum_order_add(out, &step));
            ++*visit;
        }
        return LS_OK;
    }
    LS_TRY(put_halving(ranks, count, r, 2 * d, into, visit, out));
    LS_TRY(put_halving(ranks, count, r ^ d, 2 * d, into + 1, visit, out));
    return ls_sum_order_add(out, &(ls_order_step){.visit = *visit - 1,
                                                  .input = LS_SUM_OTHER,
                                                  .from = into + 1,
                                                  .into = into,
                                                  .count = count});
}

static ls_status oracle(int ranks, size_t count, const ls_layout *layout, ls_sum_order *out)
{
    size_t visit = 0;
    (void)layout;
    return put_halving(ranks, count, 0, 1, 0, &visit, out);
}

/* The same for both halves: the second sends back what the first sends. */
static ls_traffic half_formula(ls_half half, int ranks, size_t count, int64_t shards)
{
    const int p = power_below(ranks);
    uint64_t messages = 0;
    (void)half;
    (void)shards;
    for (int upper = 0; upper < 2; upper++) {
        if (shares_of(count, ranks, upper, 0, p).count)
            messages += (uint64_t)(ranks - p);
        for (int d = 1; d < p; d *= 2)
            for (int leaf = 0; leaf < p; leaf += d)
                messages += shares_of(count, ranks, upper, leaf, d).count ? (uint64_t)d : 0;
    }
    return (ls_traffic){.bytes_sent = ls_comm_bytes((uint64_t)ranks - 1, count),
                        .messages_sent = messages};
}

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    return ls_comm_halves_formula(&ls_allreduce_halving_doubling, ranks, count, shards);
}

const ls_allreduce ls_allreduce_halving_doubling = {
    .name = "halving-doubling",
    .help = "pairs at halved and doubled distances: least bytes, few rounds",
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = oracle,
};
