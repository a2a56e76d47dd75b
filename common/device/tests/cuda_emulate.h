/* SPDX-License-Identifier: MIT */
/*
 * CUDA's run-time library on a CPU, for the host logic of the CUDA devices: the linker puts these
 * functions in place of the library's (-Wl,--wrap, ci/cmake/Tests.cmake). Memory is the host's,
 * streams do at once what they are given, and errors come on demand. Left out: kernels, graphs,
 * time; what a call that is left out finds is the real library, which has no driver here.
 */
#ifndef LS_COMMON_DEVICE_TESTS_CUDA_EMULATE_H
#define LS_COMMON_DEVICE_TESTS_CUDA_EMULATE_H

#include "common/device/cuda/cuda.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EMULATED_GPUS = 3 };

/* What the GPUs answer, and what was done. */
static struct {
    size_t available, total;
    cudaError_t memory_info; /* of cudaMemGetInfo */
    cudaError_t malloc_error, query;
    bool unreachable; /* GPU 2, by its peers */
    bool capturing;
    int current;
    int calls;  /* that would wait for the device, or touch it */
    int pieces; /* of memory and streams that are taken */
} cuda_emulated = {.available = (size_t)4 << 30, .total = (size_t)8 << 30};

#define EMULATED(name, ...)                                                                        \
    cudaError_t __wrap_##name(__VA_ARGS__);                                                        \
    cudaError_t __wrap_##name(__VA_ARGS__)

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
    (void)flags;
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
    (void)memory, (void)bytes, (void)flags;
    return cudaSuccess;
}

EMULATED(cudaHostUnregister, void *memory)
{
    (void)memory;
    return cudaSuccess;
}

EMULATED(cudaStreamCreateWithFlags, cudaStream_t *out, unsigned flags)
{
    (void)flags;
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
    (void)stream;
    cuda_emulated.calls++;
    return cuda_emulated.query;
}

EMULATED(cudaStreamQuery, cudaStream_t stream)
{
    (void)stream;
    return cuda_emulated.query;
}

EMULATED(cudaStreamIsCapturing, cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    (void)stream;
    *out = cuda_emulated.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

EMULATED(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)
{
    (void)mode;
    return cudaSuccess;
}

EMULATED(cudaMemsetAsync, void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

EMULATED(cudaMemcpyAsync, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
         cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

EMULATED(cudaMemcpyPeerAsync, void *to, int to_gpu, const void *from, int from_gpu, size_t bytes,
         cudaStream_t stream)
{
    (void)to_gpu, (void)from_gpu, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

EMULATED(cudaDeviceCanAccessPeer, int *can, int device, int peer)
{
    *can = !cuda_emulated.unreachable || (device != 2 && peer != 2);
    return cudaSuccess;
}

EMULATED(cudaDeviceEnablePeerAccess, int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaSuccess;
}

EMULATED(cudaGetLastError, void)
{
    return cudaSuccess;
}

#endif
