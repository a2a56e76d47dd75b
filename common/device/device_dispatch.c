/* SPDX-License-Identifier: MIT */
/* Devices: the functions of device.h, which call their device's back end. */
#include "common/device/device.h"

#include "common/base/clock.h"
#include "common/device/backend.h"
#include "common/device/machine_gpus.h"
#include "common/device/pool.h"
#include "common/device/watch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const ls_device_backend *const backends[] = {
    &ls_cpu_backend,
#if LS_HAS_CUDA
    &ls_cuda_backend,
#endif
};

const ls_device_backend *ls_device_backend_find(ls_device_kind kind)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (backends[i]->kind == kind)
            return backends[i];
    return NULL;
}

void ls_device_info_of_gpu(const ls_gpu *gpu, ls_device_info *out)
{
    memcpy(out->pci, gpu->pci, sizeof out->pci);
    out->multiprocessors = gpu->multiprocessors;
}

ls_status ls_device_open(const ls_machine *machine, const ls_device_name *name,
                         const ls_memory_policy *policy, ls_device **out)
{
    const ls_device_backend *backend = ls_device_backend_find(name->kind);
    if (backend) {
        LS_TRY(backend->open(machine, name, policy, out));
        (*out)->pulse = ls_machine_pulse(machine);
        return LS_OK;
    }
    char text[32], list[512];
    return ls_fail(LS_CODE_MISSING, "device", ls_device_name_text(name, text),
                   "this build does not support this type of device; devices are %s",
                   ls_machine_list(machine, list, sizeof list));
}

void ls_device_close(ls_device *device)
{
    if (device && device->library)
        device->close_library(device->library);
    if (device)
        device->backend->close(device);
}

void ls_device_lose(ls_device *device)
{
    device->lost = true;
    if (device->backend->lose)
        device->backend->lose(device);
}

void ls_device_heed(ls_device *device, bool (*asked)(void))
{
    device->asked = asked;
}

bool ls_device_is_lost(const ls_device *device)
{
    return device->lost;
}

bool ls_device_stalls(const ls_device *device)
{
    return device->watch && ls_watch_lost(device->watch);
}

bool ls_device_moved(const ls_device *device)
{
    return device->backend->moved && device->backend->moved(device);
}

const ls_device_info *ls_device_describe(const ls_device *device)
{
    return &device->info;
}

/* A host call counts as a sign of life: a GPU's queue shows nothing else between the ends of
 * steps. */
static ls_status beat(const ls_device *device, ls_status status)
{
    if (device->info.name.kind == LS_DEVICE_GPU)
        ls_pulse_beat(device->pulse);
    return status;
}

ls_status ls_device_call(ls_device *device, ls_status (*call)(void *context), void *context)
{
    return beat(device, device->backend->call(device, call, context));
}

ls_status ls_device_allocate(ls_device *device, ls_memory_use use, size_t bytes, void **out)
{
    void *memory;
    LS_TRY(ls_pool_allocate(device->pool, use, bytes, &memory));
    ls_status status =
        ls_pool_is_counted(device->pool) ? LS_OK : device->backend->zero(device, memory, bytes);
    if (status) {
        ls_pool_release(device->pool, memory);
        return status;
    }
    *out = memory;
    return LS_OK;
}

void ls_device_release(ls_device *device, void *memory)
{
    if (memory)
        ls_pool_release(device->pool, memory);
}

ls_memory_ledger ls_device_ledger(const ls_device *device)
{
    return ls_pool_ledger(device->pool);
}

ls_status ls_device_pieces(const ls_device *device, ls_memory_piece **out, size_t *count)
{
    return ls_pool_pieces(device->pool, out, count);
}

ls_status ls_device_share(ls_device *device, const void *host, size_t bytes, const void **out)
{
    if (device->backend->share)
        return device->backend->share(device, host, bytes, out);
    *out = host;
    return LS_OK;
}

void ls_device_unshare(ls_device *device, const void *shared)
{
    if (shared && device->backend->unshare)
        device->backend->unshare(device, shared);
}

ls_status ls_device_register(ls_device *device, void *memory, size_t bytes, int *file)
{
    if (!device->backend->register_memory)
        return ls_fail(LS_CODE_MISSING, "shared memory", device->info.text,
                       "other processes cannot use this device's memory; use CPU devices");
    return device->backend->register_memory(device, memory, bytes, file);
}

ls_status ls_op_touches(ls_op *op, const ls_access *accesses, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const ls_access *one = &accesses[i];
        if (!one->memory || !one->bytes)
            continue;
        size_t at = 0; /* all accesses of one memory are merged */
        while (at < op->access_count && op->accesses[at].memory != one->memory)
            at++;
        if (at == op->access_count) {
            LS_TRY(ls_grow(op->name, &op->accesses, at, sizeof *one));
            op->accesses[op->access_count++] = (ls_access){.memory = one->memory};
        }
        ls_access *all = &op->accesses[at];
        all->bytes = one->bytes > all->bytes ? one->bytes : all->bytes;
        all->writes = all->writes || one->writes;
    }
    return LS_OK;
}

ls_status ls_op_sends(ls_op *op, const ls_op_message *message)
{
    LS_TRY(ls_grow(op->name, &op->messages, op->message_count, sizeof *message));
    op->messages[op->message_count++] = *message;
    return LS_OK;
}

void ls_op_free(ls_op *op)
{
    if (!op)
        return;
    free(op->accesses);
    free(op->messages);
    if (op->destroy)
        op->destroy(op);
    else
        free(op);
}

ls_status ls_queue_open(ls_device *device, const char *name, ls_queue **out)
{
    return device->backend->queue_open(device, name, out);
}

void ls_queue_close(ls_queue *queue)
{
    if (queue)
        queue->device->backend->queue_close(queue);
}

ls_device *ls_queue_device(const ls_queue *queue)
{
    return queue->device;
}

void *ls_queue_native(const ls_queue *queue)
{
    const ls_device_backend *backend = queue->device->backend;
    return backend->queue_native ? backend->queue_native(queue) : NULL;
}

ls_status ls_queue_enqueue(ls_queue *queue, ls_op *op)
{
    return beat(queue->device, queue->device->backend->queue_put(queue, op));
}

void ls_device_turn(ls_device *device)
{
    device->turns++;
}

ls_status ls_queue_skip(ls_queue *queue, const bool *skip)
{
    if (queue->device->info.name.kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_MISSING, "queue", queue->device->info.text,
                       "this run must skip some operations of a step, which is not possible on "
                       "GPUs; use CPU devices");
    queue->skip = skip;
    return LS_OK;
}

ls_status ls_queue_copy(ls_queue *queue, void *to, const ls_device *to_device, const void *from,
                        const ls_device *from_device, size_t bytes)
{
    return queue->device->backend->queue_copy(queue, to, to_device, from, from_device, bytes);
}

ls_copies ls_device_copies(const ls_device *device)
{
    return device->copies;
}

ls_status ls_queue_read(ls_queue *queue, void *host, const void *device, size_t bytes)
{
    return beat(queue->device, queue->device->backend->queue_read(queue, host, device, bytes));
}

ls_status ls_queue_write(ls_queue *queue, void *device, const void *host, size_t bytes)
{
    return beat(queue->device, queue->device->backend->queue_write(queue, device, host, bytes));
}

ls_status ls_queue_idle(const ls_queue *queue, bool *out)
{
    return queue->device->backend->queue_idle(queue, out);
}

ls_status ls_queue_sync(ls_queue *queue)
{
    return beat(queue->device, queue->device->backend->queue_sync(queue));
}

ls_status ls_queue_profile(ls_queue *queue, ls_time_profile *profile, ls_time_log *log)
{
    const ls_device_backend *backend = queue->device->backend;
    if (!backend->queue_profile)
        return ls_fail(LS_CODE_MISSING, "profile", queue->device->info.text,
                       "queues of this type of device cannot be profiled; use CPU devices");
    return backend->queue_profile(queue, profile, log);
}

uint64_t ls_queue_wait_begin(const ls_queue *queue)
{
    return queue->profile ? ls_clock_ns() : 0;
}

void ls_queue_wait_end(ls_queue *queue, uint64_t begin_ns)
{
    if (begin_ns)
        ls_queue_waited(queue, begin_ns, ls_clock_ns());
}

void ls_queue_waited(ls_queue *queue, uint64_t begin_ns, uint64_t end_ns)
{
    if (!begin_ns || end_ns <= begin_ns)
        return;
    queue->waited_ns += end_ns - begin_ns;
    if (queue->log)
        ls_time_log_add(queue->log, &(ls_stretch){begin_ns, end_ns, NULL, LS_STRETCH_PEER});
}

void ls_queue_sleep_until(ls_queue *queue, uint64_t ns)
{
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    ls_clock_sleep_until(ns);
    if (begin_ns)
        ls_queue_wait_end(queue, ns > begin_ns ? ns : begin_ns);
}

ls_status ls_event_open(ls_device *device, ls_event **out)
{
    return device->backend->event_open(device, out);
}

void ls_event_close(ls_event *event)
{
    if (event)
        event->device->backend->event_close(event);
}

ls_status ls_queue_record(ls_queue *queue, ls_event *event)
{
    return queue->device->backend->queue_record(queue, event);
}

ls_status ls_queue_wait(ls_queue *queue, ls_event *event)
{
    const ls_device *waiting = queue->device, *recorded = event->device;
    if (waiting->backend == recorded->backend)
        return waiting->backend->queue_wait(queue, event);
    if (waiting->backend->queue_captured(queue))
        return ls_fail(LS_CODE_USAGE, "queue", waiting->info.text,
                       "a queue of this device cannot be captured while it waits for %s, a device "
                       "of another type; use --capture no",
                       recorded->info.text);
    return ls_event_sync(event); /* everything enqueued from here on follows it */
}

ls_status ls_event_sync(ls_event *event)
{
    return event->device->backend->event_sync(event);
}

ls_status ls_program_begin(ls_queue *queue)
{
    return queue->device->backend->program_begin(queue);
}

ls_status ls_program_end(ls_queue *queue, ls_program **out)
{
    return queue->device->backend->program_end(queue, out);
}

ls_status ls_program_launch(ls_program *program, uint64_t times)
{
    return beat(program->device, program->device->backend->program_launch(program, times));
}

ls_program_info ls_program_describe(const ls_program *program)
{
    return program->info;
}

void ls_program_close(ls_program *program)
{
    if (program)
        program->device->backend->program_close(program);
}
