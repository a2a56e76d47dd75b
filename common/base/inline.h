/* SPDX-License-Identifier: MIT */
/* What a function needs that processors and GPUs compile from the same text. */
#ifndef LS_COMMON_BASE_INLINE_H
#define LS_COMMON_BASE_INLINE_H

#ifdef __CUDACC__
#define LS_INLINE static __host__ __device__ inline
#else
#define LS_INLINE static inline
#endif

#endif
