/* SPDX-License-Identifier: MIT */
/*
 * NCCL's functions on a CPU: communicators of one process or of several threads, all-reduces and
 * their halves in rank order on the host when a group ends, errors and silence on demand. Calls
 * that NCCL forbids end the test: outside a group if one thread has several ranks, an id that is
 * not rank 0's, a communicator that was given up. Uses no queue.
 */
#pragma once

#include "common/comm/nccl/comm_nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EMULATED_RANKS = 8, EMULATED_ID = 77 };

struct ncclComm {
    int rank, ranks;
    bool aborted;
};

/* A call of one rank. ncclReduce and ncclBroadcast have a root. */
enum { EMULATED_SUM, EMULATED_SCATTER, EMULATED_GATHER, EMULATED_REDUCE, EMULATED_BROADCAST };
typedef struct emulated_call {
    struct ncclComm *comm;
    int kind, root;
    const float *send;
    float *receive;
    size_t count;
} emulated_call;

/* One clique at a time: what its ranks have contributed. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ids, joined, destroyed;
    atomic_int aborted;
    void (*abort)(void); /* called in an abort, and may block; NULL: nothing */
    emulated_call call[EMULATED_RANKS];
    int calls[EMULATED_BROADCAST + 1]; /* that have ended, by kind */
    int came;
    uint64_t rounds;
    _Atomic ncclResult_t async_error, refuse_init;
    atomic_bool never_opens; /* until it is false */
    atomic_int openings;     /* finished ones */
} emulated = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Of this thread: what its open group has. */
static _Thread_local struct {
    bool open;
    int inits, calls, ranks;
    emulated_call call[EMULATED_RANKS * EMULATED_RANKS]; /* rank by rank */
} emulated_group;

static void emulation_wants(bool right, const char *why)
{
    if (right)
        return;
    fprintf(stderr, "nccl emulation: %s\n", why);
    abort();
}

static ncclResult_t emulated_version(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

static const char *emulated_error(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "made up";
}

static const char *emulated_last_error(ncclComm_t comm)
{
    return "the emulation says so";
}

static ncclResult_t emulated_id(ncclUniqueId *id)
{
    memset(id, EMULATED_ID, sizeof *id);
    emulated.ids++;
    return ncclSuccess;
}

static ncclResult_t emulated_start(void)
{
    emulation_wants(!emulated_group.open, "a group in a group");
    memset(&emulated_group, 0, sizeof emulated_group);
    emulated_group.open = true;
    return ncclSuccess;
}

static ncclResult_t emulated_init(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    emulation_wants(emulated_group.open, "a rank joins outside a group");
    emulation_wants(rank >= 0 && rank < ranks, "a rank that is none");
    for (size_t i = 0; i < sizeof id; i++)
        emulation_wants(id.internal[i] == EMULATED_ID, "another id than rank 0's");
    if (atomic_load(&emulated.refuse_init))
        return atomic_load(&emulated.refuse_init);
    *comm = calloc(1, sizeof **comm);
    **comm = (struct ncclComm){.rank = rank, .ranks = ranks};
    emulated_group.inits++;
    emulated_group.ranks = ranks;
    return ncclSuccess;
}

static ncclResult_t emulate(const emulated_call *call, bool in_place, ncclDataType_t type,
                            ncclRedOp_t op)
{
    emulation_wants(emulated_group.open, "a collective outside a group");
    emulation_wants(in_place && type == ncclFloat && op == ncclSum, "another collective");
    emulation_wants(call->comm && !call->comm->aborted, "a communicator that was given up");
    emulated_group.call[emulated_group.calls++] = *call;
    return ncclSuccess;
}

static ncclResult_t emulated_allreduce(const void *send, void *receive, size_t count,
                                       ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream)
{
    const emulated_call call = {comm, EMULATED_SUM, 0, send, receive, count};
    return emulate(&call, send == receive, type, op);
}

static ncclResult_t emulated_reducescatter(const void *send, void *receive, size_t count,
                                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream)
{
    const emulated_call call = {comm, EMULATED_SCATTER, 0, send, receive, count};
    return emulate(&call, receive == (const float *)send + (size_t)comm->rank * count, type, op);
}

static ncclResult_t emulated_allgather(const void *send, void *receive, size_t count,
                                       ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    const emulated_call call = {comm, EMULATED_GATHER, 0, send, receive, count};
    return emulate(&call, send == (float *)receive + (size_t)comm->rank * count, type, ncclSum);
}

static ncclResult_t emulated_reduce(const void *send, void *receive, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                    cudaStream_t stream)
{
    const emulated_call call = {comm, EMULATED_REDUCE, root, send, receive, count};
    return emulate(&call, send == receive, type, op);
}

static ncclResult_t emulated_broadcast(const void *send, void *receive, size_t count,
                                       ncclDataType_t type, int root, ncclComm_t comm,
                                       cudaStream_t stream)
{
    const emulated_call call = {comm, EMULATED_BROADCAST, root, send, receive, count};
    return emulate(&call, send == receive, type, ncclSum);
}

/* The mutex must be held: waits until all have arrived; the last one calls `finish`. */
static void emulated_meet(int came, int all, void (*finish)(int ranks))
{
    const uint64_t round = emulated.rounds;
    emulated.came += came;
    if (emulated.came == all) {
        finish(all);
        emulated.came = 0;
        emulated.rounds++;
        pthread_cond_broadcast(&emulated.changed);
    }
    while (emulated.rounds == round)
        pthread_cond_wait(&emulated.changed, &emulated.mutex);
}

static void finish_joining(int ranks)
{
    emulated.joined = ranks;
}

/* What rank r receives as element i, from what all send. */
static float emulated_value(const emulated_call *mine, int r, int ranks, size_t i)
{
    const size_t count = mine->count;
    if (mine->kind == EMULATED_GATHER)
        return emulated.call[i / count].send[i % count];
    if (mine->kind == EMULATED_BROADCAST)
        return emulated.call[mine->root].send[i];
    const size_t at = mine->kind == EMULATED_SCATTER ? (size_t)r * count + i : i;
    float sum = emulated.call[0].send[at];
    for (int q = 1; q < ranks; q++)
        sum = sum + emulated.call[q].send[at];
    return sum;
}

static void finish_call(int ranks)
{
    float *results[EMULATED_RANKS];
    size_t counts[EMULATED_RANKS];
    for (int r = 0; r < ranks; r++) {
        const emulated_call *c = &emulated.call[r];
        emulation_wants(c->kind == emulated.call[0].kind && c->root == emulated.call[0].root &&
                            c->count == emulated.call[0].count,
                        "ranks call different collectives");
        counts[r] = c->kind == EMULATED_REDUCE && r != c->root ? 0 : c->count;
        counts[r] *= c->kind == EMULATED_GATHER ? (size_t)ranks : 1;
        results[r] = malloc((counts[r] + 1) * sizeof(float));
        for (size_t i = 0; i < counts[r]; i++)
            results[r][i] = emulated_value(c, r, ranks, i);
    }
    for (int r = 0; r < ranks; r++) {
        memcpy(emulated.call[r].receive, results[r], counts[r] * sizeof(float));
        free(results[r]);
    }
    emulated.calls[emulated.call[0].kind]++;
}

/* The group's calls, one of each rank at a time. */
static void emulate_calls(void)
{
    const emulated_call *all = emulated_group.call;
    int each = 0;
    while (each < emulated_group.calls && all[each].comm == all[0].comm)
        each++;
    for (int k = 0; k < each; k++) {
        for (int i = k; i < emulated_group.calls; i += each)
            emulated.call[all[i].comm->rank] = all[i];
        emulated_meet(emulated_group.calls / each, all[0].comm->ranks, finish_call);
    }
}

static ncclResult_t emulated_end(void)
{
    emulation_wants(emulated_group.open, "no group ends");
    emulated_group.open = false;
    while (atomic_load(&emulated.never_opens))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_fetch_add(&emulated.openings, emulated_group.inits > 0);
    pthread_mutex_lock(&emulated.mutex);
    if (emulated_group.inits)
        emulated_meet(emulated_group.inits, emulated_group.ranks, finish_joining);
    emulate_calls();
    pthread_mutex_unlock(&emulated.mutex);
    return ncclSuccess;
}

static ncclResult_t emulated_async(ncclComm_t comm, ncclResult_t *error)
{
    emulation_wants(comm && !comm->aborted, "a communicator that was given up");
    *error = atomic_load(&emulated.async_error);
    return ncclSuccess;
}

static ncclResult_t emulated_abort(ncclComm_t comm)
{
    free(comm);
    atomic_fetch_add(&emulated.aborted, 1);
    if (emulated.abort)
        emulated.abort();
    return ncclSuccess;
}

static ncclResult_t emulated_destroy(ncclComm_t comm)
{
    pthread_mutex_lock(&emulated.mutex);
    emulated.destroyed++;
    pthread_mutex_unlock(&emulated.mutex);
    free(comm);
    return ncclSuccess;
}

static const ls_nccl_functions nccl_emulated = {.ncclGetVersion = emulated_version,
                                                .ncclGetErrorString = emulated_error,
                                                .ncclGetLastError = emulated_last_error,
                                                .ncclGetUniqueId = emulated_id,
                                                .ncclCommInitRank = emulated_init,
                                                .ncclCommDestroy = emulated_destroy,
                                                .ncclCommAbort = emulated_abort,
                                                .ncclCommGetAsyncError = emulated_async,
                                                .ncclGroupStart = emulated_start,
                                                .ncclGroupEnd = emulated_end,
                                                .ncclAllReduce = emulated_allreduce,
                                                .ncclReduceScatter = emulated_reducescatter,
                                                .ncclAllGather = emulated_allgather,
                                                .ncclReduce = emulated_reduce,
                                                .ncclBroadcast = emulated_broadcast};
