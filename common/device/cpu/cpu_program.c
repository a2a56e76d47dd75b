/* SPDX-License-Identifier: MIT */
/*
 * CPU events and programs: recorded lists of commands, one per queue, connected by edges. A
 * captured record becomes an edge: a signal that the recording queue raises by one per replay; a
 * captured wait counts its own replays and waits for that number. A queue joins a capture by
 * waiting for one of its edges, and another queue must wait for it before the end. So the origin's
 * list cannot end a replay before the other lists, and replays never overlap.
 */
#include "common/base/clock.h"
#include "common/device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_cpu_program_append(cpu_queue *queue, const cpu_command *command)
{
    cpu_list *list = &queue->capture->lists[queue->capture_list];
    LS_TRY(ls_grow("program", &list->nodes, list->count, sizeof *command));
    list->nodes[list->count++] = *command;
    return LS_OK;
}

/* Adds `queue` to the program as its next list. */
static ls_status join_capture(cpu_program *program, cpu_queue *queue)
{
    LS_TRY(ls_grow("program", &program->lists, program->list_count, sizeof(cpu_list)));
    program->lists[program->list_count] = (cpu_list){.queue = queue};
    queue->capture = program;
    queue->capture_list = program->list_count++;
    return LS_OK;
}

ls_status ls_cpu_program_begin(ls_queue *base)
{
    cpu_queue *queue = (cpu_queue *)base;
    if (queue->capture)
        return ls_fail(LS_CODE_USAGE, "program", base->name,
                       "a capture (ls_program_begin) has already begun on this queue; call "
                       "ls_program_end first");
    cpu_program *program;
    LS_TRY(ls_allocate("program", &program, 1, sizeof *program));
    program->base.device = base->device;
    program->begun_ns = ls_clock_ns();
    ls_status status = join_capture(program, queue);
    if (status)
        ls_cpu_program_close(&program->base);
    return status;
}

/* The name of a joined queue whose end no other queue waits for, or NULL. */
static const char *left_behind(const cpu_program *program)
{
    for (size_t i = 1; i < program->list_count; i++) {
        const cpu_list *list = &program->lists[i];
        const cpu_command *last = list->count ? &list->nodes[list->count - 1] : NULL;
        if (!last || last->kind != CPU_SIGNAL || !last->edge->waited)
            return list->queue->base.name;
    }
    return NULL;
}

/* The event's latest record no longer belongs to this capture. */
static void forget_capture(cpu_event *event)
{
    if (event->edge)
        event->edge->event = NULL;
    event->edge = NULL;
    event->capture = NULL;
}

ls_status ls_cpu_program_end(ls_queue *base, ls_program **out)
{
    cpu_queue *queue = (cpu_queue *)base;
    cpu_program *program = queue->capture;
    if (!program || queue->capture_list != 0)
        return ls_fail(
            LS_CODE_USAGE, "program", base->name,
            "no capture has begun on this queue; call ls_program_begin before ls_program_end");
    const char *behind = left_behind(program);
    for (cpu_edge *edge = program->edges; edge; edge = edge->next)
        if (edge->event) /* from here on, waiting for it joins no capture */
            forget_capture(edge->event);
    program->base.info.bytes = sizeof *program;
    for (size_t i = 0; i < program->list_count; i++) {
        cpu_list *list = &program->lists[i];
        list->queue->capture = NULL;
        program->base.info.nodes += list->count;
        for (size_t n = 0; n < list->count; n++) {
            const ls_op *op = list->nodes[n].kind == CPU_RUN ? list->nodes[n].op : NULL;
            program->base.info.reorders += op ? (size_t)op->reorders : 0;
            program->base.info.reordered_bytes += op ? op->reordered_bytes : 0;
        }
        program->base.info.bytes += sizeof *list + list->count * sizeof *list->nodes;
    }
    for (const cpu_edge *edge = program->edges; edge; edge = edge->next)
        program->base.info.bytes += sizeof *edge;
    program->base.info.build_ns = ls_clock_ns() - program->begun_ns;
    if (behind) {
        ls_cpu_program_close(&program->base);
        return ls_fail(LS_CODE_USAGE, "program", behind,
                       "this queue takes part in a capture, but the queue that began the capture "
                       "does not wait for this queue; record an event last on this queue, and let "
                       "the other queue wait for the event");
    }
    *out = &program->base;
    return LS_OK;
}

ls_status ls_cpu_program_launch(ls_program *base, uint64_t times)
{
    cpu_program *program = (cpu_program *)base;
    for (size_t i = 0; i < program->list_count; i++)
        if (program->lists[i].queue->capture)
            return ls_fail(
                LS_CODE_USAGE, "program", program->lists[i].queue->base.name,
                "ls_program_launch cannot be called during a capture; call ls_program_end first");
    for (size_t i = 0; i < program->list_count && times; i++) /* all lists are launched, or none */
        LS_TRY(ls_cpu_queue_reserve(program->lists[i].queue));
    for (size_t i = 0; i < program->list_count && times; i++) {
        cpu_command command = {.kind = CPU_LIST, .list = &program->lists[i], .count = times};
        LS_TRY(ls_cpu_queue_push(program->lists[i].queue, &command));
        program->lists[i].until = program->lists[i].queue->enqueued;
    }
    return LS_OK;
}

void ls_cpu_program_close(ls_program *base)
{
    cpu_program *program = (cpu_program *)base;
    for (size_t i = 0; i < program->list_count; i++) {
        if (program->lists[i].until)
            ls_signal_wait(&program->lists[i].queue->consumed, program->lists[i].until, 0);
        free(program->lists[i].nodes);
    }
    free(program->lists);
    while (program->edges) {
        cpu_edge *next = program->edges->next;
        free(program->edges);
        program->edges = next;
    }
    free(program);
}

ls_status ls_cpu_event_open(ls_device *device, ls_event **out)
{
    cpu_event *event = aligned_alloc(64, sizeof *event);
    if (!event)
        return ls_fail_memory("event", sizeof *event);
    memset(event, 0, sizeof *event);
    event->base.device = device;
    *out = &event->base;
    return LS_OK;
}

void ls_cpu_event_close(ls_event *base)
{
    cpu_event *event = (cpu_event *)base;
    forget_capture(event);
    free(event);
}

static ls_status record_captured(cpu_queue *queue, cpu_event *event)
{
    cpu_edge *edge = aligned_alloc(64, sizeof *edge);
    if (!edge)
        return ls_fail_memory("program", sizeof *edge);
    memset(edge, 0, sizeof *edge);
    forget_capture(event);
    edge->event = event;
    edge->device = queue->base.device;
    edge->next = queue->capture->edges;
    queue->capture->edges = edge;
    event->capture = queue->capture;
    event->edge = edge;
    return ls_cpu_program_append(queue, &(cpu_command){.kind = CPU_SIGNAL, .edge = edge});
}

ls_status ls_cpu_queue_record(ls_queue *base, ls_event *base_event)
{
    cpu_queue *queue = (cpu_queue *)base;
    cpu_event *event = (cpu_event *)base_event;
    if (queue->capture)
        return record_captured(queue, event);
    forget_capture(event);
    event->recorded++;
    return ls_cpu_queue_push(
        queue, &(cpu_command){.kind = CPU_POST, .event = event, .count = event->recorded});
}

ls_status ls_cpu_queue_wait(ls_queue *base, ls_event *base_event)
{
    cpu_queue *queue = (cpu_queue *)base;
    cpu_event *event = (cpu_event *)base_event;
    if (!event->capture && !queue->capture)
        return ls_cpu_queue_push(
            queue, &(cpu_command){.kind = CPU_WAIT, .event = event, .count = event->recorded});
    if (!event->capture || (queue->capture && queue->capture != event->capture))
        return ls_fail(LS_CODE_USAGE, "program", base->name,
                       "this queue is being captured, but waits for an event that was not recorded "
                       "in the capture; record the event on a queue of the same capture");
    if (!queue->capture)
        LS_TRY(join_capture(event->capture, queue));
    event->edge->waited = true;
    return ls_cpu_program_append(queue, &(cpu_command){.kind = CPU_AWAIT, .edge = event->edge});
}

ls_status ls_cpu_event_sync(ls_event *base)
{
    cpu_event *event = (cpu_event *)base;
    if (event->capture)
        return ls_fail(LS_CODE_USAGE, "event", base->device->info.text,
                       "this event was recorded in a capture, so the host cannot wait for it; use "
                       "--capture no");
    LS_TRY(ls_cpu_await(base->device, &event->signal, event->recorded, true));
    if (!atomic_load_explicit(&event->failed, memory_order_relaxed))
        return LS_OK;
    return ls_status_follows(ls_fail(LS_CODE_MISSING, "event", base->device->info.text,
                                     "the queue that recorded this event has failed; the message "
                                     "about that queue names the reason"));
}
