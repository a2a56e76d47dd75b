/* SPDX-License-Identifier: MIT */
/*
 * Spare blocks: a free list of memory for small messages, so that steps that exchange them allocate
 * nothing. Zero-filled, it is empty. Blocks of more than LS_SPARE_BYTES are not kept: they are
 * allocated and freed each time. The caller holds a lock.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

enum { LS_SPARE_BYTES = 256 };

typedef struct ls_spare {
    struct ls_spare *next;
} ls_spare;

typedef struct ls_spares {
    ls_spare *first;
} ls_spares;

/** A block; NULL where memory is short. */
static inline void *ls_spares_take(ls_spares *spares, size_t bytes)
{
    ls_spare *block = spares->first;
    if (bytes > LS_SPARE_BYTES)
        return malloc(bytes);
    if (!block)
        return malloc(LS_SPARE_BYTES);
    spares->first = block->next;
    return block;
}

/** Gives a block back; `bytes` as when it was taken. */
static inline void ls_spares_give(ls_spares *spares, void *block, size_t bytes)
{
    ls_spare *spare = block;
    if (bytes > LS_SPARE_BYTES) {
        free(block);
        return;
    }
    spare->next = spares->first;
    spares->first = spare;
}

/** Adds so many blocks before they are needed, as far as memory allows. */
static inline void ls_spares_stock(ls_spares *spares, int count)
{
    for (void *block; count-- > 0 && (block = malloc(LS_SPARE_BYTES));)
        ls_spares_give(spares, block, LS_SPARE_BYTES);
}

static inline void ls_spares_close(ls_spares *spares)
{
    for (ls_spare *block; (block = spares->first);) {
        spares->first = block->next;
        free(block);
    }
}
