/* SPDX-License-Identifier: MIT */
/* The CUDA table; not yet run on a GPU. */
#ifndef LS_COMMON_KERNEL_CUDA_CUDA_TABLE_H
#define LS_COMMON_KERNEL_CUDA_CUDA_TABLE_H

#include "common/kernel/kernel.h"

/** Where LS_HAS_CUDA. */
extern const ls_kernel_table ls_cuda_kernels;

#endif
