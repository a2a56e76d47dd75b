/* SPDX-License-Identifier: MIT */
/*
 * CUDA's run-time library on a CPU, for the host logic of the CUDA devices: the linker replaces the
 * library's functions by these (-Wl,--wrap, ci/cmake/Tests.cmake). Memory is the host's, streams
 * execute immediately, and errors occur on demand. Graphs are empty; launches of them, on one
 * stream at a time, take as long as a test sets, or for ever. A call that would wait for such a
 * stream ends the test. Left out: kernels; calls that are not emulated reach the real library,
 * which has no driver here.
 */
#pragma once

#include "common/base/clock.h"
#include "common/device/cuda/cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA's functions have parameters that these do not use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { EMULATED_GPUS = 3 };

/* What the GPUs answer, and what was done. */
static struct {
    size_t available, total;
    cudaError_t memory_info; /* of cudaMemGetInfo */
    cudaError_t malloc_error, query;
    cudaError_t between; /* of a copy between GPUs */
    bool unreachable;    /* GPU 2, by its peers */
    bool capturing;
    int current;
    int calls;  /* that would wait for the device, or touch it */
    int pieces; /* live pieces of memory and streams */
    /* Launches: the stream, how long each takes, and after how many none ends. */
    cudaStream_t busy;
    uint64_t begun_ns, launch_ns, launched, ended, last;
    unsigned *word, word_first; /* where steps write that they ended */
} cuda_emulated = {.available = (size_t)4 << 30, .total = (size_t)8 << 30};

#define EMULATED(name, ...)                                                                        \
    cudaError_t __wrap_##name(__VA_ARGS__);                                                        \
    cudaError_t __wrap_##name(__VA_ARGS__)

/* Completes what has ended by now, and writes its word. */
static bool emulated_is_busy(cudaStream_t stream)
{
    const uint64_t passed_ns = ls_clock_ns() - cuda_emulated.begun_ns;
    uint64_t ended = cuda_emulated.launched;
    if (cuda_emulated.launch_ns && passed_ns / cuda_emulated.launch_ns < ended)
        ended = passed_ns / cuda_emulated.launch_ns;
    cuda_emulated.ended = ended < cuda_emulated.last ? ended : cuda_emulated.last;
    if (cuda_emulated.word)
        *cuda_emulated.word = cuda_emulated.word_first + (unsigned)cuda_emulated.ended;
    return stream == cuda_emulated.busy && cuda_emulated.ended < cuda_emulated.launched;
}

/* From here on each launch on `stream` takes launch_ns, and none ends after the first `last`. */
static inline void emulate_launches(cudaStream_t stream, unsigned *word, uint64_t launch_ns,
                                    uint64_t last)
{
    cuda_emulated.busy = stream;
    cuda_emulated.begun_ns = ls_clock_ns();
    cuda_emulated.launch_ns = launch_ns;
    cuda_emulated.launched = cuda_emulated.ended = 0;
    cuda_emulated.last = last;
    cuda_emulated.word = word;
    cuda_emulated.word_first = word ? *word : 0;
}

static void emulation_wants(bool right, const char *why)
{
    if (right)
        return;
    fprintf(stderr, "cuda emulation: %s\n", why);
    abort();
}

EMULATED(cudaSetDevice, int device)
{
    cuda_emulated.current = device;
    return device < EMULATED_GPUS ? cudaSuccess : cudaErrorInvalidDevice;
}

EMULATED(cudaMemGetInfo, size_t *available, size_t *total)
{
    *available = cuda_emulated.available;
    *total = cuda_emulated.total;
    return cuda_emulated.memory_info;
}

EMULATED(cudaMalloc, void **out, size_t bytes)
{
    if (cuda_emulated.malloc_error)
        return cuda_emulated.malloc_error;
    *out = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaFree, void *memory)
{
    free(memory);
    cuda_emulated.pieces--;
    cuda_emulated.calls++;
    return cudaSuccess;
}

EMULATED(cudaHostAlloc, void **out, size_t bytes, unsigned flags)
{
    *out = calloc(1, bytes);
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaFreeHost, void *memory)
{
    free(memory);
    cuda_emulated.pieces--;
    cuda_emulated.calls++;
    return cudaSuccess;
}

EMULATED(cudaHostRegister, void *memory, size_t bytes, unsigned flags)
{
    return cudaSuccess;
}

EMULATED(cudaHostUnregister, void *memory)
{
    return cudaSuccess;
}

EMULATED(cudaStreamCreateWithFlags, cudaStream_t *out, unsigned flags)
{
    *out = malloc(1);
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaStreamDestroy, cudaStream_t stream)
{
    free(stream);
    cuda_emulated.pieces--;
    return cudaSuccess;
}

EMULATED(cudaStreamSynchronize, cudaStream_t stream)
{
    emulation_wants(!emulated_is_busy(stream), "the host waits for a stream that is busy");
    cuda_emulated.calls++;
    return cuda_emulated.query;
}

EMULATED(cudaStreamQuery, cudaStream_t stream)
{
    return emulated_is_busy(stream) ? cudaErrorNotReady : cuda_emulated.query;
}

EMULATED(cudaStreamIsCapturing, cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    *out = cuda_emulated.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

EMULATED(cudaStreamBeginCapture, cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cuda_emulated.capturing = true;
    return cudaSuccess;
}

EMULATED(cudaStreamEndCapture, cudaStream_t stream, cudaGraph_t *out)
{
    cuda_emulated.capturing = false;
    *out = malloc(1);
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaGraphGetNodes, cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    *count = 0;
    return cudaSuccess;
}

EMULATED(cudaGraphInstantiate, cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    *out = malloc(1);
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaGraphUpload, cudaGraphExec_t graph, cudaStream_t stream)
{
    return cudaSuccess;
}

EMULATED(cudaGraphLaunch, cudaGraphExec_t graph, cudaStream_t stream)
{
    enum { ROOM = 1000 }; /* about: CUDA does not say */
    emulation_wants(!emulated_is_busy(stream) ||
                        cuda_emulated.launched - cuda_emulated.ended < ROOM,
                    "a launch waits for room");
    cuda_emulated.launched++;
    return cudaSuccess;
}

EMULATED(cudaGraphDestroy, cudaGraph_t graph)
{
    free(graph);
    cuda_emulated.pieces--;
    return cudaSuccess;
}

EMULATED(cudaGraphExecDestroy, cudaGraphExec_t graph)
{
    free(graph);
    cuda_emulated.pieces--;
    return cudaSuccess;
}

EMULATED(cudaEventCreateWithFlags, cudaEvent_t *out, unsigned flags)
{
    *out = calloc(1, sizeof(cudaStream_t));
    cuda_emulated.pieces++;
    return cudaSuccess;
}

EMULATED(cudaEventDestroy, cudaEvent_t event)
{
    free(event);
    cuda_emulated.pieces--;
    return cudaSuccess;
}

/* An event is as far as the stream that it was recorded on. */
EMULATED(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
{
    memcpy((void *)event, &stream, sizeof stream);
    return cudaSuccess;
}

EMULATED(cudaEventQuery, cudaEvent_t event)
{
    cudaStream_t stream;
    memcpy(&stream, (const void *)event, sizeof stream);
    return emulated_is_busy(stream) ? cudaErrorNotReady : cudaSuccess;
}

EMULATED(cudaEventSynchronize, cudaEvent_t event)
{
    emulation_wants(__wrap_cudaEventQuery(event) == cudaSuccess,
                    "the host waits for an event that has not happened");
    return cudaSuccess;
}

EMULATED(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)
{
    return cudaSuccess;
}

EMULATED(cudaMemsetAsync, void *memory, int value, size_t bytes, cudaStream_t stream)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

EMULATED(cudaMemcpyAsync, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
         cudaStream_t stream)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

EMULATED(cudaMemcpyPeerAsync, void *to, int to_gpu, const void *from, int from_gpu, size_t bytes,
         cudaStream_t stream)
{
    if (!cuda_emulated.between)
        memcpy(to, from, bytes);
    return cuda_emulated.between;
}

EMULATED(cudaDeviceCanAccessPeer, int *can, int device, int peer)
{
    *can = !cuda_emulated.unreachable || (device != 2 && peer != 2);
    return cudaSuccess;
}

EMULATED(cudaDeviceEnablePeerAccess, int peer, unsigned flags)
{
    return cudaSuccess;
}

EMULATED(cudaGetLastError, void)
{
    return cudaSuccess;
}
