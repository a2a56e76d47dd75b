/* SPDX-License-Identifier: MIT */
/*
 * The fake GPUs themselves: how many (LS_FAKE_GPUS, 1 to 8), which reach each other
 * (LS_FAKE_PEERS=no: none), the thread's current one, its errors and their names; and what is
 * checked when the process ends.
 */
#include "common/device/fake/fake_parts.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static thread_local int current;
static thread_local cudaError_t latest;
static unsigned reachable[FAKE_MOST]; /* bits of the peers whose memory a device was given */

int fake_count()
{
    static const int count = [] {
        const char *text = getenv("LS_FAKE_GPUS");
        const int wanted = text ? atoi(text) : FAKE_MOST;
        return wanted < 0 ? 0 : wanted > FAKE_MOST ? (int)FAKE_MOST : wanted;
    }();
    return count;
}

unsigned fake_peers(int device)
{
    return reachable[device];
}

uint64_t fake_thread()
{
    static std::atomic<uint64_t> threads;
    static thread_local const uint64_t self = ++threads;
    return self;
}

cudaError_t fake_error(cudaError_t error)
{
    if (error != cudaSuccess)
        latest = error;
    return error;
}

int ls_fake_current(void)
{
    return current;
}

static void check_end(int status, void *)
{
    const auto lock = fake_enter();
    if (status)
        return;
    fake_drain(); /* what nobody waited for must be right, too */
    const int leaks = fake_held_up() ? 0 : fake_leaks(); /* a device that was lost frees nothing */
    if (leaks) {
        fprintf(stderr, "fake GPU: %d pieces of memory or pinned memory were not given back\n",
                leaks);
        fflush(stderr);
        _exit(1);
    }
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = latest;
    latest = cudaSuccess;
    return error;
}

cudaError_t cudaSetDevice(int device)
{
    static const int once = on_exit(check_end, nullptr);
    (void)once;
    if (device < 0 || device >= fake_count())
        return fake_error(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = fake_count();
    return *count ? cudaSuccess : fake_error(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    size_t available;
    if (device < 0 || device >= fake_count())
        return fake_error(cudaErrorInvalidDevice);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "fake GPU (emulated, no figure of it is a GPU's)");
    out->major = 9;
    out->multiProcessorCount = 132;
    return cudaMemGetInfo(&available, &out->totalGlobalMem);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int length, int device)
{
    if (device < 0 || device >= fake_count())
        return fake_error(cudaErrorInvalidDevice);
    snprintf(out, (size_t)length, "0000:%02x:00.0", 16 + device);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    const char *peers = getenv("LS_FAKE_PEERS");
    if (device < 0 || device >= fake_count() || peer < 0 || peer >= fake_count())
        return fake_error(cudaErrorInvalidDevice);
    *can = device != peer && !(peers && strcmp(peers, "no") == 0);
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    const auto lock = fake_enter();
    int can = 0;
    if (flags || !fake_allowed())
        return fake_error(flags ? cudaErrorInvalidValue : cudaErrorStreamCaptureUnsupported);
    if (cudaDeviceCanAccessPeer(&can, current, peer) != cudaSuccess || !can)
        return fake_error(cudaErrorPeerAccessUnsupported);
    if (reachable[current] >> peer & 1)
        return fake_error(cudaErrorPeerAccessAlreadyEnabled);
    reachable[current] |= 1u << peer;
    return cudaSuccess;
}

struct name_of {
    cudaError_t error;
    const char *name, *text;
};
#define NAMED(error, text)                                                                         \
    name_of                                                                                        \
    {                                                                                              \
        error, #error, text                                                                        \
    }
static const name_of names[] = {
    NAMED(cudaSuccess, "no error"),
    NAMED(cudaErrorInvalidValue, "invalid argument"),
    NAMED(cudaErrorMemoryAllocation, "out of memory"),
    NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    NAMED(cudaErrorNotReady, "device not ready"),
    NAMED(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    NAMED(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    NAMED(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    NAMED(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    NAMED(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    NAMED(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    NAMED(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    NAMED(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    NAMED(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    NAMED(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    NAMED(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    NAMED(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    NAMED(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (const name_of &one : names)
        if (one.error == error)
            return one.name;
    return "cudaErrorOfTheFakeGpu";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const name_of &one : names)
        if (one.error == error)
            return one.text;
    return "an error without a text in the fake GPU";
}
