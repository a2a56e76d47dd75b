/* SPDX-License-Identifier: MIT */
/*
 * Buckets: ranges of the flat gradient buffer, in the order in which backward makes them final (the
 * last layer's first). Each is reduced by one all-reduce. They depend on the model and a size. With
 * --clip, what cuts a bucket cuts between blocks (square_sums of kernel.h), so that a block's sum
 * of squares has the same bits wherever it is computed.
 */
#pragma once

#include "common/comm/comm.h"
#include "common/nn/divide/graph_parts.h"

typedef struct ls_buckets {
    ls_range *items;
    size_t count;
    ls_extent *extents; /**< [count] where each may be cut */
    size_t *begins;     /**< of all blocks; NULL if they may be cut anywhere */
    int *chunk;         /**< [count] chunk of each bucket; NULL if the part has one */
} ls_buckets;

/** How buckets are cut. Variable k of K is in fragment floor(k fragments / K). */
typedef struct ls_bucketing {
    size_t bytes;                /**< all but the last have as many; 0: a variable; SIZE_MAX: all */
    size_t block;                /**< shares are cut between blocks of a variable; 0: anywhere */
    int fragments;               /**< no bucket has variables of two; 0 means one */
    const ls_graph_part *chunks; /**< NULL means one chunk */
} ls_bucketing;

/**
 * Divides the variables in the first `elements` elements (float32) into buckets of whole variables,
 * none of them in two chunks. If a place's slices are not as large as other places', a bucket also
 * ends where variables that all places have begin or end.
 */
ls_status ls_buckets_open(const ls_graph *graph, size_t elements, ls_bucketing how,
                          ls_buckets *out);
void ls_buckets_close(ls_buckets *buckets);

/** The chunk of bucket `b`. */
static inline int ls_bucket_chunk(const ls_buckets *buckets, int b)
{
    return buckets->chunk ? buckets->chunk[b] : 0;
}

/** Share q of n of bucket `b`: part q of an even split (ls_extent); may be empty. */
ls_range ls_bucket_share(const ls_buckets *buckets, size_t b, int q, int n);

/** Share q of n of all buckets, as buckets that may be cut anywhere. */
ls_status ls_buckets_share(const ls_buckets *buckets, int q, int n, ls_buckets *out);

/** Number of blocks of the variables before element `first`, where a block begins or a variable
 * ends; of all variables, if `first` is `elements`. */
size_t ls_blocks_before(const ls_variables *variables, size_t first);
