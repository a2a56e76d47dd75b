/* SPDX-License-Identifier: MIT */
/*
 * CPU device: a set of cores, and memory that only it uses. Memory comes from the system in chunks;
 * huge pages are requested for chunks that hold at least two, not for a few small blocks. A thread
 * on the device's own cores zero-fills it, so that pages are placed by first touch. A second,
 * unbound thread of the device does this and other set-up work, so that it delays no queue.
 */
#include "common/device/affinity.h"
#include "common/device/cpu/cpu.h"
#include "common/device/link.h"
#include "common/device/machine_gpus.h"
#include "common/device/pool.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t huge_page_bytes = (size_t)2 << 20;

/* Pool callbacks. mmap gives zero pages that were not touched yet. */
static ls_status reserve_memory(void *context, size_t bytes, void **out)
{
    (void)context;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ls_fail_memory("cpu device", bytes);
    if (bytes >= 2 * huge_page_bytes)
        madvise(memory, bytes, MADV_HUGEPAGE);
    *out = memory;
    return LS_OK;
}

static void release_memory(void *context, void *memory, size_t bytes)
{
    (void)context;
    munmap(memory, bytes);
}

/*
 * oneDNN allocates packing buffers in every call. With malloc's dynamic threshold they would be
 * returned to the system, and faulted in again in the middle of a step.
 */
static void keep_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 4 << 20);
}

static void cpu_close(ls_device *base)
{
    cpu_device *device = (cpu_device *)base;
    ls_cpu_queue_close(device->service);
    ls_pool_close(base->pool);
    ls_cpu_unregister_all(device);
    free(device);
}

static ls_status cpu_open(const ls_machine *machine, const ls_device_name *name,
                          const ls_memory_policy *policy, ls_device **out)
{
    cpu_device *device;
    LS_TRY(ls_allocate("cpu device", &device, 1, sizeof *device));
    device->pages_file = -1;
    device->base.pulse = ls_machine_pulse(machine);
    keep_heap();
    device->base.backend = &ls_cpu_backend;
    ls_device_info *info = &device->base.info;
    info->name = *name;
    ls_device_name_text(name, info->text);
    const int most = (int)(sizeof info->cores / sizeof *info->cores);
    info->core_count = ls_machine_cores(machine, name->index, info->cores, most);
    if (info->core_count > most)
        info->core_count = most;
    info->capacity = ls_machine_cpu_capacity(machine);
    info->huge_pages = true;
    int named = ls_machine_count(machine, LS_DEVICE_CPU);
    int devices = name->index < named ? named : name->index + 1;
    device->shares_cores = devices * ls_machine_cores_per_device(machine) >
                           ls_machine_describe(machine)->cores_allowed;
    const ls_pool_options options = {.name = info->text,
                                     .policy = *policy,
                                     .capacity = info->capacity,
                                     .watched = true,
                                     .reserve = reserve_memory,
                                     .release = release_memory};
    ls_status status = ls_pool_open(&options, &device->base.pool);
    if (!status)
        status = ls_cpu_queue_open(&device->base, "service", false, &device->service);
    if (status) {
        cpu_close(&device->base);
        return status;
    }
    info->flushes_denormals = device->service->flushed;
    *out = &device->base;
    return LS_OK;
}

static ls_status run_and_wait(cpu_device *device, const cpu_command *command)
{
    LS_TRY(ls_cpu_queue_push(device->service, command));
    return ls_cpu_queue_finish(device->service, false); /* the command may be on the stack */
}

static ls_status cpu_zero(ls_device *base, void *memory, size_t bytes)
{
    if (!bytes)
        return LS_OK;
    return run_and_wait((cpu_device *)base,
                        &(cpu_command){.kind = CPU_ZERO, .to = memory, .bytes = bytes});
}

static ls_status cpu_call(ls_device *base, ls_status (*call)(void *context), void *context)
{
    return run_and_wait((cpu_device *)base,
                        &(cpu_command){.kind = CPU_CALL, .call = call, .context = context});
}

/* The service thread stands for all: what moves a thread from outside moves all threads of a
 * process. */
static bool cpu_moved(const ls_device *device)
{
    const ls_device_info *info = &device->info;
    return !ls_affinity_is(((const cpu_device *)device)->service->thread, info->cores,
                           info->core_count);
}

static ls_status cpu_queue_open(ls_device *device, const char *name, ls_queue **out)
{
    cpu_queue *queue;
    LS_TRY(ls_cpu_queue_open(device, name, true, &queue));
    ls_status status = device->watch ? ls_watch_add(device->watch, &queue->base) : LS_OK;
    if (status)
        ls_cpu_queue_close(queue);
    else
        *out = &queue->base;
    return status;
}

static void cpu_queue_close(ls_queue *queue)
{
    ls_cpu_queue_close((cpu_queue *)queue);
}

static bool cpu_queue_captured(const ls_queue *queue)
{
    return ((const cpu_queue *)queue)->capture != NULL;
}

static ls_status cpu_queue_idle(const ls_queue *base, bool *out)
{
    cpu_queue *queue = (cpu_queue *)base; /* only read */
    *out = ls_signal_value(&queue->consumed) >= queue->enqueued;
    return LS_OK;
}

static ls_status cpu_queue_put(ls_queue *queue, ls_op *op)
{
    return ls_cpu_queue_push(
        (cpu_queue *)queue,
        &(cpu_command){.kind = queue->skip ? CPU_UNLESS : CPU_RUN, .op = op, .skip = queue->skip});
}

static ls_status cpu_queue_copy(ls_queue *queue, void *to, const ls_device *to_device,
                                const void *from, const ls_device *from_device, size_t bytes)
{
    if (to_device->info.name.kind != LS_DEVICE_CPU || from_device->info.name.kind != LS_DEVICE_CPU)
        return ls_fail(
            LS_CODE_USAGE, "copy", queue->name,
            "a CPU device's queue copies between CPU devices only; use a queue of the GPU");
    cpu_command command = {.kind = CPU_COPY, .to = to, .from = from, .bytes = bytes};
    if (bytes && ls_device_linked(from_device, to_device)) {
        if (queue->device->network != to_device->network)
            return ls_fail(
                LS_CODE_USAGE, "copy", queue->name,
                "this copy crosses a simulated network (--link), but the queue's device is not in "
                "that network; connect all devices of the copy to one network");
        command.kind = CPU_CARRY;
        command.from_port = (uint16_t)from_device->port;
        command.to_port = (uint16_t)to_device->port;
    }
    return ls_cpu_queue_push((cpu_queue *)queue, &command);
}

static ls_status cpu_queue_read(ls_queue *queue, void *host, const void *device, size_t bytes)
{
    LS_TRY(ls_cpu_queue_sync(queue));
    LS_TRY(cpu_queue_copy(queue, host, queue->device, device, queue->device, bytes));
    return ls_cpu_queue_finish((cpu_queue *)queue, false); /* the caller may free `host` */
}

static ls_status cpu_queue_write(ls_queue *queue, void *device, const void *host, size_t bytes)
{
    return cpu_queue_read(queue, device, host, bytes);
}

const ls_device_backend ls_cpu_backend = {
    .name = "cpu",
    .kind = LS_DEVICE_CPU,
    .open = cpu_open,
    .close = cpu_close,
    .zero = cpu_zero,
    .register_memory = ls_cpu_register,
    .call = cpu_call,
    .moved = cpu_moved,
    .queue_open = cpu_queue_open,
    .queue_close = cpu_queue_close,
    .queue_put = cpu_queue_put,
    .queue_copy = cpu_queue_copy,
    .queue_read = cpu_queue_read,
    .queue_write = cpu_queue_write,
    .queue_sync = ls_cpu_queue_sync,
    .queue_captured = cpu_queue_captured,
    .queue_idle = cpu_queue_idle,
    .queue_activity = ls_cpu_queue_activity,
    .queue_profile = ls_cpu_queue_profile,
    .event_open = ls_cpu_event_open,
    .event_close = ls_cpu_event_close,
    .queue_record = ls_cpu_queue_record,
    .queue_wait = ls_cpu_queue_wait,
    .event_sync = ls_cpu_event_sync,
    .program_begin = ls_cpu_program_begin,
    .program_end = ls_cpu_program_end,
    .program_launch = ls_cpu_program_launch,
    .program_close = ls_cpu_program_close,
};
