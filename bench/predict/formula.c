/* SPDX-License-Identifier: MIT */
/* All-reduces by formula; see formula.h. */
#include "bench/predict/formula.h"

#include "common/base/grow.h"

#include <stdlib.h>

static double path_ns(const ls_platform *platform, int per_host, const ls_activity_node *node)
{
    if (node->to < 0)
        return node->amount;
    const ls_platform_level between = ls_platform_between(platform, per_host, node->from, node->to);
    return node->rounds * between.latency_ns +
           (between.bytes_per_s > 0 ? node->amount * 1e9 / between.bytes_per_s : 0);
}

/* The longest path through a sealed graph. */
static ls_status longest_path(const ls_platform *platform, int per_host, const ls_play_graph *g,
                              double *out)
{
    double *begin = NULL;
    uint32_t *waits = NULL, *ready = NULL;
    size_t count = 0;
    ls_status status = ls_allocate("predict", &begin, g->count + 1, sizeof *begin);
    if (!status)
        status = ls_allocate("predict", &waits, g->count + 1, sizeof *waits);
    if (!status)
        status = ls_allocate("predict", &ready, g->count + 1, sizeof *ready);
    *out = 0;
    for (uint32_t n = 0; !status && n < g->count; n++) {
        waits[n] = g->nodes[n].waits;
        if (!waits[n])
            ready[count++] = n;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t n = ready[i];
        const double end = begin[n] + path_ns(platform, per_host, &g->nodes[n]);
        *out = end > *out ? end : *out;
        for (size_t e = g->first[n]; e < g->first[n + 1]; e++) {
            double *next = &begin[g->next[e]];
            *next = end > *next ? end : *next;
            if (--waits[g->next[e]] == 0)
                ready[count++] = g->next[e];
        }
    }
    if (!status && count < g->count)
        status = ls_fail(LS_CODE_CHECK, "predict", "all-reduce", "its ranks wait for each other");
    free(begin);
    free(waits);
    free(ready);
    return status;
}

ls_status ls_formula_time(ls_formula *f, const ls_platform *platform, int per_host)
{
    return longest_path(platform, per_host, &f->alone, &f->ns);
}

ls_status ls_formulas_move(ls_formulas *all, ls_play_graph *graph, const ls_platform *platform,
                           int per_host)
{
    for (size_t i = 0; i < all->count; i++)
        LS_TRY(ls_formula_time(&all->items[i], platform, per_host));
    for (size_t i = 0; i < all->use_count; i++)
        graph->nodes[all->uses[i].node].amount = all->items[all->uses[i].formula].ns;
    return LS_OK;
}

void ls_formulas_close(ls_formulas *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].hosts);
        ls_play_close(&all->items[i].alone);
    }
    free(all->items);
    free(all->uses);
}
