/* SPDX-License-Identifier: MIT */
/* Philox4x32-10; see philox.h. */
#include "common/base/random/philox.h"

#include "common/base/digest.h"
#include "common/base/random/philox_inline.h"

#include <string.h>

ls_random ls_random_stream(uint64_t seed, const char *name)
{
    return (ls_random){.seed = seed, .stream = ls_hash64(name, strlen(name))};
}

static float unit_float(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

uint32_t ls_random_bits(ls_random random, uint64_t index)
{
    return ls_random_word(random, index);
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
            ls_random_block(random, index / 4, words);
        out[i] = low + width * unit_float(words[index % 4]);
    }
}
