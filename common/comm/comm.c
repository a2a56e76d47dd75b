/* SPDX-License-Identifier: MIT */
/* Communicators: the tables of back ends and of all-reduce algorithms, lookup, `auto`. */
#include "common/comm/comm_parts.h"

#include <stdio.h>
#include <string.h>

static const void *const backends[] = {
    &ls_comm_thread,
    &ls_comm_device,
#ifdef LOCKSTEP_MPI
    &ls_comm_mpi,
#endif
#if LS_HAS_NCCL
    &ls_comm_nccl,
#endif
    NULL,
};
const ls_registry ls_comm_backends = {"communicator", backends};

static const void *const allreduces[] = {
    &ls_allreduce_flat,         &ls_allreduce_ring,
    &ls_allreduce_tree,         &ls_allreduce_halving_doubling,
    &ls_allreduce_direct,       &ls_allreduce_owners,
    &ls_allreduce_hierarchical, &ls_allreduce_canonical,
    &ls_allreduce_library,      NULL,
};
const ls_registry ls_allreduces = {"all-reduce", allreduces};

ls_status ls_allreduce_find(const char *name, const ls_allreduce **out)
{
    *out = ls_registry_find(&ls_allreduces, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_allreduces, name);
}

/* In shared memory `direct` is the fastest for every size and number of ranks. Elsewhere the fewest
 * bytes, then the fewest rounds. */
const ls_allreduce *ls_allreduce_auto_halves(const ls_comm *comm)
{
    if (!comm->backend->exchange)
        return &ls_allreduce_library;
    if (comm->backend->direct && comm->shared)
        return &ls_allreduce_direct;
    bool power_of_two = (comm->size & (comm->size - 1)) == 0;
    return power_of_two ? &ls_allreduce_halving_doubling : &ls_allreduce_ring;
}

/* Where data is exchanged, small data needs few messages, since latency dominates. */
const ls_allreduce *ls_allreduce_auto(const ls_comm *comm, size_t bytes)
{
    static const size_t small_bytes = 16384;
    const ls_allreduce *large = ls_allreduce_auto_halves(comm);
    const bool exchanges = large != &ls_allreduce_library && large != &ls_allreduce_direct;
    return exchanges && bytes <= small_bytes ? &ls_allreduce_tree : large;
}

ls_status ls_allreduce_check_halves(const ls_allreduce *algorithm)
{
    char names[256] = "";
    size_t used = 0;
    const ls_allreduce *a;
    if (algorithm->half)
        return LS_OK;
    for (const void *const *e = allreduces; (a = *e) && used < sizeof names; e++)
        if (a->half)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     a->name);
    return ls_fail(
        LS_CODE_USAGE, "all-reduce", algorithm->name,
        "this algorithm cannot be divided into a reduce-scatter and an all-gather; use one of %s",
        names);
}

ls_status ls_comm_backend_find(const char *name, const ls_comm_backend **out)
{
    *out = ls_registry_find(&ls_comm_backends, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_comm_backends, name);
}

const ls_comm_backend *ls_comm_backend_auto(const ls_comm *processes, ls_device_kind kind)
{
    return processes               ? processes->backend
           : kind == LS_DEVICE_GPU ? &ls_comm_device
                                   : &ls_comm_thread;
}

const ls_comm_backend *ls_comm_backend_of_gpus(const ls_device_name *names, int count)
{
#if LS_HAS_NCCL
    ls_status refused = ls_comm_nccl.check(names, count);
    const bool taken = !refused;
    ls_status_free(refused);
    return taken ? &ls_comm_nccl : NULL;
#else
    (void)names, (void)count;
    return NULL;
#endif
}

ls_status ls_comm_open(const ls_comm_backend *backend, ls_comm *processes,
                       ls_device *const *devices, int count, ls_comm **comms)
{
    if (!backend)
        backend = ls_comm_backend_auto(processes, ls_device_describe(devices[0])->name.kind);
    if (backend->alone && processes)
        return ls_fail(LS_CODE_USAGE, "comm", backend->name,
                       "connects ranks of one process only; for ranks in several processes, use "
                       "--comm mpi (CPU devices) or --comm nccl (GPUs)");
    return backend->open(processes, devices, count, comms);
}

bool ls_comm_is_joint(const ls_comm *comm)
{
    return comm->backend->enqueue != NULL;
}

ls_status ls_comm_enqueue(ls_comm *const *comms, const ls_comm_list *lists, int count)
{
    if (ls_comm_is_joint(comms[0]))
        return comms[0]->backend->enqueue(comms, lists, count);
    for (int r = 0; r < count; r++)
        LS_TRY(ls_op_list_enqueue(lists[r].ops, lists[r].queue));
    return LS_OK;
}

bool ls_comm_shares(const ls_device_name *names, int count)
{
    bool shares = true;
    for (int i = 1; i < count; i++)
        shares &= names[i].kind == names[0].kind &&
                  (names[i].kind == LS_DEVICE_CPU || names[i].index == names[0].index);
    return shares;
}

/* Rank 0 gathers, and sends the whole to each rank. */
ls_status ls_comm_collect(ls_comm *comm, const void *sent, size_t bytes, void *all)
{
    enum { TAG = 0x636f6c };
    const int root = 0, ranks = comm ? comm->size : 1;
    if (ranks == 1) {
        memcpy(all, sent, bytes);
        return LS_OK;
    }
    const ls_comm_backend *b = comm->backend;
    if (comm->rank != root) {
        LS_TRY(b->send(comm, root, TAG, sent, bytes));
        return b->receive(comm, root, TAG, all, bytes * (size_t)ranks);
    }
    memcpy(all, sent, bytes);
    for (int r = 1; r < ranks; r++)
        LS_TRY(b->receive(comm, r, TAG, (char *)all + (size_t)r * bytes, bytes));
    for (int r = 1; r < ranks; r++)
        LS_TRY(b->send(comm, r, TAG, all, bytes * (size_t)ranks));
    return LS_OK;
}

/* *who: the first rank with the worst code. */
static ls_status find_worst(ls_comm *comm, ls_code own_code, ls_code *worst, size_t *who)
{
    const size_t ranks = (size_t)comm->size;
    ls_auto ls_code *all = NULL;
    ls_status status = ls_allocate("communicator", &all, ranks, sizeof *all);
    if (!status)
        status = ls_comm_collect(comm, &own_code, sizeof own_code, all);
    if (status) /* so that no rank waits for this one's message */
        comm->backend->abandon(comm);
    *worst = LS_CODE_OK;
    for (size_t r = 0; r < ranks && !status; r++)
        if (all[r] > *worst) {
            *worst = all[r];
            *who = r;
        }
    return status;
}

ls_status ls_comm_worst(ls_comm *comm, ls_code own_code, ls_code *worst)
{
    size_t who;
    return find_worst(comm, own_code, worst, &who);
}

ls_status ls_comm_agree(ls_comm *comm, ls_status own_status)
{
    ls_code worst;
    size_t who = 0;
    if (!comm)
        return own_status;
    ls_status heard = find_worst(comm, ls_status_code(own_status), &worst, &who);
    if (own_status || heard || !worst)
        return ls_status_first(own_status, heard);
    return ls_status_follows(ls_fail(
        worst, "communicator", NULL,
        "rank %zu failed in this operation; the messages of that rank name the reason", who));
}

ls_status ls_comm_bring(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                        void *all)
{
    LS_TRY(ls_comm_agree(comm, own_status));
    return ls_comm_collect(comm, sent, bytes, all);
}

ls_status ls_comm_tell(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                       void *all)
{
    void *room;
    own_status = ls_status_first(
        own_status, ls_allocate("communicator", &room, comm ? (size_t)comm->size : 1, bytes));
    memcpy(all, &room, sizeof room);
    return ls_comm_bring(comm, own_status, sent, bytes, room);
}

/* Rank 0 allocates memory for all before any rank sends: what was sent and not received would later
 * be received in place of something else. */
ls_status ls_comm_gather(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                         void *all, size_t *all_bytes)
{
    enum { TAG = 0x7465 };
    const size_t ranks = comm ? (size_t)comm->size : 1;
    const bool leads = !comm || comm->rank == 0;
    char **out = all;
    size_t sum = 0;
    ls_auto size_t *sizes = NULL;
    LS_TRY(ls_comm_tell(comm, own_status, &bytes, sizeof bytes, &sizes));
    for (size_t r = 0; r < ranks; r++)
        sum += sizes[r];
    if (all_bytes)
        *all_bytes = leads ? sum : 0;
    LS_TRY(ls_comm_agree(comm, leads ? ls_allocate("ranks", out, sum, 1) : LS_OK));
    if (!leads)
        return bytes ? comm->backend->send(comm, 0, TAG, sent, bytes) : LS_OK;
    if (bytes)
        memcpy(*out, sent, bytes);
    for (size_t r = 1, at = bytes; r < ranks; at += sizes[r++])
        if (sizes[r])
            LS_TRY(comm->backend->receive(comm, (int)r, TAG, *out + at, sizes[r]));
    return LS_OK;
}

ls_traffic ls_comm_traffic(const ls_comm *comm)
{
    return (ls_traffic){.bytes_sent = atomic_load(&comm->bytes_sent),
                        .messages_sent = atomic_load(&comm->messages_sent)};
}

ls_received ls_comm_received(const ls_comm *comm)
{
    return (ls_received){atomic_load(&comm->bytes_received), atomic_load(&comm->bytes_copied)};
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

size_t ls_comm_cut(ls_extent extent, int part, int parts)
{
    const size_t block = ls_comm_share(extent.blocks, part, parts);
    return extent.begin    ? extent.begin[block]
           : extent.blocks ? block * (extent.count / extent.blocks)
                           : 0;
}

ls_status ls_comm_even_split(ls_extent extent, int parts, size_t **out)
{
    size_t n = (size_t)parts, *split;
    LS_TRY(ls_allocate("communicator", &split, 2 * n, sizeof *split));
    for (int p = 0; p < parts; p++) {
        ls_range part = ls_comm_parts(extent, p, 1, parts);
        split[p] = part.first;
        split[n + (size_t)p] = part.count;
    }
    *out = split;
    return LS_OK;
}

/* Records which memory an operation accesses. Every operation writes its end of the communicator,
 * so operations of one end stay in order and do not share its scratch. `recorded`: status of
 * recording its messages. */
static ls_status touch(ls_comm *comm, const ls_access *data, size_t count, ls_status recorded,
                       ls_op **op)
{
    const ls_access end = {comm, sizeof *comm, true};
    ls_status status = recorded ? recorded : ls_op_touches(*op, &end, 1);
    if (!status)
        status = ls_op_touches(*op, data, count);
    if (status) {
        ls_op_free(*op);
        *op = NULL; /* callers free what they have */
    }
    return status;
}

/* Records a message unless it is empty. */
static ls_status record(ls_comm *comm, int from, int to, size_t bytes, ls_op *op)
{
    if (from < 0 || to < 0 || from == to || !bytes)
        return LS_OK;
    const ls_op_message message = {comm, from, to, bytes};
    return ls_op_sends(op, &message);
}

/* Records the messages of an exchange. */
static ls_status tell_exchange(ls_comm *comm, const ls_exchange *x, ls_op *op)
{
    if (x->inside)
        return LS_OK;
    LS_TRY(record(comm, comm->rank, x->to, ls_exchange_bytes(x, x->send_count), op));
    return record(comm, x->from, comm->rank, ls_exchange_bytes(x, x->receive_count), op);
}

/* Records the messages of `direct`: each rank reads the others' parts of its slice and sends each
 * rank its sum; up to 8 elements, each rank reads all data. */
static ls_status tell_direct(ls_comm *comm, ls_half half, ls_extent extent, ls_op *op)
{
    const int me = comm->rank;
    const ls_direct_part own = ls_comm_direct_part(half, me, comm->size, extent);
    for (int q = 0; q < comm->size; q++) {
        const ls_direct_part part = ls_comm_direct_part(half, q, comm->size, extent);
        if (q == me)
            continue;
        if (half != LS_ALL_GATHER) {
            LS_TRY(record(comm, me, q, part.slice.count * sizeof(float), op));
            LS_TRY(record(comm, q, me, own.slice.count * sizeof(float), op));
        }
        if (own.few || half == LS_REDUCE_SCATTER)
            continue;
        LS_TRY(record(comm, me, q, own.slice.count * sizeof(float), op));
        LS_TRY(record(comm, q, me, part.slice.count * sizeof(float), op));
    }
    return LS_OK;
}

ls_status ls_comm_check_rank(const ls_comm *comm, const char *what, int rank)
{
    if (rank >= 0 && rank < comm->size)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "communicator", what,
                   "there is no rank %d; name a rank from 0 to %d", rank, comm->size - 1);
}

ls_status ls_comm_check_room(int from, size_t came, size_t room)
{
    return came <= room ? LS_OK
                        : ls_fail(LS_CODE_USAGE, "communicator", "message",
                                  "%zu bytes came from rank %d, but the buffer has room for %zu; "
                                  "give a larger buffer",
                                  came, from, room);
}

ls_status ls_comm_check_bytes(int from, size_t came, size_t wanted)
{
    return came == wanted ? LS_OK
                          : ls_fail(LS_CODE_USAGE, "communicator", "message",
                                    "%zu bytes came from rank %d, but %zu were expected; send and "
                                    "receive the same number of bytes",
                                    came, from, wanted);
}

ls_status ls_comm_mismatch(ls_comm *comm, size_t own_count, size_t other_count, int other,
                           bool more)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d", comm->rank);
    comm->backend->abandon(comm);
    return ls_fail(LS_CODE_USAGE, "communicator", rank,
                   "this rank's operation has %zu elements, but the matching operation of rank %d "
                   "has %s%zu; enqueue matching operations in the same order on every rank",
                   own_count, other, more ? "more than " : "", other_count);
}

ls_status ls_comm_run_alone(ls_op *op, ls_queue *queue)
{
    (void)queue;
    return ls_fail(LS_CODE_USAGE, "communicator", op->name,
                   "this operation must be enqueued together with the operations of this process's "
                   "other ranks; use ls_comm_enqueue");
}

ls_status ls_comm_exchange(ls_comm *comm, const ls_exchange *x, ls_op **out)
{
    const ls_access data[] = {
        {x->to < 0 ? NULL : x->send, ls_exchange_bytes(x, x->send_count), false},
        {x->from < 0 ? NULL : x->receive, ls_exchange_bytes(x, x->receive_count), true}};
    if (!comm->backend->exchange)
        return ls_fail(LS_CODE_USAGE, "communicator", comm->backend->name,
                       "these ranks can use only the all-reduce of the %s library; use --allreduce "
                       "library or auto",
                       comm->backend->name);
    LS_TRY(x->to < 0 ? LS_OK : ls_comm_check_rank(comm, "exchange", x->to));
    LS_TRY(x->from < 0 ? LS_OK : ls_comm_check_rank(comm, "exchange", x->from));
    LS_TRY(comm->backend->exchange(comm, x, out));
    if (x->from >= 0) {
        (*out)->flops = x->add ? (double)x->receive_count : 0;
        (*out)->bytes = (double)((x->add ? 3 : 2) * ls_exchange_bytes(x, x->receive_count));
    }
    return touch(comm, data, 2, tell_exchange(comm, x, *out), out);
}

ls_status ls_comm_add_all(ls_comm *comm, ls_half half, ls_summed_by by, const ls_allreduce_args *a,
                          ls_op_list *ops)
{
    const ls_access all = {a->data, a->count * sizeof *a->data, true};
    const ls_comm_backend *b = comm->backend;
    const bool library = by == LS_BY_LIBRARY;
    ls_op *op;
    if (comm->size == 1 || a->count == 0)
        return LS_OK;
    const ls_extent extent = ls_comm_extent(a);
    LS_TRY(library ? b->library(comm, half, a->data, a->count, &op)
                   : b->direct(comm, half, a->data, extent, &op));
    LS_TRY(touch(comm, &all, 1, library ? LS_OK : tell_direct(comm, half, extent, op), &op));
    return ls_op_list_add(ops, op);
}

ls_status ls_comm_add_halves(ls_comm *comm, const ls_allreduce *algorithm,
                             const ls_allreduce_args *args, ls_op_list *ops)
{
    LS_TRY(algorithm->half(comm, LS_REDUCE_SCATTER, args, ops));
    return algorithm->half(comm, LS_ALL_GATHER, args, ops);
}

ls_status ls_comm_add_exchange(ls_comm *comm, ls_op_list *ops, const ls_exchange *exchange)
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
        e.add = false;
    }
    if (e.to < 0 && e.from < 0)
        return LS_OK;
    LS_TRY(ls_comm_exchange(comm, &e, &op));
    return ls_op_list_add(ops, op);
}

ls_status ls_comm_add_whole(ls_comm *comm, const ls_allreduce_args *a, int to, int from,
                            ls_arriving arriving, ls_op_list *ops)
{
    const ls_exchange all = {.to = to,
                             .send = a->data,
                             .send_count = a->count,
                             .from = from,
                             .receive = a->data,
                             .receive_count = a->count,
                             .add = arriving == LS_ADD};
    return ls_comm_add_exchange(comm, ops, &all);
}
