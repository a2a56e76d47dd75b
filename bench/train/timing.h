/* SPDX-License-Identifier: MIT */
/*
 * Timing of single operations: repetitions run from one program on a device's queue, between marks
 * of the device's own clock, so that neither the host nor its calls are in the figure.
 */
#pragma once

#include "bench/statistics/statistics.h"
#include "common/kernel/kernel.h"

/** A device's queue and kernels with a clock cell, for timing. */
typedef struct ls_bench {
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
    uint64_t *stamps; /**< [2], device memory */
    ls_op *stamp[2];
    int copies; /**< of what is timed in a program */
} ls_bench;

/** `math`: of the kernels. */
ls_status ls_bench_open(ls_device *device, ls_math math, ls_bench *out);
void ls_bench_close(ls_bench *bench);

/**
 * Times `count` operations, one after the other, as one piece: `rounds` samples, each of as many
 * pieces as last at least 200 us, on a GPU 2 ms. Nanoseconds per piece. Warm-up comes first. On a
 * GPU the program holds a short piece many times over, so that launching a program is not in the
 * figure.
 */
ls_status ls_bench_time(ls_bench *bench, ls_op *const *ops, size_t count, int rounds,
                        ls_statistics *out);

/** Device memory of `count` floats, filled with small values that differ (no denormals). */
ls_status ls_bench_floats(ls_bench *bench, size_t count, float **out);
