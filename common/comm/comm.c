/* SPDX-License-Identifier: MIT */
/* Communicators: the tables of back ends and of all-reduce algorithms, lookup, `auto`. */
#include "common/comm/comm_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_comm_backend *const backends[] = {
    &ls_comm_thread,
#ifdef LOCKSTEP_MPI
    &ls_comm_mpi,
#endif
    NULL,
};

static const ls_allreduce *const allreduces[] = {
    &ls_allreduce_flat,    &ls_allreduce_ring,
    &ls_allreduce_tree,    &ls_allreduce_halving_doubling,
    &ls_allreduce_direct,  &ls_allreduce_canonical,
    &ls_allreduce_library, NULL,
};

const ls_comm_backend *const *ls_comm_backends(void)
{
    return backends;
}

const ls_allreduce *const *ls_allreduces(void)
{
    return allreduces;
}

ls_status ls_allreduce_find(const char *name, const ls_allreduce **out)
{
    char names[128] = "";
    for (size_t i = 0; allreduces[i]; i++) {
        if (strcmp(allreduces[i]->name, name) == 0) {
            *out = allreduces[i];
            return LS_OK;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 allreduces[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "all-reduce", name, "no algorithm of this name; they are %s",
                   names);
}

/*
 * In shared memory `direct` is the fastest at every size and number of ranks. Elsewhere: few
 * messages while latency counts; then the least bytes, in the fewest rounds that allow it.
 */
const ls_allreduce *ls_allreduce_auto(const ls_comm *comm, size_t bytes)
{
    static const size_t small_bytes = 16384;
    if (comm->backend->direct && !comm->linked)
        return &ls_allreduce_direct;
    if (bytes <= small_bytes)
        return &ls_allreduce_tree;
    bool power_of_two = (comm->size & (comm->size - 1)) == 0;
    return power_of_two ? &ls_allreduce_halving_doubling : &ls_allreduce_ring;
}

ls_status ls_comm_open(ls_comm *processes, ls_device *const *devices, int count, ls_comm **comms)
{
    return processes ? processes->backend->open(processes, devices, count, comms)
                     : ls_comm_thread_open(devices, count, comms);
}

/* By rank 0, which sends all to each. */
ls_status ls_comm_collect(ls_comm *comm, const void *mine, size_t bytes, void *all)
{
    enum { TAG = 0x636f6c };
    const int root = 0, ranks = comm ? comm->size : 1;
    if (ranks == 1) {
        memcpy(all, mine, bytes);
        return LS_OK;
    }
    const ls_comm_backend *b = comm->backend;
    if (comm->rank != root) {
        LS_TRY(b->send(comm, root, TAG, mine, bytes));
        return b->receive(comm, root, TAG, all, bytes * (size_t)ranks);
    }
    memcpy(all, mine, bytes);
    for (int r = 1; r < ranks; r++)
        LS_TRY(b->receive(comm, r, TAG, (char *)all + (size_t)r * bytes, bytes));
    for (int r = 1; r < ranks; r++)
        LS_TRY(b->send(comm, r, TAG, all, bytes * (size_t)ranks));
    return LS_OK;
}

void ls_comm_close(ls_comm *comm)
{
    if (comm)
        comm->backend->close(comm);
}

size_t ls_comm_share(size_t total, int part, int parts)
{
    size_t p = (size_t)part, n = (size_t)parts;
    return total / n * p + total % n * p / n;
}

ls_status ls_comm_even_split(size_t total, int parts, size_t **out)
{
    size_t n = (size_t)parts, *split = calloc(2 * n, sizeof *split);
    if (!split)
        return ls_fail_memory("communicator", 2 * n * sizeof *split);
    for (int p = 0; p < parts; p++) {
        ls_range part = ls_comm_parts(total, p, 1, parts);
        split[p] = part.first;
        split[n + (size_t)p] = part.count;
    }
    *out = split;
    return LS_OK;
}

double ls_allreduce_bus_factor(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

ls_status ls_comm_put_exchange(ls_comm *comm, ls_op_list *ops, const ls_exchange *exchange)
{
    ls_exchange e = *exchange;
    ls_op *op;
    if (e.to < 0 || e.send_count == 0) {
        e.to = -1;
        e.send_count = 0;
    }
    if (e.from < 0 || e.receive_count == 0) {
        e.from = -1;
        e.receive_count = 0;
    }
    if (e.to < 0 && e.from < 0)
        return LS_OK;
    LS_TRY(comm->backend->exchange(comm, &e, &op));
    return ls_op_list_add(ops, op);
}
