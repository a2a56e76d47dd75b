/* SPDX-License-Identifier: MIT */
/*
 * Timing of single operations: a program repeats them on a device's queue, between two readings of
 * the device's clock, so that the host is not in the figure.
 */
#pragma once

#include "bench/statistics/statistics.h"
#include "common/kernel/kernel.h"

enum { LS_BENCH_MEMORY = 8 };

/** A device's queue and kernels with a clock cell, for timing. */
typedef struct ls_bench {
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
    uint64_t *stamps; /**< [2], device memory */
    ls_op *stamp[2];
    void *memory[LS_BENCH_MEMORY]; /**< that the bench has given */
    size_t held;                   /**< how many there are */
    ls_program *program;           /**< that is timed */
    int copies;                    /**< of the timed operations in it */
} ls_bench;

/** `math`: of the kernels; `table`: NULL means the device's own. Close it also after a failure; a
 * zero-filled one is closed. */
ls_status ls_bench_open(ls_device *device, ls_math math, const ls_kernel_table *table,
                        ls_bench *out);
void ls_bench_close(ls_bench *bench);

/**
 * Times a sequence of `count` operations: `rounds` samples, each of as many repetitions as last at
 * least 200 us, on a GPU 2 ms, after a warm-up. *out is in nanoseconds per repetition. On a GPU the
 * program holds many repetitions of a short sequence, so that launches are not in the figure.
 */
ls_status ls_bench_time(ls_bench *bench, ls_op *const *ops, size_t count, int rounds,
                        ls_statistics *out);

/** As above: `time` finds for how many ns so many replays last, of `each` repetitions; a sample is
 * at least `shortest` ns. */
ls_status ls_bench_sample(ls_status (*time)(void *context, uint64_t replays, double *ns),
                          void *context, double shortest, int each, int rounds, ls_statistics *out);

/** As ls_bench_time, for an operation that was just made, if `made` is a success; frees it. */
ls_status ls_bench_time_made(ls_bench *bench, ls_status made, ls_op **op, int rounds,
                             ls_statistics *out);

/** Device memory, freed by ls_bench_release, which frees all, or when the bench is closed. */
ls_status ls_bench_take(ls_bench *bench, size_t bytes, void **out);
void ls_bench_release(ls_bench *bench);

/** As above, `count` floats, filled with small values that differ (no denormals). */
ls_status ls_bench_floats(ls_bench *bench, size_t count, float **out);
