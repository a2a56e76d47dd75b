/* SPDX-License-Identifier: MIT */
/*
 * NCCL for the fake GPU (common/device/fake): a library to load. A rank's part of a collective is
 * two pieces of work: it arrives, and ends when all have arrived; the first to end computes for
 * all, adding the last rank's values first: another order than any of ours. Ranks in other
 * processes of this host leave what they send in a folder, and each computes for itself. Refused:
 * two ranks of a thread outside a group, two ranks on one GPU, collectives that differ, a
 * communicator whose collectives are on streams that do not wait for each other. With
 * LS_FAKE_NCCL_LOG=FILE each rank appends its collectives to FILE.RANK.
 */
#include "common/device/fake/fake.h"

#include <errno.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS_MOST = 8, CALLS_MOST = 256 };

typedef enum kind { SUM, SCATTER, GATHER, REDUCE, BROADCAST } kind;
static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "reduce",
                                    "broadcast"};

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
    int number, process, ranks, joined, left;
    bool apart; /* other ranks are in other processes; this one has one */
    long turn;  /* collectives so far, of one that is apart */
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
    const int made[] = {++numbers, (int)getpid()};
    memcpy(id, made, sizeof made);
    return ncclSuccess;
}

/* ---- Ranks in other processes ---------------------------------------------------------------- */

/* The file of a rank in a turn; turn -1: it has left; rank -1: the folder. */
static const char *place_of(const clique *c, long turn, int rank, char name[128])
{
    const int end = snprintf(name, 128, "/dev/shm/lockstep-nccl-%d-%d", c->process, c->number);
    if (rank >= 0)
        snprintf(name + end, 128 - (size_t)end, "/%ld.%d", turn, rank);
    return name;
}

static size_t sent(const part *p, int ranks)
{
    return p->count * (p->kind == SCATTER ? (size_t)ranks : 1);
}

/* What a rank leaves is whole once it has its name. */
static void leave_part(clique *c, const part *p)
{
    char name[128], ready[128];
    place_of(c, c->turn, p->comm->rank + RANKS_MOST, name);
    mkdir(place_of(c, 0, -1, ready), 0700);
    FILE *file = fopen(name, "wb");
    const size_t count = sent(p, c->ranks);
    float *values = calloc(count + 1, sizeof *values); /* the kernel reads no device's memory */
    memcpy(values, p->send, count * sizeof *values);
    if (!file || fwrite(p, sizeof *p, 1, file) != 1 ||
        fwrite(values, sizeof *values, count, file) != count || fclose(file) ||
        rename(name, place_of(c, c->turn, p->comm->rank, ready)))
        ls_fake_refuse("NCCL: %s: %s", name, strerror(errno));
    free(values);
    /* Whoever is in the turn before has ended, and read, the one before that. */
    unlink(place_of(c, c->turn - 2, p->comm->rank, name));
}

static bool all_left(const clique *c, long turn)
{
    char name[128];
    for (int r = 0; r < c->ranks; r++)
        if (access(place_of(c, turn, r, name), F_OK))
            return false;
    return true;
}

/* Takes what the others have left; what they sent is behind their parts. */
static void take_parts(clique *c, int own)
{
    char name[128];
    for (int r = 0; r < c->ranks; r++) {
        part p;
        if (r == own)
            continue;
        FILE *file = fopen(place_of(c, c->turn, r, name), "rb");
        if (!file || fread(&p, sizeof p, 1, file) != 1)
            ls_fake_refuse("NCCL: %s: %s", name, strerror(errno));
        float *values = calloc(sent(&p, c->ranks) + 1, sizeof *values);
        if (fread(values, sizeof *values, sent(&p, c->ranks), file) != sent(&p, c->ranks))
            ls_fake_refuse("NCCL: %s: is too short", name);
        fclose(file);
        p.send = values;
        c->now[r] = p;
    }
}

/* The last removes the folder. */
static void leave_folder(const clique *c, int rank)
{
    char name[128];
    FILE *file = fopen(place_of(c, -1, rank, name), "wb");
    if (file)
        fclose(file);
    if (!all_left(c, -1))
        return;
    for (int r = 0; r < c->ranks; r++) {
        for (long turn = c->turn - 2; turn < c->turn; turn++)
            unlink(place_of(c, turn, r, name));
        unlink(place_of(c, -1, r, name));
    }
    rmdir(place_of(c, 0, -1, name));
}

static void log_call(const part *p)
{
    char name[512];
    const char *const log = getenv("LS_FAKE_NCCL_LOG");
    if (!log)
        return;
    snprintf(name, sizeof name, "%s.%d", log, p->comm->rank);
    FILE *file = fopen(name, "a");
    if (!file)
        ls_fake_refuse("NCCL: %s: %s", name, strerror(errno));
    fprintf(file, "%s %zu\n", names[p->kind], p->count);
    fclose(file);
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

/* For one rank, or for all, if that is negative. */
static void compute(clique *c, int own)
{
    float *results[RANKS_MOST] = {NULL};
    size_t counts[RANKS_MOST];
    for (int r = 0; r < c->ranks; r++) {
        const part *p = &c->now[r], *first = &c->now[0];
        if (p->kind != first->kind || p->root != first->root || p->count != first->count)
            ls_fake_refuse("NCCL: rank %d calls another collective than rank 0", r);
        counts[r] = p->kind == REDUCE && r != p->root ? 0 : p->count;
        counts[r] *= p->kind == GATHER ? (size_t)c->ranks : 1;
        counts[r] = own >= 0 && r != own ? 0 : counts[r];
        results[r] = malloc((counts[r] + 1) * sizeof(float));
        for (size_t i = 0; i < counts[r]; i++)
            results[r][i] = value_of(c, r, i);
    }
    for (int r = 0; r < c->ranks; r++) {
        if (counts[r])
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
    log_call(p);
    if (c->apart)
        leave_part(c, p);
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
    const clique *c = ((const part *)context)->comm->clique;
    return c->apart ? all_left(c, c->turn) : c->came == c->ranks;
}

static void end(void *context)
{
    const part *p = context;
    clique *c = p->comm->clique;
    p->comm->inside = false;
    if (c->apart) {
        take_parts(c, p->comm->rank);
        compute(c, p->comm->rank);
        for (int r = 0; r < c->ranks; r++)
            if (r != p->comm->rank)
                free((void *)(uintptr_t)c->now[r].send);
        c->turn++;
        return;
    }
    if (!c->ended)
        compute(c, -1);
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
    if (group.inits && latest->joined != latest->ranks) {
        latest->apart = latest->joined == 1;
        result = latest->apart ? ncclSuccess : ncclInvalidUsage;
    }
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
    int made[2]; /* its number, and the process that made it */
    memcpy(made, &id, sizeof made);
    if (rank < 0 || rank >= ranks || ranks > RANKS_MOST ||
        (made[1] == (int)getpid() && made[0] != numbers))
        return ncclInvalidArgument;
    if (!latest || latest->number != made[0] || latest->process != made[1]) {
        latest = calloc(1, sizeof *latest);
        latest->number = made[0];
        latest->process = made[1];
        latest->ranks = ranks;
        latest->apart = !group.depth && ranks > 1;
    } else if (latest->apart) {
        return ncclInvalidUsage;
    }
    const int device = ls_fake_current();
    if (latest->ranks != ranks || latest->devices >> device & 1)
        return ncclInvalidUsage; /* as NCCL: "Duplicate GPU detected" */
    latest->devices |= 1u << device;
    latest->joined++;
    group.inits += group.depth > 0;
    *out = calloc(1, sizeof **out);
    **out = (struct ncclComm){.clique = latest, .rank = rank, .device = device};
    return ncclSuccess;
}

static ncclResult_t leave(ncclComm_t comm)
{
    clique *c = comm->clique;
    if (c->apart)
        leave_folder(c, comm->rank);
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
