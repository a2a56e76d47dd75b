/* SPDX-License-Identifier: MIT */
/*
 * Back end `thread`: ranks are queues of one process, and read each other's memory.
 * exchange  The sender publishes the address of its data and raises the channel's `ready`; the
 *           receiver copies or adds directly from there and raises `taken`, which ends the sender's
 *           operation. No staging; a channel holds one message at a time. Over a link (link.h) the
 *           transfer starts when both ends are ready, and ends for both when the data has arrived.
 * direct    comm_thread_direct.c
 * waiting   first spins, then yields the core between polls, then sleeps (signal.h). Ranks that
 *           share a core yield at once.
 * giving up An abandoned operation sets `abandoned`, then raises every signal to its largest value.
 *           Whoever posts checks `abandoned` afterwards and raises the signal again, so an ordinary
 *           post never hides the large value, and no waiter stays asleep.
 * Leaves out teams of threads: a rank adds on its queue's thread only.
 */
#include "common/comm/comm_thread.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With a separate core, a rank spins for some 0.5 ms, longer than replicas are apart in most steps;
 * then it yields to other threads. A core that is yielded where other programs wait for it is gone
 * for milliseconds, and so is the step, since all ranks wait for the last. */
enum { OWN_SPINS = 20000 };

/* Small messages of servers that may be pending per rank; more are allocated as needed. */
enum { SPARES = 4 };

static const uint64_t yield_ns = 50000;

/* ---- Waiting and giving up ----------------------------------------------------------------- */

void ls_comm_thread_abandon(ls_comm *base)
{
    thread_group *group = ((thread_comm *)base)->group;
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&group->abandoned, &nobody, 1 + base->rank))
        return;
    pthread_mutex_lock(&group->mutex);
    for (thread_channel *c = group->channels; c; c = c->next) {
        ls_signal_post(&c->ready, UINT64_MAX);
        ls_signal_post(&c->taken, UINT64_MAX);
    }
    for (int r = 0; r < group->size; r++)
        ls_signal_post(&group->slots[r].met, UINT64_MAX);
    ls_signal_post(&group->released, UINT64_MAX);
    pthread_mutex_unlock(&group->mutex);
    ls_mailbox_wake(&group->mail);
}

ls_status ls_comm_thread_abandoned(const thread_comm *comm)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d", comm->base.rank);
    return ls_status_follows(ls_fail(LS_CODE_MISSING, "communicator", rank,
                                     "this rank was abandoned by rank %d, which has failed; the "
                                     "message of that rank names the reason",
                                     atomic_load(&comm->group->abandoned) - 1));
}

bool ls_comm_thread_is_abandoned(const thread_comm *comm)
{
    return atomic_load(&comm->group->abandoned) != 0;
}

void ls_comm_thread_post(thread_comm *comm, ls_signal *signal, uint64_t value)
{
    ls_signal_post(signal, value);
    if (ls_comm_thread_is_abandoned(comm))
        ls_signal_post(signal, UINT64_MAX);
}

/* Returns false if a rank gave up. */
bool ls_comm_thread_await(thread_comm *comm, ls_signal *signal, uint64_t target)
{
    bool there = ls_signal_value(signal) >= target;
    for (int i = 0; !there && i < comm->spins; i++) {
        ls_cpu_relax();
        there = ls_signal_value(signal) >= target;
    }
    for (uint64_t yielded_ns = 0; !there && yielded_ns < yield_ns;) {
        yielded_ns += ls_clock_yield();
        there = ls_signal_value(signal) >= target;
    }
    if (!there)
        ls_signal_wait(signal, target, 0);
    return !ls_comm_thread_is_abandoned(comm);
}

/* ---- Exchange ------------------------------------------------------------------------------ */

typedef struct exchange_op {
    ls_op op;
    thread_comm *comm;
    ls_exchange what;
    thread_channel *out, *in; /* NULL if nothing is sent; received */
} exchange_op;

static ls_status receive(exchange_op *x, ls_queue *queue)
{
    thread_channel *in = x->in;
    thread_comm *comm = x->comm;
    const size_t count = x->what.receive_count, bytes = ls_exchange_bytes(&x->what, count);
    uint64_t begin = ls_queue_wait_begin(queue), ready_ns = comm->base.linked ? ls_clock_ns() : 0;
    if (!ls_comm_thread_await(comm, &in->ready, in->received + 1))
        return ls_comm_thread_abandoned(comm);
    ls_queue_wait_end(queue, begin);
    in->came_ns = begin; /* the sender reads it before the channel is ready again */
    if (in->count != count)
        return ls_comm_mismatch(&comm->base, count, in->count, in->from, false);
    /* The time when both ends were ready, not when this thread woke up and saw it. */
    if (in->ready_ns > ready_ns)
        ready_ns = in->ready_ns;
    uint64_t arrival_ns =
        ls_device_transfer(comm->group->devices[in->from], comm->base.device, bytes, ready_ns);
    in->arrival_ns = arrival_ns;
    if (!x->what.add)
        memcpy(x->what.receive, in->data, bytes);
    if (arrival_ns)
        ls_queue_sleep_until(queue, arrival_ns);
    if (x->what.add)
        ls_loop_add(x->what.receive, in->data, count);
    ls_comm_has(&comm->base, &x->what, count);
    ls_comm_thread_post(comm, &in->taken, ++in->received);
    return LS_OK;
}

static ls_status run_exchange(ls_op *op, ls_queue *queue)
{
    exchange_op *x = (exchange_op *)op;
    thread_channel *out = x->out;
    if (ls_comm_thread_is_abandoned(x->comm))
        return ls_comm_thread_abandoned(x->comm);
    if (out) {
        out->data = x->what.send;
        out->count = x->what.send_count;
        out->ready_ns = x->comm->base.linked ? ls_clock_ns() : 0;
        ls_comm_thread_post(x->comm, &out->ready, ++out->sent);
        if (!x->what.inside)
            ls_comm_sent(&x->comm->base, 1, ls_exchange_bytes(&x->what, out->count));
    }
    if (x->in)
        LS_TRY(receive(x, queue));
    if (!out)
        return LS_OK;
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    if (!ls_comm_thread_await(x->comm, &out->taken, out->sent))
        return ls_comm_thread_abandoned(x->comm);
    ls_queue_waited(queue, begin_ns, out->came_ns); /* from then on the data is in transfer */
    if (out->arrival_ns && begin_ns)
        ls_queue_wait_end(queue, out->arrival_ns > begin_ns ? out->arrival_ns : begin_ns);
    return LS_OK;
}

/* Describes the message that did not arrive, by the number of messages before it. */
static void describe_exchange(const ls_op *op, char *text, size_t size)
{
    const exchange_op *x = (const exchange_op *)op;
    const bool comes =
        x->in && (!x->out || ls_signal_value(&x->in->ready) == ls_signal_value(&x->in->taken));
    const ls_device *peer = x->comm->group->devices[comes ? x->what.from : x->what.to];
    snprintf(text, size, "an exchange to %s of %zu bytes, %s", comes ? "come" : "be taken",
             ls_exchange_bytes(&x->what, comes ? x->what.receive_count : x->what.send_count),
             ls_device_describe(peer)->text);
}

static void abandon_exchange(ls_op *op)
{
    ls_comm_thread_abandon(&((exchange_op *)op)->comm->base);
}

/* The channel between two ranks; either end creates it on first use. */
static ls_status find_channel(thread_group *group, int from, int to, thread_channel **out)
{
    thread_channel *c;
    pthread_mutex_lock(&group->mutex);
    for (c = group->channels; c && (c->from != from || c->to != to);)
        c = c->next;
    if (!c && (c = aligned_alloc(64, sizeof *c))) {
        memset(c, 0, sizeof *c);
        c->from = from;
        c->to = to;
        c->next = group->channels;
        group->channels = c;
    }
    pthread_mutex_unlock(&group->mutex);
    *out = c;
    return c ? LS_OK : ls_fail_memory("communicator", sizeof *c);
}

static ls_status make_exchange(ls_comm *base, const ls_exchange *exchange, ls_op **out)
{
    thread_comm *comm = (thread_comm *)base;
    thread_channel *to = NULL, *from = NULL;
    if (exchange->to >= 0)
        LS_TRY(find_channel(comm->group, base->rank, exchange->to, &to));
    if (exchange->from >= 0)
        LS_TRY(find_channel(comm->group, exchange->from, base->rank, &from));
    exchange_op *x;
    LS_TRY(ls_allocate("communicator", &x, 1, sizeof *x));
    *x = (exchange_op){.op = {.name = exchange->add ? "exchange.add" : "exchange.copy",
                              .run = run_exchange,
                              .abandon = abandon_exchange,
                              .awaits = describe_exchange,
                              .use = LS_TIME_COMMUNICATION},
                       .comm = comm,
                       .what = *exchange,
                       .out = to,
                       .in = from};
    *out = &x->op;
    return LS_OK;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

static void close_group(thread_group *group)
{
    while (group->channels) {
        thread_channel *next = group->channels->next;
        free(group->channels);
        group->channels = next;
    }
    ls_mailbox_close(&group->mail);
    pthread_mutex_destroy(&group->mutex);
    free(group->devices);
    free(group->slots);
    free(group);
}

static void close_comm(ls_comm *base)
{
    thread_group *group = ((thread_comm *)base)->group;
    pthread_mutex_lock(&group->mutex);
    bool last = --group->members == 0;
    pthread_mutex_unlock(&group->mutex);
    free(base);
    if (last)
        close_group(group);
}

static ls_status open_group(int ranks, thread_group **out)
{
    size_t n = (size_t)ranks;
    thread_group *group = aligned_alloc(64, sizeof *group);
    if (!group)
        return ls_fail_memory("communicator", sizeof *group);
    memset(group, 0, sizeof *group);
    group->size = ranks;
    ls_mailbox_open(&group->mail, SPARES * ranks);
    pthread_mutex_init(&group->mutex, NULL);
    group->slots = aligned_alloc(64, n * sizeof *group->slots);
    group->devices = calloc(n, sizeof *group->devices);
    if (!group->slots || !group->devices) {
        close_group(group);
        return ls_fail_memory("communicator", n * sizeof *group->slots);
    }
    memset(group->slots, 0, n * sizeof *group->slots);
    *out = group;
    return LS_OK;
}

/* Whether two devices have a core in common. */
static bool share_a_core(const ls_device *first, const ls_device *second)
{
    const ls_device_info *a = ls_device_describe(first), *b = ls_device_describe(second);
    for (int i = 0; i < a->core_count; i++)
        for (int k = 0; k < b->core_count; k++)
            if (a->cores[i] == b->cores[k])
                return true;
    return false;
}

static ls_status open_comm(thread_group *group, int rank, ls_comm **out)
{
    thread_comm *comm = aligned_alloc(64, sizeof *comm);
    if (!comm)
        return ls_fail_memory("communicator", sizeof *comm);
    memset(comm, 0, sizeof *comm);
    comm->base = (ls_comm){.backend = &ls_comm_thread,
                           .rank = rank,
                           .size = group->size,
                           .device = group->devices[rank],
                           .linked = group->linked,
                           .shared = !group->linked};
    comm->group = group;
    comm->spins = group->crowded ? 0 : OWN_SPINS;
    group->members++;
    *out = &comm->base;
    return LS_OK;
}

/* Ranks read each other's memory with the processor, which cannot access a GPU's. */
static ls_status check_devices(ls_device *const *devices, int ranks)
{
    for (int r = 0; r < ranks && ranks > 1; r++)
        if (ls_device_describe(devices[r])->name.kind == LS_DEVICE_GPU)
            return ls_fail(
                LS_CODE_MISSING, "comm: thread", ls_device_describe(devices[r])->text,
                "--comm thread exchanges between CPU devices only; use --comm device for GPUs");
    return LS_OK;
}

static ls_status open_ends(ls_comm *processes, ls_device *const *devices, int ranks,
                           ls_comm **comms)
{
    thread_group *group = NULL;
    (void)processes;
    LS_TRY(check_devices(devices, ranks));
    LS_TRY(open_group(ranks, &group));
    for (int r = 0; r < ranks; r++) {
        group->devices[r] = devices[r];
        for (int before = 0; before < r; before++) {
            group->crowded |= share_a_core(devices[before], devices[r]);
            group->linked |= ls_device_linked(devices[before], devices[r]);
        }
    }
    ls_status status = LS_OK;
    for (int r = 0; r < ranks && !status; r++) {
        status = open_comm(group, r, &comms[r]);
        if (status && r == 0)
            close_group(group);
        for (int opened = 0; status && opened < r; opened++)
            close_comm(comms[opened]);
    }
    return status;
}

const ls_comm_backend ls_comm_thread = {
    .name = "thread",
    .help = "ranks are threads of one process and read each other's memory",
    .exchange = make_exchange,
    .direct = ls_comm_thread_make_direct,
    .send = ls_comm_thread_send,
    .receive = ls_comm_thread_receive,
    .receive_any = ls_comm_thread_receive_any,
    .alone = true,
    .open = open_ends,
    .abandon = ls_comm_thread_abandon,
    .close = close_comm,
};
