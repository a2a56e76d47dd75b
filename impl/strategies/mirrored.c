/* SPDX-License-Identifier: MIT */
/*
 * mirrored: synchronous data parallelism. Each device has a replica with its own copy of the
 * variables; an all-reduce of the gradients keeps the copies equal. A bucket of gradients is
 * reduced as soon as backward has made it final, while backward goes on with earlier layers.
 *
 * Reduction order: in fast mode the all-reduce algorithm's own (see the head of its file), bucket
 * by bucket; in exact mode a fixed binary tree (slice.h, allreduce_canonical.c), in one bucket.
 * With
 * --gradient-wire bf16: `owners`, of rounded gradients, and the rounded sum (comm_wire.h).
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    const int n = ls_replicas(s), buckets = ls_bucket_count(s);
    for (int e = 0; ls_next_exchange(s, e); e++) {
        for (int r = 0; r < n; r++)
            ls_forward(s, r, ls_all(s));
        for (int b = 0; b < buckets; b++) {
            for (int r = 0; r < n; r++)
                ls_backward(s, r, ls_bucket(s, b));
            ls_give(s, b);
        }
    }
    ls_clip_gradients(s, LS_TOGETHER);
    for (int r = 0; r < n; r++)
        for (int b = 0; b < buckets; b++)
            ls_update(s, r, ls_bucket(s, b));
}

const ls_strategy ls_strategy_mirrored = {
    .name = "mirrored",
    .help = "a replica per device, gradients summed by an all-reduce in buckets",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL},
    .options = (const ls_declared_option *const[]){&ls_option_accumulation_exchange,
                                                   &ls_option_gradient_wire, NULL},
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_by_algorithm,
};
