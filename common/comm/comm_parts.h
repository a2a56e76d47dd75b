/* SPDX-License-Identifier: MIT */
/* What the files of the collectives share: putting exchanges, and parts of ranges. */
#ifndef LS_COMMON_COMM_COMM_PARTS_H
#define LS_COMMON_COMM_COMM_PARTS_H

#include "common/comm/comm.h"
#include "common/comm/comm_loops.h"

/** Makes the operation of an all-reduce by the back end itself: `direct`, or its library's. */
ls_status ls_comm_add_all(ls_comm *comm, bool library, float *data, size_t count, ls_op **out);

/** Adds the exchange to the list, without its parts that have no rank or no element. */
ls_status ls_comm_put_exchange(ls_comm *comm, ls_op_list *ops, const ls_exchange *exchange);

/** Parts [part, part + length) of an even split into `parts`. */
static inline ls_range ls_comm_parts(size_t total, int part, int length, int parts)
{
    size_t first = ls_comm_share(total, part, parts);
    return (ls_range){first, ls_comm_share(total, part + length, parts) - first};
}

/** An even split as offsets [parts], then counts [parts]; owned by the caller (free). */
ls_status ls_comm_even_split(size_t total, int parts, size_t **out);

/** How many parts of an even split have elements. */
static inline uint64_t ls_comm_filled(size_t total, int parts)
{
    return total < (size_t)parts ? total : (uint64_t)parts;
}

static inline uint64_t ls_comm_bytes(uint64_t times, size_t count)
{
    return times * (uint64_t)count * sizeof(float);
}

/** What a rank does in a direct all-reduce: sums a slice, and sends. */
typedef struct ls_direct_part {
    bool few; /**< up to LS_DIRECT_FEW elements: it sums all, for itself */
    ls_range slice;
    uint64_t messages, bytes;
} ls_direct_part;

ls_direct_part ls_comm_direct_part(int rank, int ranks, size_t count);

extern const ls_allreduce ls_allreduce_flat, ls_allreduce_ring, ls_allreduce_tree,
    ls_allreduce_halving_doubling, ls_allreduce_direct, ls_allreduce_canonical,
    ls_allreduce_hierarchical, ls_allreduce_library;

extern const ls_comm_backend ls_comm_thread, ls_comm_device;
extern const ls_comm_backend ls_comm_mpi;  /* in builds with MPI */
extern const ls_comm_backend ls_comm_nccl; /* where LS_HAS_NCCL */

#endif
