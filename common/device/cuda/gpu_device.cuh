/* SPDX-License-Identifier: MIT */
/*
 * The few parts of a GPU that C++ lacks: launches, shuffles, copies in the background, the timer.
 * The test that runs the kernels on a CPU replaces this header by its own.
 */
#ifndef LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH
#define LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Launches a kernel on a stream; returns the launch's own error, and clears it for the next
 * call. */
template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch(void *stream, unsigned blocks, unsigned threads,
                         void (*kernel)(Parameters...), Arguments... arguments)
{
    kernel<<<blocks, threads, 0, (cudaStream_t)stream>>>(arguments...);
    return (int)cudaGetLastError();
}

/* Has the driver load a kernel now, not when it is first launched, which may be in a capture. */
template <typename... Parameters> static int ls_gpu_load_kernel(void (*kernel)(Parameters...))
{
    cudaFuncAttributes attributes;
    return (int)cudaFuncGetAttributes(&attributes, kernel);
}

/* The value of the lane whose number differs in `mask`; all lanes of the warp call it. */
template <typename T> __device__ static inline T ls_gpu_exchange(T value, int mask)
{
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}

/* What the warp's lanes wrote to shared memory before, all of them can read, and replace; all lanes
 * call it. */
__device__ static inline void ls_gpu_sync_warp()
{
    __syncwarp();
}

/* The value; the compiler does not keep what it has computed from it for the next time, for which
 * registers may lack. */
__device__ static inline unsigned ls_gpu_anew(unsigned value)
{
    asm volatile("" : "+r"(value));
    return value;
}

/* A value that another block has written and fenced: from the cache that all blocks share. */
__device__ static inline double ls_gpu_fetch(const double *from)
{
    return __ldcg(from);
}

/* Begins to copy BYTES (4 or 16, to which both places are aligned) from global to shared memory, or
 * zeros if there is nothing to copy. What a thread began is in place once it has waited for it; for
 * the block's other threads, behind a barrier after that. Until then that place is not to be read
 * or written. */
template <int BYTES>
__device__ static inline void ls_gpu_copy_ahead(float *shared, const float *from, bool there)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    const size_t at = __cvta_generic_to_global(from);
    const int bytes = there ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(at),
                     "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(at), "r"(bytes));
}

__device__ static inline void ls_gpu_await_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Writes a word of host memory, past all caches. */
__device__ static inline void ls_gpu_tell_host(unsigned *word, unsigned value)
{
    *(volatile unsigned *)word = value;
}

/* Nanoseconds of the GPU's global timer, which may tick in whole microseconds. */
__device__ static inline uint64_t ls_gpu_now()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

#endif
