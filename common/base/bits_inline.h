/* SPDX-License-Identifier: MIT */
/* A float32's bits as an integer, and back; for hosts and devices. */
#pragma once

#include "common/base/device_fn.h"

#include <stdint.h>
#include <string.h>

LS_DEVICE_FN float ls_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

LS_DEVICE_FN uint32_t ls_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
