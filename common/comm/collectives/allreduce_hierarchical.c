/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `hierarchical`: sends the least over the slowest wires. A process's first rank adds
 * the data of its other ranks, in their order; a host's first process adds the sums of the host's
 * other processes; the hosts' first ranks all-reduce around a ring; sums go back the same way. All
 * ranks of a host wait for one leader, so `ring` is better where all wires are equally fast. With P
 * elements on n ranks in p processes on h hosts, k = min(h, P): messages 2 (n - p) + 2 (p - h) + 2
 * (h - 1) k, the first two 0 if P = 0; bytes 2 (n - 1) 4 P. Sum: ring's over hosts of (process +
 * process) + ... of (g + g) + ...
 */
#include "common/comm/comm_network.h"
#include "common/comm/comm_parts.h"

#include <stdlib.h>

/* The leaders of a rank's process and host, as ranks of the communicator. */
typedef struct leaders {
    int process, host; /* their first ranks */
} leaders;

/* All ranks; and each host's first rank, ascending. */
typedef struct all_leaders {
    int ranks, hosts;
    leaders *at;  /* [ranks] */
    int *leaders; /* [hosts] */
} all_leaders;

/* The first process on the host of process p. */
static int first_on_host(const ls_layout *layout, int p)
{
    int first = 0;
    while (layout->host[first] != layout->host[p])
        first++;
    return first;
}

static void free_leaders(all_leaders *all)
{
    free(all->at);
    free(all->leaders);
}

/* Owned by the caller (free_leaders), also on failure. */
static ls_status find_leaders(const ls_layout *layout, int ranks, all_leaders *out)
{
    const int each = layout ? ranks / layout->processes : ranks;
    *out = (all_leaders){.ranks = ranks};
    LS_TRY(ls_allocate("communicator", &out->at, (size_t)ranks, sizeof *out->at));
    LS_TRY(ls_allocate("communicator", &out->leaders, (size_t)ranks, sizeof *out->leaders));
    for (int r = 0; r < ranks; r++) {
        const int p = r / each;
        const bool same_host = p && layout && layout->host[p] == layout->host[p - 1];
        out->at[r] = (leaders){p * each, same_host ? out->at[r - each].host
                                         : layout  ? first_on_host(layout, p) * each
                                                   : 0};
        if (out->at[r].host == r)
            out->leaders[out->hosts++] = r;
    }
    return LS_OK;
}

/* Whether rank r sends its data to `leader`: inside the process, or (`host`) as its process's first
 * rank to the host's first. A leader, its group's lowest rank, does not send to itself. */
static bool is_under(const all_leaders *all, int r, int leader, bool host)
{
    const leaders at = all->at[r];
    return host ? at.process == r && at.host == leader : at.process == leader;
}

/* Upwards the leader receives from all; downwards it sends to all. */
static ls_status put_level(ls_comm *comm, const ls_allreduce_args *a, const all_leaders *all,
                           bool host, bool up, ls_op_list *ops)
{
    const leaders me = all->at[comm->rank];
    const int leader = host ? me.host : me.process;
    if (host && me.process != comm->rank)
        return LS_OK;
    if (leader != comm->rank)
        return ls_comm_add_whole(comm, a, up ? leader : -1, up ? -1 : leader, LS_REPLACE, ops);
    for (int r = leader + 1; r < comm->size; r++)
        if (is_under(all, r, leader, host))
            LS_TRY(ls_comm_add_whole(comm, a, up ? -1 : r, up ? r : -1, up ? LS_ADD : LS_REPLACE,
                                     ops));
    return LS_OK;
}

/* The rounds of allreduce_ring.c between the hosts' first ranks. */
static ls_status put_ring(ls_comm *comm, const ls_allreduce_args *a, const all_leaders *all,
                          ls_op_list *ops)
{
    ls_comm_ring ring = {.size = all->hosts, .ranks = all->leaders, .data = a->data};
    size_t *split = NULL;
    while (ring.position < all->hosts && all->leaders[ring.position] != comm->rank)
        ring.position++;
    if (ring.position == all->hosts)
        return LS_OK;
    LS_TRY(ls_comm_even_split(ls_comm_extent(a), all->hosts, &split));
    ring.offsets = split;
    ring.counts = split + all->hosts;
    ls_status status = ls_comm_add_ring(comm, &ring, LS_REDUCE_SCATTER, ops);
    if (!status)
        status = ls_comm_add_ring(comm, &ring, LS_ALL_GATHER, ops);
    free(split);
    return status;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    all_leaders all;
    ls_status status = find_leaders(comm->layout, comm->size, &all);
    if (!status)
        status = put_level(comm, a, &all, false, true, ops);
    if (!status)
        status = put_level(comm, a, &all, true, true, ops);
    if (!status)
        status = put_ring(comm, a, &all, ops);
    if (!status)
        status = put_level(comm, a, &all, true, false, ops);
    if (!status)
        status = put_level(comm, a, &all, false, false, ops);
    free_leaders(&all);
    return status;
}

static ls_traffic formula(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout)
{
    int hosts = layout ? 0 : 1;
    for (int p = 0; layout && p < layout->processes; p++)
        hosts += first_on_host(layout, p) == p;
    const ls_traffic ring = ls_allreduce_ring.formula(hosts, extent, shards, NULL);
    const uint64_t messages = extent.count ? 2 * (uint64_t)(ranks - hosts) : 0;
    return (ls_traffic){.bytes_sent = ring.bytes_sent + ls_comm_bytes(messages, extent.count),
                        .messages_sent = ring.messages_sent + messages};
}

enum { RING, HOST, PROCESS }; /* indices of partial sums */

/* The sum of a process's ranks. */
static ls_status put_process(const all_leaders *all, size_t count, int leader, size_t *visit,
                             ls_sum_order *out)
{
    ls_order_step step = {.into = PROCESS, .count = count};
    for (int r = leader; r < all->ranks; r++) {
        if (!is_under(all, r, leader, false))
            continue;
        step.visit = (*visit)++;
        step.input = r;
        step.begins = r == leader;
        LS_TRY(ls_sum_order_add(out, &step));
    }
    return LS_OK;
}

/* The sum of a host's processes. */
static ls_status put_host(const all_leaders *all, size_t count, int leader, size_t *visit,
                          ls_sum_order *out)
{
    for (int r = leader; r < all->ranks; r++) {
        if (!is_under(all, r, leader, true))
            continue;
        LS_TRY(put_process(all, count, r, visit, out));
        LS_TRY(ls_sum_order_add(out, &(ls_order_step){.visit = *visit - 1,
                                                      .input = LS_SUM_OTHER,
                                                      .from = PROCESS,
                                                      .into = HOST,
                                                      .begins = r == leader,
                                                      .count = count}));
    }
    return LS_OK;
}

/* The order of a ring of hosts. */
static ls_status oracle(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out)
{
    all_leaders all;
    size_t visit = 0;
    ls_sum_order ring = {0};
    ls_status status = find_leaders(layout, ranks, &all);
    if (!status)
        status = ls_allreduce_ring.oracle(all.hosts, extent, NULL, &ring);
    for (size_t i = 0; i < ring.count && !status; i++) {
        ls_order_step step = ring.steps[i];
        const bool known = i > 0 && ring.steps[i - 1].visit == step.visit;
        if (!known)
            status = put_host(&all, extent.count, all.leaders[step.input], &visit, out);
        step.visit = visit - 1;
        step.input = LS_SUM_OTHER;
        step.from = HOST;
        if (!status)
            status = ls_sum_order_add(out, &step);
    }
    ls_sum_order_close(&ring);
    free_leaders(&all);
    return status;
}

/* What the slowest leader of a process, or (`host`) of a host, takes to receive from its ranks.
 * `ns` [ranks]: scratch. */
static double take_level(ls_rounds *rounds, const all_leaders *all, bool host, size_t count,
                         double *ns)
{
    double most_ns = 0;
    for (int r = 0; r < all->ranks; r++)
        ns[r] = 0;
    for (int r = 0; r < all->ranks; r++) {
        const int leader = host ? all->at[r].host : all->at[r].process;
        if (r == leader || !is_under(all, r, leader, host))
            continue;
        ls_rounds_send(rounds, r, leader, count);
        ns[leader] += ls_rounds_end(rounds);
        most_ns = ns[leader] > most_ns ? ns[leader] : most_ns;
    }
    return most_ns;
}

/* The way down takes as long as the way up. */
static ls_status take_time(ls_rounds *rounds, ls_half half, ls_extent extent, double *ns)
{
    all_leaders all;
    double *level_ns = NULL;
    (void)half;
    ls_status status = find_leaders(rounds->load->layout, rounds->load->ranks, &all);
    if (!status)
        status = ls_allocate("communicator", &level_ns, (size_t)all.ranks, sizeof *level_ns);
    if (!status) {
        const size_t block = extent.count / (size_t)ls_comm_filled(extent, all.hosts);
        for (int i = 0; i < all.hosts; i++)
            ls_rounds_send(rounds, all.leaders[i], all.leaders[(i + 1) % all.hosts], block);
        *ns = 2 * (all.hosts - 1) * ls_rounds_end(rounds);
        for (int host = 0; host < 2; host++)
            *ns += 2 * take_level(rounds, &all, host, extent.count, level_ns);
    }
    free(level_ns);
    free_leaders(&all);
    return status;
}

const ls_allreduce ls_allreduce_hierarchical = {
    .name = "hierarchical",
    .help = "in each process, on each host, around a ring of hosts: least traffic on slow wires",
    .build = build,
    .formula = formula,
    .oracle = oracle,
    .time = take_time,
};
