/* SPDX-License-Identifier: MIT */
/*
 * The functions of an LSTM's cell, for its recurrence on a GPU. In the functions of
 * element_inline.h more operations wait for the one before: they were a third of a step. The ones
 * here take 20 and have no branch: products and sums are fused, polynomials evaluated in pairs of
 * terms, and the division is a polynomial and a step of iteration.
 */
#pragma once

#include "common/kernel/element_inline.h"

/* e^x for x from -87 to 0, of lower x e^-87, of NaN NaN: within 2 ulp. */
__device__ static inline float cell_exp(float x)
{
    const float shift = 12582912.0f, ln2_head = 0.693359375f;
    const float ln2_rest = (float)(0.693147180559945309417 - 0.693359375);
    const float low = x < -87.0f ? -87.0f : x;
    const float shifted = fmaf(low, 1.44269504f, shift), n = shifted - shift;
    const float r = fmaf(n, -ln2_rest, fmaf(n, -ln2_head, low)), q = r * r;
    const float first = fmaf(q, fmaf(r, 1.0f / 6, 0.5f), 1.0f + r);
    const float rest = fmaf(q, fmaf(r, 1.0f / 5040, 1.0f / 720), fmaf(r, 1.0f / 120, 1.0f / 24));
    return fmaf(q * q, rest, first) *
           ls_float_of_bits((ls_bits_of_float(shifted) << 23) + 0x3F800000u);
}

/*
 * 1 / (1 + e) for e from 0 to 1, within 2 ulp. The start r is the cubic of least relative error in
 * d = 1 + e: r d = 1 - T4(2d - 3) / 577, T4 Chebyshev's polynomial, T4(3) = 577. With what is left,
 * a = 1 - r d, of at most 1/577, r (1 + a + a^2) is off by a^3.
 */
__device__ static inline float cell_inverse(float e)
{
    const float d = 1.0f + e, start = fmaf(e, -544.0f / 577, 576.0f / 577);
    const float r = fmaf(e * e, fmaf(e, -128.0f / 577, 384.0f / 577), start);
    const float a = fmaf(-d, r, 1.0f);
    return fmaf(r, fmaf(a, a, a), r);
}

/* tanh of z within 2 ulp (as ls_tanh_element) or its sigmoid within 4: a choice for each lane
 * without a branch. */
__device__ static inline float cell_function(float z, bool tanh)
{
    const float size = fabsf(z), e = cell_exp(size * (tanh ? -2.0f : -1.0f)), q = z * z;
    const float inverse = cell_inverse(e), sigmoid = z >= 0 ? inverse : e * inverse;
    const float large = fmaf(-e, inverse, inverse);
    float p = fmaf(-5.70498872745e-3f, q, 2.06390887954e-2f);
    p = fmaf(p, q, -5.37397155531e-2f);
    p = fmaf(p, q, 1.33314422036e-1f);
    p = fmaf(p, q, -3.33332819422e-1f);
    const float small = fmaf(p * q, z, z);
    const uint32_t kept = size < 0.625f ? UINT32_MAX : 0; /* by bits, as in element_inline.h */
    const uint32_t tanh_bits =
        (ls_bits_of_float(small) & kept) | (ls_bits_of_float(copysignf(large, z)) & ~kept);
    return tanh ? ls_float_of_bits(tanh_bits) : sigmoid;
}
