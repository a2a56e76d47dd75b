/* SPDX-License-Identifier: MIT */
/* The tests of test_kernels.c through kernel_staging.h, on the memory of another CPU device: that
 * the staging, which test_gpu_kernels stands on, is right. */
#define FIXTURE_OPEN  open_staged
#define FIXTURE_CLOSE close_staged
#include "common/kernel/tests/kernel_staging.h"

#include "common/kernel/tests/test_kernels.c"

static void open_staged(fixture *f)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1};
    ls_device *other;
    ls_queue *queue;
    ls_kernels *inner;
    must(ls_device_open(f->machine, &name, &policy, &other));
    must(ls_queue_open(other, "staging", &queue));
    must(ls_kernels_open(other, LS_MATH_FLOAT32, &inner));
    f->cpu = staging_open(inner, queue);
}

static void close_staged(fixture *f)
{
    staging_close(f->cpu);
}
