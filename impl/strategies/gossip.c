/* SPDX-License-Identifier: MIT */
/*
 * gossip: every replica trains alone on its part of the batch, and after each step averages its
 * parameters with its two neighbours on a ring of replicas (Lian et al., "Can Decentralized
 * Algorithms Outperform Centralized Algorithms?", NIPS 2017; there the gradient is taken before the
 * average, here the average of the updated parameters is). A gradient is the mean over the
 * replica's own samples. Optimizer state is not averaged. Two replicas are one neighbour each.
 *
 * Parameters are summed in the order of the replicas' numbers, and divided by how many there are.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static int neighbours(int replica, int count, int *out)
{
    const int before = (replica + count - 1) % count, after = (replica + 1) % count;
    if (count < 3) {
        out[0] = after;
        return count - 1;
    }
    out[0] = before < after ? before : after;
    out[1] = before < after ? after : before;
    return 2;
}

static void build(ls_step *s)
{
    ls_train_alone(s);
    ls_average(s);
}

/* Each replica's parameters to each of its neighbours. */
static ls_traffic formula(const ls_step *s)
{
    const uint64_t n = (uint64_t)ls_replicas(s), messages = n * (n < 3 ? n - 1 : 2);
    return (ls_traffic){messages * ls_all(s).count * sizeof(float), messages};
}

const ls_strategy ls_strategy_gossip = {
    .name = "gossip",
    .help = "replicas that average parameters with their neighbours on a ring, not equivalent",
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN},
    .average.peers = neighbours,
    .build = build,
    .witness.formula = formula,
};
