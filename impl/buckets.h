/* SPDX-License-Identifier: MIT */
/*
 * Buckets: ranges of the flat gradient buffer that are reduced together, in the order in which
 * they become final in backward (the last layer's first). A function of the model and a size.
 */
#ifndef LS_IMPL_BUCKETS_H
#define LS_IMPL_BUCKETS_H

#include "common/nn/graph.h"

typedef struct ls_buckets {
    ls_range *items;
    size_t count;
    size_t *left; /**< elements of each that are not final yet, while a step is put */
} ls_buckets;

/**
 * Buckets of the variables in the first `elements`, of at least `bytes` bytes (the last may be
 * smaller), each of whole variables; 0: one per variable; SIZE_MAX: one for all. Elements are
 * float32.
 */
ls_status ls_buckets_open(const ls_graph *graph, size_t elements, size_t bytes, ls_buckets *out);
void ls_buckets_close(ls_buckets *buckets);

/** Before a step is put: nothing is final. */
void ls_buckets_begin(ls_buckets *buckets);

/** Elements [first, first + count) are final; calls ready(context, bucket) for each bucket that
 *  this completes. */
ls_status ls_buckets_final(ls_buckets *buckets, size_t first, size_t count,
                           ls_status (*ready)(void *context, size_t bucket), void *context);

#endif
