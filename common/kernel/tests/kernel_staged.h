/* SPDX-License-Identifier: MIT */
/* The default table of another CPU device behind kernel_staging.h, for tests. */
#ifndef LS_COMMON_KERNEL_TESTS_KERNEL_STAGED_H
#define LS_COMMON_KERNEL_TESTS_KERNEL_STAGED_H

#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/kernel_staging.h"

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

#endif
