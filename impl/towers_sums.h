/* SPDX-License-Identifier: MIT */
/*
 * Sums of towers: where the towers' gradients arrive on the variable device, and the additions
 * that make one of them, in the documented order (slice.h, ls_slice_tree).
 */
#ifndef LS_IMPL_TOWERS_SUMS_H
#define LS_IMPL_TOWERS_SUMS_H

#include "impl/replicas.h"

/** One of a tower's sums, where the variable device can add it. */
typedef struct ls_arrival {
    void *here;        /**< on the variable device */
    const void *there; /**< on another device; NULL: it is computed here */
    int tower;
    bool owned; /**< `here` is staging memory of its own */
} ls_arrival;

/** What one step adds up. */
typedef struct ls_tower_sums {
    ls_arrival *arrivals; /**< of all towers, in order */
    size_t count;
    ls_op_list sums; /**< the additions; the last one's result is the holder's gradient */
} ls_tower_sums;

/** `slices` [n] are those that the towers' gradients come of; `out` is zero-filled, and
 *  ls_tower_sums_close's also on failure. */
ls_status ls_tower_sums_open(const ls_replicated *run, int which, ls_slice *const *slices,
                             ls_tower_sums *out);

/** Puts the additions on the holder's queue, once all have arrived. */
ls_status ls_tower_sums_put(const ls_replicated *run, const ls_tower_sums *sums);

void ls_tower_sums_close(const ls_replicated *run, ls_tower_sums *sums);

/** Bytes of staging memory on the variable device. */
size_t ls_tower_sums_bytes(const ls_replicated *run, const ls_tower_sums *sums);

#endif
