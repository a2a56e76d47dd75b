/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `halving-doubling` (Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19, 2005). p is the largest power of two <= n. The P
 * elements are cut evenly, in an all-reduce into p shares, in its halves into n. Lower shares are
 * shares 0 to p - 1, and rank j has leaf j of their tree; upper ones are the rest, and rank p + j
 * has leaf j of their tree, or rank j if there is no rank p + j.
 *   1. rank p + i sends the lower shares to rank i, which adds them, and rank i the upper ones back
 *   2. in each tree, at distances d = p/2, ..., 1: the rank of leaf j keeps, of the shares that it
 *      still sums, the shares of the d leaves around j, sends the shares of the d leaves around
 *      j xor d to that leaf's rank, and adds what it receives
 *   3. at distances d = 1, ..., p/2: the same pairs exchange their finished shares
 *   4. the pairs of 1 exchange theirs
 * Steps 1 and 2 are the reduce-scatter, 3 and 4 the all-gather; both send equally much. Messages of
 * 1: n - p for each kind of shares that has elements; of 2: in both trees, sum over d of d times
 * the groups of d leaves that have elements. An all-reduce has 2 (n - p) + 2 sum over d of d min(p
 * / d, P), the first term 0 if P = 0. Bytes: (n - 1) 4 P, twice in an all-reduce. (With upper
 * shares the sums end where they belong; without there are fewer rounds.) Sum of every element:
 * H(0, 1) with H(j, d) = H(j, 2d) + H(j xor d, 2d) and H(j, p) = g(j) + g(j + p), or g(j) if j + p
 * >= n.
 */
#include "common/comm/comm_network.h"
#include "common/comm/comm_parts.h"

/* How elements are summed: by `ranks` ranks, the power of two below them, cut in `parts`.
 */
typedef struct halving {
    int ranks, power, parts;
    ls_extent extent;
} halving;

static int power_below(int ranks)
{
    int p = 1;
    while (2 * p <= ranks)
        p *= 2;
    return p;
}

static halving cut(ls_half half, int ranks, ls_extent extent)
{
    const int p = power_below(ranks);
    return (halving){ranks, p, half == LS_HALVES ? p : ranks, extent};
}

/* The shares of the d leaves that contain this leaf and begin at a multiple of d. */
static ls_range shares_of(const halving *h, bool upper, int leaf, int d)
{
    const int end = upper ? h->parts : h->power;
    const int first = (upper ? h->power : 0) + leaf - leaf % d, last = first + d;
    if (first >= end)
        return (ls_range){h->extent.count, 0};
    return ls_comm_parts(h->extent, first, (last < end ? last : end) - first, h->parts);
}

static int rank_of(const halving *h, bool upper, int leaf)
{
    const int above = leaf + h->power;
    return upper && above < h->ranks ? above : leaf;
}

/* Exchanges with rank `other`: the own part is summed there (`add`), or is finished. */
static ls_status put_swap(ls_comm *comm, float *data, int other, bool add, ls_range own_half,
                          ls_range other_half, ls_op_list *ops)
{
    const ls_range out = add ? other_half : own_half, in = add ? own_half : other_half;
    return ls_comm_add_exchange(comm, ops,
                                &(ls_exchange){.to = other,
                                               .send = data + out.first,
                                               .send_count = out.count,
                                               .from = other,
                                               .receive = data + in.first,
                                               .receive_count = in.count,
                                               .add = add});
}

/* Step 1 (`add`) or step 4. */
static ls_status put_fold(ls_comm *comm, const halving *h, float *data, bool add, ls_op_list *ops)
{
    const bool above = comm->rank >= h->power;
    const int other = above ? comm->rank - h->power : comm->rank + h->power;
    return other >= h->ranks ? LS_OK
                             : put_swap(comm, data, other, add, shares_of(h, above, 0, h->power),
                                        shares_of(h, !above, 0, h->power), ops);
}

/* Step 2 (`add`) or step 3 of one tree. */
static ls_status put_tree(ls_comm *comm, const halving *h, float *data, bool upper, bool add,
                          ls_op_list *ops)
{
    const int p = h->power, leaf = comm->rank % p;
    if (rank_of(h, upper, leaf) != comm->rank)
        return LS_OK;
    for (int d = add ? p / 2 : 1; d > 0 && d < p; d = add ? d / 2 : 2 * d)
        LS_TRY(put_swap(comm, data, rank_of(h, upper, leaf ^ d), add, shares_of(h, upper, leaf, d),
                        shares_of(h, upper, leaf ^ d, d), ops));
    return LS_OK;
}

/* Steps 1 and 2 (`add`) or 3 and 4. */
static ls_status put_steps(ls_comm *comm, const halving *h, float *data, bool add, ls_op_list *ops)
{
    if (add)
        LS_TRY(put_fold(comm, h, data, true, ops));
    LS_TRY(put_tree(comm, h, data, false, add, ops));
    LS_TRY(put_tree(comm, h, data, true, add, ops));
    return add ? LS_OK : put_fold(comm, h, data, false, ops);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    const halving h = cut(half, comm->size, ls_comm_extent(a));
    return put_steps(comm, &h, a->data, half == LS_REDUCE_SCATTER, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    const halving h = cut(LS_HALVES, comm->size, ls_comm_extent(a));
    LS_TRY(put_steps(comm, &h, a->data, true, ops));
    return put_steps(comm, &h, a->data, false, ops);
}

/* Sums H(r, d) of all elements into sum `into`; higher-numbered sums are free. Shares differ only
 * in the order of two addends. *visit: inputs used so far. */
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

static ls_status oracle(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out)
{
    size_t visit = 0;
    (void)layout;
    return put_halving(ranks, extent.count, 0, 1, 0, &visit, out);
}

static ls_traffic half_formula(ls_half half, int ranks, ls_extent extent, int64_t shards)
{
    const halving h = cut(half, ranks, extent);
    uint64_t messages = 0;
    (void)shards;
    for (int upper = 0; upper < 2; upper++) {
        if (shares_of(&h, upper, 0, h.power).count)
            messages += (uint64_t)(ranks - h.power);
        for (int d = 1; d < h.power; d *= 2)
            for (int leaf = 0; leaf < h.power; leaf += d)
                messages += shares_of(&h, upper, leaf, d).count ? (uint64_t)d : 0;
    }
    return (ls_traffic){.bytes_sent = ls_comm_bytes((uint64_t)ranks - 1, extent.count),
                        .messages_sent = messages};
}

static ls_traffic formula(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    int p = power_below(ranks);
    uint64_t messages = extent.count ? 2 * (uint64_t)(ranks - p) : 0;
    (void)shards;
    for (int d = 1; d < p; d *= 2)
        messages += 2 * (uint64_t)d * ls_comm_filled(extent, p / d);
    return (ls_traffic){.bytes_sent = ls_comm_bytes(2 * ((uint64_t)ranks - 1), extent.count),
                        .messages_sent = messages};
}

/* Steps 1 and 2 (`add`) or 3 and 4. The gathering ranks above begin with separate rounds, while the
 * ranks below do theirs. */
static double take_steps(ls_rounds *rounds, const halving *h, bool add)
{
    const int above = h->ranks - h->power;
    for (int r = h->power; r < h->ranks; r++) {
        ls_rounds_send(rounds, r, r - h->power, shares_of(h, false, 0, h->power).count);
        ls_rounds_send(rounds, r - h->power, r, shares_of(h, true, 0, h->power).count);
    }
    double ns = ls_rounds_end(rounds);
    for (int upper = 0; upper < 2; upper++)
        for (int d = h->power / 2; d > 0; d /= 2) {
            if (upper && !add && above % (2 * d) == 0)
                continue;
            for (int leaf = 0; leaf < h->power; leaf++)
                ls_rounds_send(rounds, rank_of(h, upper, leaf), rank_of(h, upper, leaf ^ d),
                               shares_of(h, upper, leaf ^ d, d).count);
            ns += ls_rounds_end(rounds);
        }
    return ns;
}

static ls_status take_time(ls_rounds *rounds, ls_half half, ls_extent extent, double *ns)
{
    const halving h = cut(half, rounds->load->ranks, extent);
    *ns = half == LS_ALL_GATHER ? 0 : take_steps(rounds, &h, true);
    *ns += half == LS_REDUCE_SCATTER ? 0 : take_steps(rounds, &h, false);
    return LS_OK;
}

const ls_allreduce ls_allreduce_halving_doubling = {
    .name = "halving-doubling",
    .help = "pairs at halved and doubled distances: least bytes, few rounds",
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = oracle,
    .time = take_time,
};
