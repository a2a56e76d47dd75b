/* SPDX-License-Identifier: MIT */
/*
 * Communicators: ranks that exchange ranges of device memory.
 *
 * A rank is a member of a communicator; it drives one device. Transfers and collectives are
 * operations on a queue: they are made once (ls_op), put like any other operation, captured in
 * programs, and block the queue, not the host. Back ends: `thread` (ranks are queues of one
 * process), `mpi` (processes), `nccl` (GPUs). Every all-reduce algorithm is a file of its own
 * that composes send and receive operations, and states its messages and bytes as formulas that
 * the counters of every run are checked against.
 */
#ifndef LS_COMMON_COMM_COMM_H
#define LS_COMMON_COMM_COMM_H

#include "common/base/status.h"
#include "common/device/device.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_comm ls_comm;

/** Payload that crossed a rank border; control messages are not in it. */
typedef struct ls_traffic {
    uint64_t bytes_sent;
    uint64_t messages_sent;
} ls_traffic;

/** Constructors of operations; the memory is on the rank's device and outlives the op. */
typedef struct ls_comm_backend {
    const char *name;
    const char *help;
    ls_status (*send)(ls_comm *comm, int to, int tag, const void *data, size_t bytes, ls_op **out);
    ls_status (*receive)(ls_comm *comm, int from, int tag, void *data, size_t bytes, ls_op **out);
    /** A send and a receive that make progress together, so that a ring cannot lock up. */
    ls_status (*exchange)(ls_comm *comm, int to, const void *send, size_t send_bytes, int from,
                          void *receive, size_t receive_bytes, int tag, ls_op **out);
    /** Host calls, for parameter servers: the next message of any rank. NULL: not to be had. */
    ls_status (*receive_any)(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                             size_t *bytes);
    /** Whether receive_any would return at once. NULL: not to be had. */
    ls_status (*test_any)(ls_comm *comm, int tag, bool *ready);
    /** Host call: every rank gets the worst (largest) code of all. */
    ls_status (*agree)(ls_comm *comm, ls_code mine, ls_code *worst);
    ls_status (*split)(ls_comm *comm, int color, int key, ls_comm **out);
    ls_status (*barrier)(ls_comm *comm);
    void (*close)(ls_comm *comm);
} ls_comm_backend;

int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);
ls_traffic ls_comm_traffic(const ls_comm *comm);

/** An all-reduce algorithm (sum of float32, in a documented order). */
typedef struct ls_allreduce {
    const char *name;
    const char *help;
    /** Operations of one rank for `count` elements in place, in order, into ops[*op_count..]. */
    ls_status (*build)(ls_comm *comm, float *data, size_t count, ls_op **ops, size_t *op_count,
                       size_t capacity);
    /** What one call moves, summed over ranks. */
    ls_traffic (*formula)(int ranks, size_t count);
} ls_allreduce;

#endif
