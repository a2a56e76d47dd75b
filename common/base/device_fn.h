/* SPDX-License-Identifier: MIT */
/*
 * Functions that GPU kernels share with the host: small, inline, and without anything that only one
 * of the two has, so that a test on a CPU runs the arithmetic of a GPU.
 */
#pragma once

#ifdef __CUDACC__
#define LS_DEVICE_FN static inline __host__ __device__
#else
#define LS_DEVICE_FN static inline
#endif
