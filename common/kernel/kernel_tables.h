/* SPDX-License-Identifier: MIT */
/* The kernel tables, a folder each; kernel_tables.c lists them. */
#pragma once

#include "common/kernel/kernel.h"

extern const ls_kernel_table ls_reference_kernels, ls_reference64_kernels;
extern const ls_kernel_table ls_cpu_kernels;
extern const ls_kernel_table ls_cuda_kernels; /* if LS_HAS_CUDA */
