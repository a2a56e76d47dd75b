/* SPDX-License-Identifier: MIT */
/* The numbers of philox.h, inline, for hosts and GPUs. Constants from the paper's table 2 and its
 * Weyl sequence. */
#pragma once

#include "common/base/device_fn.h"
#include "common/base/random/philox.h"

/** Ten rounds of Philox4x32 on a 128-bit counter and a 64-bit key. */
LS_DEVICE_FN void ls_philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/** The four words of counter `block` of the stream. */
LS_DEVICE_FN void ls_random_block(ls_random random, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)random.stream,
                                 (uint32_t)(random.stream >> 32)};
    const uint32_t key[2] = {(uint32_t)random.seed, (uint32_t)(random.seed >> 32)};
    ls_philox_block(counter, key, out);
}

/** ls_random_bits. */
LS_DEVICE_FN uint32_t ls_random_word(ls_random random, uint64_t index)
{
    uint32_t words[4];
    ls_random_block(random, index / 4, words);
    const uint32_t low = index & 1 ? words[1] : words[0], high = index & 1 ? words[3] : words[2];
    return index & 2 ? high : low; /* no index: an array in registers */
}
