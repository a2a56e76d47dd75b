/* SPDX-License-Identifier: MIT */
/*
 * The loops of order.h, inline: order.c compiles them for any processor, the vector loops of the
 * cpu kernels once more per instruction set, the cuda kernels for GPUs. Integer arithmetic, save
 * one division by way of a double reciprocal that is exact here, so all give the same numbers.
 */
#pragma once

#include "common/base/device_fn.h"
#include "common/base/random/order.h"
#include "common/base/random/philox_inline.h"

#include <string.h>

enum { LS_ORDER_CHUNK = 256 };

LS_DEVICE_FN uint32_t ls_order_mix(uint32_t value)
{
    value *= 0x9E3779B1u;
    value ^= value >> 15;
    value *= 0x85EBCA77u;
    value ^= value >> 13;
    return value;
}

/**
 * code / a, as reciprocal = 1.0 / a: (code + 0.5) / a is at least 0.5 / a > 2^-17 away from every
 * integer, far more than the error of the product (the quotient is below 2^16), so cutting off
 * gives the quotient.
 */
LS_DEVICE_FN uint32_t ls_order_quotient(uint32_t code, double reciprocal)
{
    int32_t shifted = (int32_t)(code ^ 0x80000000u); /* signed: all vectors convert that */
    return (uint32_t)(int32_t)(((double)shifted + (0x1p31 + 0.5)) * reciprocal);
}

/** One pass of the network over a code below a * b; even number of rounds. right = code / a. */
LS_DEVICE_FN uint32_t ls_order_encipher(const ls_order_epoch *epoch, uint32_t code, uint32_t right)
{
    uint32_t a = epoch->a, b = epoch->b, left = code - right * a;
    for (int round = 0; round < LS_ORDER_ROUNDS; round += 2) {
        uint32_t f = ((ls_order_mix(right + epoch->key[round]) >> 16) * a) >> 16;
        uint32_t next = left + f;
        next -= next >= a ? a : 0;
        left = right;
        right = next;
        f = ((ls_order_mix(right + epoch->key[round + 1]) >> 16) * b) >> 16;
        next = left + f;
        next -= next >= b ? b : 0;
        left = right;
        right = next;
    }
    return a * right + left;
}

/**
 * ls_order_epoch_samples for at most LS_ORDER_CHUNK positions of a shuffled epoch. Loops of a whole
 * number of 16 positions (positions past the end are dropped), one per type, so that all is done in
 * vectors; then the few codes that are not samples are walked on.
 */
static inline void ls_order_chunk(const ls_order_epoch *epoch, uint32_t start, uint32_t count,
                                  uint32_t *out)
{
    const ls_order_epoch local = *epoch;
    const double reciprocal = 1.0 / local.a;
    const int32_t whole = (int32_t)((count + 15) & ~15u);
    uint32_t quotient[LS_ORDER_CHUNK], code[LS_ORDER_CHUNK], outside = 0;
    for (int32_t i = 0; i < whole; i++)
        quotient[i] = ls_order_quotient(start + (uint32_t)i, reciprocal);
    for (int32_t i = 0; i < whole; i++) {
        code[i] = ls_order_encipher(&local, start + (uint32_t)i, quotient[i]);
        outside |= code[i] >= local.samples;
    }
    for (uint32_t i = 0; outside && i < count; i++)
        while (code[i] >= local.samples)
            code[i] = ls_order_encipher(&local, code[i], ls_order_quotient(code[i], reciprocal));
    memcpy(out, code, count * sizeof *out);
}

/** The keys of an epoch, of the stream "order" under the order's seed. */
LS_DEVICE_FN void ls_order_keys(ls_random random, uint64_t epoch, uint32_t key[LS_ORDER_ROUNDS])
{
    for (int i = 0; i < LS_ORDER_ROUNDS; i++)
        key[i] = ls_random_word(random, epoch * 8 + (uint64_t)i);
}

/** The sample at one index of a shuffled epoch; reciprocal = 1.0 / a. */
LS_DEVICE_FN uint32_t ls_order_sample(const ls_order_epoch *epoch, uint32_t index,
                                      double reciprocal)
{
    uint32_t code = index;
    do
        code = ls_order_encipher(epoch, code, ls_order_quotient(code, reciprocal));
    while (code >= epoch->samples);
    return code;
}

/** ls_order_epoch_samples. */
static inline void ls_order_epoch_fill(const ls_order_epoch *epoch, uint64_t first, uint64_t count,
                                       uint32_t *out)
{
    uint32_t start = (uint32_t)first, n = (uint32_t)count;
    if (!epoch->shuffle) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = start + i;
        return;
    }
    const uint32_t chunk = LS_ORDER_CHUNK;
    for (uint32_t i = 0; i < n; i += chunk)
        ls_order_chunk(epoch, start + i, n - i < chunk ? n - i : chunk, out + i);
}

/** ls_order_samples, with `fill` as its ls_order_epoch_samples. */
static inline void ls_order_fill(const ls_sample_order *order, uint64_t position, uint64_t count,
                                 ls_order_epoch *cache, uint32_t *out,
                                 void (*fill)(const ls_order_epoch *epoch, uint64_t first,
                                              uint64_t count, uint32_t *out))
{
    while (count && order->samples) {
        uint64_t epoch = position / order->samples, index = position % order->samples;
        if (cache->epoch != epoch)
            ls_order_epoch_set(order, epoch, cache);
        uint64_t run = order->samples - index < count ? order->samples - index : count;
        fill(cache, index, run, out);
        out += run;
        position += run;
        count -= run;
    }
}
