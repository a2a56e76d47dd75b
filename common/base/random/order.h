/* SPDX-License-Identifier: MIT */
/*
 * Sample order: which sample comes at which position, a function of (seed, epoch, position).
 *
 * The endless sequence of samples is one permutation of the data set after the other. The
 * permutation is a keyed Feistel cipher on the sample numbers themselves (Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002: their generalised Feistel network on
 * Z_a x Z_b with cycle walking), so any position is found in constant time and memory, on any
 * device, with no list to shuffle, keep, send, or wait for.
 */
#pragma once

#include "common/base/random/philox.h"

#include <stdbool.h>
#include <stdint.h>

/** A sequence of samples; `samples` is at most 2^31 - 1. */
typedef struct ls_sample_order {
    uint64_t samples; /**< of the data set */
    uint64_t seed;    /**< of its permutations */
    bool shuffle;     /**< false if position p is sample p % samples */
} ls_sample_order;

enum { LS_ORDER_ROUNDS = 6 };

/** The permutation of one epoch, ready to use. Reused while the epoch stays the same. */
typedef struct ls_order_epoch {
    uint64_t epoch;                /**< number, from 0 */
    uint32_t samples, a, b;        /**< a * b >= samples > a * (b - 1) */
    uint32_t key[LS_ORDER_ROUNDS]; /**< of each round */
    bool shuffle;                  /**< as in ls_sample_order */
} ls_order_epoch;

/** The random stream that the keys of all epochs are drawn from. */
ls_random ls_order_stream(const ls_sample_order *order);

/** Makes the permutation of an epoch ready. */
void ls_order_epoch_set(const ls_sample_order *order, uint64_t epoch, ls_order_epoch *out);

/** out[i] = the sample at position first + i of the epoch; first + count <= samples. */
void ls_order_epoch_samples(const ls_order_epoch *epoch, uint64_t first, uint64_t count,
                            uint32_t *out);

/** out[i] = the sample at `position` + i of the endless sequence. `cache` (epoch UINT64_MAX when
 *  new) is used where it fits, and left at the last epoch touched. */
void ls_order_samples(const ls_sample_order *order, uint64_t position, uint64_t count,
                      ls_order_epoch *cache, uint32_t *out);
