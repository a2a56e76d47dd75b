/* SPDX-License-Identifier: MIT */
/* Philox4x32-10; see philox.h. Constants from the paper's table 2 and its Weyl sequence. */
#include "common/base/philox.h"

#include "common/base/digest.h"

#include <string.h>

void ls_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
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

ls_random ls_random_stream(uint64_t seed, const char *name)
{
    return (ls_random){.seed = seed, .stream = ls_hash64(name, strlen(name))};
}

static void block_at(ls_random random, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)random.stream,
                                 (uint32_t)(random.stream >> 32)};
    const uint32_t key[2] = {(uint32_t)random.seed, (uint32_t)(random.seed >> 32)};
    ls_philox4x32(counter, key, out);
}

static float unit_float(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

uint32_t ls_random_bits(ls_random random, uint64_t index)
{
    uint32_t words[4];
    block_at(random, index / 4, words);
    return words[index % 4];
}

float ls_random_uniform(ls_random random, uint64_t index)
{
    return unit_float(ls_random_bits(random, index));
}

void ls_random_fill(ls_random random, uint64_t first, uint64_t count, float low, float high,
                    float *out)
{
    uint32_t words[4];
    float width = high - low;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0)
            block_at(random, index / 4, words);
        out[i] = low + width * unit_float(words[index % 4]);
    }
}
