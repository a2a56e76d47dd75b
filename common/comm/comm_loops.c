/* SPDX-License-Identifier: MIT */
/*
 * Summation loops, compiled for each instruction set and selected by what the processor supports.
 * They are elementwise and not contracted, so all variants give the same bits. A sum over many
 * ranks runs block by block, so that the accumulators stay in the first-level cache, and adds three
 * ranks per pass, which saves loads and stores (8 ranks: half the time of one rank per pass).
 * A slice may begin within a cache line: the first block is shorter and ends with a line, so that
 * no vector after it lies in two lines (two ranks, 200 KB of a core's each: 18 us, not 21).
 */
#include "common/comm/comm_loops.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024, LINE = 64 / sizeof(float) };

#define ALWAYS static inline __attribute__((always_inline))

/* Elements from the beginning of the cache line to `at`. */
ALWAYS size_t into_line(const float *at)
{
    return (uintptr_t)at / sizeof *at % LINE;
}

ALWAYS void add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = to[i] + from[i];
}

ALWAYS void sum_pair(float *restrict a, float *restrict b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

ALWAYS void add_three(float *restrict to, const float *restrict a, const float *restrict b,
                      const float *restrict c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = ((to[i] + a[i]) + b[i]) + c[i];
}

ALWAYS void sum_up(float *const *data, int ranks, int to, ls_range range)
{
    _Alignas(64) float sum[BLOCK];
    size_t most = BLOCK - into_line(data[0] + range.first);
    for (size_t done = 0, count; done < range.count; done += count, most = BLOCK) {
        size_t left = range.count - done, at = range.first + done;
        count = left < most ? left : most;
        if (ranks == 2 && to == LS_LOOP_ALL) {
            sum_pair(data[0] + at, data[1] + at, count);
            continue;
        }
        if (ranks == 2) {
            add(data[to] + at, data[1 - to] + at, count);
            continue;
        }
        memcpy(sum, data[0] + at, count * sizeof *sum);
        int r = 1;
        for (; r + 2 < ranks; r += 3)
            add_three(sum, data[r] + at, data[r + 1] + at, data[r + 2] + at, count);
        for (; r < ranks; r++)
            add(sum, data[r] + at, count);
        for (r = 0; r < ranks; r++)
            if (to == LS_LOOP_ALL || r == to)
                memcpy(data[r] + at, sum, count * sizeof *sum);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void add_avx2(float *to, const float *from, size_t count)
{
    add(to, from, count);
}

__attribute__((target("avx512f"))) static void add_avx512(float *to, const float *from,
                                                          size_t count)
{
    add(to, from, count);
}

__attribute__((target("avx2"))) static void sum_avx2(float *const *data, int ranks, int to,
                                                     ls_range range)
{
    sum_up(data, ranks, to, range);
}

__attribute__((target("avx512f"))) static void sum_avx512(float *const *data, int ranks, int to,
                                                          ls_range range)
{
    sum_up(data, ranks, to, range);
}
#endif

void ls_loop_add(float *to, const float *from, size_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        add_avx512(to, from, count);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        add_avx2(to, from, count);
        return;
    }
#endif
    add(to, from, count);
}

void ls_loop_sum(float *const *data, int ranks, int to, ls_range range)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        sum_avx512(data, ranks, to, range);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        sum_avx2(data, ranks, to, range);
        return;
    }
#endif
    sum_up(data, ranks, to, range);
}
