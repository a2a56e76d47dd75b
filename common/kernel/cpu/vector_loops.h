/* SPDX-License-Identifier: MIT */
/*
 * What the vector loops share: 16 lanes of float or double as one value, their loads, and sums.
 *
 * The compiler splits such a value over the vectors that the processor has. Loops over independent
 * elements are left to the compiler's vectoriser.
 */
#ifndef LS_COMMON_KERNEL_CPU_VECTOR_LOOPS_H
#define LS_COMMON_KERNEL_CPU_VECTOR_LOOPS_H

#include "common/kernel/cpu/vector.h"
#include "common/kernel/element_inline.h"

#include <stdint.h>
#include <string.h>

/* Wide values are passed between inlined functions only: there is no ABI to differ. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LS_LANES 16
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

/* The iterations of the next loop are independent though its arrays may be the same. */
#if defined(__clang__)
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline __attribute__((always_inline)) lanes lanes_get(const float *from)
{
    return *(const lanes_load *)from;
}

static inline __attribute__((always_inline)) void lanes_put(float *to, const lanes *value)
{
    *(lanes_load *)to = *value;
}

/* `count` below 16 elements; the other lanes are `rest`. */
static inline __attribute__((always_inline)) lanes lanes_get_some(const float *from, int64_t count,
                                                                  float rest)
{
    float some[LS_LANES];
    for (int i = 0; i < LS_LANES; i++)
        some[i] = rest;
    for (int64_t i = 0; i < count; i++)
        some[i] = from[i];
    return lanes_get(some);
}

/* most = value where it is greater. */
static inline __attribute__((always_inline)) void lanes_max(lanes *most, const lanes *value)
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

#endif
