/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the kernel tables: a device, the tables, and test data. The table under
 * test is `cpu` of the fixture. A file that defines FIXTURE_OPEN before it includes this one
 * replaces it by another table, which works on host memory, too.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/base/tests/must.h"
#include "common/kernel/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    ls_machine *machine;
    ls_device *device;
    ls_queue *queue;
    ls_kernels *reference, *cpu;
    void *more; /* FIXTURE_OPEN's */
} fixture;

#ifdef FIXTURE_OPEN
static void FIXTURE_OPEN(fixture *f); /* sets f->cpu */
static void FIXTURE_CLOSE(fixture *f);
#else
static inline void fixture_open_table(fixture *f)
{
    const ls_kernel_table *cpu;
    must(ls_kernel_table_find("cpu", &cpu));
    must(cpu->open(f->device, &f->cpu));
}

static inline void fixture_close_table(fixture *f)
{
    f->cpu->table->close(f->cpu);
}
#define FIXTURE_OPEN  fixture_open_table
#define FIXTURE_CLOSE fixture_close_table
#endif

/* A device of `cores` cores, which the machine must have. */
static inline void fixture_open(fixture *f, int cores)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1};
    const ls_kernel_table *reference;
    must(ls_machine_open(&(ls_machine_options){.cores_per_device = cores}, &f->machine));
    must(ls_device_open(f->machine, &name, &policy, &f->device));
    must(ls_queue_open(f->device, "test", &f->queue));
    must(ls_kernel_table_find("reference", &reference));
    must(reference->open(f->device, &f->reference));
    FIXTURE_OPEN(f);
}

static inline void fixture_close(fixture *f)
{
    f->reference->table->close(f->reference);
    FIXTURE_CLOSE(f);
    ls_queue_close(f->queue);
    ls_device_close(f->device);
    ls_machine_close(f->machine);
}

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    fixture_open(f, 1);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

/* Runs the op once and frees it. */
static inline void run(fixture *f, ls_op *op)
{
    must(ls_queue_enqueue(f->queue, op));
    must(ls_queue_sync(f->queue));
    ls_op_free(op);
}

/* apply_gemm, ...: makes the operation of a table's entry, runs it once and frees it. */
#define APPLY(entry, args)                                                                         \
    static inline void apply_##entry(fixture *f, ls_kernels *kernels, const args *arguments)       \
    {                                                                                              \
        ls_op *op;                                                                                 \
        must(kernels->table->entry(kernels, arguments, &op));                                      \
        run(f, op);                                                                                \
    }
LS_KERNEL_ENTRIES(APPLY)
#undef APPLY

/* A deterministic number in [-1, 1) with 24 bits. */
static inline float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)(*seed & 0xFFFFFF00u) * 0x1p-31f;
}

/* `count` random numbers; one element more than asked for, so that 0 gives memory, too. */
static inline float *randoms(int64_t count, uint32_t seed)
{
    float *data = malloc(((size_t)count + 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i <= count; i++)
        data[i] = noise(&seed);
    return data;
}

/* As above, rounded. */
static inline uint16_t *random_bf16(int64_t count, uint32_t seed)
{
    float *x = randoms(count, seed);
    uint16_t *y = calloc((size_t)count + 1, sizeof *y);
    assert_non_null(y);
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_bf16_of_float(x[i]);
    free(x);
    return y;
}

static inline float *absolutes(const float *data, int64_t count)
{
    float *result = malloc(((size_t)count + 1) * sizeof *result);
    assert_non_null(result);
    for (int64_t i = 0; i < count; i++)
        result[i] = fabsf(data[i]);
    return result;
}

/* got = want within limit[i] * factor (limit NULL: factor alone). NaN is never equal. */
static inline void compare(const char *what, const float *got, const float *want,
                           const float *limit, double factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double bound = factor * (limit ? (double)limit[i] : 1);
        double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= bound))
            fail_msg("%s: element %lld of %lld is %.9g, not %.9g: off by %.3g, bound %.3g", what,
                     (long long)i, (long long)count, (double)got[i], (double)want[i], off, bound);
    }
}

static inline void same_bits(const char *what, const void *got, const void *want, size_t bytes)
{
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, bytes);
}
