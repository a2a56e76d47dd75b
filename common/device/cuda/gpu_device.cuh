/* SPDX-License-Identifier: MIT */
/*
 * The few parts of a GPU that C++ does not have: launches, shuffles, copies in the background, the
 * timer. The test that runs the kernels on a CPU replaces this header by its own.
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

/* As above, with so many bytes of LS_GPU_LARGE_SHARED. */
template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch_with(void *stream, unsigned blocks, unsigned threads,
                              void (*kernel)(Parameters...), size_t bytes, Arguments... arguments)
{
    kernel<<<blocks, threads, bytes, (cudaStream_t)stream>>>(arguments...);
    return (int)cudaGetLastError();
}

/* Has the driver load a kernel now, not when it is first launched, which may be in a capture. */
template <typename... Parameters> static int ls_gpu_load_kernel(void (*kernel)(Parameters...))
{
    cudaFuncAttributes attributes;
    return (int)cudaFuncGetAttributes(&attributes, kernel);
}

/* Lets a kernel be launched with so many bytes of shared memory, more than 48 KiB. */
template <typename... Parameters>
static int ls_gpu_allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)bytes);
}

/* A variable in shared memory, whose size is given with the launch. */
#define LS_GPU_LARGE_SHARED(type, name)                                                            \
    extern __shared__ __align__(1024) unsigned char ls_gpu_large[];                                \
    type &name = *(type *)ls_gpu_large

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

/* The value; the compiler does not keep what it has computed from it, for which there may be too
 * few registers. */
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

/* ---- Compute capability 8.0 (PTX ISA: ldmatrix, mma) ------------------------------------------
 */

__device__ static inline unsigned ls_gpu_shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

/* Reads four matrices of 8 x 8 elements from shared memory: lanes 8 i to 8 i + 7 give the rows of
 * the i-th, of 16 bytes each. Lane l gets elements 2 (l % 4) and 2 (l % 4) + 1 of each matrix's row
 * l / 4; if TURNED, of its column. */
template <bool TURNED>
__device__ static inline void ls_gpu_read_eights(const uint16_t *row, unsigned (&to)[4])
{
    const unsigned at = ls_gpu_shared_address(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
}

/* c += a b, of bfloat16, 16 rows, 16 terms and 8 columns. With g = lane / 4 and t = lane % 4, a
 * thread has of rows g and g + 8 terms 2 t and 2 t + 1 in a[0] and a[1], and terms 8 later in a[2]
 * and a[3]; of column g these terms in b0 and b1; of c columns 2 t and 2 t + 1 in c[0] and c[1],
 * and c[2] and c[3]. */
__device__ static inline void ls_gpu_multiply_bf16(const unsigned (&a)[4], unsigned b0, unsigned b1,
                                                   float (&c)[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- Compute capability 9.0 (PTX ISA: mbarrier, setmaxnreg, wgmma) -----------------------------
 */

/* x as the sum of two numbers of 11 bits (tf32), up to 2^-23 of x. Where x is infinite, the second
 * is NaN. */
__device__ static inline void ls_gpu_split_tf32(float x, unsigned &high, unsigned &low)
{
    high = (__float_as_uint(x) + 0x1000u) & 0xFFFFE000u; /* to nearest */
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(x - __uint_as_float(high)));
}

/* x rounded to 11 bits (tf32), ties away from 0. */
__device__ static inline unsigned ls_gpu_round_tf32(float x)
{
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

/* A flag in shared memory, raised by so many threads each turn, 0, 1 and so on: then it has its
 * next turn, and what they wrote can be read. No turn begins before the last is awaited. */
typedef uint64_t ls_gpu_flag;

/* By one thread; a barrier must follow. */
__device__ static inline void ls_gpu_begin_flag(ls_gpu_flag &flag, unsigned threads)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ls_gpu_shared_address(&flag)),
                 "r"(threads)
                 : "memory");
}

__device__ static inline void ls_gpu_raise_flag(ls_gpu_flag &flag)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ls_gpu_shared_address(&flag))
                 : "memory");
}

__device__ static inline void ls_gpu_await_flag(ls_gpu_flag &flag, int turn)
{
    asm volatile("{ .reg .pred done;\n"
                 "again%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again%=; }" ::"r"(ls_gpu_shared_address(&flag)),
                 "r"(turn & 1)
                 : "memory");
}

/* A group of four warps gives registers away, or takes them: a thread has N from here on. */
template <int N> __device__ static inline void ls_gpu_fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ static inline void ls_gpu_more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* What a group of four warps multiplies: rows by 128 columns, 8 terms at a time; the columns'
 * factor in shared memory, of 32 terms, at a multiple of 1,024 bytes; sums of a thread. */
enum { LS_GPU_GROUP_TERMS = 8, LS_GPU_GROUP_FACTOR = 128 * 32, LS_GPU_GROUP_SUMS = 64 };

/* Where in the factor term `term` (of 32) of a column is; groups of four terms stay together. */
__device__ static inline int ls_gpu_group_place(int column, int term)
{
    return column * 32 + (term / 4 ^ column % 8) * 4 + term % 4;
}

/* The threads' own writes to shared memory before can be multiplied after: before a flag. */
__device__ static inline void ls_gpu_show_group()
{
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Before products whose registers have been written. */
__device__ static inline void ls_gpu_begin_group()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

#define LS_GPU_4(c, i)  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define LS_GPU_16(c, i) LS_GPU_4(c, i), LS_GPU_4(c, i + 4), LS_GPU_4(c, i + 8), LS_GPU_4(c, i + 12)
#define LS_GPU_64(c)    LS_GPU_16(c, 0), LS_GPU_16(c, 16), LS_GPU_16(c, 32), LS_GPU_16(c, 48)

/* Begins c = a b, c += a b with `add`, for 64 rows, terms 8 `unit` to 8 `unit` + 7 of the factor b,
 * all in tf32. With w = warp % 4, g = lane / 4 and t = lane % 4, of rows 16 w + g and 16 w + g + 8
 * a thread has of a term t in a[0], a[1] and term t + 4 in a[2], a[3]; of c columns 8 j + 2 t and 8
 * j + 2 t + 1 in c[4 j], c[4 j + 1] and c[4 j + 2], c[4 j + 3]. */
__device__ static inline void ls_gpu_multiply_group(const unsigned a[4], const float *b, int unit,
                                                    float (&c)[LS_GPU_GROUP_SUMS], bool add)
{
    /* Address / 16, rows of 128 bytes in eights of 1,024 bytes, swizzled (PTX ISA, matrix
     * descriptor). */
    const uint64_t at = (ls_gpu_shared_address(b) + 32u * (unsigned)unit) >> 4 & 0x3FFF;
    const uint64_t b_at = at | (uint64_t)1 << 16 | (uint64_t)(1024 / 16) << 32 | (uint64_t)1 << 62;
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, add, 1, 1; }"
                 : LS_GPU_64(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_at), "r"((int)add));
}

/* Waits for all products that this thread's group has begun. */
__device__ static inline void ls_gpu_await_group(float (&c)[LS_GPU_GROUP_SUMS])
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : LS_GPU_64(c)::"memory");
}

#undef LS_GPU_4
#undef LS_GPU_16
#undef LS_GPU_64

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
