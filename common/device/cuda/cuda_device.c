/* SPDX-License-Identifier: MIT */
/*
 * GPU device: a GPU or a logical device of one, with a pool on the GPU's arena. A logical device
 * has its own queues and an n-th of the memory that was free when the first one was opened.
 * Multiprocessors are not partitioned: kernels of several logical devices run concurrently where
 * there is room, so a kernel's launch and results do not depend on the number of devices.
 */
#include "common/device/cuda/cuda.h"
#include "common/device/pool.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* On a lost GPU a call may never return, so none is made. */
static bool is_lost(const cuda_device *device)
{
    return device->arena && ls_arena_is_lost(device->arena);
}

static void cuda_lose(ls_device *base)
{
    ls_arena_lose(((cuda_device *)base)->arena);
}

bool ls_cuda_reaches(const ls_device *base)
{
    const cuda_device *device = (const cuda_device *)base;
    if (base->info.name.kind != LS_DEVICE_GPU)
        return true;
    const bool reaches = !is_lost(device) && cudaSetDevice(device->gpu) == cudaSuccess;
    if (!reaches)
        cudaGetLastError(); /* the failure of a device was reported before */
    return reaches;
}

ls_status ls_cuda_use(const ls_device *base)
{
    const cuda_device *device = (const cuda_device *)base;
    if (is_lost(device))
        return ls_status_final(ls_status_follows(ls_fail(
            LS_CODE_MISSING, "gpu", base->info.text,
            "the GPU failed, and this process cannot use it any more; start the command again")));
    return ls_cuda_check(base->info.text, "select the device", cudaSetDevice(device->gpu));
}

/* ---- Memory: what the arena of a GPU calls; the context is the GPU's number ------------------ */

static int gpu_of(const void *context)
{
    return (int)(intptr_t)context;
}

static ls_status find_free(void *context, size_t *out)
{
    size_t total;
    char where[32];
    snprintf(where, sizeof where, "gpu:%d", gpu_of(context));
    LS_TRY(ls_cuda_check(where, "open the device", cudaSetDevice(gpu_of(context))));
    return ls_cuda_check(where, "memory", cudaMemGetInfo(out, &total));
}

static ls_status reserve_memory(void *context, size_t bytes, void **out)
{
    char where[32], doing[64];
    snprintf(where, sizeof where, "gpu:%d", gpu_of(context));
    snprintf(doing, sizeof doing, "allocate %zu bytes", bytes);
    LS_TRY(ls_cuda_check(where, "select the device", cudaSetDevice(gpu_of(context))));
    return ls_cuda_check(where, doing, cudaMalloc(out, bytes));
}

static void release_memory(void *context, void *memory, size_t bytes)
{
    (void)bytes;
    if (cudaSetDevice(gpu_of(context)) == cudaSuccess)
        cudaFree(memory);
    cudaGetLastError(); /* a failed device keeps its error, reported before */
}

static ls_status upload(void *context, void *to, const void *host, size_t bytes)
{
    char where[32];
    snprintf(where, sizeof where, "gpu:%d", gpu_of(context));
    LS_TRY(ls_cuda_check(where, "select the device", cudaSetDevice(gpu_of(context))));
    /* Not on the legacy stream, which no capture may depend on, in no thread; no queue waits for
     * this one. */
    LS_TRY(ls_cuda_check(
        where, "copy a data set",
        cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, cudaStreamPerThread)));
    return ls_cuda_check(where, "copy a data set", cudaStreamSynchronize(cudaStreamPerThread));
}

static ls_status enter_arena(const ls_machine *machine, cuda_device *device, bool all)
{
    char name[32];
    snprintf(name, sizeof name, "gpu:%d", device->gpu);
    const ls_arena_system system = {.name = name,
                                    .find_free = find_free,
                                    .reserve = reserve_memory,
                                    .release = release_memory,
                                    .upload = upload,
                                    .context = (void *)(intptr_t)device->gpu};
    ls_arena *arena = ls_machine_arena(machine, device->gpu);
    LS_TRY(ls_arena_enter(arena, &system, all));
    device->arena = arena;
    return LS_OK;
}

static ls_status take_chunk(void *context, size_t bytes, void **out)
{
    return ls_arena_alloc(context, bytes, out);
}

static void give_chunk(void *context, void *memory, size_t bytes)
{
    (void)bytes;
    ls_arena_free(context, memory);
}

static ls_status open_pool(const ls_machine *machine, cuda_device *device,
                           const ls_memory_policy *policy)
{
    ls_device_info *info = &device->base.info;
    LS_TRY(enter_arena(machine, device, policy->kind == LS_MEMORY_ALL));
    info->capacity = ls_arena_capacity(device->arena);
    if (info->name.logical >= 0)
        info->capacity /= (size_t)ls_machine_logical_gpus(machine);
    const ls_pool_options options = {.name = info->text,
                                     .policy = *policy,
                                     .capacity = info->capacity,
                                     .on_demand = true,
                                     .reserve = take_chunk,
                                     .release = give_chunk,
                                     .context = device->arena};
    return ls_pool_open(&options, &device->base.pool);
}

/* ---- Device ---------------------------------------------------------------------------------- */

static void cuda_close(ls_device *base)
{
    cuda_device *device = (cuda_device *)base;
    if (device->service && ls_cuda_reaches(base))
        cudaStreamDestroy(device->service);
    ls_pool_close(base->pool);
    if (device->arena)
        ls_arena_leave(device->arena);
    cudaGetLastError();
    free(device);
}

static ls_status cuda_open(const ls_machine *machine, const ls_device_name *name,
                           const ls_memory_policy *policy, ls_device **out)
{
    cuda_device *device;
    LS_TRY(ls_allocate("gpu device", &device, 1, sizeof *device));
    device->base.backend = &ls_cuda_backend;
    device->base.info.name = *name;
    ls_device_name_text(name, device->base.info.text);
    device->gpu = name->index;
    ls_device_info_of_gpu(ls_machine_gpu(machine, device->gpu), &device->base.info);
    ls_status status = open_pool(machine, device, policy);
    if (!status)
        status = ls_cuda_use(&device->base);
    if (!status)
        status = ls_cuda_check(device->base.info.text, "create a stream",
                               cudaStreamCreateWithFlags(&device->service, cudaStreamNonBlocking));
    if (status) {
        cuda_close(&device->base);
        return status;
    }
    *out = &device->base;
    return LS_OK;
}

static ls_status cuda_zero(ls_device *base, void *memory, size_t bytes)
{
    cuda_device *device = (cuda_device *)base;
    if (!bytes)
        return LS_OK;
    LS_TRY(ls_cuda_use(base));
    LS_TRY(ls_cuda_check(base->info.text, "clear memory",
                         cudaMemsetAsync(memory, 0, bytes, device->service)));
    return ls_cuda_check(base->info.text, "clear memory", cudaStreamSynchronize(device->service));
}

static ls_status cuda_share(ls_device *base, const void *host, size_t bytes, const void **out)
{
    return ls_arena_share(((cuda_device *)base)->arena, host, bytes, out);
}

static void cuda_unshare(ls_device *base, const void *shared)
{
    ls_arena_unshare(((cuda_device *)base)->arena, shared);
}

/* Any thread can call a GPU, once it has selected it. */
static ls_status cuda_call(ls_device *base, ls_status (*call)(void *context), void *context)
{
    LS_TRY(ls_cuda_use(base));
    return call(context);
}

const ls_device_backend ls_cuda_backend = {
    .name = "cuda",
    .kind = LS_DEVICE_GPU,
    .open = cuda_open,
    .close = cuda_close,
    .zero = cuda_zero,
    .share = cuda_share,
    .unshare = cuda_unshare,
    .call = cuda_call,
    .lose = cuda_lose,
    .queue_open = ls_cuda_queue_open,
    .queue_close = ls_cuda_queue_close,
    .queue_native = ls_cuda_queue_native,
    .queue_put = ls_cuda_queue_put,
    .queue_copy = ls_cuda_queue_copy,
    .queue_read = ls_cuda_queue_read,
    .queue_write = ls_cuda_queue_write,
    .queue_sync = ls_cuda_queue_sync,
    .queue_captured = ls_cuda_queue_captured,
    .queue_idle = ls_cuda_queue_idle,
    .queue_begin = ls_cuda_queue_begin,
    .queue_activity = ls_cuda_queue_activity,
    .event_open = ls_cuda_event_open,
    .event_close = ls_cuda_event_close,
    .queue_record = ls_cuda_queue_record,
    .queue_wait = ls_cuda_queue_wait,
    .event_sync = ls_cuda_event_sync,
    .program_begin = ls_cuda_program_begin,
    .program_end = ls_cuda_program_end,
    .program_launch = ls_cuda_program_launch,
    .program_close = ls_cuda_program_close,
};
