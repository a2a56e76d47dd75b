/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `halving-doubling` (Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 19, 2005). p is the largest power of two <= n.
 *   1. rank p + i sends all its data to rank i, which adds it
 *   2. at distances d = p/2, ..., 1: rank r < p keeps, of the blocks it still sums, the half with
 *      block r, sends the other half to rank r xor d, and adds what it receives
 *   3. at distances d = 1, ..., p/2: the same pairs exchange their finished blocks
 *   4. rank i sends the sum to rank p + i
 * Block b is elements floor(b P / p) to floor((b + 1) P / p) - 1. With P elements on n ranks:
 * messages 2 (n - p) + 2 sum over d of d min(p / d, P), the first term 0 if P = 0; bytes 2 (n - 1)
 * 4 P. Sum of block b: H(b, 1) with H(r, d) = H(r, 2d) + H(r xor d, 2d) and H(r, p) = g(r) + g(r +
 * p), or g(r) if r + p >= n.
 */
#include "common/comm/comm_parts.h"

static int power_below(int ranks)
{
    int p = 1;
    while (2 * p <= ranks)
        p *= 2;
    return p;
}

/* The d blocks that contain block r and begin at a multiple of d. */
static ls_range blocks_of(size_t count, int r, int d, int p)
{
    return ls_comm_parts(count, r - r % d, d, p);
}

/* Step 2 (`add`) or step 3 with the rank at distance d. */
static ls_status put_pair(ls_comm *comm, const ls_allreduce_args *a, int d, bool add,
                          ls_op_list *ops)
{
    int p = power_below(comm->size), other = comm->rank ^ d;
    ls_range mine = blocks_of(a->count, comm->rank, d, p);
    ls_range theirs = blocks_of(a->count, other, d, p);
    ls_range out = add ? theirs : mine, in = add ? mine : theirs;
    return ls_comm_add_exchange(comm, ops,
                                &(ls_exchange){.to = other,
                                               .send = a->data + out.first,
                                               .send_count = out.count,
                                               .from = other,
                                               .receive = a->data + in.first,
                                               .receive_count = in.count,
                                               .add = add});
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    int p = power_below(comm->size), extra = comm->rank + p < comm->size ? comm->rank + p : -1;
    if (comm->rank >= p) {
        LS_TRY(ls_comm_add_whole(comm, a, comm->rank - p, -1, false, ops));
        return ls_comm_add_whole(comm, a, -1, comm->rank - p, false, ops);
    }
    LS_TRY(ls_comm_add_whole(comm, a, -1, extra, true, ops));
    for (int d = p / 2; d > 0; d /= 2)
        LS_TRY(put_pair(comm, a, d, true, ops));
    for (int d = 1; d < p; d *= 2)
        LS_TRY(put_pair(comm, a, d, false, ops));
    return ls_comm_add_whole(comm, a, extra, -1, false, ops);
}

/* Sums H(r, d) of all elements into sum `into`; higher-numbered sums are free. Blocks differ only
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

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    int p = power_below(ranks);
    uint64_t messages = count ? 2 * (uint64_t)(ranks - p) : 0;
    (void)shards;
    for (int d = 1; d < p; d *= 2)
        messages += 2 * (uint64_t)d * ls_comm_filled(count, p / d);
    return (ls_traffic){.bytes_sent = ls_comm_bytes(2 * ((uint64_t)ranks - 1), count),
                        .messages_sent = messages};
}

const ls_allreduce ls_allreduce_halving_doubling = {
    .name = "halving-doubling",
    .help = "pairs at halved and doubled distances: least bytes, few rounds",
    .build = build,
    .formula = formula,
    .oracle = oracle,
};
