/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of single elements, one definition for the vector loops of the cpu table and for
 * the kernels of the cuda table: neither contracts, so both give the same bits.
 */
#pragma once

#include "common/base/bits_inline.h"

#include <math.h>
#include <stdint.h>

/** The token that a number stands for; -1 if it is not a whole number from 0 to tokens - 1. */
LS_DEVICE_FN int64_t ls_token(double value, int64_t tokens)
{
    return value >= 0 && value < (double)tokens && value == (double)(int64_t)value ? (int64_t)value
                                                                                   : -1;
}

/** max(x, 0); 0 for NaN. */
LS_DEVICE_FN float ls_relu(float x)
{
    return x > 0 ? x : 0;
}

/** The gradient if the ReLU's output is positive, else 0. */
LS_DEVICE_FN float ls_relu_mask(float output, float gradient)
{
    return output > 0 ? gradient : 0;
}

/**
 * x / 255 rounded to float, without the division: 1/255 = 257 / 65536 + rest, the first product is
 * exact (17 bits), the second far below half a unit of the sum. Right for all 256 values (tested).
 */
LS_DEVICE_FN float ls_unit_of_byte(uint8_t byte)
{
    const float head = 257.0f / 65536.0f, rest = (float)(1.0 / 255.0 - 257.0 / 65536.0);
    const float value = (float)byte;
    return value * head + value * rest;
}

/**
 * e^x for x of at most 0: within 1 ulp; 0 below -87; NaN stays NaN.
 * e^x = 2^n e^r, n = x / ln 2 rounded (adding 1.5 * 2^23 + 127 leaves n + 127, the exponent of 2^n,
 * in the low bits), r = x - n ln 2 with ln 2 in two parts, |r| < 0.347; e^r = 1 + r + r^2 q(r), q
 * of degree 4 with the least largest relative error, 3.1e-9 (Remez's condition). Multiply-adds are
 * rounded once: by an instruction, or in software, with the same bits.
 */
LS_DEVICE_FN float ls_exp_element(float x)
{
    const float shift = 12582912.0f + 127.0f, ln2_head = 0.693359375f;
    const float ln2_rest = (float)(0.693147180559945309417 - 0.693359375);
    uint32_t kept = x < -87.0f ? 0 : UINT32_MAX; /* selects by bits: compilers branch on values */
    float low = ls_float_of_bits((ls_bits_of_float(x) & kept) | (ls_bits_of_float(-87.0f) & ~kept));
    float shifted = fmaf(low, 1.44269504f, shift);
    float n = shifted - shift;
    float r = fmaf(n, -ln2_rest, fmaf(n, -ln2_head, low));
    float p = 0x1.6a23f2p-10f;
    p = fmaf(p, r, 0x1.123a0ap-7f);
    p = fmaf(p, r, 0x1.5558f2p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float value = p * ls_float_of_bits(ls_bits_of_float(shifted) << 23);
    return ls_float_of_bits(ls_bits_of_float(value) & kept);
}

/**
 * ln x in double for normal x above 0: within 4e-16 (1 + |ln x|).
 * ln x = k ln 2 + ln f, f in [sqrt(1/2), sqrt(2)); ln f = 2 atanh(s), s = (f - 1) / (f + 1),
 * |s| < 0.172, by its series to s^21. The last term keeps NaN and infinity.
 */
LS_DEVICE_FN double ls_log_element(float x)
{
    uint32_t bits = ls_bits_of_float(x);
    int32_t k = (int32_t)(bits - 0x3F3504F3u) >> 23;
    double f = (double)ls_float_of_bits(bits - ((uint32_t)k << 23));
    double s = (f - 1) / (f + 1), q = s * s;
    double p = 1.0 / 21;
    p = p * q + 1.0 / 19;
    p = p * q + 1.0 / 17;
    p = p * q + 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    return (double)k * 0.693147180559945309417 + (2 * s + 2 * s * (q * p)) + (double)(x - x);
}

/** What slices of softmax cross-entropy's classes (kernel_transformer.h) say of a row. */
typedef struct ls_softmax_row {
    float largest, sum, at_label;
} ls_softmax_row;

/** Puts a row's parts together, in the order of the slices; parts is [slices,rows,3]. */
LS_DEVICE_FN ls_softmax_row ls_softmax_join(const float *parts, int64_t rows, int64_t slices,
                                            int64_t row)
{
    ls_softmax_row out = {parts[3 * row], 0, 0};
    for (int64_t i = 1; i < slices; i++) {
        const float part_largest = parts[3 * (i * rows + row)];
        out.largest = part_largest > out.largest ? part_largest : out.largest;
    }
    for (int64_t i = 0; i < slices; i++) {
        const float *part = parts + 3 * (i * rows + row);
        out.sum += part[1] * ls_exp_element(part[0] - out.largest);
        out.at_label += part[2];
    }
    return out;
}

/** The factor of a slice's terms in its gradient. */
LS_DEVICE_FN float ls_softmax_factor(const float *parts, int64_t at, ls_softmax_row row,
                                     float scale)
{
    return ls_exp_element(parts[3 * at] - row.largest) * (scale / row.sum);
}

/** 1 / (1 + e^-z), with e = e^-|z|. */
LS_DEVICE_FN float ls_sigmoid_of(float z, float e)
{
    float s = 1.0f / (1.0f + e);
    uint32_t kept = z >= 0 ? UINT32_MAX : 0;
    return ls_float_of_bits((ls_bits_of_float(1.0f) & kept) | (ls_bits_of_float(e) & ~kept)) * s;
}

LS_DEVICE_FN float ls_sigmoid_element(float z)
{
    return ls_sigmoid_of(z, ls_exp_element(-fabsf(z)));
}

/** By e^-2|z|; if that would cancel, |z| < 0.625, by the polynomial of Cephes' tanhf. */
LS_DEVICE_FN float ls_tanh_element(float z)
{
    float size = fabsf(z), e = ls_exp_element(-2 * size), q = z * z;
    float large = (1 - e) / (1 + e);
    float p = -5.70498872745e-3f;
    p = p * q + 2.06390887954e-2f;
    p = p * q - 5.37397155531e-2f;
    p = p * q + 1.33314422036e-1f;
    p = p * q - 3.33332819422e-1f;
    float small = p * q * z + z;
    uint32_t kept = size < 0.625f ? UINT32_MAX : 0, sign = ls_bits_of_float(z) & 0x80000000u;
    return ls_float_of_bits((ls_bits_of_float(small) & kept) |
                            ((ls_bits_of_float(large) | sign) & ~kept));
}

/** GELU's z: x (1 + tanh(z / 2)) / 2 = x / (1 + e^-z), z = 2 sqrt(2/pi) (x + 0.044715 x^3). */
LS_DEVICE_FN float ls_gelu_inner(float x)
{
    return x * (1.59576912160573f + 0.0713548162726f * (x * x));
}

LS_DEVICE_FN float ls_gelu_element(float x)
{
    return x * ls_sigmoid_element(ls_gelu_inner(x));
}

/** The derivative: with s = 1 / (1 + e^-z), s + x s (1 - s) dz/dx; e = e^-|z|. */
LS_DEVICE_FN float ls_gelu_slope_of(float x, float z, float e)
{
    const float r = 1.0f / (1.0f + e);
    const float slope = 1.59576912160573f + 3 * 0.0713548162726f * (x * x);
    return ls_sigmoid_of(z, e) + x * (e * r * r) * slope;
}

LS_DEVICE_FN float ls_gelu_slope(float x)
{
    const float z = ls_gelu_inner(x);
    return ls_gelu_slope_of(x, z, ls_exp_element(-fabsf(z)));
}

/** s^-0.75 for s above 0. */
LS_DEVICE_FN float ls_lrn_power(float s)
{
    const float root = sqrtf(s);
    return 1.0f / (root * sqrtf(root));
}
