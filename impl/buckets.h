/* SPDX-License-Identifier: MIT */
/*
 * Buckets: ranges of the flat gradient buffer, in the order in which backward makes them final (the
 * last layer's first). Each is reduced by one all-reduce. They depend on the model and a size.
 */
#pragma once

#include "common/nn/graph.h"

typedef struct ls_buckets {
    ls_range *items;
    size_t count;
} ls_buckets;

/**
 * Divides the variables in the first `elements` elements (float32) into buckets of whole variables.
 * All but the last have at least `bytes` bytes. 0: one per variable; SIZE_MAX: a single one.
 */
ls_status ls_buckets_open(const ls_graph *graph, size_t elements, size_t bytes, ls_buckets *out);
void ls_buckets_close(ls_buckets *buckets);

/** Share q of n of a bucket of P elements: its elements floor(q P / n) to floor((q + 1) P / n) - 1;
 * may be empty. */
ls_range ls_bucket_share(ls_range bucket, int q, int n);
