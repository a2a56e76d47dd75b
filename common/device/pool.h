/* SPDX-License-Identifier: MIT */
/*
 * Memory pool of a device: allocates chunks from the back end and divides them into pieces, by one
 * of the three policies of device.h. Its records of the pieces are in host memory, since the host
 * may not be able to read the device's.
 *     growth    a chunk when nothing free fits; not returned before the pool closes; at most the
 *               capacity
 *     fraction  as growth, at most that fraction of the capacity
 *     counted   as growth, without a limit: address space only, until something is written
 *     all       19/20 of the capacity as one chunk at the start; the rest is left to the system
 * A request of at least an eighth of the growing unit gets a chunk of its own size, a smaller one a
 * chunk of a whole unit. The unit is an eighth of what is reserved, at least 2 MiB and at most 64
 * MiB. So, without releases, reserved memory exceeds used memory by at most a quarter and one unit.
 */
#pragma once

#include "common/base/status.h"
#include "common/device/device_memory.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_pool ls_pool;

typedef struct ls_pool_options {
    const char *name; /**< of the device, for messages; copied */
    ls_memory_policy policy;
    size_t capacity; /**< bytes of the device */
    bool on_demand;  /**< `all` is a limit only: the memory is reserved elsewhere (arena.h) */
    bool watched;    /**< host memory: pieces are marked for the address sanitizer, except under
                          `all` */
    /** Allocates from the system: at least `bytes`, 64-byte aligned. Called with a lock held. */
    ls_status (*reserve)(void *context, size_t bytes, void **out);
    /** Gives back all that one call of `reserve` took. */
    void (*release)(void *context, void *memory, size_t bytes);
    void *context; /**< for the two; may be NULL */
} ls_pool_options;

/** LS_CODE_USAGE for a fraction outside (0, 1]; the failure of `reserve` under LS_MEMORY_ALL. */
ls_status ls_pool_open(const ls_pool_options *options, ls_pool **out);

/** Switches to the policy `all`: reserves what is missing of 19/20 of the capacity, as one
 * chunk. On failure nothing has changed. */
ls_status ls_pool_take_all(ls_pool *pool);

/** Frees all memory, even pieces that were not released. Takes NULL. */
void ls_pool_close(ls_pool *pool);

/** A piece of `bytes`, 64-byte aligned, not cleared; zero bytes give a unique pointer.
 * LS_CODE_MISSING if the policy or the system leaves no more memory. Any thread; linear in
 * the number of pieces. */
ls_status ls_pool_allocate(ls_pool *pool, ls_memory_use use, size_t bytes, void **out);

/** False if `memory` is not a live piece of this pool: nothing was done. True for NULL. */
bool ls_pool_release(ls_pool *pool, void *memory);

/**
 * Pins the chunk around `memory`, once, by calling `pin`, so that a GPU can reach it directly;
 * `unpin` is called before the chunk is given back. LS_CODE_USAGE for memory that is not of this
 * pool.
 */
ls_status ls_pool_pin(ls_pool *pool, const void *memory,
                      ls_status (*pin)(void *start, size_t bytes), void (*unpin)(void *start));

/** Whether its policy is LS_MEMORY_COUNTED. */
bool ls_pool_is_counted(const ls_pool *pool);

/** Any thread. */
ls_memory_ledger ls_pool_ledger(const ls_pool *pool);

/** The live pieces, by address; the caller frees them. Any thread. */
ls_status ls_pool_pieces(const ls_pool *pool, ls_memory_piece **out, size_t *count);
