/* SPDX-License-Identifier: MIT */
/* Tables of another CPU device behind kernel_staging.h, for tests. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/kernel_staging.h"

static ls_kernels *stage_on_another(fixture *f, const ls_kernel_table *table)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1};
    ls_device *other;
    ls_queue *queue;
    ls_kernels *inner;
    must(ls_device_open(f->machine, &name, &policy, &other));
    must(ls_queue_open(other, "staging", &queue));
    must(ls_kernels_open_table(table, other, LS_MATH_FLOAT32, &inner));
    return staging_open(inner, queue);
}

#ifdef GUARDED
/* The reference, too: operations of both tables touch nothing but what they say. */
static void open_staged(fixture *f)
{
    const ls_kernel_table *reference = f->reference->table;
    reference->close(f->reference);
    f->reference = stage_on_another(f, reference);
    f->cpu = stage_on_another(f, NULL);
    staging_guard(f->reference);
    staging_guard(f->cpu);
}
#else
static void open_staged(fixture *f)
{
    f->cpu = stage_on_another(f, NULL);
}
#endif

static void close_staged(fixture *f)
{
    staging_close(f->cpu);
}
