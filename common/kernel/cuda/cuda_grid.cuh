/* SPDX-License-Identifier: MIT */
/* Grids: a thread per element, in blocks of 256, going on in strides of the grid where the elements
 * are more. Which thread an element falls to changes nothing in it. */
#ifndef LS_COMMON_KERNEL_CUDA_CUDA_GRID_CUH
#define LS_COMMON_KERNEL_CUDA_CUDA_GRID_CUH

#include <stdint.h>

enum { LS_CUDA_BLOCK = 256, LS_CUDA_BLOCKS_MOST = 1 << 16 };

static inline unsigned ls_cuda_blocks(int64_t elements)
{
    const int64_t blocks = (elements + LS_CUDA_BLOCK - 1) / LS_CUDA_BLOCK;
    const int64_t most = LS_CUDA_BLOCKS_MOST;
    return (unsigned)(blocks < most ? blocks : most);
}

static __device__ inline int64_t ls_cuda_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline int64_t ls_cuda_stride(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Has the driver load one kernel now. */
template <typename Kernel> static inline cudaError_t ls_cuda_load(Kernel *kernel)
{
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel);
}

#endif
