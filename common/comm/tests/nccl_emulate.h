/* SPDX-License-Identifier: MIT */
/*
 * NCCL's functions on a CPU: communicators of one process or of several threads, all-reduces in
 * rank order on the host when a group ends, errors and silence on demand. Calls that NCCL forbids
 * end the test: outside a group if one thread has several ranks, an id that is not rank 0's, a
 * communicator that was given up. Uses no queue.
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

/* One clique at a time: what its ranks have contributed. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ids, joined, destroyed;
    atomic_int aborted;
    void (*abort)(void); /* called in an abort, and may block; NULL: nothing */
    float *data[EMULATED_RANKS];
    size_t count;
    int came;
    uint64_t rounds;
    _Atomic ncclResult_t async_error, refuse_init;
    atomic_bool never_opens; /* until it is false */
    atomic_int openings;     /* finished ones */
} emulated = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Of this thread: what its open group has. */
static _Thread_local struct {
    bool open;
    int inits, sums, ranks;
    struct ncclComm *comm[EMULATED_RANKS];
    float *data[EMULATED_RANKS];
    size_t count;
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

static ncclResult_t emulated_allreduce(const void *send, void *receive, size_t count,
                                       ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream)
{
    emulation_wants(emulated_group.open, "an all-reduce outside a group");
    emulation_wants(send == receive && type == ncclFloat && op == ncclSum, "another all-reduce");
    emulation_wants(comm && !comm->aborted, "a communicator that was given up");
    const int at = emulated_group.sums++;
    emulated_group.comm[at] = comm;
    emulated_group.data[at] = receive;
    emulated_group.count = count;
    return ncclSuccess;
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

static void finish_sum(int ranks)
{
    for (size_t i = 0; i < emulated.count; i++) {
        float sum = emulated.data[0][i];
        for (int r = 1; r < ranks; r++)
            sum = sum + emulated.data[r][i];
        for (int r = 0; r < ranks; r++)
            emulated.data[r][i] = sum;
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
    for (int i = 0; i < emulated_group.sums; i++)
        emulated.data[emulated_group.comm[i]->rank] = emulated_group.data[i];
    emulated.count = emulated_group.count;
    if (emulated_group.sums)
        emulated_meet(emulated_group.sums, emulated_group.comm[0]->ranks, finish_sum);
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
                                                .ncclAllReduce = emulated_allreduce};
