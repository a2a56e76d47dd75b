/* SPDX-License-Identifier: MIT */
/* All-reduces by formula; see formula.h. */
#include "bench/predict/formula.h"

#include "bench/play/engine.h"
#include "bench/predict/nccl_model.h"
#include "common/base/grow.h"

#include <stdlib.h>

/* The all-reduce by itself, on ports that its own messages share. */
static ls_status play_alone(const ls_play_graph *graph, const ls_platform *platform, int per_host,
                            double *ns)
{
    ls_play play = {.graph = graph, .platform = platform, .devices_per_host = per_host};
    ls_auto double *end_ns = NULL;
    for (size_t n = 0; n < graph->count; n++) {
        const ls_activity_node *node = &graph->nodes[n];
        const int last = node->from > node->to ? node->from : node->to;
        play.devices = last >= play.devices ? last + 1 : play.devices;
    }
    LS_TRY(ls_allocate("all-reduce", &end_ns, graph->count + 1, sizeof *end_ns));
    *ns = 0;
    LS_TRY(ls_engine_play(LS_ENGINE_PORTS, &play, end_ns));
    for (size_t n = 0; n < graph->count; n++)
        *ns = end_ns[n] > *ns ? end_ns[n] : *ns;
    return LS_OK;
}

ls_status ls_formula_time(ls_formula *f, const ls_platform *platform, int per_host)
{
    return f->nccl ? ls_nccl_allreduce(f->nccl, platform, per_host, &f->ns)
                   : play_alone(&f->alone, platform, per_host, &f->ns);
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
