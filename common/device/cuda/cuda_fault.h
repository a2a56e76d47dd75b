/* SPDX-License-Identifier: MIT */
/* Faults: what a kernel, which cannot return a status, leaves in its queue's pinned memory. */
#ifndef LS_COMMON_DEVICE_CUDA_CUDA_FAULT_H
#define LS_COMMON_DEVICE_CUDA_CUDA_FAULT_H

typedef enum ls_cuda_fault {
    LS_CUDA_FAULT_NONE,
    LS_CUDA_FAULT_LABEL /* a label is no class */
} ls_cuda_fault;

#endif
