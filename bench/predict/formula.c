/* SPDX-License-Identifier: MIT */
/* All-reduces by formula; see formula.h. */
#include "bench/predict/formula.h"

#include "bench/predict/nccl_model.h"

#include <stdlib.h>

ls_status ls_formula_time(ls_formula *f, const ls_platform *platform, int per_host)
{
    return f->nccl ? ls_nccl_allreduce(f->nccl, platform, per_host, &f->ns)
                   : ls_play_longest(&f->alone, platform, per_host, &f->ns);
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
