/* SPDX-License-Identifier: MIT */
/* Buckets of a flat gradient buffer; see buckets.h. */
#include "impl/buckets.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* Puts a variable in front of the bucket that is being filled, or begins the next one. */
static void take_variable(ls_buckets *b, const ls_variable *v, size_t bytes)
{
    ls_range *last = b->count ? &b->items[b->count - 1] : NULL;
    bool adjoins = last && v->offset + v->count == last->first;
    if (!adjoins || bytes == 0 || last->count * sizeof(float) >= bytes) {
        b->items[b->count++] = (ls_range){v->offset, v->count};
        return;
    }
    last->first = v->offset;
    last->count += v->count;
}

ls_status ls_buckets_open(const ls_graph *graph, size_t elements, size_t bytes, ls_buckets *out)
{
    size_t most = graph->variables.count;
    *out = (ls_buckets){.items = calloc(most + 1, sizeof *out->items),
                        .left = calloc(most + 1, sizeof *out->left)};
    if (!out->items || !out->left) {
        ls_buckets_close(out);
        return ls_fail_memory("buckets", most * sizeof *out->items);
    }
    for (size_t i = most; i-- > 0;)
        if (graph->variables.items[i].offset < elements)
            take_variable(out, &graph->variables.items[i], bytes);
    return LS_OK;
}

void ls_buckets_close(ls_buckets *buckets)
{
    free(buckets->items);
    free(buckets->left);
    *buckets = (ls_buckets){0};
}

void ls_buckets_begin(ls_buckets *buckets)
{
    for (size_t i = 0; i < buckets->count; i++)
        buckets->left[i] = buckets->items[i].count;
}

ls_status ls_buckets_final(ls_buckets *buckets, size_t first, size_t count,
                           ls_status (*ready)(void *context, size_t bucket), void *context)
{
    for (size_t i = 0; i < buckets->count; i++) {
        const ls_range *b = &buckets->items[i];
        size_t from = first > b->first ? first : b->first;
        size_t to = first + count < b->first + b->count ? first + count : b->first + b->count;
        if (from >= to)
            continue;
        bool early = LS_PLANTED(bucket_early) && buckets->left[i] == b->count;
        bool left_out = LS_PLANTED(bucket_left_out) && i + 1 == buckets->count;
        buckets->left[i] -= to - from;
        if (LS_PLANTED(bucket_early) ? early : !buckets->left[i] && !left_out)
            LS_TRY(ready(context, i));
    }
    return LS_OK;
}
