/* SPDX-License-Identifier: MIT */
/*
 * What the vector loops share: 16 lanes of float or double as one value, their loads, and sums.
 *
 * The compiler splits such a value over the vectors that the processor has. Loops over independent
 * elements are left to the compiler's vectoriser.
 */
#pragma once

#include "common/kernel/cpu/vector.h"
#include "common/kernel/element_inline.h"

#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(LS_VECTOR_NEON)
#include <arm_neon.h>
#else
#include <math.h>
#endif

/* Wide values are passed between inlined functions only: there is no ABI to differ. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LS_ALWAYS static inline __attribute__((always_inline))
#define LS_LANES  16
typedef float lanes __attribute__((vector_size(64)));
typedef float lanes_load __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t lanes_mask __attribute__((vector_size(64)));
typedef double wide_lanes __attribute__((vector_size(128)));

/* Lanes of two values, numbered 0 to 31, by constant numbers. */
#if defined(__clang__) || __GNUC__ >= 12
#define LS_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LS_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (lanes_mask){__VA_ARGS__})
#endif

/* The iterations of the next loop are independent, even if its arrays are the same. */
#if defined(__clang__)
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Unrolls the next loop, of a constant number of iterations, so that the arrays that it indexes are
 * in registers if there are enough. */
#if !defined(__AVX512F__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_WRITE_OUT
#elif defined(__clang__)
#define LS_WRITE_OUT _Pragma("clang loop unroll(full)")
#else
#define LS_WRITE_OUT _Pragma("GCC unroll 64")
#endif

LS_ALWAYS lanes lanes_get(const float *from)
{
    return *(const lanes_load *)from;
}

LS_ALWAYS void lanes_put(float *to, const lanes *value)
{
    *(lanes_load *)to = *value;
}

/* A number in each lane. */
LS_ALWAYS lanes lanes_all(float x)
{
    return (lanes){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

/* a b + c, rounded once on every processor. One without such an instruction is slow (the C library
 * computes it), but has the same bits. */
#if defined(__AVX512F__)
LS_ALWAYS lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif defined(__FMA__)
LS_ALWAYS lanes lanes_fma(lanes a, lanes b, lanes c)
{
    lanes sum;
    __m256 part[3][2];
    memcpy(part[0], &a, sizeof a);
    memcpy(part[1], &b, sizeof b);
    memcpy(part[2], &c, sizeof c);
    for (int i = 0; i < 2; i++)
        part[0][i] = _mm256_fmadd_ps(part[0][i], part[1][i], part[2][i]);
    memcpy(&sum, part[0], sizeof sum);
    return sum;
}
#elif defined(LS_VECTOR_NEON)
LS_ALWAYS lanes lanes_fma(lanes a, lanes b, lanes c)
{
    lanes sum;
    float32x4_t part[3][4];
    memcpy(part[0], &a, sizeof a);
    memcpy(part[1], &b, sizeof b);
    memcpy(part[2], &c, sizeof c);
    for (int i = 0; i < 4; i++)
        part[0][i] = vfmaq_f32(part[2][i], part[0][i], part[1][i]);
    memcpy(&sum, part[0], sizeof sum);
    return sum;
}
#else
static __attribute__((noinline)) lanes lanes_fma(lanes a, lanes b, lanes c)
{
    for (int i = 0; i < LS_LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
#endif

/* max(x, 0). */
LS_ALWAYS lanes lanes_positive(lanes x)
{
    return (lanes)((x > 0) & (lanes_mask)x);
}

/* Loads `count` elements, fewer than 16; the other lanes are `rest`. */
LS_ALWAYS lanes lanes_get_some(const float *from, int64_t count, float rest)
{
    float some[LS_LANES];
    for (int i = 0; i < LS_LANES; i++)
        some[i] = rest;
    for (int64_t i = 0; i < count; i++)
        some[i] = from[i];
    return lanes_get(some);
}

/* most = value if that is greater. */
LS_ALWAYS void lanes_max(lanes *most, const lanes *value)
{
    lanes_mask greater = *value > *most;
    *most = (lanes)((greater & (lanes_mask)*value) | (~greater & (lanes_mask)*most));
}

/* Sums the lanes by halves: i and i + 8, then i + 4, i + 2, i + 1. */
static inline float lanes_sum(const lanes *value)
{
    float part[LS_LANES];
    lanes_put(part, value);
    for (int half = LS_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

static inline double wide_sum(const wide_lanes *value)
{
    double part[LS_LANES];
    memcpy(part, value, sizeof part);
    for (int half = LS_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}
