/* SPDX-License-Identifier: MIT */
/*
 * A strategy that is added to the registry of a second program, `lockstep_added`, in place of
 * `gossip`: tests see what a strategy gets that no other code knows. It has buffers, arithmetic and
 * options of its own: slow momentum (Wang et al., "SlowMo", arXiv 1910.06677). Replicas train
 * alone; at the end of each period u = beta u + x_old - x_mean, x = x_old - share u / (r + 1) on
 * replica r, so that replicas differ after it (.average.differ).
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

extern const ls_strategy strategy_added;

#define ls_strategy_gossip strategy_added
#include "impl/strategies.c" /* so that the library's own registry is not linked */
#undef ls_strategy_gossip

static const ls_declared_option every = {.name = "added-every",
                                         .placeholder = "K",
                                         .fallback = "2",
                                         .unit = "steps",
                                         .help = "steps of a period",
                                         .low = 1,
                                         .high = 1000};
static const ls_declared_option beta = {.name = "added-beta",
                                        .placeholder = "X",
                                        .fallback = "0.7",
                                        .unit = "",
                                        .help = "decay of the slow momentum",
                                        .type = LS_DECLARED_REAL,
                                        .low = 0,
                                        .high = 1,
                                        .below = true};
static const ls_declared_option share = {.name = "added-share",
                                         .placeholder = "X",
                                         .fallback = "0.5",
                                         .unit = "",
                                         .help = "share of the slow momentum that is applied",
                                         .type = LS_DECLARED_REAL,
                                         .above = true,
                                         .low = 0,
                                         .high = 1};

enum { OLD, SLOW, OWNED };

static const ls_own_buffer owns[] = {{"old parameters", LS_OWNED_PARAMETERS},
                                     {"slow momentum", LS_OWNED_ZEROS}};

static void slow_step(ls_step *s, int r, ls_range due)
{
    const ls_declared_values *options = &ls_step_job(s)->options;
    const ls_span x = ls_parameters(s, r, due), old = ls_own(s, r, OLD, due);
    const ls_span u = ls_own(s, r, SLOW, due);
    const double decay = ls_declared_real(options, &beta);
    const double rate = ls_declared_real(options, &share) / (r + 1);
    ls_combine(s, "distance", x, &(ls_combination){.a = 1, .x = old, .b = -1, .y = x});
    ls_combine(s, "slow momentum", u, &(ls_combination){.a = decay, .x = u, .b = 1, .y = x});
    ls_combine(s, "slow update", old, &(ls_combination){.a = 1, .x = old, .b = -rate, .y = u});
    ls_combine(s, "go on", x, &(ls_combination){.a = 1, .x = old});
    ls_refresh(s, r, due);
}

static void build(ls_step *s)
{
    for (int r = 0; r < ls_replicas(s); r++) {
        ls_forward(s, r, ls_all(s));
        ls_backward(s, r, ls_all(s));
        ls_clip_gradients(s, r);
        if (ls_sums(s, r)) /* a tail batch may leave a replica without samples */
            ls_update(s, r, ls_all(s));
    }
    for (int b = 0; b < ls_bucket_count(s); b++) {
        ls_mean(s, b);
        for (int r = 0; r < ls_replicas(s); r++)
            slow_step(s, r, ls_bucket(s, b));
    }
}

static void replay(const ls_replayed *all)
{
    const float decay = (float)ls_declared_real(&all->job->options, &beta);
    const double rate = ls_declared_real(&all->job->options, &share);
    const float *mean = all->mean(all);
    for (int r = 0; r < all->replicas; r++) {
        float *x = all->parameters[r], *old = all->own[OLD][r], *u = all->own[SLOW][r];
        const float own_rate = (float)(rate / (r + 1));
        for (size_t i = all->due.first; i < all->due.first + all->due.count; i++) {
            u[i] = decay * u[i] + (old[i] - mean[i]);
            x[i] = old[i] -= own_rate * u[i];
        }
    }
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.owned = OWNED;
}

const ls_strategy strategy_added = {
    .name = "added",
    .help = "a strategy of the tests",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&every, &beta, &share, NULL},
    .average = {.period = &every, .differ = true},
    .owns = owns,
    .resolve = resolve,
    .build = build,
    .witness = {.exchange = replay, .formula = ls_moved_traffic, .sum = ls_sum_by_algorithm},
};
