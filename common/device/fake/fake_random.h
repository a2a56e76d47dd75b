/* SPDX-License-Identifier: MIT */
/* Numbers from a seed, in LS_FAKE_SEED, for orders that may be any. One thread at a time. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

/* Below `below`; xorshift64* (Vigna 2016, "An experimental exploration of Marsaglia's xorshift
 * generators"). */
static inline unsigned fake_random(unsigned below)
{
    static uint64_t number;
    if (!number) {
        const char *seed = getenv("LS_FAKE_SEED");
        number = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
    }
    number ^= number >> 12;
    number ^= number << 25;
    number ^= number >> 27;
    return below ? (unsigned)(number * 0x2545f4914f6cdd1du >> 33) % below : 0;
}
