/* SPDX-License-Identifier: MIT */
/* The default table of gpu:0 behind kernel_staging.h, for tests; convolutions are its own products
 * unless GPU_CONVOLUTION is defined. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/kernel_staging.h"

#ifndef GPU_CONVOLUTION
#define GPU_CONVOLUTION LS_CONVOLUTION_OWN
#endif

static void open_gpu(fixture *f)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .logical = -1};
    ls_device *gpu;
    ls_queue *queue;
    ls_kernels *inner;
    must(ls_device_open(f->machine, &name, &policy, &gpu));
    must(ls_queue_open(gpu, "staging", &queue));
    must(ls_kernels_open(gpu, LS_MATH_FLOAT32, &inner));
    inner->convolution = GPU_CONVOLUTION;
    print_message("%s\n", inner->table->library(inner));
    f->cpu = staging_open(inner, queue);
}

static void close_gpu(fixture *f)
{
    staging_close(f->cpu);
}

/* Whether there is a GPU; prints it if there is none. */
static bool gpu_here(void)
{
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    const int gpus = ls_machine_count(machine, LS_DEVICE_GPU);
    ls_machine_close(machine);
    if (!gpus)
        print_message("no GPU here\n");
    return gpus > 0;
}
