/* SPDX-License-Identifier: MIT */
/*
 * What the vector loops share: `vec`, a vector of the instruction set, with LS_VEC floats (16, 8 or
 * 4), and `lanes`, 16 floats in as many of them as it takes.
 *
 * Loops whose lanes do not meet (channels, outputs, hidden units) go on by LS_VEC; only sums across
 * lanes are `lanes`, so that element i is added in lane i % 16 on every processor. What compilers
 * lower badly (comparisons, masks, conversions) is by intrinsics. Loops over independent elements
 * are left to the compiler's vectoriser.
 */
#pragma once

#include "common/kernel/cpu/vector.h"
#include "common/kernel/cpu/vector_blocks.h"
#include "common/kernel/element_inline.h"

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(LS_VECTOR_NEON)
#include <arm_neon.h>
#else
#include <math.h>
#endif

/* Wide values are passed between inlined functions only: there is no ABI to differ. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LS_ALWAYS static inline __attribute__((always_inline))
enum { LS_LANES = 16, LS_PARTS = LS_LANES / LS_VEC };

typedef float vec __attribute__((vector_size(4 * LS_VEC)));
typedef float vec_load __attribute__((vector_size(4 * LS_VEC), aligned(4), may_alias));
typedef int32_t vec_int __attribute__((vector_size(4 * LS_VEC)));
typedef int32_t vec_int_load __attribute__((vector_size(4 * LS_VEC), aligned(4), may_alias));
/* Doubles: of a vec's first half, and of its second. */
typedef double half_wide __attribute__((vector_size(4 * LS_VEC)));
typedef struct vec_wide {
    half_wide low, high;
} vec_wide;

/* Sixteen floats, and sixteen doubles; element i of an array belongs to lane i % 16. */
typedef struct lanes {
    vec part[LS_PARTS];
} lanes;
typedef struct lanes_wide {
    vec_wide part[LS_PARTS];
} lanes_wide;

/* Elements of two vectors, numbered 0 to 2 LS_VEC - 1, by constant numbers. */
#define LS_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* The iterations of the next loop are independent, even if its arrays are the same. */
#if defined(__clang__)
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* LS_WRITE_OUT unrolls the next loop, of a constant number of iterations, so that the arrays that
 * it indexes are in registers. LS_AS_LOOP leaves it a loop: its arrays are too large for that. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_WRITE_OUT
#define LS_AS_LOOP
#elif defined(__clang__)
#define LS_WRITE_OUT _Pragma("clang loop unroll(full)")
#define LS_AS_LOOP   _Pragma("clang loop unroll(disable)")
#else
#define LS_WRITE_OUT _Pragma("GCC unroll 64")
#define LS_AS_LOOP   _Pragma("GCC unroll 1")
#endif

/* ---- One vector ----------------------------------------------------------------------------- */

LS_ALWAYS vec vec_get(const float *from)
{
    return *(const vec_load *)from;
}

LS_ALWAYS void vec_put(float *to, vec value)
{
    *(vec_load *)to = value;
}

LS_ALWAYS void vec_put_int(int32_t *to, vec_int value)
{
    *(vec_int_load *)to = value;
}

LS_ALWAYS vec_int vec_all_int(int32_t x)
{
    return x - (vec_int){0};
}

/* The first `count` elements, fewer than LS_VEC; the others are `rest`. */
LS_ALWAYS vec vec_get_some(const float *from, int64_t count, float rest)
{
    float some[LS_VEC];
    for (int i = 0; i < LS_VEC; i++)
        some[i] = rest;
    for (int64_t i = 0; i < count; i++)
        some[i] = from[i];
    return vec_get(some);
}

/* Loads up to a vector of `count` (at least one) elements; the rest of the vector is 0. */
LS_ALWAYS vec vec_get_part(const float *from, int64_t count)
{
    return count >= LS_VEC ? vec_get(from) : vec_get_some(from, count, 0);
}

LS_ALWAYS void vec_put_part(float *to, vec value, int64_t count)
{
    if (count >= LS_VEC)
        vec_put(to, value);
    else
        memcpy(to, &value, (size_t)count * sizeof *to);
}

/*
 * vec_all: a number in each element.
 * vec_fma: a b + c, rounded once on every processor. LS_FUSED: there is an instruction for it;
 * without, it is slow, but has the same bits.
 * vec_where: which elements; vec_greater: where a > b; vec_choose: a there, b elsewhere.
 * vec_positive: max(x, 0), 0 for NaN.
 * vec_widen: as doubles.
 * vec_fold: the sum of its elements by halves: of 16, i and i + 8, then i + 4, i + 2, i + 1;
 * vec_largest: the largest of them.
 */
#if defined(__AVX2__)
LS_ALWAYS float fold_four(__m128 x)
{
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

LS_ALWAYS float fold_eight(__m256 x)
{
    return fold_four(_mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}

LS_ALWAYS float largest_of_eight(__m256 x)
{
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}
#endif

#if defined(__AVX512F__)
enum { LS_FUSED = 1 };
typedef __mmask16 vec_where;

LS_ALWAYS vec vec_all(float x)
{
    return (vec)_mm512_set1_ps(x);
}

LS_ALWAYS vec vec_fma(vec a, vec b, vec c)
{
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

LS_ALWAYS vec_where vec_greater(vec a, vec b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}

LS_ALWAYS vec vec_choose(vec_where where, vec a, vec b)
{
    return (vec)_mm512_mask_blend_ps(where, (__m512)b, (__m512)a);
}

LS_ALWAYS vec_int vec_choose_int(vec_where where, vec_int a, vec_int b)
{
    return (vec_int)_mm512_mask_blend_epi32(where, (__m512i)b, (__m512i)a);
}

LS_ALWAYS vec vec_positive(vec x)
{
    return (vec)_mm512_max_ps((__m512)x, _mm512_setzero_ps()); /* the second if one is NaN */
}

LS_ALWAYS vec_wide vec_widen(vec x)
{
    return (vec_wide){
        (half_wide)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)),
        (half_wide)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)),
    };
}

LS_ALWAYS float vec_fold(vec x)
{
    return fold_eight(
        _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1)));
}

LS_ALWAYS float vec_largest(vec x)
{
    return largest_of_eight(
        _mm256_max_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1)));
}
#elif defined(__AVX2__)
enum { LS_FUSED = 1 };
typedef vec vec_where; /* all bits set, or none */

LS_ALWAYS vec vec_all(float x)
{
    return (vec)_mm256_set1_ps(x);
}

LS_ALWAYS vec vec_fma(vec a, vec b, vec c)
{
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

LS_ALWAYS vec_where vec_greater(vec a, vec b)
{
    return (vec)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ);
}

LS_ALWAYS vec vec_choose(vec_where where, vec a, vec b)
{
    return (vec)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)where);
}

LS_ALWAYS vec_int vec_choose_int(vec_where where, vec_int a, vec_int b)
{
    return (vec_int)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)where);
}

LS_ALWAYS vec vec_positive(vec x)
{
    return (vec)_mm256_max_ps((__m256)x, _mm256_setzero_ps());
}

LS_ALWAYS vec_wide vec_widen(vec x)
{
    return (vec_wide){
        (half_wide)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)),
        (half_wide)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)),
    };
}

LS_ALWAYS float vec_fold(vec x)
{
    return fold_eight((__m256)x);
}

LS_ALWAYS float vec_largest(vec x)
{
    return largest_of_eight((__m256)x);
}
#else
#if defined(LS_VECTOR_NEON)
enum { LS_FUSED = 1 };

LS_ALWAYS vec vec_fma(vec a, vec b, vec c)
{
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#elif defined(__SSE2__)
enum { LS_FUSED = 0 };

/* p + c, rounded to odd: if it is inexact, its last bit is set. Then rounding it to float gives
 * what one rounding of the exact sum would have: S. Boldo, G. Melquiond,
 * https://doi.org/10.1109/TC.2007.70819. `error` is exact (Knuth). */
LS_ALWAYS __m128d odd_sum(__m128d p, __m128d c)
{
    const __m128d sum = _mm_add_pd(p, c), back = _mm_sub_pd(sum, p);
    const __m128d error = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(sum, back)), _mm_sub_pd(c, back));
    const __m128d way = _mm_mul_pd(error, sum), zero = _mm_setzero_pd(); /* positive if it is too
                                                                            small */
    const __m128i bits = _mm_castpd_si128(sum), one = _mm_set_epi32(0, 1, 0, 1);
    const __m128i even = _mm_andnot_si128(bits, one);
    const __m128i up = _mm_and_si128(even, _mm_castpd_si128(_mm_cmpgt_pd(way, zero)));
    const __m128i down = _mm_and_si128(even, _mm_castpd_si128(_mm_cmplt_pd(way, zero)));
    return _mm_castsi128_pd(_mm_sub_epi64(_mm_add_epi64(bits, up), down));
}

/* The product of two floats is exact in double. */
LS_ALWAYS vec vec_fma(vec a, vec b, vec c)
{
    const __m128 high_a = _mm_movehl_ps((__m128)a, (__m128)a);
    const __m128 high_b = _mm_movehl_ps((__m128)b, (__m128)b);
    const __m128 high_c = _mm_movehl_ps((__m128)c, (__m128)c);
    const __m128d low = odd_sum(_mm_mul_pd(_mm_cvtps_pd((__m128)a), _mm_cvtps_pd((__m128)b)),
                                _mm_cvtps_pd((__m128)c));
    const __m128d high =
        odd_sum(_mm_mul_pd(_mm_cvtps_pd(high_a), _mm_cvtps_pd(high_b)), _mm_cvtps_pd(high_c));
    return (vec)_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
#else
enum { LS_FUSED = 0 };

static __attribute__((noinline)) vec vec_fma(vec a, vec b, vec c)
{
    for (int i = 0; i < LS_VEC; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
#endif
typedef vec_int vec_where; /* all bits set, or none */

LS_ALWAYS vec vec_all(float x)
{
    return (vec){x, x, x, x};
}

LS_ALWAYS vec_where vec_greater(vec a, vec b)
{
    return a > b;
}

LS_ALWAYS vec_int vec_choose_int(vec_where where, vec_int a, vec_int b)
{
    return (where & a) | (~where & b);
}

LS_ALWAYS vec vec_choose(vec_where where, vec a, vec b)
{
    return (vec)vec_choose_int(where, (vec_int)a, (vec_int)b);
}

LS_ALWAYS vec vec_positive(vec x)
{
    return (vec)((x > 0) & (vec_int)x);
}

LS_ALWAYS vec_wide vec_widen(vec x)
{
    return (vec_wide){{(double)x[0], (double)x[1]}, {(double)x[2], (double)x[3]}};
}

LS_ALWAYS float vec_fold(vec x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

LS_ALWAYS float vec_largest(vec x)
{
    const float even = x[0] > x[2] ? x[0] : x[2], odd = x[1] > x[3] ? x[1] : x[3];
    return even > odd ? even : odd;
}
#endif

/* value > 0 ? chosen : 0 */
LS_ALWAYS vec vec_where_positive(vec value, vec chosen)
{
    return vec_choose(vec_greater(value, (vec){0}), chosen, (vec){0});
}

/* ---- Sixteen lanes -------------------------------------------------------------------------- */

LS_ALWAYS lanes lanes_get(const float *from)
{
    lanes value;
    LS_WRITE_OUT
    for (int p = 0; p < LS_PARTS; p++)
        value.part[p] = vec_get(from + p * LS_VEC);
    return value;
}

LS_ALWAYS void lanes_put(float *to, const lanes *value)
{
    LS_WRITE_OUT
    for (int p = 0; p < LS_PARTS; p++)
        vec_put(to + p * LS_VEC, value->part[p]);
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

LS_ALWAYS void lanes_add(lanes *sum, const lanes *value)
{
    LS_WRITE_OUT
    for (int p = 0; p < LS_PARTS; p++)
        sum->part[p] += value->part[p];
}

/* sum += value^2 in double. */
LS_ALWAYS void lanes_add_square(lanes_wide *sum, const lanes *value)
{
    LS_WRITE_OUT
    for (int p = 0; p < LS_PARTS; p++) {
        const vec_wide wide = vec_widen(value->part[p]);
        sum->part[p].low += wide.low * wide.low;
        sum->part[p].high += wide.high * wide.high;
    }
}

/* most = value where that is greater. */
LS_ALWAYS void lanes_max(lanes *most, const lanes *value)
{
    LS_WRITE_OUT
    for (int p = 0; p < LS_PARTS; p++)
        most->part[p] =
            vec_choose(vec_greater(value->part[p], most->part[p]), value->part[p], most->part[p]);
}

/* Sums the lanes by halves: i and i + 8, then i + 4, i + 2, i + 1. */
static inline float lanes_sum(const lanes *value)
{
    vec part[LS_PARTS];
    memcpy(part, value, sizeof part);
    LS_WRITE_OUT
    for (int half = LS_PARTS / 2; half; half /= 2) {
        LS_WRITE_OUT
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    }
    return vec_fold(part[0]);
}

static inline float lanes_largest(const lanes *value)
{
    vec most = value->part[0];
    LS_WRITE_OUT
    for (int p = 1; p < LS_PARTS; p++)
        most = vec_choose(vec_greater(value->part[p], most), value->part[p], most);
    return vec_largest(most);
}

static inline double lanes_sum_wide(const lanes_wide *value)
{
    double part[LS_LANES];
    memcpy(part, value, sizeof part);
    LS_WRITE_OUT
    for (int half = LS_LANES / 2; half; half /= 2) {
        LS_WRITE_OUT
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    }
    return part[0];
}
