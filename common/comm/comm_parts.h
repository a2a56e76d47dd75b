/* SPDX-License-Identifier: MIT */
/* What the files of the collectives share: adding exchanges to a list, and parts of ranges. */
#pragma once

#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "common/comm/comm_loops.h"

/** Who sums. */
typedef enum ls_summed_by { LS_BY_BACKEND, LS_BY_LIBRARY } ls_summed_by;

/** Adds the operation of an all-reduce, or a half of it, by the back end itself (`direct`), or by
 * its library. */
ls_status ls_comm_add_all(ls_comm *comm, ls_half half, ls_summed_by by,
                          const ls_allreduce_args *args, ls_op_list *ops);

/** Builds an all-reduce as its two halves. */
ls_status ls_comm_add_halves(ls_comm *comm, const ls_allreduce *algorithm,
                             const ls_allreduce_args *args, ls_op_list *ops);

/** What its two halves move. */
static inline ls_traffic ls_comm_halves_formula(const ls_allreduce *algorithm, int ranks,
                                                ls_extent extent, int64_t shards)
{
    const ls_traffic a = algorithm->half_formula(LS_REDUCE_SCATTER, ranks, extent, shards),
                     b = algorithm->half_formula(LS_ALL_GATHER, ranks, extent, shards);
    return (ls_traffic){.bytes_sent = a.bytes_sent + b.bytes_sent,
                        .messages_sent = a.messages_sent + b.messages_sent};
}

/** Adds the exchange to the list, without a half that has no rank or no elements. */
ls_status ls_comm_add_exchange(ls_comm *comm, ls_op_list *ops, const ls_exchange *exchange);

/** As above, for all of args->data: to rank `to`, from rank `from`; negative if there is none. */
ls_status ls_comm_add_whole(ls_comm *comm, const ls_allreduce_args *args, int to, int from,
                            ls_arriving arriving, ls_op_list *ops);

/** Blocks that go around a ring: block b is counts[b] elements at data + offsets[b]. */
typedef struct ls_comm_ring {
    int size, position; /**< how many ranks, and this one's position */
    const int *ranks;   /**< [size]; NULL means all of the communicator */
    float *data;
    const size_t *offsets, *counts; /**< [size] */
} ls_comm_ring;

/** Adds the rounds of LS_REDUCE_SCATTER or LS_ALL_GATHER: ring_blocks.c. */
ls_status ls_comm_add_ring(ls_comm *comm, const ls_comm_ring *ring, ls_half half, ls_op_list *ops);

/** Formula and order of algorithms that send all data to one rank and the sum back, in the order
 * g0, g1, g2, ... (allreduce_flat.c). */
ls_traffic ls_comm_whole_formula(int ranks, ls_extent extent, int64_t shards,
                                 const ls_layout *layout);
ls_status ls_comm_rank_order(int ranks, ls_extent extent, const ls_layout *layout,
                             ls_sum_order *out);

/** Failures with the same text in all back ends: no such rank; a message with more bytes than there
 * is room for, or another number than expected (otherwise LS_OK). ls_comm_mismatch also abandons:
 * rank `other` has enqueued an operation of `other_count` elements (`more`: of more than that). */
ls_status ls_comm_check_rank(const ls_comm *comm, const char *what, int rank);
ls_status ls_comm_check_room(int from, size_t came, size_t room);
ls_status ls_comm_check_bytes(int from, size_t came, size_t wanted);
ls_status ls_comm_mismatch(ls_comm *comm, size_t own_count, size_t other_count, int other,
                           bool more);

/** The `run` of operations that only ls_comm_enqueue can enqueue: refuses. */
ls_status ls_comm_run_alone(ls_op *op, ls_queue *queue);

/** Parts [part, part + length) of an even split into `parts`. */
static inline ls_range ls_comm_parts(ls_extent extent, int part, int length, int parts)
{
    const size_t first = ls_comm_cut(extent, part, parts);
    return (ls_range){first, ls_comm_cut(extent, part + length, parts) - first};
}

/** The extent of what a rank brings to an all-reduce. */
static inline ls_extent ls_comm_extent(const ls_allreduce_args *args)
{
    return args->cut ? *args->cut : ls_elements(args->count);
}

/** An even split as offsets [parts], then counts [parts]; owned by the caller (free). */
ls_status ls_comm_even_split(ls_extent extent, int parts, size_t **out);

/** How many parts of an even split have elements. */
static inline uint64_t ls_comm_filled(ls_extent extent, int parts)
{
    return extent.blocks < (size_t)parts ? extent.blocks : (uint64_t)parts;
}

static inline uint64_t ls_comm_bytes(uint64_t times, size_t count)
{
    return times * (uint64_t)count * sizeof(float);
}

/** What every rank's share moves to or from all others: an all-gather around a ring, and more. */
static inline ls_traffic ls_comm_shares_formula(int ranks, ls_extent extent)
{
    const uint64_t others = (uint64_t)ranks - 1;
    return (ls_traffic){.bytes_sent = ls_comm_bytes(others, extent.count),
                        .messages_sent = others * ls_comm_filled(extent, ranks)};
}

/** This rank has sent messages; by an exchange it has received elements. */
static inline void ls_comm_sent(ls_comm *comm, uint64_t messages, uint64_t bytes)
{
    atomic_fetch_add_explicit(&comm->messages_sent, messages, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->bytes_sent, bytes, memory_order_relaxed);
}

static inline void ls_comm_has(ls_comm *comm, const ls_exchange *exchange, size_t count)
{
    if (!exchange->inside || !exchange->add) /* otherwise it is read in place */
        atomic_fetch_add_explicit(exchange->inside ? &comm->bytes_copied : &comm->bytes_received,
                                  ls_exchange_bytes(exchange, count), memory_order_relaxed);
}

/** What a rank does in a direct all-reduce, or a half of it: sums a slice, and sends. */
typedef struct ls_direct_part {
    const char *name; /**< of its operation */
    ls_half half;
    bool few; /**< all-reduce of up to LS_DIRECT_FEW elements: it sums all, for itself */
    ls_range slice;
    uint64_t messages, bytes;
    double flops, moved; /**< moved: bytes that it reads and writes */
} ls_direct_part;

ls_direct_part ls_comm_direct_part(ls_half half, int rank, int ranks, ls_extent extent);

/** Does a rank's part on the processor: data[r] is rank r's buffer. Between two meetings. */
void ls_comm_direct_do(const ls_direct_part *part, float *const *data, int rank, int ranks);

extern const ls_allreduce ls_allreduce_flat, ls_allreduce_ring, ls_allreduce_tree,
    ls_allreduce_halving_doubling, ls_allreduce_direct, ls_allreduce_owners, ls_allreduce_canonical,
    ls_allreduce_hierarchical, ls_allreduce_library;

extern const ls_comm_backend ls_comm_thread, ls_comm_device;
extern const ls_comm_backend ls_comm_mpi;  /* in builds with MPI */
extern const ls_comm_backend ls_comm_nccl; /* if LS_HAS_NCCL */
