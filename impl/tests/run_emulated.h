/* SPDX-License-Identifier: MIT */
/* Runs with the cuda table on CPU devices, for tests: see kernel_emulated.h. */
#pragma once

#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/tests/kernel_emulated.h"

static ls_kernel_table table_emulated;

static ls_status open_table_emulated(ls_device *device, ls_kernels **out)
{
    fixture f = {.device = device};
    open_emulated(&f);
    ((cuda_kernels *)f.cpu)->window_bytes = LS_CUDA_WINDOW_BYTES;
    f.cpu->table = &table_emulated;
    *out = f.cpu;
    return LS_OK;
}

/* For a job's `table`. */
static const ls_kernel_table *emulated_table(void)
{
    table_emulated = ls_cuda_kernels;
    table_emulated.kind = LS_DEVICE_CPU;
    table_emulated.open = open_table_emulated;
    return &table_emulated;
}
