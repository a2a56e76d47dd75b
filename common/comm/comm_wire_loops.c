/* SPDX-License-Identifier: MIT */
/*
 * Rounding for a wire, compiled for each instruction set as sums are (comm_loops.c); elementwise
 * and not contracted, so all variants give the same bits. Maxima compare bits as integers, so that
 * the compiler can vectorize their loops. A Xeon's core with AVX-512 packs at 0.6 and unpacks at
 * 1.1 of the rate at which memcpy copies as many floats, in either form (without AVX2: at 0.4 and
 * 1.1).
 */
#include "common/comm/comm_wire_loops.h"

#include "common/base/bf16_inline.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROW = 512 }; /* elements taken at a time from bf16, which has no rows */

#define ALWAYS static inline __attribute__((always_inline))

static const uint32_t magnitude = 0x7fffffff, infinite = 0x7f800000;

ALWAYS uint32_t size_of(float x)
{
    return ls_bits_of_float(x) & magnitude;
}

ALWAYS void raise_error(float *error, uint32_t largest)
{
    *error = ls_float_of_bits(largest) > *error ? ls_float_of_bits(largest) : *error;
}

/* Errors are compared by their bits minus infinity's bits, so that the largest one is finite. */
ALWAYS void pack_bf16(const float *restrict x, size_t count, uint16_t *restrict out, float *error)
{
    uint32_t largest = 0 - infinite;
    for (size_t i = 0; i < count && !error; i++)
        out[i] = ls_bf16_of_float(x[i]);
    for (size_t i = 0; i < count && error; i++) {
        out[i] = ls_bf16_of_float(x[i]);
        const float off = ls_float_of_bits(size_of(ls_float_of_bf16(out[i]) - x[i]));
        const uint32_t excess = ls_bits_of_float(off / ls_float_of_bits(size_of(x[i]))) - infinite;
        largest = excess > largest ? excess : largest;
    }
    if (error)
        raise_error(error, largest + infinite);
}

ALWAYS void unpack_bf16(const uint16_t *restrict in, size_t count, bool add, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = add ? y[i] + ls_float_of_bf16(in[i]) : ls_float_of_bf16(in[i]);
}

/* A row's scale; NaN if a value is not finite. */
ALWAYS float scale_of(const float *x, size_t count)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = size_of(x[i]) > largest ? size_of(x[i]) : largest;
    return largest < infinite ? ls_float_of_bits(largest) / 127 : NAN;
}

ALWAYS void pack_row(const float *restrict x, size_t count, float *restrict scale,
                     int8_t *restrict out, float *error)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: sums with it are rounded to whole numbers */
    const float by = scale_of(x, count);
    uint32_t largest = 0;
    *scale = by;
    if (!(by > 0)) {
        memset(out, 0, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float quotient = x[i] / by, q = (quotient + shift) - shift;
        const uint32_t off = size_of(q - quotient);
        out[i] = (int8_t)(int32_t)q;
        largest = off > largest ? off : largest;
    }
    raise_error(error, largest);
}

ALWAYS void unpack_row(const int8_t *restrict in, float scale, size_t count, bool add,
                       float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        const float value = (float)in[i] * scale;
        y[i] = add ? y[i] + value : value;
    }
}

/* One row: `row` elements from `first` on, number r. */
ALWAYS void do_row(const ls_wire_work *w, size_t r, size_t first, size_t count)
{
    const size_t scales = w->rows.rows * sizeof(float);
    const bool narrow = w->rows.wire == LS_WIRE_INT8;
    float *const y = w->values + first;
    for (int d = 0; d < w->ranks; d++) {
        const void *block = w->in[d];
        if (narrow)
            unpack_row((const int8_t *)block + scales + first, ((const float *)block)[r], count,
                       d > 0, y);
        else
            unpack_bf16((const uint16_t *)block + first, count, d > 0, y);
    }
    if (w->mean && w->ranks > 1)
        for (size_t i = 0; i < count; i++)
            y[i] = y[i] / (float)w->ranks;
    void *const block = w->out;
    if (block && narrow)
        pack_row(y, count, (float *)block + r, (int8_t *)block + scales + first, w->error);
    else if (block)
        pack_bf16(y, count, (uint16_t *)block + first, w->error);
}

ALWAYS void do_rows(const ls_wire_work *w)
{
    const size_t *begin = w->rows.begin;
    for (size_t r = 0; r < w->rows.rows; r++)
        do_row(w, r, begin[r] - begin[0], begin[r + 1] - begin[r]);
    for (size_t at = 0; w->rows.wire != LS_WIRE_INT8 && at < w->rows.count; at += ROW)
        do_row(w, 0, at, w->rows.count - at < ROW ? w->rows.count - at : ROW);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void rows_avx2(const ls_wire_work *work)
{
    do_rows(work);
}

__attribute__((target("avx512f"))) static void rows_avx512(const ls_wire_work *work)
{
    do_rows(work);
}
#endif

void ls_wire_loop(const ls_wire_work *work)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        rows_avx512(work);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        rows_avx2(work);
        return;
    }
#endif
    do_rows(work);
}
