/* SPDX-License-Identifier: MIT */
/*
 * Sample order by a Feistel network on Z_a x Z_b; see order.h. a = ceil(sqrt(N)) and b = ceil(N /
 * a), so fewer than a of the a * b codes are not samples; such codes are encrypted again (cycle
 * walking). Both fit in 16 bits for N < 2^31, so the rounds use 32-bit arithmetic, which compilers
 * vectorise. The round function is a multiply-xorshift mix of 32 bits; the keys are Philox numbers
 * of (seed, epoch). This shuffles; it is not cryptographically secure.
 */
#include "common/base/random/order.h"

#include "common/base/random/order_inline.h"

#include <math.h>

ls_random ls_order_stream(const ls_sample_order *order)
{
    return ls_random_stream(order->seed, "order");
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
    ls_order_keys(ls_order_stream(order), epoch, out->key);
}

void ls_order_epoch_samples(const ls_order_epoch *epoch, uint64_t first, uint64_t count,
                            uint32_t *out)
{
    ls_order_epoch_fill(epoch, first, count, out);
}

void ls_order_samples(const ls_sample_order *order, uint64_t position, uint64_t count,
                      ls_order_epoch *cache, uint32_t *out)
{
    ls_order_fill(order, position, count, cache, out, ls_order_epoch_samples);
}
