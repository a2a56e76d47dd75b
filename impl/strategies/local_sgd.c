/* SPDX-License-Identifier: MIT */
/*
 * local-sgd: every replica trains alone on its part of the batch; every H steps, replicas average
 * their parameters (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019), or make
 * the average's distance the gradient of an outer optimizer (Douillard et al., "DiLoCo",
 * arXiv 2311.08105). A gradient is the mean over the replica's own samples. The inner optimizer's
 * state is never exchanged. Parameters, or distances, are summed in the order of the all-reduce,
 * bucket by bucket. With F fragments (arXiv 2501.18512), one is exchanged every H / F steps.
 */
#include "impl/outer_optimizer.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

#include <stddef.h>

enum { THETA, MOMENTUM }; /* numbers of its own buffers */

static const ls_own_buffer owns[] = {{"outer parameters", LS_OWNED_PARAMETERS},
                                     {"outer momentum", LS_OWNED_ZEROS}};

/* theta -= lr D, or v = mu v + D, theta -= lr (D + mu v); D is in place of the parameters, which
 * become theta. */
static void outer_step(ls_step *s, int r, ls_range range, const ls_outer_rule *rule)
{
    const ls_span p = ls_parameters(s, r, range), theta = ls_own(s, r, THETA, range);
    if (rule->kind == LS_OUTER_NESTEROV) {
        const ls_span v = ls_own(s, r, MOMENTUM, range);
        ls_combine(s, "momentum", v,
                   &(ls_combination){.a = rule->momentum, .x = v, .b = 1, .y = p});
        ls_combine(s, "look ahead", p,
                   &(ls_combination){.a = 1, .x = p, .b = rule->momentum, .y = v});
    }
    ls_combine(s, "outer update", theta,
               &(ls_combination){.a = 1, .x = theta, .b = -rule->rate, .y = p});
    ls_combine(s, "go on", p, &(ls_combination){.a = 1, .x = theta});
}

/* For each bucket that is due: d = theta - theta_r on every replica; D, the mean of all d; the
 * outer optimizer's step with D as its gradient. */
static void exchange(ls_step *s, const ls_outer_rule *rule)
{
    const int n = ls_replicas(s);
    for (int b = 0; b < ls_bucket_count(s); b++) {
        const ls_range range = ls_bucket(s, b); /* empty unless it is due */
        for (int r = 0; r < n; r++) {
            const ls_span p = ls_parameters(s, r, range), theta = ls_own(s, r, THETA, range);
            ls_combine(s, "distance", p, &(ls_combination){.a = 1, .x = theta, .b = -1, .y = p});
        }
        ls_mean(s, b);
        for (int r = 0; r < n; r++)
            outer_step(s, r, range, rule);
        for (int r = 0; r < n; r++)
            ls_refresh(s, r, range);
    }
}

static void build(ls_step *s)
{
    const ls_outer_rule rule = ls_outer_rule_of(&ls_step_job(s)->options);
    ls_train_alone(s);
    if (rule.kind == LS_OUTER_AVERAGE)
        ls_average(s);
    else
        exchange(s, &rule);
}

/* The exchange by plain loops, for the gate. */
static void replay(const ls_replayed *all)
{
    const ls_outer_rule rule = ls_outer_rule_of(&all->job->options);
    const float rate = (float)rule.rate, mu = (float)rule.momentum;
    const size_t end = all->due.first + all->due.count;
    for (int r = 0; r < all->replicas; r++)
        for (size_t i = all->due.first; i < end; i++)
            all->parameters[r][i] = all->own[THETA][r][i] - all->parameters[r][i];
    const float *mean = all->mean(all);
    for (int r = 0; r < all->replicas; r++) {
        float *theta = all->own[THETA][r], *v = all->own[MOMENTUM] ? all->own[MOMENTUM][r] : NULL;
        for (size_t i = all->due.first; i < end; i++) {
            if (v)
                v[i] = mu * v[i] + mean[i];
            const float step = v ? mean[i] + mu * v[i] : mean[i];
            theta[i] -= rate * step;
            all->parameters[r][i] = theta[i];
        }
    }
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    (void)ranks;
    return option == &ls_option_local_sgd_every || option == &ls_option_local_sgd_outer ||
           ls_outer_rule_of(values).kind != LS_OUTER_AVERAGE;
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.owned = (int)ls_outer_rule_of(&job->options).kind;
    job->update.fragments = (int)ls_declared_number(&job->options, &ls_option_local_sgd_fragments);
    job->exchange.wire = (ls_wire_form)ls_declared_number(&job->options, &ls_option_local_sgd_wire);
}

const ls_strategy ls_strategy_local_sgd = {
    .name = "local-sgd",
    .help = "replicas that average their parameters every H steps, not equivalent",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .options =
        (const ls_declared_option *const[]){&ls_option_local_sgd_every, &ls_option_local_sgd_outer,
                                            &ls_option_local_sgd_wire,
                                            &ls_option_local_sgd_fragments, NULL},
    .has = has,
    .average.period = &ls_option_local_sgd_every,
    .owns = owns,
    .resolve = resolve,
    .build = build,
    .witness.formula = ls_moved_traffic, /* traffic of what is due */
    .witness.exchange = replay,
    .witness.sum = ls_sum_by_algorithm,
};
