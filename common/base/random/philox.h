/* SPDX-License-Identifier: MIT */
/*
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC'11). A number is a function of (seed, stream, index) alone: not
 * of who asks, in which order, or on how many devices.
 */
#pragma once

#include <stdint.h>

/** A stream of numbers under a seed: one per purpose, such as "init/dense0.weight". */
typedef struct ls_random {
    uint64_t seed;   /**< becomes the key */
    uint64_t stream; /**< becomes the upper half of the counter */
} ls_random;

/** The stream's number is the 64-bit XXH3 hash of its name. */
ls_random ls_random_stream(uint64_t seed, const char *name);

/** The 32 bits at `index`: word index % 4 of counter index / 4. */
uint32_t ls_random_bits(ls_random random, uint64_t index);

/** Uniform in [0, 1), a multiple of 2^-24, so that float32 holds it exactly. */
float ls_random_uniform(ls_random random, uint64_t index);

/** out[i] = low + (high - low) * uniform(first + i), in float32; one counter per four numbers. */
void ls_random_fill(ls_random random, uint64_t first, uint64_t count, float low, float high,
                    float *out);
