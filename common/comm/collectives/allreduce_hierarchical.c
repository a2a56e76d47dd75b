/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `hierarchical`: the least goes over the slowest wires. A process's first rank adds
 * what its other ranks send, in their order; a host's first process adds what its other processes'
 * first ranks send; the hosts' first ranks all-reduce around a ring; sums go back the same way.
 * Leaders are few, so ranks of a host wait for one: `ring` is better where all wires are alike.
 *
 * With P elements on n ranks in p processes on h hosts, k = min(h, P): messages
 * 2 (n - p) + 2 (p - h) + 2 (h - 1) k, the first two 0 where P = 0; bytes 2 (n - 1) 4 P. Sum:
 * ring's over hosts of (process + process) + ... of (g + g) + ...
 */
#include "common/comm/comm_parts.h"

#include <stdlib.h>

/* Of a rank: who leads its process, its host; ranks are numbers in the communicator. */
typedef struct place {
    int process, host; /* their first ranks */
} place;

static int processes_of(const ls_layout *layout)
{
    return layout ? layout->processes : 1;
}

static place find_place(const ls_layout *layout, int ranks, int rank)
{
    const int each = ranks / processes_of(layout);
    int first = rank / each;
    place found = {.process = first * each};
    for (int p = first; p >= 0; p--)
        if (layout && layout->host[p] == layout->host[rank / each])
            first = p;
    found.host = layout ? first * each : 0;
    return found;
}

/* The hosts' first ranks, ascending, into leaders [ranks]; how many. */
static int list_hosts(const ls_layout *layout, int ranks, int *leaders)
{
    int count = 0;
    for (int r = 0; r < ranks; r++)
        if (find_place(layout, ranks, r).host == r)
            leaders[count++] = r;
    return count;
}

/* Whether rank r is one that sends to `leader` in the process (its members) or on the host (first
 * ranks of its processes). */
static bool sends_to(const ls_layout *layout, int ranks, int r, int leader, bool host)
{
    const place at = find_place(layout, ranks, r);
    return r != leader && (host ? at.process == r && at.host == leader : at.process == leader);
}

static ls_status put_whole(ls_comm *comm, const ls_allreduce_args *a, int to, int from,
                           ls_op_list *ops, bool add)
{
    return ls_comm_put_exchange(comm, ops,
                                &(ls_exchange){.to = to,
                                               .send = a->data,
                                               .send_count = a->count,
                                               .from = from,
                                               .receive = a->data,
                                               .receive_count = a->count,
                                               .add = add});
}

/* Up: the leader takes all; down: it sends to all. */
static ls_status put_level(ls_comm *comm, const ls_allreduce_args *a, bool host, bool up,
                           ls_op_list *ops)
{
    const place me = find_place(comm->layout, comm->size, comm->rank);
    const int leader = host ? me.host : me.process;
    if (host && me.process != comm->rank)
        return LS_OK;
    if (leader != comm->rank)
        return up ? put_whole(comm, a, leader, -1, ops, false)
                  : put_whole(comm, a, -1, leader, ops, false);
    for (int r = 0; r < comm->size; r++)
        if (sends_to(comm->layout, comm->size, r, leader, host))
            LS_TRY(up ? put_whole(comm, a, -1, r, ops, true)
                      : put_whole(comm, a, r, -1, ops, false));
    return LS_OK;
}

/* Block modulo the ring's length, of an even split. */
static ls_range block(size_t count, int number, int hosts)
{
    return ls_comm_parts(count, (number + 2 * hosts) % hosts, 1, hosts);
}

/* allreduce_ring.c's rounds, of the hosts' first ranks. */
static ls_status put_ring(ls_comm *comm, const ls_allreduce_args *a, const int *leaders, int hosts,
                          ls_op_list *ops)
{
    int me = 0;
    while (me < hosts && leaders[me] != comm->rank)
        me++;
    for (int round = 0; me < hosts && round < 2 * (hosts - 1); round++) {
        const bool add = round < hosts - 1;
        const int sent = add ? me - 1 - round : me - (round - (hosts - 1));
        const ls_range out = block(a->count, sent, hosts), in = block(a->count, sent - 1, hosts);
        const ls_exchange exchange = {.to = leaders[(me + 1) % hosts],
                                      .send = a->data + out.first,
                                      .send_count = out.count,
                                      .from = leaders[(me + hosts - 1) % hosts],
                                      .receive = a->data + in.first,
                                      .receive_count = in.count,
                                      .add = add};
        LS_TRY(ls_comm_put_exchange(comm, ops, &exchange));
    }
    return LS_OK;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    int *leaders = calloc((size_t)comm->size, sizeof *leaders);
    if (!leaders)
        return ls_fail_memory("communicator", (size_t)comm->size * sizeof *leaders);
    const int hosts = list_hosts(comm->layout, comm->size, leaders);
    ls_status status = put_level(comm, a, false, true, ops);
    if (!status)
        status = put_level(comm, a, true, true, ops);
    if (!status)
        status = put_ring(comm, a, leaders, hosts, ops);
    free(leaders);
    LS_TRY(status);
    LS_TRY(put_level(comm, a, true, false, ops));
    return put_level(comm, a, false, false, ops);
}

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    int hosts = 0;
    for (int r = 0; r < ranks; r++)
        hosts += find_place(layout, ranks, r).host == r;
    const ls_traffic ring = ls_allreduce_ring.formula(hosts, count, shards, NULL);
    const uint64_t messages = count ? 2 * (uint64_t)(ranks - hosts) : 0;
    return (ls_traffic){.bytes_sent = ring.bytes_sent + ls_comm_bytes(messages, count),
                        .messages_sent = ring.messages_sent + messages};
}

enum { RING, HOST, PROCESS }; /* sums on the way */

/* What a process's ranks add up to. */
static ls_status put_process(const ls_layout *layout, int ranks, size_t count, int leader,
                             size_t *visit, ls_sum_order *out)
{
    ls_order_step step = {.input = leader, .into = PROCESS, .begins = true, .count = count};
    for (int r = -1; r < ranks; r++) {
        if (r >= 0 && !sends_to(layout, ranks, r, leader, false))
            continue;
        step.visit = (*visit)++;
        step.input = r < 0 ? leader : r;
        step.begins = r < 0;
        LS_TRY(ls_sum_order_add(out, &step));
    }
    return LS_OK;
}

/* What a host's processes add up to. */
static ls_status put_host(const ls_layout *layout, int ranks, size_t count, int leader,
                          size_t *visit, ls_sum_order *out)
{
    for (int r = -1; r < ranks; r++) {
        if (r >= 0 && !sends_to(layout, ranks, r, leader, true))
            continue;
        LS_TRY(put_process(layout, ranks, count, r < 0 ? leader : r, visit, out));
        LS_TRY(ls_sum_order_add(out, &(ls_order_step){.visit = *visit - 1,
                                                      .input = LS_SUM_OTHER,
                                                      .from = PROCESS,
                                                      .into = HOST,
                                                      .begins = r < 0,
                                                      .count = count}));
    }
    return LS_OK;
}

/* The ring's order, of hosts. */
static ls_status oracle(int ranks, size_t count, const ls_layout *layout, ls_sum_order *out)
{
    int leaders[1024];
    const int hosts = list_hosts(layout, ranks, leaders);
    size_t visit = 0;
    ls_sum_order ring = {0};
    ls_status status = ls_allreduce_ring.oracle(hosts, count, NULL, &ring);
    for (size_t i = 0; i < ring.count && !status; i++) {
        ls_order_step step = ring.steps[i];
        const bool known = i > 0 && ring.steps[i - 1].visit == step.visit;
        if (!known)
            status = put_host(layout, ranks, count, leaders[step.input], &visit, out);
        step.visit = visit - 1;
        step.input = LS_SUM_OTHER;
        step.from = HOST;
        if (!status)
            status = ls_sum_order_add(out, &step);
    }
    ls_sum_order_close(&ring);
    return status;
}

const ls_allreduce ls_allreduce_hierarchical = {
    .name = "hierarchical",
    .help = "in each process, on each host, around a ring of hosts: least over slow wires",
    .build = build,
    .formula = formula,
    .oracle = oracle,
};
