/* SPDX-License-Identifier: MIT */
/* All-reduces by formula, of an unrolled step: each by itself, played once on the engine `ports`.
 */
#pragma once

#include "bench/predict/expand.h"
#include "bench/play/platform.h"
#include "bench/play/play_graph.h"
#include "bench/predict/virtual.h"

/* What an all-reduce by formula takes, of equal ones whose ranks are on like hosts. */
typedef struct ls_formula {
    const ls_expanded *of;       /* NULL means by NCCL's model */
    const ls_virtual_comm *nccl; /* one of them, for that model; NULL if not by it */
    int *hosts;                  /* [ranks] relative to the first rank's */
    ls_play_graph alone;         /* the all-reduce by itself, sealed */
    ls_traffic sent;
    double ns;
} ls_formula;

typedef struct ls_formula_use {
    uint32_t node;
    size_t formula;
} ls_formula_use;

typedef struct ls_formulas {
    ls_formula *items; /* [count] */
    size_t count;
    ls_formula_use *uses; /* [use_count] activities that take as long as one of them */
    size_t use_count;
} ls_formulas;

/** Sets `ns`: what it takes on a platform if its ranks begin together, and no other message uses
 * their ports. */
ls_status ls_formula_time(ls_formula *formula, const ls_platform *platform, int devices_per_host);

/** Sets all, and the activities of the graph that use them. */
ls_status ls_formulas_move(ls_formulas *formulas, ls_play_graph *graph, const ls_platform *platform,
                           int devices_per_host);

void ls_formulas_close(ls_formulas *formulas);
