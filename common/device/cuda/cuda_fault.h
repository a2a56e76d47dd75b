/* SPDX-License-Identifier: MIT */
/* Faults: what a kernel, which cannot return a status, leaves in its queue's pinned memory. */
#pragma once

typedef enum ls_cuda_fault {
    LS_CUDA_FAULT_NONE,
    LS_CUDA_FAULT_LABEL, /* a label is not a valid class */
    LS_CUDA_FAULT_TOKEN  /* a number is not a valid token */
} ls_cuda_fault;
