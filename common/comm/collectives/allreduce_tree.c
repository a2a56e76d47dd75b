/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `tree`: whole buffers go up a binomial tree to rank 0, and the sum comes down the same
 * way. In round m = 1, 2, 4, ... a rank that is an odd multiple of m sends to rank - m and is done;
 * an even multiple receives from rank + m, if that exists, and adds. With P elements on n ranks:
 * messages 2 (n - 1), none if P = 0; bytes 2 (n - 1) 4 P, over 2 ceil(log2 n) rounds. Sum: T(0, n
 * rounded up to a power of two) with T(r, 1) = g(r) and T(r, 2m) = T(r, m) + T(r + m, m), without
 * the second term if r + m >= n.
 */
#include "common/comm/comm_network.h"
#include "common/comm/comm_parts.h"

/* A rank's part of the round with distance m; `down`: the sum is sent back. */
static ls_status put_round(ls_comm *comm, const ls_allreduce_args *a, int m, bool down,
                           ls_op_list *ops)
{
    bool upper = comm->rank % (2 * m) == m;
    int other = upper ? comm->rank - m : comm->rank + m;
    if (comm->rank % m != 0 || other >= comm->size)
        return LS_OK;
    const bool sends = upper != down;
    return ls_comm_add_whole(comm, a, sends ? other : -1, sends ? -1 : other,
                             down ? LS_REPLACE : LS_ADD, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    int m = 1;
    for (; m < comm->size; m *= 2)
        LS_TRY(put_round(comm, a, m, false, ops));
    for (m /= 2; m > 0; m /= 2)
        LS_TRY(put_round(comm, a, m, true, ops));
    return LS_OK;
}

/* Sums T(r, m) into sum `into`; higher-numbered sums are free. */
static ls_status put_tree(int ranks, size_t count, int r, int m, int into, ls_sum_order *out)
{
    const size_t visit = (size_t)(r + m / 2);
    if (m == 1)
        return ls_sum_order_add(
            out, &(ls_order_step){
                     .visit = (size_t)r, .input = r, .into = into, .begins = true, .count = count});
    LS_TRY(put_tree(ranks, count, r, m / 2, into, out));
    if (r + m / 2 >= ranks)
        return LS_OK;
    LS_TRY(put_tree(ranks, count, r + m / 2, m / 2, into + 1, out));
    const size_t last = (size_t)(r + m <= ranks ? r + m : ranks) - 1;
    return ls_sum_order_add(out, &(ls_order_step){.visit = last > visit ? last : visit,
                                                  .input = LS_SUM_OTHER,
                                                  .from = into + 1,
                                                  .into = into,
                                                  .count = count});
}

static ls_status oracle(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out)
{
    (void)layout;
    int m = 1;
    while (m < ranks)
        m *= 2;
    return put_tree(ranks, extent.count, 0, m, 0, out);
}

/* The way down takes as long as the way up. */
static ls_status take_time(ls_rounds *rounds, ls_half half, ls_extent extent, double *ns)
{
    const int n = rounds->load->ranks;
    (void)half;
    *ns = 0;
    for (int m = 1; m < n; m *= 2) {
        for (int r = m; r < n; r += 2 * m)
            ls_rounds_send(rounds, r, r - m, extent.count);
        *ns += 2 * ls_rounds_end(rounds);
    }
    return LS_OK;
}

const ls_allreduce ls_allreduce_tree = {
    .name = "tree",
    .help = "up and down a binomial tree: few rounds, whole buffers",
    .build = build,
    .formula = ls_comm_whole_formula,
    .oracle = oracle,
    .time = take_time,
};
