/* SPDX-License-Identifier: MIT */
/*
 * NCCL for the fake GPU (common/device/fake): a library to load, for ranks of one process. A rank's
 * part of a collective is two pieces of work: it arrives, and ends when all have arrived; the first
 * to end computes for all, adding the last rank's values first: another order than any of ours.
 * Refused: two ranks of a thread outside a group, two ranks on one GPU, collectives that differ, a
 * communicator whose collectives are on streams that do not wait for each other. Left out: ranks in
 * other processes.
 */
#include "common/device/fake/fake.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 8, CALLS_MOST = 256 };

typedef enum kind { SUM, SCATTER, GATHER, REDUCE, BROADCAST } kind;

typedef struct part {
    struct ncclComm *comm;
    kind kind;
    int root;
    const float *send;
    float *receive;
    size_t count;
    cudaStream_t stream;
} part;

/* The ranks that belong together, and the collective that they are in. */
typedef struct clique {
    int number, ranks, joined, left;
    unsigned devices;
    int came, ended;
    part now[RANKS_MOST];
} clique;

struct ncclComm {
    clique *clique;
    int rank, device;
    bool inside; /* arrived, not ended */
};

static _Thread_local struct {
    int depth, count, inits;
    part calls[CALLS_MOST];
} group;
static clique *latest; /* the one whose id was made last */
static int numbers;

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage ? "invalid usage" : "an error of the fake GPU's NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    numbers++;
    memcpy(id, &numbers, sizeof numbers);
    return ncclSuccess;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Element i of what rank r receives. */
static float value_of(const clique *c, int r, size_t i)
{
    const part *mine = &c->now[r];
    if (mine->kind == GATHER)
        return c->now[i / mine->count].send[i % mine->count];
    if (mine->kind == BROADCAST)
        return c->now[mine->root].send[i];
    const size_t at = mine->kind == SCATTER ? (size_t)r * mine->count + i : i;
    float sum = c->now[c->ranks - 1].send[at];
    for (int q = c->ranks - 2; q >= 0; q--)
        sum = sum + c->now[q].send[at];
    return sum;
}

static void compute(clique *c)
{
    float *results[RANKS_MOST] = {NULL};
    size_t counts[RANKS_MOST];
    for (int r = 0; r < c->ranks; r++) {
        const part *p = &c->now[r], *first = &c->now[0];
        if (p->kind != first->kind || p->root != first->root || p->count != first->count)
            ls_fake_refuse("NCCL: rank %d calls another collective than rank 0", r);
        counts[r] = p->kind == REDUCE && r != p->root ? 0 : p->count;
        counts[r] *= p->kind == GATHER ? (size_t)c->ranks : 1;
        results[r] = malloc((counts[r] + 1) * sizeof(float));
        for (size_t i = 0; i < counts[r]; i++)
            results[r][i] = value_of(c, r, i);
    }
    for (int r = 0; r < c->ranks; r++) {
        memcpy(c->now[r].receive, results[r], counts[r] * sizeof(float));
        free(results[r]);
    }
}

static void arrive(void *context)
{
    const part *p = context;
    clique *c = p->comm->clique;
    if (p->comm->inside)
        ls_fake_refuse("NCCL: rank %d is in two collectives at once", p->comm->rank);
    p->comm->inside = true;
    c->now[p->comm->rank] = *p;
    c->came++;
}

/* A rank may arrive for the next collective only when all have ended this one. */
static bool may_arrive(void *context)
{
    const part *p = context;
    return p->comm->clique->ended == 0;
}

static bool all_came(void *context)
{
    const part *p = context;
    return p->comm->clique->came == p->comm->clique->ranks;
}

static void end(void *context)
{
    const part *p = context;
    clique *c = p->comm->clique;
    if (!c->ended)
        compute(c);
    p->comm->inside = false;
    if (++c->ended == c->ranks)
        c->came = c->ended = 0;
}

static ncclResult_t enqueue(const part *p)
{
    const ls_fake_work first = {"NCCL: arrive", arrive, may_arrive, p, sizeof *p, 0};
    const ls_fake_work second = {"a collective of NCCL",  end, all_came, p, sizeof *p,
                                 p->comm->clique->devices};
    return ls_fake_enqueue_anywhere(p->stream, &first) ||
                   ls_fake_enqueue_anywhere(p->stream, &second)
               ? ncclUnhandledCudaError
               : ncclSuccess;
}

static ncclResult_t call(const part *p, ncclDataType_t type, ncclRedOp_t op)
{
    const void *const places[] = {p->send, p->receive};
    if (!p->comm || type != ncclFloat || op != ncclSum)
        return ncclInvalidArgument;
    if (ls_fake_device_of(p->stream) != p->comm->device)
        ls_fake_refuse("NCCL: rank %d of gpu:%d gets a stream of gpu:%d", p->comm->rank,
                       p->comm->device, ls_fake_device_of(p->stream));
    for (int i = 0; i < 2; i++)
        if (ls_fake_owner(places[i]) != p->comm->device)
            ls_fake_refuse("NCCL: rank %d of gpu:%d gets other memory", p->comm->rank,
                           p->comm->device);
    if (!group.depth)
        return enqueue(p);
    if (group.count == CALLS_MOST)
        return ncclInternalError;
    group.calls[group.count++] = *p;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    if (!group.depth)
        return ncclInvalidUsage;
    if (--group.depth)
        return ncclSuccess;
    if (group.inits && latest->joined != latest->ranks)
        result = ncclInvalidUsage; /* the others are in other processes */
    for (int i = 0; i < group.count && result == ncclSuccess; i++)
        result = enqueue(&group.calls[i]);
    group.count = group.inits = 0;
    return result;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(&(part){comm, SUM, 0, send, receive, count, stream}, type, op);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(&(part){comm, SCATTER, 0, send, receive, count, stream}, type, op);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(&(part){comm, GATHER, 0, send, receive, count, stream}, type, ncclSum);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return call(&(part){comm, REDUCE, root, send, receive, count, stream}, type, op);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return call(&(part){comm, BROADCAST, root, send, receive, count, stream}, type, ncclSum);
}

/* ---- Communicators --------------------------------------------------------------------------- */

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank)
{
    int number;
    memcpy(&number, &id, sizeof number);
    if (rank < 0 || rank >= ranks || ranks > RANKS_MOST || number != numbers)
        return ncclInvalidArgument;
    if (!group.depth && ranks > 1)
        return ncclInvalidUsage;
    if (!latest || latest->number != number) {
        latest = calloc(1, sizeof *latest);
        latest->number = number;
        latest->ranks = ranks;
    }
    const int device = ls_fake_current();
    if (latest->ranks != ranks || latest->devices >> device & 1)
        return ncclInvalidUsage; /* as NCCL: "Duplicate GPU detected" */
    latest->devices |= 1u << device;
    latest->joined++;
    group.inits++;
    *out = calloc(1, sizeof **out);
    **out = (struct ncclComm){.clique = latest, .rank = rank, .device = device};
    return ncclSuccess;
}

static ncclResult_t leave(ncclComm_t comm)
{
    clique *c = comm->clique;
    free(comm);
    if (++c->left == c->joined) {
        latest = latest == c ? NULL : latest;
        free(c);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->inside)
        ls_fake_refuse("NCCL: rank %d is destroyed in a collective", comm->rank);
    return leave(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return leave(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = ncclSuccess;
    return ncclSuccess;
}
