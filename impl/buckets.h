/* SPDX-License-Identifier: MIT */
/*
 * Buckets: ranges of the flat gradient buffer, each reduced by one all-reduce, in the order in
 * which backward makes them final (the last layer's first). They follow from the model and a size.
 */
#pragma once

#include "common/nn/graph.h"

typedef struct ls_buckets {
    ls_range *items;
    size_t count;
} ls_buckets;

/**
 * Divides the variables in the first `elements` (float32) into buckets of whole variables, of at
 * least `bytes` bytes each but for the last one; 0: one per variable; SIZE_MAX: one for all.
 */
ls_status ls_buckets_open(const ls_graph *graph, size_t elements, size_t bytes, ls_buckets *out);
void ls_buckets_close(ls_buckets *buckets);
