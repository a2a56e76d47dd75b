/* SPDX-License-Identifier: MIT */
/* Buckets of the flat gradient buffer; see buckets.h. */
#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "impl/buckets.h"

#include <stdlib.h>

/* Extends the current bucket by the variable in front of it, or begins a new bucket. */
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
    *out = (ls_buckets){0};
    LS_TRY(ls_allocate("buckets", &out->items, most, sizeof *out->items));
    for (size_t i = most; i-- > 0;)
        if (graph->variables.items[i].offset < elements)
            take_variable(out, &graph->variables.items[i], bytes);
    return LS_OK;
}

ls_range ls_bucket_share(ls_range bucket, int q, int n)
{
    const size_t first = ls_comm_share(bucket.count, q, n);
    return (ls_range){bucket.first + first, ls_comm_share(bucket.count, q + 1, n) - first};
}

void ls_buckets_close(ls_buckets *buckets)
{
    free(buckets->items);
    *buckets = (ls_buckets){0};
}
