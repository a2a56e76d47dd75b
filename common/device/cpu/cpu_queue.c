/* SPDX-License-Identifier: MIT */
/*
 * CPU queue: a bound thread and a ring of commands. The host fills a slot and raises `produced`;
 * the thread runs the command and raises `consumed`. Both are signals, so either side can sleep.
 * The ring consists of segments. If the next segment still holds commands of an earlier turn
 * (ls_device_turn), the host waits until they are done. If it holds commands of this turn, they may
 * depend on commands that are not enqueued yet, so a segment is inserted. Thus the ring grows to
 * the size of a step during the first step. After a failed operation the thread skips operations,
 * but still posts events and finishes lists, so that no other queue waits for ever. The events that
 * it posts then are marked, and a queue that waits for such an event fails, too: it would use
 * results that were never computed.
 */
#include "common/base/clock.h"
#include "common/device/cpu/cpu.h"
#include "common/device/cpu/team.h"
#include "common/device/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often a queue's thread polls for work before it sleeps: some 20 us. */
enum { QUEUE_SPINS = 1000 };

/* None on a core that another queue may need: what it polls for may wait for that one. Queues that
 * were opened later count, too. */
static int spins_of(const cpu_queue *queue)
{
    const cpu_device *owner = (const cpu_device *)queue->base.device;
    const bool alone =
        !owner->shares_cores && atomic_load_explicit(&owner->queues, memory_order_relaxed) <=
                                    queue->base.device->info.core_count;
    return alone && queue->bound ? QUEUE_SPINS : 0;
}

/* `op` is the failed operation, for which others may wait; NULL means something else failed. */
static void fail_queue(cpu_queue *queue, ls_op *op, ls_status status)
{
    char where[96];
    ls_status none = LS_OK;
    if (op) {
        snprintf(where, sizeof where, "%s %s", queue->base.device->info.text, op->name);
        status = ls_status_within("operation", where, status);
    }
    queue->failed = true;
    if (!atomic_compare_exchange_strong(&queue->failure, &none, status))
        ls_status_free(status);
    if (op && op->abandon)
        op->abandon(op);
}

/* Copies while the transfer is in flight, as a network card would. */
static void carry(cpu_queue *queue, const cpu_command *command)
{
    uint64_t arrival_ns = ls_network_reserve(queue->base.device->network, command->from_port,
                                             command->to_port, command->bytes, ls_clock_ns());
    memcpy(command->to, command->from, command->bytes);
    ls_queue_sleep_until(&queue->base, arrival_ns);
}

/* Records an event: it is posted in any case, and tells whether the queue had failed. */
static void post_event(const cpu_queue *queue, ls_signal *signal, _Atomic bool *failed,
                       uint64_t value)
{
    if (atomic_load_explicit(failed, memory_order_relaxed) != queue->failed)
        atomic_store_explicit(failed, queue->failed, memory_order_relaxed);
    ls_signal_post(signal, value);
}

static ls_status wait_for_event(cpu_queue *queue, ls_signal *signal, const _Atomic bool *failed,
                                uint64_t value)
{
    ls_signal_wait(signal, value, spins_of(queue));
    if (!atomic_load_explicit(failed, memory_order_relaxed) || queue->failed)
        return LS_OK;
    return ls_status_follows(ls_fail(LS_CODE_MISSING, "queue", queue->base.device->info.text,
                                     "this queue waits for another queue that has failed; the "
                                     "message about that queue names the reason"));
}

static void run_nodes(cpu_queue *queue, const cpu_command *nodes, size_t count);

/* Publishes to the watch what the thread executes, by plain stores of this thread only. */
static void at_command(cpu_queue *queue, const cpu_command *command)
{
    atomic_store_explicit(&queue->at, command, memory_order_release);
}

static void at_replay(cpu_queue *queue)
{
    const uint64_t done = atomic_load_explicit(&queue->replays, memory_order_relaxed);
    atomic_store_explicit(&queue->replays, done + 1, memory_order_release);
}

static void run_command(cpu_queue *queue, const cpu_command *command)
{
    ls_status status = LS_OK;
    switch (command->kind) {
    case CPU_UNLESS:
        if (*command->skip && !queue->failed)
            break;
        __attribute__((fallthrough));
    case CPU_RUN:
        if (!queue->failed)
            status = command->op->run(command->op, &queue->base);
        else if (command->op->abandon)
            command->op->abandon(command->op);
        break;
    case CPU_COPY:
        if (!queue->failed)
            memcpy(command->to, command->from, command->bytes);
        break;
    case CPU_CARRY:
        if (!queue->failed)
            carry(queue, command);
        break;
    case CPU_ZERO:
        memset(command->to, 0, command->bytes);
        break;
    case CPU_CALL:
        status = command->call(command->context);
        break;
    case CPU_POST:
        post_event(queue, &command->event->signal, &command->event->failed, command->count);
        break;
    case CPU_WAIT:
        status =
            wait_for_event(queue, &command->event->signal, &command->event->failed, command->count);
        break;
    case CPU_SIGNAL: /* this kind and the next are the program's counting nodes */
        post_event(queue, &command->edge->signal, &command->edge->failed,
                   ++((cpu_command *)command)->count);
        break;
    case CPU_AWAIT:
        status = wait_for_event(queue, &command->edge->signal, &command->edge->failed,
                                ++((cpu_command *)command)->count);
        break;
    case CPU_LIST:
        for (uint64_t i = 0; i < command->count; i++) {
            run_nodes(queue, command->list->nodes, command->list->count);
            at_replay(queue);
        }
        break;
    case CPU_STOP:
        break;
    }
    const bool is_op = command->kind == CPU_RUN || command->kind == CPU_UNLESS;
    if (status)
        fail_queue(queue, is_op ? command->op : NULL, status);
}

/* Charges all time since the latest reading to the command, or to waiting. Event records and
 * skipped operations are not logged. */
static void run_profiled(cpu_queue *queue, const cpu_command *command)
{
    ls_queue *base = &queue->base;
    ls_time_use use = LS_TIME_HARNESS;
    base->waited_ns = 0;
    run_command(queue, command);
    ls_stretch stretch = {.begin_ns = queue->profiled_ns, .end_ns = ls_clock_ns()};
    bool logged = base->log && (command->kind != CPU_UNLESS || !*command->skip);
    switch (command->kind) {
    case CPU_RUN:
    case CPU_UNLESS:
        stretch.op = command->op;
        stretch.kind = LS_STRETCH_OP;
        use = command->op->use;
        break;
    case CPU_COPY:
    case CPU_CARRY:
        stretch.kind = LS_STRETCH_COPY;
        use = LS_TIME_COPY;
        break;
    case CPU_WAIT:
    case CPU_AWAIT:
        stretch.kind = LS_STRETCH_EVENT;
        use = LS_TIME_IDLE;
        break;
    default:
        logged = false;
    }
    base->profile->ns[LS_TIME_WAIT] += base->waited_ns;
    base->profile->ns[use] += stretch.end_ns - stretch.begin_ns - base->waited_ns;
    if (logged)
        ls_time_log_add(base->log, &stretch);
    queue->profiled_ns = stretch.end_ns;
}

/* The loop of a replayed step, kept short: one call per operation. */
static void run_nodes(cpu_queue *queue, const cpu_command *nodes, size_t count)
{
    if (queue->base.profile) {
        for (size_t i = 0; i < count; i++) {
            at_command(queue, &nodes[i]);
            run_profiled(queue, &nodes[i]);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        at_command(queue, &nodes[i]);
        if (nodes[i].kind == CPU_RUN && !queue->failed) {
            ls_op *op = nodes[i].op;
            ls_status status = op->run(op, &queue->base);
            if (status)
                fail_queue(queue, op, status);
        } else {
            run_command(queue, &nodes[i]);
        }
    }
}

/* The segment that begins with command `number`, which exists. It is usually the next one, but the
 * host may have filled this one again meanwhile and inserted a new one after it. */
static cpu_segment *find_segment(cpu_segment *segment, uint64_t number)
{
    do
        segment = segment->next;
    while (segment->first != number);
    return segment;
}

static void *queue_thread(void *argument)
{
    cpu_queue *queue = argument;
    const ls_device_info *info = &queue->base.device->info;
    /* For another thread it would go through /proc, whose entries the process's parent then has to
     * clear away: on a busy machine that took longer than the process's own work. */
    pthread_setname_np(pthread_self(), info->text);
    ls_status status = ls_team_setup(info->cores, info->core_count, queue->bound, &queue->flushed);
    if (status) {
        atomic_store(&queue->failure, status);
        ls_signal_post(&queue->consumed, 1);
        return NULL;
    }
    cpu_segment *segment = queue->filled;
    size_t slot = 0;
    ls_signal_post(&queue->consumed, 1); /* ready: the count starts at 1 */
    for (uint64_t next = 1;; next++, slot++) {
        ls_signal_wait(&queue->produced, next + 1, spins_of(queue));
        if (slot == LS_CPU_SEGMENT) {
            segment = find_segment(segment, next);
            slot = 0;
        }
        cpu_command command = segment->commands[slot];
        if (command.kind == CPU_STOP)
            return NULL;
        at_command(queue, &segment->commands[slot]);
        if (queue->base.profile) { /* before it was enqueued, there was nothing to do */
            uint64_t now = ls_clock_ns();
            if (queue->profiled_ns)
                queue->base.profile->ns[LS_TIME_IDLE] += now - queue->profiled_ns;
            queue->profiled_ns = now;
        }
        if (queue->base.profile && command.kind != CPU_LIST)
            run_profiled(queue, &command);
        else
            run_command(queue, &command);
        at_command(queue, NULL);
        ls_signal_post(&queue->consumed, next + 1);
    }
}

/* Inserts a segment, to be filled next. */
static ls_status add_segment(cpu_queue *queue)
{
    cpu_segment *segment = malloc(sizeof *segment);
    if (!segment)
        return ls_fail_memory("queue", sizeof *segment);
    segment->end = 0; /* empty */
    atomic_init(&segment->first, 0);
    atomic_init(&segment->next, queue->filled ? queue->filled->next : segment);
    if (queue->filled)
        queue->filled->next = segment;
    else
        queue->filled = segment;
    queue->room += LS_CPU_SEGMENT;
    return LS_OK;
}

static void free_queue(cpu_queue *queue)
{
    for (; queue->room; queue->room -= LS_CPU_SEGMENT) {
        cpu_segment *segment = queue->filled;
        queue->filled = segment->next;
        free(segment);
    }
    free(queue);
}

/* Waits until the thread is set up, or has failed to do that and ended. */
static ls_status start_thread(cpu_queue *queue)
{
    const int error = pthread_create(&queue->thread, NULL, queue_thread, queue);
    if (error)
        return ls_team_refuse_thread(error);
    ls_signal_wait(&queue->consumed, 1, 0);
    ls_status failure = atomic_exchange(&queue->failure, LS_OK);
    if (failure)
        pthread_join(queue->thread, NULL);
    return failure;
}

ls_status ls_cpu_queue_open(ls_device *device, const char *name, bool bound, cpu_queue **out)
{
    cpu_queue *queue = aligned_alloc(64, sizeof *queue);
    if (!queue)
        return ls_fail_memory("queue", sizeof *queue);
    memset(queue, 0, sizeof *queue);
    ls_status status = add_segment(queue);
    if (status) {
        free_queue(queue);
        return status;
    }
    queue->base = (ls_queue){.device = device, .name = name};
    queue->bound = bound;
    queue->enqueued = 1;
    cpu_device *owner = (cpu_device *)device;
    atomic_fetch_add(&owner->queues, bound);
    status = start_thread(queue);
    if (status) {
        atomic_fetch_sub(&owner->queues, bound);
        free_queue(queue);
        return ls_status_within("device", device->info.text, status);
    }
    queue->base.pulse_entry = (ls_pulse_entry){&queue->base, ls_cpu_queue_progress, 0, NULL};
    ls_pulse_add(device->pulse, &queue->base.pulse_entry);
    *out = queue;
    return LS_OK;
}

/* Appends a command to the segment, which must have room. */
static void enqueue_command(cpu_queue *queue, const cpu_command *command)
{
    queue->filled->commands[queue->fill++] = *command;
    ls_signal_post(&queue->produced, ++queue->enqueued);
}

static void begin_segment(cpu_queue *queue)
{
    queue->filled = queue->filled->next;
    queue->filled->first = queue->enqueued;
    queue->fill = 0;
}

/* Moves on to the next segment, once that is empty. */
static ls_status turn_over(cpu_queue *queue)
{
    queue->filled->end = queue->enqueued;
    const uint64_t end = queue->filled->next->end;
    if (ls_signal_value(&queue->consumed) < end && end > queue->before_turn)
        LS_TRY(add_segment(queue));
    else
        LS_TRY(ls_cpu_await(queue->base.device, &queue->consumed, end, true));
    begin_segment(queue);
    return LS_OK;
}

/*
 * A turn of the device begins. Grows the ring to the previous turn's size plus a segment, so that
 * turns of that size fit however slow or fast the queue is.
 */
static ls_status begin_turn(cpu_queue *queue)
{
    const uint64_t latest = queue->enqueued - queue->before_turn;
    while (queue->room < latest + LS_CPU_SEGMENT)
        LS_TRY(add_segment(queue));
    queue->turns = queue->base.device->turns;
    queue->before_turn = queue->enqueued;
    return LS_OK;
}

ls_status ls_cpu_queue_reserve(cpu_queue *queue)
{
    if (queue->turns != queue->base.device->turns)
        LS_TRY(begin_turn(queue));
    return queue->fill == LS_CPU_SEGMENT ? turn_over(queue) : LS_OK;
}

ls_status ls_cpu_queue_push(cpu_queue *queue, const cpu_command *command)
{
    if (queue->capture)
        return ls_cpu_program_append(queue, command);
    LS_TRY(ls_cpu_queue_reserve(queue));
    enqueue_command(queue, command);
    return LS_OK;
}

ls_status ls_cpu_queue_finish(cpu_queue *queue, bool heeds)
{
    LS_TRY(ls_cpu_await(queue->base.device, &queue->consumed, queue->enqueued, heeds));
    ls_status failure = atomic_exchange(&queue->failure, LS_OK);
    if (failure)
        queue->failed = false; /* the thread sleeps until the next command publishes this */
    return failure;
}

ls_status ls_cpu_queue_sync(ls_queue *base)
{
    cpu_queue *queue = (cpu_queue *)base;
    if (queue->capture)
        return ls_fail(
            LS_CODE_USAGE, "queue", base->name,
            "the host cannot wait for a queue that is being captured; call ls_program_end first");
    return ls_cpu_queue_finish(queue, true);
}

ls_status ls_cpu_queue_profile(ls_queue *base, ls_time_profile *profile, ls_time_log *log)
{
    cpu_queue *queue = (cpu_queue *)base;
    LS_TRY(ls_cpu_queue_sync(base));
    base->log = log;
    base->profile = profile; /* the next command publishes it to the thread */
    queue->profiled_ns = 0;
    return LS_OK;
}

void ls_cpu_queue_close(cpu_queue *queue)
{
    if (!queue)
        return;
    if (queue->base.device->watch)
        ls_watch_remove(queue->base.device->watch, &queue->base);
    ls_signal_wait(&queue->consumed, queue->enqueued, 0);
    ls_pulse_remove(queue->base.device->pulse, &queue->base.pulse_entry);
    if (queue->fill == LS_CPU_SEGMENT)
        begin_segment(queue);
    enqueue_command(queue, &(cpu_command){.kind = CPU_STOP});
    pthread_join(queue->thread, NULL);
    atomic_fetch_sub(&((cpu_device *)queue->base.device)->queues, queue->bound);
    ls_status_free(atomic_load(&queue->failure));
    free_queue(queue);
}
