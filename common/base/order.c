/* SPDX-License-Identifier: MIT */
/*
 * Sample order by a Feistel network on Z_a x Z_b; see order.h.
 *
 * a = ceil(sqrt(N)) and b = ceil(N / a), so fewer than a of the a * b codes are no sample; those
 * few are walked on. Both fit in 16 bits for N < 2^31, which keeps the rounds in 32-bit arithmetic
 * that compilers vectorise. The round function is a multiply-xorshift mix of 32 bits; the keys are
 * Philox numbers of (seed, epoch). This shuffles; it is not meant to keep secrets.
 */
#include "common/base/order.h"

#include "common/base/philox.h"

#include <math.h>

static uint32_t mix(uint32_t value)
{
    value *= 0x9E3779B1u;
    value ^= value >> 15;
    value *= 0x85EBCA77u;
    value ^= value >> 13;
    return value;
}

/* One pass of the network over a code below a * b; even number of rounds. */
static uint32_t encipher(const ls_order_epoch *epoch, uint32_t code)
{
    uint32_t a = epoch->a, b = epoch->b;
    uint32_t right = code / a, left = code - right * a;
    for (int round = 0; round < LS_ORDER_ROUNDS; round += 2) {
        uint32_t f = ((mix(right + epoch->key[round]) >> 16) * a) >> 16;
        uint32_t next = left + f;
        next -= next >= a ? a : 0;
        left = right;
        right = next;
        f = ((mix(right + epoch->key[round + 1]) >> 16) * b) >> 16;
        next = left + f;
        next -= next >= b ? b : 0;
        left = right;
        right = next;
    }
    return a * right + left;
}

void ls_order_epoch_set(const ls_sample_order *order, uint64_t epoch, ls_order_epoch *out)
{
    out->epoch = epoch;
    out->samples = (uint32_t)order->samples;
    out->shuffle = order->shuffle;
    if (!order->shuffle || !order->samples)
        return;
    uint32_t a = (uint32_t)ceil(sqrt((double)order->samples));
    out->a = a;
    out->b = (out->samples + a - 1) / a;
    ls_random random = ls_random_stream(order->seed, "order");
    for (int i = 0; i < LS_ORDER_ROUNDS; i++)
        out->key[i] = ls_random_bits(random, epoch * 8 + (uint64_t)i);
}

void ls_order_epoch_samples(const ls_order_epoch *epoch, uint64_t first, uint64_t count,
                            uint32_t *out)
{
    uint32_t start = (uint32_t)first, n = (uint32_t)count;
    if (!epoch->shuffle) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = start + i;
        return;
    }
    const ls_order_epoch local = *epoch;
    for (uint32_t i = 0; i < n; i++)
        out[i] = encipher(&local, start + i);
    for (uint32_t i = 0; i < n; i++)
        while (out[i] >= local.samples)
            out[i] = encipher(&local, out[i]);
}

void ls_order_samples(const ls_sample_order *order, uint64_t position, uint64_t count,
                      ls_order_epoch *cache, uint32_t *out)
{
    while (count && order->samples) {
        uint64_t epoch = position / order->samples, place = position % order->samples;
        if (cache->epoch != epoch)
            ls_order_epoch_set(order, epoch, cache);
        uint64_t run = order->samples - place < count ? order->samples - place : count;
        ls_order_epoch_samples(cache, place, run, out);
        out += run;
        position += run;
        count -= run;
    }
}
