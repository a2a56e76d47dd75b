/* SPDX-License-Identifier: MIT */
/*
 * Buckets: ranges of the flat gradient buffer that are reduced together, in the order in which
 * they become final in backward (the last layer's first). A function of the model and a size.
 */
#pragma once

#include "common/nn/graph.h"

typedef struct ls_buckets {
    ls_range *items;
    size_t count;
} ls_buckets;

/**
 * Buckets of the variables in the first `elements`, of at least `bytes` bytes (the last may be
 * smaller), each of whole variables; 0: one per variable; SIZE_MAX: one for all. Elements are
 * float32.
 */
ls_status ls_buckets_open(const ls_graph *graph, size_t elements, size_t bytes, ls_buckets *out);
void ls_buckets_close(ls_buckets *buckets);
