/* SPDX-License-Identifier: MIT */
/* Buckets of the flat gradient buffer; see buckets.h. */
#include "common/base/grow.h"
#include "common/kernel/kernel_step.h"
#include "common/nn/divide/graph_split.h"
#include "impl/buckets.h"

#include <stdlib.h>

/* Extends the current bucket by the variable in front of it, or begins a new bucket; `separate`: it
 * may not be with that behind it. */
static void take_variable(ls_buckets *b, const ls_variable *v, size_t bytes, bool separate)
{
    ls_range *last = b->count ? &b->items[b->count - 1] : NULL;
    bool adjoins = last && v->offset + v->count == last->first;
    if (!adjoins || separate || bytes == 0 || last->count * sizeof(float) >= bytes) {
        b->items[b->count++] = (ls_range){v->offset, v->count};
        return;
    }
    last->first = v->offset;
    last->count += v->count;
}

/* Notes where the blocks of all buckets begin. */
static ls_status cut_in_blocks(const ls_graph *graph, size_t block, ls_buckets *b)
{
    const ls_variables *v = &graph->variables;
    size_t blocks = 0;
    for (size_t i = 0; i < v->count; i++)
        blocks += (v->items[i].count + block - 1) / block;
    LS_TRY(ls_allocate("buckets", &b->begins, blocks + b->count, sizeof *b->begins));
    size_t *next = b->begins;
    for (size_t k = 0; k < b->count; k++) {
        const ls_range *bucket = &b->items[k];
        b->extents[k] = (ls_extent){.count = bucket->count, .begin = next};
        for (size_t i = 0; i < v->count; i++)
            for (size_t at = 0; at < v->items[i].count; at += block)
                if (ls_range_common(*bucket, (ls_range){v->items[i].offset + at, 1}).count)
                    *next++ = v->items[i].offset + at - bucket->first;
        b->extents[k].blocks = (size_t)(next - b->extents[k].begin);
        *next++ = bucket->count;
    }
    return LS_OK;
}

/* Whether one of two variables, i and the next, belongs to a slice, and the other does not, and
 * slices are not equally large on all places. What all places have must be cut alike, so that an
 * all-reduce adds it in the same order on each. */
static bool parted(const ls_graph *graph, size_t i)
{
    return graph->slices.places > 1 && !graph->slices.alike && i + 1 < graph->variables.count &&
           !ls_graph_slice(graph, i) != !ls_graph_slice(graph, i + 1);
}

/* Whether two variables, i and the next, are in different fragments. */
static bool in_two_fragments(const ls_graph *graph, size_t i, size_t fragments)
{
    const size_t all = graph->variables.count;
    return i * fragments / all != (i + 1) * fragments / all;
}

/* The chunk that owns an element. */
static int chunk_of(const ls_graph_part *part, size_t element)
{
    int chunk = 0;
    while (part && chunk + 1 < part->chunks && element >= part->chunk_element[chunk + 1])
        chunk++;
    return chunk;
}

/* Whether two variables, i and the next, may not be in one bucket. */
static bool must_separate(const ls_graph *graph, size_t i, const ls_bucketing *how)
{
    const ls_variable *v = &graph->variables.items[i];
    return parted(graph, i) || in_two_fragments(graph, i, (size_t)how->fragments) ||
           (i + 1 < graph->variables.count &&
            chunk_of(how->chunks, v[0].offset) != chunk_of(how->chunks, v[1].offset));
}

ls_status ls_buckets_open(const ls_graph *graph, size_t elements, ls_bucketing how, ls_buckets *out)
{
    size_t most = graph->variables.count;
    *out = (ls_buckets){0};
    LS_TRY(ls_allocate("buckets", &out->items, most, sizeof *out->items));
    for (size_t i = most; i-- > 0;)
        if (graph->variables.items[i].offset < elements)
            take_variable(out, &graph->variables.items[i], how.bytes,
                          must_separate(graph, i, &how));
    if (how.chunks && how.chunks->chunks > 1)
        LS_TRY(ls_allocate("buckets", &out->chunk, out->count, sizeof *out->chunk));
    for (size_t b = 0; b < out->count && out->chunk; b++)
        out->chunk[b] = chunk_of(how.chunks, out->items[b].first);
    LS_TRY(ls_allocate("buckets", &out->extents, out->count, sizeof *out->extents));
    for (size_t b = 0; b < out->count; b++)
        out->extents[b] = ls_elements(out->items[b].count);
    return how.block ? cut_in_blocks(graph, how.block, out) : LS_OK;
}

ls_range ls_bucket_share(const ls_buckets *buckets, size_t b, int q, int n)
{
    const size_t first = ls_comm_cut(buckets->extents[b], q, n);
    return (ls_range){buckets->items[b].first + first,
                      ls_comm_cut(buckets->extents[b], q + 1, n) - first};
}

ls_status ls_buckets_share(const ls_buckets *buckets, int q, int n, ls_buckets *out)
{
    *out = (ls_buckets){0};
    LS_TRY(ls_allocate("buckets", &out->items, buckets->count, sizeof *out->items));
    LS_TRY(ls_allocate("buckets", &out->extents, buckets->count, sizeof *out->extents));
    for (; out->count < buckets->count; out->count++) {
        out->items[out->count] = ls_bucket_share(buckets, out->count, q, n);
        out->extents[out->count] = ls_elements(out->items[out->count].count);
    }
    return LS_OK;
}

size_t ls_blocks_before(const ls_variables *variables, size_t first)
{
    int64_t blocks = 0;
    for (size_t i = 0; i < variables->count && variables->items[i].offset < first; i++) {
        const ls_variable *v = &variables->items[i];
        const size_t before = first - v->offset;
        blocks += ls_square_blocks((int64_t)(before < v->count ? before : v->count));
    }
    return (size_t)blocks;
}

void ls_buckets_close(ls_buckets *buckets)
{
    free(buckets->items);
    free(buckets->extents);
    free(buckets->begins);
    free(buckets->chunk);
    *buckets = (ls_buckets){0};
}
