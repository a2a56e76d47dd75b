/* SPDX-License-Identifier: MIT */
/*
 * local-sgd: every replica trains alone on its part of the batch; every H steps, replicas average
 * their parameters (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019). A
 * gradient is the mean over the replica's own samples. Optimizer state is not averaged. Parameters
 * are summed in the order of the all-reduce, bucket by bucket, and divided by the replicas.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    for (int r = 0; r < ls_replicas(s); r++) {
        ls_forward(s, r);
        ls_backward(s, r, ls_all(s));
        ls_clip_alone(s, r);
        if (ls_sums(s, r)) /* a tail batch may leave a replica without samples */
            ls_update(s, r, ls_all(s));
    }
    if (ls_ends_period(s))
        ls_average(s);
}

static const ls_declared_option every = {"local-sgd-every",
                                         "H",
                                         "10",
                                         "steps",
                                         "after which replicas average their parameters",
                                         .low = 1,
                                         .high = 1000000};

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.own_mean = true;
}

/* An all-reduce of the parameters once a period. */
static ls_traffic formula(const ls_step *s)
{
    return ls_ends_period(s) ? ls_moved_traffic(s) : (ls_traffic){0};
}

const ls_strategy ls_strategy_local_sgd = {
    .name = "local-sgd",
    .help = "replicas that average their parameters every H steps, not equivalent",
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN, .parameters.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&every, NULL},
    .average.period = &every,
    .resolve = resolve,
    .build = build,
    .witness.formula = formula,
    .witness.sum = ls_sum_by_algorithm,
};
