/* SPDX-License-Identifier: MIT */
/*
 * bf16: the upper 16 bits of a float32; for hosts and devices. In integers, so that no mode of the
 * processor (flushed subnormals) changes a bit.
 */
#pragma once

#include "common/base/bits_inline.h"

#include <stdbool.h>

/** Rounds to nearest, ties to even. NaN stays NaN, quiet; subnormals are kept; beyond the largest
 *  finite value it is infinite. */
LS_DEVICE_FN uint16_t ls_bf16_of_float(float value)
{
    const uint32_t bits = ls_bits_of_float(value), even = bits >> 16 & 1;
    const uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7fff + even) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/** Whether a ReLU lets it pass: neither NaN nor subnormal, and above 0. */
LS_DEVICE_FN bool ls_bf16_passes(uint16_t value)
{
    return (uint16_t)(value - 0x0080) <= 0x7f00;
}

/** Widens; the value does not change. */
LS_DEVICE_FN float ls_float_of_bf16(uint16_t value)
{
    return ls_float_of_bits((uint32_t)value << 16);
}
