/* SPDX-License-Identifier: MIT */
/*
 * Back end `nccl`: ranks are GPUs of one process, or of several that another communicator connects;
 * rank 0 sends the unique id through that. All-reduce is the library's, on the operation's queue,
 * and so are its halves: ncclReduceScatter and ncclAllGather, which take shares of one size; uneven
 * shares are an ncclReduce or ncclBroadcast each, in one group. The reduction order is NCCL's own,
 * so the gate bounds the sum.
 *     enqueue  one NCCL group with the operations of all ranks of this process: NCCL requires that
 *              where one thread drives several GPUs, and a capture then contains all of them
 *     wait     polls the queue and NCCL's asynchronous error. On an error, or a timeout in which no
 *              all-reduce finishes, this process gives up its communicators. Each is aborted in a
 *              thread that nobody waits for, since NCCL keeps it until no graph uses it. If a queue
 *              still does not end, its device is lost (ls_device_lose), and the process exits
 * After every all-reduce, a kernel of one thread increments a counter in pinned memory: a sign of
 * life. Leaves out exchanges (only our own algorithms need them) and host calls. NCCL refuses two
 * ranks on one GPU; communicator `device` is used there. Not yet run between GPUs; its logic is
 * tested with functions that replace NCCL's (nccl_emulate.h).
 */
#include "common/comm/nccl/comm_nccl.h"

#include "common/base/clock.h"
#include "common/comm/comm_sums.h"
#include "common/comm/gpu_sums.h"
#include "common/comm/nccl/nccl_bound.h"
#include "common/comm/nccl/nccl_meeting.h"
#include "common/device/cuda/cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_NS = 20000 }; /* interval of polling */

/* Time for queues to end after giving up the communicators; kernels notice within milliseconds. */
static const uint64_t grace_ns = 3000000000;

/* Longest time to open: many hosts need some ten seconds, even if --timeout is shorter. */
static const uint64_t open_most_ns = 120000000000;

typedef struct nccl_group {
    ls_nccl nccl;
    int locals, members;     /* ranks of this process; ends that are still open */
    struct nccl_comm **ends; /* [locals] */
    ncclUniqueId id;
    bool given_up;
    uint64_t given_up_ns; /* when; 0 if not yet */
    bool stuck;           /* opening has not returned, and its thread still uses this */
} nccl_group;

typedef struct nccl_comm {
    ls_comm base;
    nccl_group *group;
    ncclComm_t comm; /* NULL if not opened, or given up */
} nccl_comm;

typedef struct library_op {
    ls_op op;
    nccl_comm *comm;
    ls_half half;
    float *data;
    size_t count;
} library_op;

/* ---- Operations ------------------------------------------------------------------------------ */

static ls_status make_library(ls_comm *base, ls_half half, float *data, size_t count, ls_op **out)
{
    static const char *const names[] = {[LS_HALVES] = "allreduce.nccl",
                                        [LS_REDUCE_SCATTER] = "reducescatter.nccl",
                                        [LS_ALL_GATHER] = "allgather.nccl"};
    library_op *a;
    LS_TRY(ls_allocate("communicator", &a, 1, sizeof *a));
    *a = (library_op){
        .op = {.name = names[half], .run = ls_comm_run_alone, .use = LS_TIME_COMMUNICATION},
        .comm = (nccl_comm *)base,
        .half = half,
        .data = data,
        .count = count};
    *out = &a->op;
    return LS_OK;
}

static ls_status refuse_lists(const nccl_group *group)
{
    return ls_fail(LS_CODE_USAGE, "communicator", "nccl",
                   "the %d ranks of this process enqueue different operations; enqueue matching "
                   "operations in the same order on every rank",
                   group->locals);
}

static bool is_gpu(const ls_device *device)
{
    return ls_device_describe(device)->name.kind == LS_DEVICE_GPU;
}

/* Selects a GPU for the calling thread; NCCL keeps groups of threads apart. */
static ls_status use(const ls_device *device)
{
    return is_gpu(device) ? ls_cuda_use(device) : LS_OK;
}

/* Enqueues a kernel that counts, if the queue is a GPU's. */
static ls_status enqueue_pulse(ls_queue *queue)
{
    const ls_device *device = ls_queue_device(queue);
    if (!is_gpu(device))
        return LS_OK;
    LS_TRY(use(device));
    const int error = ls_gpu_pulse(ls_queue_native(queue), ls_cuda_queue_pulse(queue));
    return ls_cuda_check(ls_device_describe(device)->text, "count an all-reduce",
                         (cudaError_t)error);
}

/* A half of an all-reduce whose shares have different sizes. */
static ncclResult_t call_shares(const library_op *a, cudaStream_t stream)
{
    const ls_nccl_functions *call = &a->comm->group->nccl.call;
    ncclResult_t result = ncclSuccess;
    for (int q = 0; q < a->comm->base.size && result == ncclSuccess; q++) {
        const ls_range share = ls_comm_parts(ls_elements(a->count), q, 1, a->comm->base.size);
        float *data = a->data + share.first;
        if (share.count && a->half == LS_REDUCE_SCATTER)
            result = call->ncclReduce(data, data, share.count, ncclFloat, ncclSum, q, a->comm->comm,
                                      stream);
        else if (share.count)
            result =
                call->ncclBroadcast(data, data, share.count, ncclFloat, q, a->comm->comm, stream);
    }
    return result;
}

static ncclResult_t call_nccl(const library_op *a, cudaStream_t stream)
{
    const ls_nccl_functions *call = &a->comm->group->nccl.call;
    const size_t ranks = (size_t)a->comm->base.size, each = a->count / ranks;
    float *own_share = a->data + (size_t)a->comm->base.rank * each;
    if (a->half == LS_HALVES)
        return call->ncclAllReduce(a->data, a->data, a->count, ncclFloat, ncclSum, a->comm->comm,
                                   stream);
    if (a->count % ranks)
        return call_shares(a, stream);
    if (a->half == LS_REDUCE_SCATTER)
        return call->ncclReduceScatter(a->data, own_share, each, ncclFloat, ncclSum, a->comm->comm,
                                       stream);
    return call->ncclAllGather(own_share, a->data, each, ncclFloat, a->comm->comm, stream);
}

/* Enqueues operation `at` of all lists as one group. */
static ls_status enqueue_group(nccl_group *group, const ls_comm_list *lists, size_t at)
{
    const ls_nccl_functions *call = &group->nccl.call;
    LS_TRY(ls_nccl_check(&group->nccl, call->ncclGroupStart(), "begin a group"));
    ncclResult_t result = ncclSuccess;
    for (int r = 0; r < group->locals && result == ncclSuccess; r++) {
        const library_op *a = (const library_op *)lists[r].ops->items[at];
        result = call_nccl(a, (cudaStream_t)ls_queue_native(lists[r].queue));
    }
    const ncclResult_t end = call->ncclGroupEnd();
    LS_TRY(ls_nccl_check(&group->nccl, result == ncclSuccess ? end : result, "all-reduce"));
    for (int r = 0; r < group->locals; r++)
        LS_TRY(enqueue_pulse(lists[r].queue));
    return LS_OK;
}

static bool is_ours(const ls_comm_list *list, size_t at)
{
    return at < list->ops->count && list->ops->items[at]->run == ls_comm_run_alone;
}

static ls_status enqueue_lists(ls_comm *const *comms, const ls_comm_list *lists, int count)
{
    nccl_group *group = ((nccl_comm *)comms[0])->group;
    if (count != group->locals)
        return refuse_lists(group);
    if (group->given_up)
        return ls_fail(LS_CODE_MISSING, "communicator", "nccl",
                       "this communicator was aborted after a failure; start the command again");
    for (size_t at = 0; at < lists->ops->count; at++) {
        for (int r = 1; r < count; r++)
            if (lists[r].ops->count != lists->ops->count ||
                is_ours(&lists[r], at) != is_ours(lists, at))
                return refuse_lists(group);
        if (is_ours(lists, at)) {
            LS_TRY(enqueue_group(group, lists, at));
            continue;
        }
        for (int r = 0; r < count; r++)
            LS_TRY(ls_queue_enqueue(lists[r].queue, lists[r].ops->items[at]));
    }
    return LS_OK;
}

/* ---- Giving up ------------------------------------------------------------------------------- */

typedef struct abort_job {
    __typeof__(ncclCommAbort) *abort;
    ncclComm_t comm;
} abort_job;

static void *abort_thread(void *context)
{
    const abort_job job = *(const abort_job *)context;
    free(context);
    job.abort(job.comm);
    return NULL;
}

/* Aborts run concurrently; if a thread cannot be started, that abort is skipped. */
static void begin_abort(const ls_nccl *nccl, ncclComm_t comm)
{
    pthread_t thread;
    abort_job *job = malloc(sizeof *job);
    if (!job)
        return;
    *job = (abort_job){nccl->call.ncclCommAbort, comm};
    if (pthread_create(&thread, NULL, abort_thread, job) == 0)
        pthread_detach(thread);
    else
        free(job);
}

/* Operations in flight end, and the queues run to their end. */
static void give_up(nccl_group *group)
{
    for (int r = 0; r < group->locals; r++) {
        if (group->ends[r] && group->ends[r]->comm)
            begin_abort(&group->nccl, group->ends[r]->comm);
        if (group->ends[r])
            group->ends[r]->comm = NULL;
    }
    group->given_up = true;
    group->given_up_ns = ls_clock_ns();
}

/* Whether the queues have ended or failed; the next call on them tells which. */
static bool have_ended(const ls_queue *queue, const ls_queue *sums)
{
    const ls_queue *queues[] = {queue, sums};
    bool all = true;
    for (int i = 0; i < 2; i++) {
        bool idle = true;
        ls_status_free(ls_queue_idle(queues[i], &idle));
        all &= idle;
    }
    return all;
}

/* After giving up: waits briefly for the queues, otherwise loses the devices (of one step). */
static ls_status await_queues(const nccl_comm *comm, const ls_queue *queue, const ls_queue *sums)
{
    const nccl_group *group = comm->group;
    bool ended = have_ended(queue, sums);
    while (!ended && ls_clock_ns() - group->given_up_ns < grace_ns) {
        ls_clock_sleep(LOOK_NS);
        ended = have_ended(queue, sums);
    }
    if (ended)
        return LS_OK;
    for (int r = 0; r < group->locals; r++)
        if (group->ends[r])
            ls_device_lose(group->ends[r]->base.device);
    return ls_status_final(ls_status_follows(ls_fail(
        LS_CODE_MISSING, "NCCL", ls_device_describe(comm->base.device)->text,
        "an all-reduce was aborted, but it still runs on this GPU; start the command again")));
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void abandon(ls_comm *base)
{
    nccl_group *group = ((nccl_comm *)base)->group;
    if (!group->given_up)
        give_up(group);
}

/* Number of all-reduces that this queue has finished, if it is a GPU's. */
static unsigned pulse_of(const ls_queue *queue)
{
    if (!is_gpu(ls_queue_device(queue)))
        return 0;
    return __atomic_load_n(ls_cuda_queue_pulse(queue), __ATOMIC_ACQUIRE);
}

static ls_status find_failure(const nccl_comm *comm)
{
    ncclResult_t error = ncclSuccess;
    const ls_nccl *nccl = &comm->group->nccl;
    LS_TRY(ls_nccl_check(nccl, nccl->call.ncclCommGetAsyncError(comm->comm, &error),
                         "ask for errors"));
    return error == ncclInProgress ? LS_OK : ls_nccl_check(nccl, error, "an all-reduce under way");
}

static ls_status wait_for(ls_comm *base, const ls_queue *queue, const ls_queue *sums,
                          uint64_t timeout_ns)
{
    nccl_comm *comm = (nccl_comm *)base;
    const char *where = ls_device_describe(base->device)->text;
    uint64_t since_ns = ls_clock_ns();
    unsigned pulse = pulse_of(sums);
    bool idle = false;
    ls_status status = LS_OK;
    while (!status && !comm->group->given_up) {
        status = ls_queue_idle(queue, &idle);
        if (!status && idle)
            return LS_OK;
        if (!status)
            status = find_failure(comm);
        if (pulse_of(sums) != pulse) {
            pulse = pulse_of(sums);
            since_ns = ls_clock_ns();
        }
        if (!status && ls_clock_ns() - since_ns > timeout_ns)
            status = ls_fail(LS_CODE_MISSING, "NCCL", where,
                             "no all-reduce has ended for %.3g s (--timeout), so a rank has ended "
                             "or hangs; see the messages of the other ranks, or raise --timeout",
                             (double)timeout_ns * 1e-9);
        ls_clock_sleep(LOOK_NS);
    }
    if (!comm->group->given_up)
        give_up(comm->group);
    return ls_status_first(status, await_queues(comm, queue, sums));
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void close_group(nccl_group *group)
{
    ls_nccl_unload(&group->nccl);
    free(group->ends);
    free(group);
}

static void close_comm(ls_comm *base)
{
    nccl_comm *comm = (nccl_comm *)base;
    nccl_group *group = comm->group;
    if (comm->comm)
        group->nccl.call.ncclCommDestroy(comm->comm);
    for (int r = 0; r < group->locals; r++)
        if (group->ends[r] == comm)
            group->ends[r] = NULL;
    if (--group->members == 0)
        close_group(group);
    free(comm);
}

static ls_status init_ends(void *context)
{
    nccl_group *group = context;
    const ls_nccl *nccl = &group->nccl;
    LS_TRY(ls_nccl_check(nccl, nccl->call.ncclGroupStart(), "begin a group"));
    ls_status status = LS_OK;
    for (int i = 0; i < group->locals && !status; i++) {
        nccl_comm *end = group->ends[i];
        status = use(end->base.device);
        if (!status)
            status = ls_nccl_check(
                nccl,
                nccl->call.ncclCommInitRank(&end->comm, end->base.size, group->id, end->base.rank),
                "open a communicator");
    }
    return ls_status_first(
        status, ls_nccl_check(nccl, nccl->call.ncclGroupEnd(), "open the communicators"));
}

/* Opens all ranks' ends. If that exceeds its time, the devices are lost, and the group is left to
 * the thread that still tries. */
static ls_status join(nccl_group *group)
{
    const uint64_t longest_ns = group->nccl.open_ns ? group->nccl.open_ns : open_most_ns;
    bool done = false;
    ls_status status = ls_nccl_bound(init_ends, group, longest_ns, &done);
    if (done)
        return status;
    group->stuck = true;
    for (int i = 0; i < group->locals; i++)
        ls_device_lose(group->ends[i]->base.device);
    return ls_status_final(
        ls_fail(LS_CODE_MISSING, "NCCL", "connection",
                "after %.3g s the ranks are still not connected, so a rank has ended, or the ranks "
                "cannot reach each other; set NCCL_DEBUG=INFO to see more",
                (double)longest_ns * 1e-9));
}

static ls_status open_ends(nccl_group *group, const ls_nccl_rendezvous *met,
                           ls_device *const *devices, ls_comm **comms)
{
    for (int i = 0; i < group->locals; i++) {
        nccl_comm *end;
        LS_TRY(ls_allocate("communicator", &end, 1, sizeof *end));
        end->base = (ls_comm){.backend = &ls_comm_nccl,
                              .rank = met->first + i,
                              .size = met->size,
                              .device = devices[i]};
        end->group = group;
        group->ends[i] = end;
        group->members++;
        comms[i] = &end->base;
        LS_TRY(ls_sums_load(devices[i]));
    }
    return LS_OK;
}

/* `locals` is 0 if it has no end yet. */
static void drop_group(nccl_group *group)
{
    give_up(group);
    for (int i = 0; i < group->locals; i++)
        free(group->ends[i]);
    free(group->ends);
    free(group);
}

ls_status ls_comm_nccl_open(ls_nccl *nccl, ls_status own_status, ls_comm *processes,
                            ls_device *const *devices, int count, ls_comm **comms)
{
    ls_nccl_rendezvous met;
    nccl_group *group = calloc(1, sizeof *group);
    if (group)
        group->ends = calloc((size_t)count, sizeof(nccl_comm *));
    if (!own_status && (!group || !group->ends))
        own_status = ls_fail_memory("communicator", sizeof *group);
    ls_status status = ls_nccl_gather_ranks(nccl, own_status, processes, devices, count, &met);
    if (!status) {
        group->nccl = *nccl;
        group->locals = count;
        group->id = met.id;
        status = open_ends(group, &met, devices, comms);
    }
    if (!status)
        status = join(group);
    if (!status)
        return LS_OK;
    if (group && !group->stuck)
        drop_group(group);
    ls_nccl_unload(nccl);
    return status;
}

static ls_status check_names(const ls_device_name *names, int count)
{
    char text[2][32];
    for (int i = 0; i < count; i++) {
        if (names[i].kind != LS_DEVICE_GPU)
            return ls_fail(LS_CODE_MISSING, "comm: nccl", ls_device_name_text(&names[i], text[0]),
                           "this device is not a GPU, but NCCL exchanges between GPUs only; use "
                           "--comm auto, or GPUs");
        for (int k = 0; k < i; k++)
            if (names[k].index == names[i].index)
                return ls_fail(LS_CODE_USAGE, "comm: nccl", ls_device_name_text(&names[i], text[0]),
                               "this device is on the same GPU as %s, but NCCL refuses two ranks "
                               "on one GPU; use --comm auto",
                               ls_device_name_text(&names[k], text[1]));
    }
    ls_nccl nccl;
    LS_TRY(ls_nccl_load(&nccl));
    ls_nccl_unload(&nccl);
    return LS_OK;
}

static ls_status open_loaded(ls_comm *processes, ls_device *const *devices, int count,
                             ls_comm **comms)
{
    ls_nccl nccl;
    /* Peers connect when opened, not in their first all-reduce, which runs inside a capture. */
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    /* Launches of a process's ranks are ordered by one graph, so the library need not order them,
     * which can deadlock if one thread launches graphs of several GPUs (its guide, CUDA graphs). */
    if (count > 1)
        setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
    ls_status status = ls_nccl_load(&nccl);
    return ls_comm_nccl_open(&nccl, status, processes, devices, count, comms);
}

const ls_comm_backend ls_comm_nccl = {
    .name = "nccl",
    .help = "ranks are GPUs of one process or several; NCCL's own all-reduce",
    .check = check_names,
    .library = make_library,
    .enqueue = enqueue_lists,
    .wait = wait_for,
    .open = open_loaded,
    .abandon = abandon,
    .close = close_comm,
};
