/* SPDX-License-Identifier: MIT */
/*
 * spaced: the step of local-sgd with a period of 4 and no option for it. For tests, and only in
 * builds with LOCKSTEP_HOOKS: what is printed about a strategy with a period must follow from the
 * period, not from a name or an option.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    ls_strategy_local_sgd.build(s);
}

static ls_traffic formula(const ls_step *s)
{
    return ls_strategy_local_sgd.witness.formula(s);
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.period = 4;
}

const ls_strategy ls_strategy_spaced = {
    .name = "spaced",
    .help = "for tests: replicas that average their parameters every 4 steps, not equivalent",
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .resolve = resolve,
    .build = build,
    .witness.formula = formula,
    .witness.sum = ls_sum_by_algorithm,
};
