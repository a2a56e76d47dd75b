/* SPDX-License-Identifier: MIT */
/*
 * Back end `device`: ranks are devices of one process, whose queues are ordered by events. No
 * thread waits for another: one call (ls_comm_enqueue) enqueues everything. It visits the ranks'
 * lists in turn and advances each until it needs another rank's operation that is not enqueued yet.
 * exchange  The sender records `ready`. The receiver's queue waits for `ready`, copies (or adds
 *           directly from the sender's memory; ranks without shared memory copy first, then add)
 *           and records `taken`, for which the sender's queue waits.
 * direct    All record `ready` and wait for all; each sums its slice of all buffers in rank order
 *           and writes it to all; all record `taken` and wait for all. Up to 8 elements, each rank
 *           sums all of them, and writes the result after the second wait. A half only sums (in
 *           rank 0's memory, then copies to its own), or only writes.
 * Waits are enqueued after their records, and every event is recorded once, as captures in CUDA
 * require. Bytes and messages are counted when they are enqueued, or captured: once for all
 * replays. Failures propagate between queues as they do by events (device.h). Leaves out host calls
 * and ranks of other processes. One GPU's logical devices have run it; several GPUs have not yet.
 */
#include "common/comm/comm_parts.h"
#include "common/comm/comm_sums.h"
#include "common/device/link.h"

#include <stdlib.h>
#include <string.h>

typedef struct device_op device_op;
typedef struct device_comm device_comm;

typedef struct device_group {
    int size, members;   /* members: ends that are still open */
    device_comm **ranks; /* [size] */
    device_op **message; /* [size, size] from, to: the message not taken yet; NULL if none */
} device_group;

struct device_comm {
    ls_comm base;
    device_group *group;
    float *scratch; /* received data before its addition; and sums of up to 8 elements */
    size_t scratch_elements;
    bool fixed; /* an operation is enqueued, so scratch may not move */
    /* State of ls_comm_enqueue: */
    size_t next;            /* index in the rank's list */
    int stage;              /* of that operation */
    uint64_t shown, summed; /* direct operations that have recorded `ready`; `taken` */
    device_op *direct[2];   /* two operations, used alternately */
};

struct device_op {
    ls_op op;
    device_comm *comm;
    /* Enqueues the operation's next stages; *done stays false if it needs an operation of another
     * rank that is not enqueued yet. */
    ls_status (*enqueue)(device_op *op, ls_queue *queue, bool *done);
    ls_exchange what; /* of an exchange */
    float *data;      /* of direct: [count] */
    size_t count;
    ls_direct_part part;
    ls_event *ready, *taken;
    ls_op *sum, *write;       /* made in the first run; NULL if not yet, or not needed */
    const device_op *partner; /* of an exchange: the sender's operation, the same in every run */
    device_op *taker;         /* of an exchange: the receiver's operation */
};

/* ---- Parts ---------------------------------------------------------------------------------- */

static void destroy_op(ls_op *base)
{
    device_op *op = (device_op *)base;
    ls_event_close(op->ready);
    ls_event_close(op->taken);
    ls_op_free(op->sum);
    ls_op_free(op->write);
    free(op);
}

static ls_status make_op(device_comm *comm, const char *name, bool ready, bool taken,
                         device_op **out)
{
    device_op *op;
    LS_TRY(ls_allocate("communicator", &op, 1, sizeof *op));
    op->op = (ls_op){.name = name,
                     .run = ls_comm_run_alone,
                     .destroy = destroy_op,
                     .use = LS_TIME_COMMUNICATION};
    op->comm = comm;
    ls_status status = ready ? ls_event_open(comm->base.device, &op->ready) : LS_OK;
    if (!status && taken)
        status = ls_event_open(comm->base.device, &op->taken);
    if (status)
        destroy_op(&op->op);
    else
        *out = op;
    return status;
}

/* Grows the scratch to at least `elements`; operations use it one after another. */
static ls_status take_scratch(device_comm *comm, size_t elements)
{
    void *memory;
    if (elements <= comm->scratch_elements)
        return LS_OK;
    if (comm->fixed)
        return ls_fail(LS_CODE_USAGE, "communicator", ls_device_describe(comm->base.device)->text,
                       "this operation needs more scratch memory than the operations before it; "
                       "create all operations before you enqueue the first");
    ls_device_release(comm->base.device, comm->scratch);
    comm->scratch = NULL;
    comm->scratch_elements = 0;
    LS_TRY(ls_device_allocate(comm->base.device, LS_MEMORY_COMMUNICATION, elements * sizeof(float),
                              &memory));
    comm->scratch = memory;
    comm->scratch_elements = elements;
    return LS_OK;
}

/* ---- Exchange ------------------------------------------------------------------------------- */

static device_op **message_of(const device_group *group, int from, int to)
{
    return &group->message[from * group->size + to];
}

static ls_status enqueue_addition(device_op *op, const device_op *from, ls_queue *queue)
{
    const device_comm *comm = op->comm;
    const float *there = from->what.send;
    if (!comm->base.shared) {
        there = comm->scratch;
        LS_TRY(ls_queue_copy(queue, comm->scratch, comm->base.device, from->what.send,
                             from->comm->base.device, op->what.receive_count * sizeof(float)));
    }
    const ls_sum_step step = {op->what.receive, op->what.receive, there};
    if (!op->sum)
        LS_TRY(ls_sums_make(comm->base.device, "exchange.add", &step, 1, op->what.receive_count,
                            &op->sum));
    return ls_queue_enqueue(queue, op->sum);
}

static ls_status take_message(device_op *op, device_op *from, ls_queue *queue)
{
    const size_t elements = op->what.receive_count;
    if (from->what.send_count != elements)
        return ls_comm_mismatch(&op->comm->base, elements, from->what.send_count, op->what.from,
                                false);
    if (op->partner && op->partner != from)
        return ls_fail(
            LS_CODE_USAGE, "communicator", op->op.name,
            "this operation now receives from another operation than in the previous call; "
            "give each call the same lists of operations");
    op->partner = from;
    LS_TRY(ls_queue_wait(queue, from->ready));
    LS_TRY(op->what.add
               ? enqueue_addition(op, from, queue)
               : ls_queue_copy(queue, op->what.receive, op->comm->base.device, from->what.send,
                               from->comm->base.device, ls_exchange_bytes(&op->what, elements)));
    from->taker = op;
    return ls_queue_record(queue, op->taken);
}

static ls_status enqueue_exchange(device_op *op, ls_queue *queue, bool *done)
{
    enum { SEND, RECEIVE, LEAVE };
    device_comm *comm = op->comm;
    device_group *group = comm->group;
    const int rank = comm->base.rank;
    const bool sends = op->what.to >= 0, receives = op->what.from >= 0;
    if (comm->stage == SEND && sends) {
        op->taker = NULL;
        *message_of(group, rank, op->what.to) = op;
        if (!op->what.inside)
            ls_comm_sent(&comm->base, 1, ls_exchange_bytes(&op->what, op->what.send_count));
        LS_TRY(ls_queue_record(queue, op->ready));
    }
    if (comm->stage == SEND)
        comm->stage = RECEIVE;
    if (comm->stage == RECEIVE && receives) {
        device_op *from = *message_of(group, op->what.from, rank);
        if (!from || from->taker)
            return LS_OK;
        LS_TRY(take_message(op, from, queue));
    }
    comm->stage = LEAVE;
    if (sends && !op->taker)
        return LS_OK;
    if (sends) {
        *message_of(group, rank, op->what.to) = NULL;
        LS_TRY(ls_queue_wait(queue, op->taker->taken));
    }
    *done = true;
    return LS_OK;
}

static ls_status make_exchange(ls_comm *base, const ls_exchange *exchange, ls_op **out)
{
    device_comm *comm = (device_comm *)base;
    device_op *op = NULL;
    if (exchange->add && exchange->from >= 0 && !base->shared)
        LS_TRY(take_scratch(comm, exchange->receive_count));
    LS_TRY(make_op(comm, exchange->add ? "exchange.add" : "exchange.copy", exchange->to >= 0,
                   exchange->from >= 0, &op));
    op->enqueue = enqueue_exchange;
    op->what = *exchange;
    *out = &op->op;
    return LS_OK;
}

/* ---- Direct --------------------------------------------------------------------------------- */

/* Rank `other`'s operation that matches this rank's latest. */
static device_op *peer_op(const device_comm *comm, int other)
{
    return comm->group->ranks[other]->direct[(comm->shown - 1) % 2];
}

/* Makes ((data0 + data1) + data2) + ... of this rank's slice, written to all; up to 8 elements, of
 * all of them, written to itself. */
static ls_status make_sums(device_op *op)
{
    const device_comm *comm = op->comm;
    const int n = comm->base.size, me = comm->base.rank;
    const bool few = op->part.few, gathers = op->part.half == LS_ALL_GATHER;
    const bool to_all = !few && op->part.half != LS_REDUCE_SCATTER;
    const ls_range slice = op->part.slice;
    size_t used = 0;
    ls_sum_step *steps;
    LS_TRY(ls_allocate("communicator", &steps, 2 * (size_t)n, sizeof *steps));
    const int at = gathers ? me : 0; /* the rank that has the slice's sum */
    float *to = few ? comm->scratch : peer_op(comm, at)->data + slice.first;
    for (int r = 1; r < n && !gathers; r++)
        steps[used++] = (ls_sum_step){to, r == 1 ? peer_op(comm, 0)->data + slice.first : to,
                                      peer_op(comm, r)->data + slice.first};
    for (int r = 0; r < n && !few; r++)
        if (r != at && (to_all || r == me))
            steps[used++] = (ls_sum_step){peer_op(comm, r)->data + slice.first, to, NULL};
    ls_status status =
        ls_sums_make(comm->base.device, op->op.name, steps, used, slice.count, &op->sum);
    free(steps);
    const ls_sum_step back = {op->data, comm->scratch, NULL};
    return status || !few
               ? status
               : ls_sums_make(comm->base.device, op->op.name, &back, 1, op->count, &op->write);
}

static ls_status sum_all(device_op *op, ls_queue *queue)
{
    const device_comm *comm = op->comm;
    for (int r = 0; r < comm->base.size; r++) {
        if (peer_op(comm, r)->count != op->count)
            return ls_comm_mismatch(&op->comm->base, op->count, peer_op(comm, r)->count, r, false);
        if (r != comm->base.rank)
            LS_TRY(ls_queue_wait(queue, peer_op(comm, r)->ready));
    }
    if (!op->sum)
        LS_TRY(make_sums(op));
    LS_TRY(ls_queue_enqueue(queue, op->sum));
    return ls_queue_record(queue, op->taken);
}

/* Whether all ranks have reached this one's stage: `summed`, otherwise `shown`. */
static bool all_there(const device_comm *comm, bool summed)
{
    bool there = true;
    for (int r = 0; r < comm->base.size; r++) {
        const device_comm *other = comm->group->ranks[r];
        there &= (summed ? other->summed : other->shown) >= comm->shown;
    }
    return there;
}

static ls_status enqueue_direct(device_op *op, ls_queue *queue, bool *done)
{
    enum { SHOW, SUM, LEAVE };
    device_comm *comm = op->comm;
    const int n = comm->base.size;
    if (comm->stage == SHOW) {
        comm->direct[comm->shown++ % 2] = op;
        LS_TRY(ls_queue_record(queue, op->ready));
        comm->stage = SUM;
    }
    if (comm->stage == SUM) {
        if (!all_there(comm, false))
            return LS_OK;
        LS_TRY(sum_all(op, queue));
        comm->summed++;
        comm->stage = LEAVE;
    }
    if (!all_there(comm, true))
        return LS_OK;
    for (int r = 0; r < n; r++)
        if (r != comm->base.rank)
            LS_TRY(ls_queue_wait(queue, peer_op(comm, r)->taken));
    ls_comm_sent(&comm->base, op->part.messages, op->part.bytes);
    if (op->write)
        LS_TRY(ls_queue_enqueue(queue, op->write));
    *done = true;
    return LS_OK;
}

static ls_status make_direct(ls_comm *base, ls_half half, float *data, ls_extent extent,
                             ls_op **out)
{
    device_comm *comm = (device_comm *)base;
    const ls_direct_part part = ls_comm_direct_part(half, base->rank, base->size, extent);
    device_op *op = NULL;
    if (part.few)
        LS_TRY(take_scratch(comm, LS_DIRECT_FEW));
    LS_TRY(make_op(comm, part.name, true, true, &op));
    op->enqueue = enqueue_direct;
    op->data = data;
    op->count = extent.count;
    op->part = part;
    *out = &op->op;
    return LS_OK;
}

/* ---- Putting -------------------------------------------------------------------------------- */

/* Enqueues what can be enqueued of a rank's list; sets *moved if that was anything. */
static ls_status advance(device_comm *comm, const ls_comm_list *list, bool *moved)
{
    while (comm->next < list->ops->count) {
        ls_op *op = list->ops->items[comm->next];
        const int stage = comm->stage;
        bool done = op->run != ls_comm_run_alone;
        LS_TRY(done ? ls_queue_enqueue(list->queue, op)
                    : ((device_op *)op)->enqueue((device_op *)op, list->queue, &done));
        *moved |= done || comm->stage != stage;
        if (!done)
            return LS_OK;
        comm->stage = 0;
        comm->next++;
    }
    return LS_OK;
}

static ls_status enqueue_lists(ls_comm *const *comms, const ls_comm_list *lists, int ranks)
{
    device_group *group = ((device_comm *)comms[0])->group;
    if (ranks != group->size)
        return ls_fail(LS_CODE_USAGE, "communicator", "device",
                       "the lists of %d ranks are enqueued, but there are %d ranks; enqueue the "
                       "lists of all ranks in one call",
                       ranks, group->size);
    memset(group->message, 0, (size_t)(ranks * ranks) * sizeof(device_op *));
    for (int r = 0; r < ranks; r++) {
        device_comm *comm = (device_comm *)comms[r];
        comm->fixed = true;
        comm->next = 0;
        comm->stage = 0;
        comm->shown = comm->summed = 0;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < ranks; r++)
            LS_TRY(advance((device_comm *)comms[r], &lists[r], &moved));
    }
    for (int r = 0; r < ranks; r++)
        if (((device_comm *)comms[r])->next < lists[r].ops->count)
            return ls_fail(
                LS_CODE_USAGE, "communicator", ls_device_describe(comms[r]->device)->text,
                "the operation %s waits for a matching operation that no rank enqueues; "
                "let every rank of the strategy enqueue matching operations in the same order",
                lists[r].ops->items[((device_comm *)comms[r])->next]->name);
    return LS_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static size_t get_memory(const ls_comm *base)
{
    return ((const device_comm *)base)->scratch_elements * sizeof(float);
}

/* Nothing to do: no thread blocks in a call, and events propagate failures to queues. */
static void abandon(ls_comm *base)
{
    (void)base;
}

static void close_group(device_group *group)
{
    free(group->ranks);
    free(group->message);
    free(group);
}

static void close_comm(ls_comm *base)
{
    device_comm *comm = (device_comm *)base;
    ls_device_release(base->device, comm->scratch);
    if (--comm->group->members == 0)
        close_group(comm->group);
    free(comm);
}

static ls_status open_group(int ranks, device_group **out)
{
    const size_t n = (size_t)ranks;
    device_group *group;
    LS_TRY(ls_allocate("communicator", &group, 1, sizeof *group));
    group->size = ranks;
    group->ranks = calloc(n, sizeof(device_comm *));
    group->message = calloc(n * n, sizeof(device_op *));
    if (!group->ranks || !group->message) {
        close_group(group);
        return ls_fail_memory("communicator", n * n * sizeof(device_op *));
    }
    *out = group;
    return LS_OK;
}

static ls_status check_devices(ls_device *const *devices, int ranks)
{
    const ls_device_info *first = ls_device_describe(devices[0]);
    for (int r = 1; r < ranks; r++) {
        const ls_device_info *other = ls_device_describe(devices[r]);
        if (other->name.kind != first->name.kind)
            return ls_fail(LS_CODE_USAGE, "comm: device", other->text,
                           "this device cannot exchange data with %s, since one is a CPU device "
                           "and the other a GPU; use devices of one type",
                           first->text);
    }
    return LS_OK;
}

static ls_status open_end(device_group *group, int rank, ls_device *device, ls_comm **out)
{
    LS_TRY(ls_sums_load(device));
    device_comm *comm;
    LS_TRY(ls_allocate("communicator", &comm, 1, sizeof *comm));
    comm->base =
        (ls_comm){.backend = &ls_comm_device, .rank = rank, .size = group->size, .device = device};
    comm->group = group;
    group->ranks[rank] = comm;
    group->members++;
    *out = &comm->base;
    return LS_OK;
}

/* Sets whether ranks share memory: CPU devices or logical devices of a GPU do, unless linked. */
static void join_memory(ls_comm *const *comms, int ranks)
{
    bool shared = true, linked = false;
    for (int r = 1; r < ranks; r++) {
        const ls_device *first = comms[0]->device, *other = comms[r]->device;
        const ls_device_name names[] = {ls_device_describe(first)->name,
                                        ls_device_describe(other)->name};
        shared &= ls_comm_shares(names, 2);
        linked |= ls_device_linked(first, other);
    }
    for (int r = 0; r < ranks; r++) {
        comms[r]->shared = shared && !linked;
        comms[r]->linked = linked;
    }
}

static ls_status open_ends(ls_comm *processes, ls_device *const *devices, int ranks,
                           ls_comm **comms)
{
    device_group *group = NULL;
    (void)processes;
    LS_TRY(check_devices(devices, ranks));
    LS_TRY(open_group(ranks, &group));
    ls_status status = LS_OK;
    for (int r = 0; r < ranks && !status; r++) {
        status = open_end(group, r, devices[r], &comms[r]);
        if (status && r == 0)
            close_group(group);
        for (int opened = 0; status && opened < r; opened++)
            close_comm(comms[opened]);
    }
    if (!status)
        join_memory(comms, ranks);
    return status;
}

const ls_comm_backend ls_comm_device = {
    .name = "device",
    .help = "ranks are devices of one process, whose queues are ordered by events: GPUs",
    .exchange = make_exchange,
    .direct = make_direct,
    .enqueue = enqueue_lists,
    .memory = get_memory,
    .alone = true,
    .open = open_ends,
    .abandon = abandon,
    .close = close_comm,
};
