/* SPDX-License-Identifier: MIT */
/*
 * A strategy that is added to the registry of a second program, `lockstep_added`, in place of
 * `gossip`: tests see what a strategy gets that no other code knows. Replicas train alone and
 * average their parameters a few times in each 100 steps; how often is a real number.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

extern const ls_strategy strategy_added;

#define ls_strategy_gossip strategy_added
#include "impl/strategies.c" /* so that the library's own registry is not linked */
#undef ls_strategy_gossip

static const ls_declared_option often = {.name = "added-share",
                                         .placeholder = "X",
                                         .fallback = "0.5",
                                         .unit = "",
                                         .help = "share of the steps that average parameters",
                                         .type = LS_DECLARED_REAL,
                                         .above = true,
                                         .low = 0,
                                         .high = 1};

static void build(ls_step *s)
{
    for (int r = 0; r < ls_replicas(s); r++) {
        ls_forward(s, r, ls_all(s));
        ls_backward(s, r, ls_all(s));
        ls_clip_gradients(s, r);
        if (ls_sums(s, r)) /* a tail batch may leave a replica without samples */
            ls_update(s, r, ls_all(s));
    }
    ls_average(s);
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.own_mean = true;
    job->update.period = (int)(1 / ls_declared_real(&job->options, &often));
}

static ls_traffic formula(const ls_step *s)
{
    return ls_moved_traffic(s);
}

const ls_strategy strategy_added = {
    .name = "added",
    .help = "a strategy of the tests",
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&often, NULL},
    .resolve = resolve,
    .build = build,
    .witness.formula = formula,
    .witness.sum = ls_sum_by_algorithm,
};
