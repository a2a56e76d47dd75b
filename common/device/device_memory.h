/* SPDX-License-Identifier: MIT */
/* What a device's memory is for, how it is taken, and how much of it there is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** What memory is for: the columns of the memory ledger. */
typedef enum ls_memory_use {
    LS_MEMORY_PARAMETERS,
    LS_MEMORY_GRADIENTS,
    LS_MEMORY_OPTIMIZER,
    LS_MEMORY_ACTIVATIONS,
    LS_MEMORY_COMMUNICATION,
    LS_MEMORY_WORKSPACE,
    LS_MEMORY_USES
} ls_memory_use;

/** The type of its elements. OTHER includes step numbers, labels and double. */
typedef enum ls_memory_type {
    LS_MEMORY_FLOAT32,
    LS_MEMORY_BF16,
    LS_MEMORY_INT8,
    LS_MEMORY_OTHER,
    LS_MEMORY_TYPES
} ls_memory_type;

/** A use together with a type, where a use is asked for; a use alone means float32. */
#define LS_MEMORY_AS(use, type) ((ls_memory_use)((unsigned)(use) | (unsigned)(type) << 4))

static inline ls_memory_use ls_memory_use_of(ls_memory_use use)
{
    return (ls_memory_use)(use & 15);
}

static inline ls_memory_type ls_memory_type_of(ls_memory_use use)
{
    return (ls_memory_type)((unsigned)use >> 4);
}

/** "parameters", "gradients", ... */
const char *ls_memory_use_name(ls_memory_use use);

/** How a device takes memory from the system. */
typedef enum ls_memory_policy_kind {
    LS_MEMORY_GROWTH,   /**< on demand, never given back before the device closes */
    LS_MEMORY_ALL,      /**< nearly the whole capacity at the start */
    LS_MEMORY_FRACTION, /**< on demand, at most a fraction of the capacity */
    LS_MEMORY_COUNTED,  /**< CPU devices without limit, to count memory: pages are never touched */
} ls_memory_policy_kind;

/** How much a device takes. */
typedef struct ls_memory_policy {
    ls_memory_policy_kind kind; /**< how */
    double fraction;            /**< (0, 1], for LS_MEMORY_FRACTION */
} ls_memory_policy;

/** The most bytes that the policy lets a device of this capacity take. */
size_t ls_memory_limit(ls_memory_policy policy, size_t capacity);

/** What a device holds. */
typedef struct ls_memory_ledger {
    size_t in_use[LS_MEMORY_USES];   /**< bytes asked for and not freed, not rounded */
    size_t of_type[LS_MEMORY_TYPES]; /**< the bytes in use by type */
    size_t in_use_peak;              /**< largest sum of in_use so far */
    size_t reserved;                 /**< bytes taken from the system */
    size_t limit;                    /**< most that the policy lets it take */
    size_t allocations;              /**< calls of ls_device_allocate so far */
    size_t refused;                  /**< bytes of the latest request that did not fit; 0 if none */
} ls_memory_ledger;

/** A piece of a device's memory: the bytes that one call of ls_device_allocate asked for. */
typedef struct ls_memory_piece {
    uintptr_t begin, end; /**< addresses; the end is not in it */
} ls_memory_piece;
