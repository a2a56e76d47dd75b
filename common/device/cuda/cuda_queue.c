/* SPDX-License-Identifier: MIT */
/*
 * GPU queue: a stream that does not synchronize with the default stream (cudaStreamNonBlocking),
 * and pinned memory through which the host reads and writes. Running an operation launches on the
 * stream, so ls_queue_enqueue reports a failed launch; ls_queue_sync reports failures on the GPU. A
 * kernel that finds invalid data writes a fault, one word in pinned memory, which ls_queue_sync
 * checks.
 */
#include "common/device/cuda/cuda.h"
#include "common/device/link.h"
#include "common/device/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_status open_stream(cuda_queue *queue, ls_device *device)
{
    const char *where = device->info.text;
    char doing[64];
    void *pinned = NULL;
    snprintf(doing, sizeof doing, "pin %zu bytes of host memory", sizeof *queue->pinned);
    LS_TRY(ls_cuda_use(device));
    LS_TRY(ls_cuda_check(where, "create a stream",
                         cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking)));
    LS_TRY(ls_cuda_check(where, doing,
                         cudaHostAlloc(&pinned, sizeof *queue->pinned,
                                       cudaHostAllocPortable | cudaHostAllocMapped)));
    queue->pinned = pinned;
    queue->pinned->fault = LS_CUDA_FAULT_NONE;
    queue->pinned->pulse = 0;
    queue->pinned->steps = 0;
    return device->watch ? ls_watch_add(device->watch, &queue->base) : LS_OK;
}

ls_status ls_cuda_queue_open(ls_device *device, const char *name, ls_queue **out)
{
    cuda_queue *queue;
    LS_TRY(ls_allocate("queue", &queue, 1, sizeof *queue));
    queue->base = (ls_queue){.device = device, .name = name};
    ls_status status = open_stream(queue, device);
    if (status) {
        ls_cuda_queue_close(&queue->base);
        return status;
    }
    queue->base.pulse_entry = (ls_pulse_entry){&queue->base, ls_cuda_queue_progress, 0, NULL};
    ls_pulse_add(device->pulse, &queue->base.pulse_entry);
    *out = &queue->base;
    return LS_OK;
}

void ls_cuda_queue_close(ls_queue *base)
{
    cuda_queue *queue = (cuda_queue *)base;
    ls_pulse_remove(base->device->pulse, &base->pulse_entry);
    if (base->device->watch)
        ls_watch_remove(base->device->watch, base);
    const bool reaches = ls_cuda_reaches(base->device);
    if (reaches && queue->stream) {
        cudaStreamSynchronize(queue->stream);
        cudaStreamDestroy(queue->stream);
    }
    for (int i = 0; i < 2 && reaches; i++)
        if (queue->windows[i])
            cudaEventDestroy(queue->windows[i]);
    if (reaches && queue->pinned)
        cudaFreeHost(queue->pinned);
    cudaGetLastError(); /* ls_queue_sync has reported a failed device */
    free(queue);
}

void *ls_cuda_queue_native(const ls_queue *base)
{
    return ((const cuda_queue *)base)->stream;
}

unsigned *ls_cuda_queue_fault(const ls_queue *base)
{
    return &((const cuda_queue *)base)->pinned->fault;
}

unsigned *ls_cuda_queue_pulse(const ls_queue *base)
{
    return &((const cuda_queue *)base)->pinned->pulse;
}

ls_status ls_cuda_queue_idle(const ls_queue *base, bool *out)
{
    LS_TRY(ls_cuda_use(base->device));
    const cudaError_t error = cudaStreamQuery(((const cuda_queue *)base)->stream);
    *out = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return LS_OK;
    }
    return ls_cuda_check(base->device->info.text, base->name, error);
}

/* If a library fails, the reason may be an invalidated capture, which it does not report. */
static ls_status explain_capture(const ls_queue *base, ls_status status)
{
    static const char remedy[] = "--capture no";
    if (ls_status_is_final(status) || strstr(ls_status_text(status), remedy) ||
        !ls_cuda_queue_captured(base))
        return status;
    ls_status outer =
        ls_fail(ls_status_code(status), NULL, NULL, "%s; use %s", ls_status_text(status), remedy);
    ls_status_free(status);
    return outer;
}

ls_status ls_cuda_queue_put(ls_queue *base, ls_op *op)
{
    LS_TRY(ls_cuda_use(base->device));
    LS_TRY(ls_cuda_await_window((cuda_queue *)base));
    ls_status status = op->run(op, base);
    if (status)
        return explain_capture(base, status);
    return ls_cuda_check(base->device->info.text, op->name, cudaGetLastError());
}

/* Exchanges the thread's capture mode, around calls that are not part of a capture and must not
 * invalidate it. */
static ls_status exchange_mode(const char *where, enum cudaStreamCaptureMode *mode)
{
    return ls_cuda_check(where, "capture mode", cudaThreadExchangeStreamCaptureMode(mode));
}

/* Enables peer access to another GPU if both support it; otherwise the driver stages copies. */
static ls_status ask_for_access(cuda_device *device, int peer)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    const char *where = device->base.info.text;
    int can = 0;
    if (device->peers[peer] != CUDA_NOT_ASKED)
        return LS_OK;
    LS_TRY(ls_cuda_check(where, "peer access", cudaDeviceCanAccessPeer(&can, device->gpu, peer)));
    device->peers[peer] = can ? CUDA_PEER : CUDA_STAGED;
    if (!can)
        return LS_OK;
    LS_TRY(exchange_mode(where, &mode));
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        error = cudaSuccess;
    }
    LS_TRY(exchange_mode(where, &mode));
    return ls_cuda_check(where, "peer access", error);
}

/* ---- Memory of CPU devices: pinned, a chunk of their pool at a time, so that copies need no host
 * thread and do not wait for the stream. ------------------------------------------------------- */

/* More than half of the host's memory, as a CPU device with --memory all has in one chunk, would
 * take minutes, or end other programs. */
static bool too_much_to_pin(size_t bytes)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 && bytes / (size_t)page > (size_t)pages / 2;
}

static ls_status pin_memory(void *memory, size_t bytes)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    char doing[96];
    snprintf(doing, sizeof doing, "pin %zu bytes, which copies to and from a GPU need", bytes);
    if (too_much_to_pin(bytes))
        return ls_fail(LS_CODE_USAGE, "host memory", NULL,
                       "%zu bytes must be pinned for copies to and from a GPU, but this is more "
                       "than half of the host's memory; use --memory growth or fraction=0.3",
                       bytes);
    LS_TRY(exchange_mode("host memory", &mode));
    const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
    LS_TRY(exchange_mode("host memory", &mode));
    return ls_cuda_check("host memory", doing, error);
}

static void unpin_memory(void *memory)
{
    cudaHostUnregister(memory);
    cudaGetLastError(); /* the failure of a device was reported before */
}

static ls_status copy_host(cuda_queue *queue, void *to, const ls_device *to_device,
                           const void *from, const ls_device *from_device, size_t bytes)
{
    const bool out = to_device->info.name.kind == LS_DEVICE_CPU;
    const char *where = queue->base.device->info.text;
    LS_TRY(ls_pool_pin(out ? to_device->pool : from_device->pool, out ? to : from, pin_memory,
                       unpin_memory));
    queue->base.device->copies.host_bytes += bytes;
    return ls_cuda_check(where, out ? "copy to a CPU device" : "copy from a CPU device",
                         cudaMemcpyAsync(to, from, bytes,
                                         out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                                         queue->stream));
}

ls_status ls_cuda_queue_copy(ls_queue *base, void *to, const ls_device *to_device, const void *from,
                             const ls_device *from_device, size_t bytes)
{
    cuda_queue *queue = (cuda_queue *)base;
    cuda_device *device = (cuda_device *)base->device;
    const bool both =
        to_device->info.name.kind == LS_DEVICE_GPU && from_device->info.name.kind == LS_DEVICE_GPU;
    const int to_gpu = to_device->info.name.index, from_gpu = from_device->info.name.index;
    if (ls_device_linked(from_device, to_device))
        return ls_fail(LS_CODE_USAGE, "copy", base->name,
                       "--link delays messages between CPU devices only; remove --link");
    LS_TRY(ls_cuda_use(base->device));
    if (!bytes)
        return LS_OK;
    if (!both)
        return copy_host(queue, to, to_device, from, from_device, bytes);
    if (to_gpu == from_gpu)
        return ls_cuda_check(
            base->device->info.text, "copy",
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue->stream));
    const int other = to_gpu == device->gpu ? from_gpu : to_gpu;
    if (other != device->gpu)
        LS_TRY(ask_for_access(device, other));
    const bool direct = device->peers[other] == CUDA_PEER;
    *(direct ? &device->base.copies.peer_bytes : &device->base.copies.staged_bytes) += bytes;
    const cudaError_t error = cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, queue->stream);
    if (!error)
        return LS_OK;
    return ls_cuda_fail(base->device->info.text, "copy between GPUs", error,
                        direct ? NULL
                               : "the two GPUs have no peer access; if the copy cannot be "
                                 "captured, --capture no runs the step uncaptured");
}

static size_t piece(const cuda_queue *queue, size_t left)
{
    return left < sizeof queue->pinned->staging ? left : sizeof queue->pinned->staging;
}

ls_status ls_cuda_queue_read(ls_queue *base, void *host, const void *device, size_t bytes)
{
    cuda_queue *queue = (cuda_queue *)base;
    LS_TRY(ls_cuda_queue_sync(base));
    for (size_t done = 0; done < bytes;) {
        const size_t now = piece(queue, bytes - done);
        LS_TRY(ls_cuda_check(base->device->info.text, "read",
                             cudaMemcpyAsync(queue->pinned->staging, (const char *)device + done,
                                             now, cudaMemcpyDeviceToHost, queue->stream)));
        LS_TRY(ls_cuda_queue_sync(base));
        memcpy((char *)host + done, queue->pinned->staging, now);
        done += now;
    }
    return LS_OK;
}

ls_status ls_cuda_queue_write(ls_queue *base, void *device, const void *host, size_t bytes)
{
    cuda_queue *queue = (cuda_queue *)base;
    LS_TRY(ls_cuda_queue_sync(base));
    for (size_t done = 0; done < bytes;) {
        const size_t now = piece(queue, bytes - done);
        memcpy(queue->pinned->staging, (const char *)host + done, now);
        LS_TRY(ls_cuda_check(base->device->info.text, "write",
                             cudaMemcpyAsync((char *)device + done, queue->pinned->staging, now,
                                             cudaMemcpyHostToDevice, queue->stream)));
        LS_TRY(ls_cuda_queue_sync(base));
        done += now;
    }
    return LS_OK;
}

/* Reports a fault that a kernel wrote, once. */
static ls_status take_fault(cuda_queue *queue)
{
    switch ((ls_cuda_fault)__atomic_exchange_n(&queue->pinned->fault, 0, __ATOMIC_ACQ_REL)) {
    case LS_CUDA_FAULT_NONE:
        return LS_OK;
    case LS_CUDA_FAULT_LABEL:
        return ls_fail(
            LS_CODE_MISSING, "gpu", queue->base.device->info.text,
            "a label in the batch is not a class of the model; check the labels of the data set");
    case LS_CUDA_FAULT_TOKEN:
        return ls_fail(LS_CODE_MISSING, "gpu", queue->base.device->info.text,
                       "a token in the batch is not one of the model's tokens; check the tokens of "
                       "the data set");
    }
    return ls_fail(
        LS_CODE_MISSING, "gpu", queue->base.device->info.text,
        "a kernel has overwritten the memory where kernels report errors, which now holds an "
        "unknown code; this is a bug of a kernel: find it with compute-sanitizer");
}

ls_status ls_cuda_queue_sync(ls_queue *base)
{
    cuda_queue *queue = (cuda_queue *)base;
    LS_TRY(ls_cuda_use(base->device));
    LS_TRY(ls_cuda_not_capturing(
        queue,
        "the host cannot wait for a queue that is being captured; call ls_program_end first"));
    LS_TRY(ls_cuda_await_stream(queue));
    return take_fault(queue);
}
