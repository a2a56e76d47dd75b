/* SPDX-License-Identifier: MIT */
/*
 * Communicators: ranks that exchange ranges of device memory.
 *
 * A rank is a member of a communicator and drives one device. Transfers and collectives are
 * operations: made once, put on a queue of the rank's device like any other, captured in programs;
 * they block that queue, not the host. All operations of one communicator go to one queue per
 * rank, and every rank puts matching ones in the same order. Back ends: `thread` (ranks are queues
 * of one process), `mpi` (of many), `device` (devices of one process, GPUs too, whose queues are
 * ordered by events: ls_comm_put puts all ranks' operations by one call), `nccl` (GPUs; that
 * library's all-reduce alone).
 *
 * When a queue has failed, its operations are abandoned (device.h): the communicator then lets go
 * every rank, whose waiting operations fail with "abandoned by rank R", so nobody hangs. It stays
 * so. Ranks read each other's memory: release it after every rank's queue has been waited for.
 */
#pragma once

#include "common/base/registry.h"
#include "common/base/status.h"
#include "common/comm/comm_choice.h"
#include "common/comm/sum_order.h"
#include "common/device/device.h"
#include "common/device/op_list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What this rank received: bytes that crossed a border, added where they arrive or arriving where
 *  they are wanted; and bytes that were only moved from one place to another of its own device. */
typedef struct ls_received {
    uint64_t bytes;
    uint64_t copied;
} ls_received;

/** Where the ranks of a communicator are: rank r in process r / (ranks / processes), which is on
 *  host[that]. NULL stands for one process. */
struct ls_layout {
    int processes;
    const int *host; /**< [processes] */
};

/** One rank's end of a communicator. Back ends embed it first in their own struct. */
struct ls_comm {
    const ls_comm_backend *backend;
    int rank, size;
    ls_device *device;
    const ls_layout *layout; /**< NULL: one process */
    bool linked;             /**< messages go over shaped links (link.h) */
    bool shared;          /**< every rank's device reads and writes the others' memory: `direct` */
    const char *unshared; /**< why not, where the system is what refused it; NULL */
    /* What ls_comm_traffic and ls_comm_received tell. */
    _Atomic uint64_t bytes_sent, messages_sent, bytes_received, bytes_copied;
};

/** What a rank puts, on which queue; all borrowed. */
typedef struct ls_comm_list {
    const ls_op_list *ops;
    ls_queue *queue;
} ls_comm_list;

/** A send and a receive that make progress together, so that a ring cannot lock up. */
typedef struct ls_exchange {
    int to; /**< rank; -1: nothing is sent */
    const float *send;
    size_t send_count; /**< elements */
    int from;          /**< rank; -1: nothing is received */
    float *receive;
    size_t receive_count; /**< elements */
    bool add;             /**< receive[i] = receive[i] + what comes; else it is overwritten */
    bool inside;          /**< both ends are on one device: this is no traffic */
} ls_exchange;

enum { LS_DIRECT_FEW = 8 };

/** Back ends as data. Entries marked so may be NULL: not to be had there. Of operations, others
 * make them through what is below, which knows the memory that they touch. */
struct ls_comm_backend {
    const char *name;
    const char *help;
    /** Whether devices of these names of one process can be ranks of it, and what it needs is here;
     *  says why not, and what would work. May be NULL: seen when it is opened. */
    ls_status (*check)(const ls_device_name *names, int count);
    /** Makes the operation of one exchange (a send, a receive, or both); memory is borrowed. May be
     *  NULL, where there is `library` alone. */
    ls_status (*exchange)(ls_comm *comm, const ls_exchange *exchange, ls_op **out);
    /** May be NULL, and is for ranks that share memory: all-reduce in it, each rank summing its
     * slice from all the others in rank order and writing it to all; up to LS_DIRECT_FEW elements,
     * each sums all. Of mpi, nothing may be at work on the data meanwhile (ls_device_register). */
    ls_status (*direct)(ls_comm *comm, float *data, size_t count, ls_op **out);
    /** May be NULL: all-reduce by the back end's library, in the library's own order. Of mpi every
     *  rank is a process of its own, else LS_CODE_USAGE. */
    ls_status (*library)(ls_comm *comm, float *data, size_t count, ls_op **out);
    /** See ls_comm_put. NULL: a rank's operations are put by themselves. */
    ls_status (*put)(ls_comm *const *comms, const ls_comm_list *lists, int count);
    /** Waits until `queue`, which waits for the operations on `sums`, is empty; fails where the
     *  library says, or a time without any progress shows, that it never will be, and has then
     * given up, so that ls_queue_sync ends. Before that. May be NULL: queues see to it themselves.
     */
    ls_status (*wait)(ls_comm *comm, const ls_queue *queue, const ls_queue *sums,
                      uint64_t timeout_ns);
    /** Bytes of device memory that this end holds for its operations. May be NULL: none. */
    size_t (*memory)(const ls_comm *comm);
    /** Host calls: they block the calling thread; each rank calls from a thread of its own. All are
     *  NULL where `put` is not: there is one thread. */
    ls_status (*send)(ls_comm *comm, int to, int tag, const void *data, size_t bytes);
    ls_status (*receive)(ls_comm *comm, int from, int tag, void *data, size_t bytes);
    ls_status (*receive_any)(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                             size_t *bytes); /**< may be NULL */
    bool alone; /**< its ranks are in one process: `processes` is then NULL */
    /** May be NULL. See ls_comm_open. */
    ls_status (*open)(ls_comm *processes, ls_device *const *devices, int count, ls_comm **comms);
    /** This rank gives up: whoever waits, or will, in an operation or a host call, fails. */
    void (*abandon)(ls_comm *comm);
    void (*close)(ls_comm *comm);
};

extern const ls_registry ls_comm_backends; /**< of ls_comm_backend */

/**
 * A communicator of the devices that all ranks of `processes` bring, in the order of these, then of
 * `devices`; comms[i] is the end on devices[i]. All ranks call it. `processes` NULL: this process's
 * alone. `backend` NULL: ls_comm_backend_auto's.
 */
ls_status ls_comm_open(const ls_comm_backend *backend, ls_comm *processes,
                       ls_device *const *devices, int count, ls_comm **comms);

/** That of `processes`; of one process alone (NULL) `thread`, or `device` for GPUs. */
const ls_comm_backend *ls_comm_backend_auto(const ls_comm *processes, ls_device_kind kind);

/** Whether one call puts the operations of all ranks of this process: a program then holds those of
 *  all. */
bool ls_comm_is_joint(const ls_comm *comm);

/**
 * Puts the list of every rank of this process on its queue, lists[r] that of comms[r]; they may
 * have operations of others than the communicator. LS_CODE_USAGE where ranks' operations do not
 * match.
 */
ls_status ls_comm_put(ls_comm *const *comms, const ls_comm_list *lists, int count);

/** Whether devices of these names read and write each other's memory: processors, or one GPU. */
bool ls_comm_shares(const ls_device_name *names, int count);

/** Makes the operation of one exchange; memory is borrowed. It touches what it sends and receives,
 *  and its end of the communicator, whose operations so have an order. LS_CODE_USAGE where the back
 *  end has its library's all-reduce alone. */
ls_status ls_comm_exchange(ls_comm *comm, const ls_exchange *exchange, ls_op **out);

/** All ranks' bytes, of each as many, in the order of ranks, to all; a host call. `comm` NULL: one
 *  rank. `all` is [size, bytes]. */
ls_status ls_comm_collect(ls_comm *comm, const void *mine, size_t bytes, void *all);

/**
 * The same of what each has found by itself, `mine` being how that went, which is taken over: where
 * one has failed all fail, the others with a failure that follows, and nobody waits for its bytes.
 * What a rank does alone before all meet goes through this, or through ls_world_agree.
 */
ls_status ls_comm_bring(ls_comm *comm, ls_status mine, const void *bytes_of_mine, size_t bytes,
                        void *all);

/** The worst of what ranks have, told to all. A rank that fails to hear it gives up. */
ls_status ls_comm_worst(ls_comm *comm, ls_code mine, ls_code *worst);

/** The agreement alone. */
ls_status ls_comm_agree(ls_comm *comm, ls_status mine);

/** What this rank has sent so far; of a library's all-reduce nothing is known. */
ls_traffic ls_comm_traffic(const ls_comm *comm);

/** What it has received by exchanges; not counted where it is joint. */
ls_received ls_comm_received(const ls_comm *comm);

/** After the rank's operations are freed. Takes NULL. */
void ls_comm_close(ls_comm *comm);

/** floor(part * total / parts): where a part of an even split begins. */
size_t ls_comm_share(size_t total, int part, int parts);

/* ---- Collectives -------------------------------------------------------------------------- */

/** What a rank brings to an all-reduce (sum of float32, in the algorithm's documented order). */
typedef struct ls_allreduce_args {
    float *data; /**< [count], in place */
    size_t count;
    float *scratch; /**< [ls_allreduce.scratch(...)]; NULL where that is none */
    /* canonical only: shards of the tree; this rank's finished subtrees, from left to right. */
    int64_t shards;
    float *const *sums; /**< [sum_count] of [count]; sums[0] is data */
    size_t sum_count;
} ls_allreduce_args;

/** An all-reduce algorithm: one file, on exchange (or direct) only. */
struct ls_allreduce {
    const char *name;
    const char *help;
    /** Elements of scratch that a rank needs; NULL: none. */
    size_t (*scratch)(int rank, int ranks, size_t count, int64_t shards);
    /** LS_CODE_USAGE where the back end lacks what it needs, saying what would work; NULL: none. */
    ls_status (*check)(const ls_comm *comm);
    /** Appends this rank's operations. */
    ls_status (*build)(ls_comm *comm, const ls_allreduce_args *args, ls_op_list *ops);
    /** What one call moves, summed over ranks. NULL: only a library knows. */
    ls_traffic (*formula)(int ranks, size_t count, int64_t shards, const ls_layout *layout);
    /** The same sum, in one thread in the documented order, which gives the same bits: appends its
     *  steps. NULL for canonical, and where only a library knows. */
    ls_status (*oracle)(int ranks, size_t count, const ls_layout *layout, ls_sum_order *out);
};

/** Of ls_allreduce: flat, ring, tree, halving-doubling, direct, hierarchical, canonical, library.
 */
extern const ls_registry ls_allreduces;

/** `auto`: a fixed function of bytes, ranks, back end and whether ranks are linked. */
const ls_allreduce *ls_allreduce_auto(const ls_comm *comm, size_t bytes);

/** Shards [first, last) of the tree of exact mode. */
typedef struct ls_subtree {
    int64_t first, last;
} ls_subtree;

enum { LS_SUBTREES = 128 }; /**< more than a rank can have: two per level of the tree */

/**
 * The finished subtrees of a rank that holds shards floor(rank S / ranks) to
 * floor((rank + 1) S / ranks) - 1, from left to right: the nodes of the tree whose shards are all
 * its own, while their parent's are not. Returns how many.
 */
size_t ls_canonical_subtrees(int rank, int ranks, int64_t shards, ls_subtree out[LS_SUBTREES]);

/**
 * Operations of the other collectives on the same terms: block r is counts[r] elements at
 * data + offsets[r]; `counts` and `offsets` are [size]. Empty blocks are not sent.
 */
ls_status ls_broadcast_build(ls_comm *comm, int root, float *data, size_t count, ls_op_list *ops);
ls_status ls_allgather_build(ls_comm *comm, float *data, const size_t *offsets,
                             const size_t *counts, ls_op_list *ops);
/** Rank r ends with the sum of block r; the other blocks of `data` hold partial sums. */
ls_status ls_reducescatter_build(ls_comm *comm, float *data, const size_t *offsets,
                                 const size_t *counts, ls_op_list *ops);

/** What they move, summed over ranks. */
ls_traffic ls_broadcast_formula(int ranks, size_t count);
ls_traffic ls_allgather_formula(int ranks, const size_t *counts);
ls_traffic ls_reducescatter_formula(int ranks, const size_t *counts);
