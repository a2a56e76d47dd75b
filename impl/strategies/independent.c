/* SPDX-License-Identifier: MIT */
/*
 * independent: every replica trains alone on its part of the batch, without communication: an upper
 * bound on the speed of replication. Not equal to `single`, and its rows say so.
 *
 * Parameters diverge; the first replica's are evaluated and saved.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

void ls_train_alone(ls_step *s)
{
    for (int r = 0; r < ls_replicas(s); r++) {
        ls_forward(s, r, ls_all(s));
        ls_backward(s, r, ls_all(s));
        ls_clip_gradients(s, r);
        if (ls_sums(s, r)) /* a tail batch may leave a replica without samples */
            ls_update(s, r, ls_all(s));
    }
}

const ls_strategy ls_strategy_independent = {
    .name = "independent",
    .help = "replicas that exchange nothing: the upper bound, not equivalent",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_OWN},
    .build = ls_train_alone,
};
