/* SPDX-License-Identifier: MIT */
/*
 * Communicators: ranks that exchange ranges of device memory.
 *
 * A rank is a member of a communicator and drives one device. Transfers and collectives are
 * operations: made once, enqueued on a queue of the rank's device like any other, captured in
 * programs; they block that queue, not the host. All operations of one communicator go to one queue
 * per rank, and every rank enqueues matching ones in the same order. Back ends: `thread` (ranks are
 * queues of one process), `mpi` (of many), `device` (devices of one process, GPUs too, whose queues
 * are ordered by events: ls_comm_enqueue enqueues all ranks' operations), `nccl` (GPUs; that
 * library's all-reduce alone).
 *
 * When a queue has failed, its operations are abandoned (device.h): the communicator then releases
 * all ranks, whose waiting operations fail with "abandoned by rank R", so nobody hangs. That is
 * final. Ranks read each other's memory: release it after every rank's queue has been waited for.
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

/** What this rank received: `bytes` from other devices, whether added or stored; `copied` are bytes
 * that were only moved within its own device. */
typedef struct ls_received {
    uint64_t bytes;
    uint64_t copied;
} ls_received;

/** Where the ranks of a communicator are: rank r is in process p = r / (ranks / processes), and p
 * is on host[p]. A NULL layout stands for one process. */
struct ls_layout {
    int processes;
    const int *host; /**< [processes] */
};

/** One rank's end of a communicator. Back ends embed it first in their own struct. */
struct ls_comm {
    const ls_comm_backend *backend;
    int rank, size;
    ls_device *device;
    const ls_layout *layout; /**< NULL means one process */
    bool linked;             /**< messages go over shaped links (link.h) */
    bool shared;          /**< every rank's device reads and writes the others' memory: `direct` */
    const char *unshared; /**< why not, if the system refused it; else NULL */
    /* What ls_comm_traffic and ls_comm_received tell. */
    _Atomic uint64_t bytes_sent, messages_sent, bytes_received, bytes_copied;
};

/** A rank's operations, and the queue that they go on; borrowed. */
typedef struct ls_comm_list {
    const ls_op_list *ops;
    ls_queue *queue;
} ls_comm_list;

/** What the receiver of a message does with it. */
typedef enum ls_arriving { LS_REPLACE, LS_ADD } ls_arriving;

/** A send and a receive that make progress together, so that a ring cannot lock up. */
typedef struct ls_exchange {
    int to; /**< rank; -1 if nothing is sent */
    const float *send;
    size_t send_count; /**< elements */
    int from;          /**< rank; -1 if nothing is received */
    float *receive;
    size_t receive_count; /**< elements */
    bool add;             /**< receive[i] += the received value; else it is overwritten */
    bool inside;          /**< both ends are on one device: not counted as traffic */
    bool bytes;           /**< counts are bytes to be copied, not float32 numbers */
} ls_exchange;

/** Bytes of so many elements of an exchange. */
static inline size_t ls_exchange_bytes(const ls_exchange *exchange, size_t count)
{
    return count * (exchange->bytes ? 1 : sizeof(float));
}

enum { LS_DIRECT_FEW = 8 };

/** P elements, and where they may be cut: between two of K blocks. An even split into n parts
 * gives part q blocks floor(q K / n) to floor((q + 1) K / n) - 1. */
typedef struct ls_extent {
    size_t count;        /**< P */
    size_t blocks;       /**< K */
    const size_t *begin; /**< [K + 1] begin of each block, then P; NULL if equal */
} ls_extent;

/** What of an all-reduce is done: the whole, or one of its halves. */
typedef enum ls_half {
    LS_HALVES,         /**< both: the all-reduce */
    LS_REDUCE_SCATTER, /**< rank q gets the sum of share q */
    LS_ALL_GATHER      /**< all get share q from rank q */
} ls_half;

/** A back end. Entries that may be NULL are marked; the back end then cannot do that. Callers make
 * operations by the functions below, not by these entries, since the functions also note the memory
 * that an operation touches. */
struct ls_comm_backend {
    const char *name;
    const char *help;
    /** Refuses devices of one process that cannot be its ranks, and a machine without what it
     * needs; says what would work. May be NULL if ls_comm_open finds out. */
    ls_status (*check)(const ls_device_name *names, int count);
    /** Makes the operation of one exchange (a send, a receive, or both); memory is borrowed. May be
     * NULL if there is only `library`. */
    ls_status (*exchange)(ls_comm *comm, const ls_exchange *exchange, ls_op **out);
    /** All-reduce of ranks that share memory, or a half of it: each sums its slice of all ranks'
     * data, in rank order, and writes the sum to all; an all-reduce of up to LS_DIRECT_FEW elements
     * has each sum all. With mpi nothing may be at work on the data during this call
     * (ls_device_register). May be NULL. */
    ls_status (*direct)(ls_comm *comm, ls_half half, float *data, ls_extent extent, ls_op **out);
    /** All-reduce by the back end's library, or a half of it, in the library's order. With mpi
     * every rank must be a separate process, else LS_CODE_USAGE. May be NULL. */
    ls_status (*library)(ls_comm *comm, ls_half half, float *data, size_t count, ls_op **out);
    /** See ls_comm_enqueue. NULL means each rank enqueues its own operations. */
    ls_status (*enqueue)(ls_comm *const *comms, const ls_comm_list *lists, int count);
    /** To be called before ls_queue_sync: waits until `queue`, which waits for the operations on
     * `sums`, is empty. Fails if the library reports a failure or there is no progress for
     * `timeout_ns`; the operations are then given up, so that ls_queue_sync returns. May be NULL if
     * queues always end. */
    ls_status (*wait)(ls_comm *comm, const ls_queue *queue, const ls_queue *sums,
                      uint64_t timeout_ns);
    /** Bytes of device memory that this end holds for its operations. May be NULL if there is
     * none. */
    size_t (*memory)(const ls_comm *comm);
    /** Host calls: they block the calling thread; each rank calls from its own thread. All are NULL
     * if `enqueue` is not NULL: then one thread serves all ranks. */
    ls_status (*send)(ls_comm *comm, int to, int tag, const void *data, size_t bytes);
    ls_status (*receive)(ls_comm *comm, int from, int tag, void *data, size_t bytes);
    ls_status (*receive_any)(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                             size_t *bytes); /**< may be NULL */
    bool alone; /**< its ranks are in one process: `processes` is then NULL */
    /** May be NULL. See ls_comm_open. */
    ls_status (*open)(ls_comm *processes, ls_device *const *devices, int count, ls_comm **comms);
    /** This rank gives up: operations and host calls of other ranks that wait now or later fail. */
    void (*abandon)(ls_comm *comm);
    void (*close)(ls_comm *comm);
};

extern const ls_registry ls_comm_backends; /**< of ls_comm_backend */

/**
 * Opens a communicator of all devices of all ranks of `processes` (NULL means this process only),
 * in the order of ranks, then of `devices`; comms[i] is the end on devices[i]. All ranks call it.
 * `backend` NULL means the one that ls_comm_backend_auto returns.
 */
ls_status ls_comm_open(const ls_comm_backend *backend, ls_comm *processes,
                       ls_device *const *devices, int count, ls_comm **comms);

/** The default back end: the one that connects `processes`; for one process (NULL) `thread`, or
 * `device` for GPUs. */
const ls_comm_backend *ls_comm_backend_auto(const ls_comm *processes, ls_device_kind kind);

/** For all-reduces between GPUs of several processes: `nccl`, if it is in this build, can be loaded
 * and supports the named devices; else NULL. */
const ls_comm_backend *ls_comm_backend_of_gpus(const ls_device_name *names, int count);

/** Whether one call enqueues the operations of all ranks of this process: one program then holds
 * them all. */
bool ls_comm_is_joint(const ls_comm *comm);

/**
 * Enqueues the operations of all ranks of this process: lists[r] is the list of comms[r]; it may
 * hold operations other than messages, too. LS_CODE_USAGE if the ranks' operations do not match.
 */
ls_status ls_comm_enqueue(ls_comm *const *comms, const ls_comm_list *lists, int count);

/** Whether the named devices read and write each other's memory: CPU devices, or parts of one
 * GPU. */
bool ls_comm_shares(const ls_device_name *names, int count);

/** Makes the operation of one exchange; memory is borrowed. The operation declares accesses to
 * what it sends and receives, and to this end of the communicator, so that the operations of one
 * end stay in order. LS_CODE_USAGE if the back end only has its library's all-reduce. */
ls_status ls_comm_exchange(ls_comm *comm, const ls_exchange *exchange, ls_op **out);

/** A host call: gathers `bytes` bytes of every rank, in the order of ranks, to all ranks. `all` is
 * [size, bytes]. `comm` NULL means one rank. */
ls_status ls_comm_collect(ls_comm *comm, const void *sent, size_t bytes, void *all);

/**
 * As ls_comm_collect, for bytes that each rank computed alone. `own_status` is the status of this
 * computation (takes ownership). If a rank has failed, all fail, the others with a consequence
 * (ls_status_follows), and none waits for the failed rank's bytes. Whatever a rank does alone
 * before a collective call ends with this, or with ls_comm_agree.
 */
ls_status ls_comm_bring(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                        void *all);

/** As above, into new memory [size, bytes], which `all` is set to: it is the address of a pointer.
 * Free it, also on failure. */
ls_status ls_comm_tell(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                       void *all);

/** Gathers each rank's bytes on rank 0, one rank's after another: *all, to be freed by the caller,
 * and, unless NULL, *all_bytes; other ranks get none. `own_status`: as of ls_comm_bring. */
ls_status ls_comm_gather(ls_comm *comm, ls_status own_status, const void *sent, size_t bytes,
                         void *all, size_t *all_bytes);

/** Tells all ranks the worst of their codes. A rank that cannot learn it gives up. */
ls_status ls_comm_worst(ls_comm *comm, ls_code own_code, ls_code *worst);

/** ls_comm_bring without bytes: if a rank has failed, all fail. */
ls_status ls_comm_agree(ls_comm *comm, ls_status own_status);

/** What this rank has sent so far; of a library's all-reduce nothing is known. */
ls_traffic ls_comm_traffic(const ls_comm *comm);

/** What this rank has received by exchanges; not counted on a joint communicator. */
ls_received ls_comm_received(const ls_comm *comm);

/** After the rank's operations are freed. Takes NULL. */
void ls_comm_close(ls_comm *comm);

/** floor(part * total / parts): where a part of an even split begins. */
size_t ls_comm_share(size_t total, int part, int parts);

/** The first element of part `part` of an even split into `parts`. */
size_t ls_comm_cut(ls_extent extent, int part, int parts);

/** That may be cut anywhere. */
static inline ls_extent ls_elements(size_t count)
{
    return (ls_extent){.count = count, .blocks = count};
}

/* ---- Collectives -------------------------------------------------------------------------- */

/** Which of equal groups of ranks a communicator connects: `size` ranks from number group x size
 * on, among all groups' ranks. */
typedef struct ls_rank_group {
    int group, groups; /**< groups 0 means one, of all ranks */
} ls_rank_group;

/** What a rank brings to an all-reduce (sum of float32, in the algorithm's documented order). */
typedef struct ls_allreduce_args {
    float *data; /**< [count], in place */
    size_t count;
    const ls_extent *cut; /**< blocks of the elements; NULL if they may be cut anywhere */
    float *scratch;       /**< [ls_allreduce.scratch(...)]; NULL if that is 0 */
    int64_t shards;       /**< canonical only: of the tree */
    /* canonical only: this rank's finished subtrees, from left to right */
    float *const *sums; /**< [sum_count] of [count]; sums[0] is data */
    size_t sum_count;
    ls_rank_group of; /**< whose ranks, all together, have the shards (ls_canonical_sums) */
} ls_allreduce_args;

struct ls_rounds; /* comm_network.h */

/** An all-reduce algorithm: one file, on exchange (or direct) only. */
struct ls_allreduce {
    const char *name;
    const char *help;
    /** Elements of scratch that a rank needs; NULL if there is none. */
    size_t (*scratch)(int rank, int ranks, ls_extent extent, int64_t shards);
    /** LS_CODE_USAGE if the back end does not offer what it needs, saying what would work; NULL if
     * it needs nothing. */
    ls_status (*check)(const ls_comm *comm);
    /** Appends this rank's operations. */
    ls_status (*build)(ls_comm *comm, const ls_allreduce_args *args, ls_op_list *ops);
    /** What one call moves, summed over ranks. NULL if only a library knows. */
    ls_traffic (*formula)(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout);
    /**
     * Appends this rank's operations of a half (not LS_HALVES), in place on the same arguments.
     * Share q of P elements on n ranks is part q of an even split (ls_extent), none where that is
     * empty; every rank takes part, also without elements. After the reduce-scatter
     * rank q's share has the bits that `build` gives it (a library's: its own), and the rest of
     * `data` holds anything. The all-gather needs the rank's share alone, and no shards or sums.
     * NULL if it cannot be cut in two (ls_allreduce_check_halves).
     */
    ls_status (*half)(ls_comm *comm, ls_half half, const ls_allreduce_args *args, ls_op_list *ops);
    /** What one call of a half moves, summed over ranks. NULL if only a library knows. */
    ls_traffic (*half_formula)(ls_half half, int ranks, ls_extent extent, int64_t shards);
    /** Appends the steps that compute the same sum, bit for bit, in one thread. NULL for canonical,
     * and if only a library knows the order. */
    ls_status (*oracle)(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out);
    /** Sets *ns to what one call, or a half of it, takes on a network, where every rank begins at
     * the same time (comm_network.h). NULL means `auto` does not choose it by its time. */
    ls_status (*time)(struct ls_rounds *rounds, ls_half half, ls_extent extent, double *ns);
};

/** Lists the ls_allreduce: flat, ring, tree, halving-doubling, direct, owners, hierarchical,
 * canonical, library. */
extern const ls_registry ls_allreduces;

/** `auto` on one host without links, and what is preferred elsewhere if nothing is faster
 * (ls_allreduce_fastest): a fixed function of bytes, ranks, back end and whether ranks are linked.
 */
const ls_allreduce *ls_allreduce_auto(const ls_comm *comm, size_t bytes);

/** As ls_allreduce_auto, among the algorithms that can be cut in two, for every number of bytes. */
const ls_allreduce *ls_allreduce_auto_halves(const ls_comm *comm);

/** LS_CODE_USAGE if it cannot be cut into a reduce-scatter and an all-gather; names the algorithms
 * that can. */
ls_status ls_allreduce_check_halves(const ls_allreduce *algorithm);

/** Shards [first, last) of the tree of exact mode. */
typedef struct ls_subtree {
    int64_t first, last;
} ls_subtree;

enum { LS_SUBTREES = 128 }; /**< more than a rank can have: two per level of the tree */

/** Where sum(lo, hi) of the tree is cut: lo + the largest power of two below hi - lo. */
int64_t ls_canonical_middle(int64_t lo, int64_t hi);

/** An addend: the sum of a node of the tree, and the caller's number of where it is. */
typedef struct ls_term {
    ls_subtree node;
    size_t at;
} ls_term;

/** An addition: `into` becomes the sum of both; `into` is the left one. */
typedef struct ls_addition {
    size_t into, from;
} ls_addition;

/**
 * The order of a sum, as one function. Exact mode: adds two children of the tree over `leaves`
 * leaves into their parent wherever both are there. Fast mode (`leaves` 0): adds each term to the
 * first. The terms ascend, without gaps inside what they have to sum. Appends at most `count` - 1
 * additions to `out`, which has *out_count. Returns how many terms are left: in place, each where
 * its leftmost part was.
 */
size_t ls_fold(ls_term *terms, size_t count, int64_t leaves, ls_addition *out, size_t *out_count);

/**
 * The finished subtrees of a rank that holds shards floor(rank S / ranks) to floor((rank + 1) S /
 * ranks) - 1, from left to right: the nodes of the tree whose shards are all its own, and whose
 * parent's are not. Returns their number.
 */
size_t ls_canonical_subtrees(int rank, int ranks, int64_t shards, ls_subtree out[LS_SUBTREES]);

/** Where a rank of a group has its share's sums of the group's finished subtrees, after the
 * reduce-scatter `canonical` of the same arguments: in `sums` and `scratch`. An all-reduce of
 * such a share between groups, in which each group is a rank with its sums, has the bits of all
 * ranks'. */
ls_status ls_canonical_sums(const ls_comm *comm, const ls_allreduce_args *args,
                            float *out[LS_SUBTREES], size_t *count);
/** A rank's scratch, and what all ranks move, in that reduce-scatter. */
size_t ls_canonical_scratch(ls_rank_group group, int rank, int ranks, ls_extent extent,
                            int64_t shards);
ls_traffic ls_canonical_scatter_formula(ls_rank_group group, int ranks, ls_extent extent,
                                        int64_t shards);

/**
 * Operations of the other collectives on the same terms: broadcast, and all-gather and
 * reduce-scatter around a ring with any blocks: block r is counts[r] elements at data + offsets[r];
 * `counts` and `offsets` are [size]. Empty blocks are not sent. (The halves above cut evenly.)
 */
ls_status ls_broadcast_build(ls_comm *comm, int root, float *data, size_t count, ls_op_list *ops);
ls_status ls_allgather_build(ls_comm *comm, float *data, const size_t *offsets,
                             const size_t *counts, ls_op_list *ops);
/** Rank r ends with the sum of block r; the other blocks of `data` hold partial sums. */
ls_status ls_reducescatter_build(ls_comm *comm, float *data, const size_t *offsets,
                                 const size_t *counts, ls_op_list *ops);

/** What the collectives move, summed over ranks. */
ls_traffic ls_broadcast_formula(int ranks, size_t count);
ls_traffic ls_allgather_formula(int ranks, const size_t *counts);
ls_traffic ls_reducescatter_formula(int ranks, const size_t *counts);
