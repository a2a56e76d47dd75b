/* SPDX-License-Identifier: MIT */
/* The cuda table on a CPU device, for tests: see test_kernels_emulated.c. Convolutions are its own
 * products unless EMULATED_CONVOLUTION is defined. */
#pragma once

#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/kernel_tables.h"
#include "common/kernel/cuda/tests/blas_emulate.h"
#include "common/kernel/tests/kernel_fixture.h"

/* The fault of the current queue; the linker replaces the CUDA queues' by it. */
static unsigned fault;
unsigned *__wrap_ls_cuda_queue_fault(const ls_queue *queue);
unsigned *__wrap_ls_cuda_queue_fault(const ls_queue *queue)
{
    (void)queue;
    return &fault;
}

/* No stream here is behind. */
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

#ifndef EMULATED_CONVOLUTION
#define EMULATED_CONVOLUTION LS_CONVOLUTION_OWN
#endif

static void open_emulated(fixture *f)
{
    cuda_kernels *kernels = calloc(1, sizeof *kernels);
    kernels->base = (ls_kernels){.table = &ls_cuda_kernels,
                                 .device = f->device,
                                 .scratch.device = f->device,
                                 .multiplies_bf16 = true,
                                 .attends_bf16 = LS_GPU_ATTENTION_STORED};
    kernels->base.convolution = EMULATED_CONVOLUTION;
    kernels->window_bytes = 1024; /* a few images at a time, so that there are parts */
    kernels->blas.call = blas_emulated;
    must(ls_cuda_load_own("emulated"));
    must(ls_blas_open(&kernels->blas));
    f->cpu = &kernels->base;
}

static void close_emulated(fixture *f)
{
    f->cpu->table->close(f->cpu);
}
