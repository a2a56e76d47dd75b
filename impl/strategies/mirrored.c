/* SPDX-License-Identifier: MIT */
/*
 * mirrored: a replica on each device with variables of its own, kept equal by an all-reduce of the
 * gradients, as in synchronous data parallelism with mirrored variables. Each bucket of gradients
 * is reduced as soon as backward has made it final.
 *
 * Order of summation: fast mode the all-reduce algorithm's own (its file's head), bucket by bucket;
 * exact mode `canonical`, the rest of the tree over the replicas' finished subtrees, in one bucket.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    const int n = ls_replicas(s), buckets = ls_buckets_of(s, 0);
    for (int r = 0; r < n; r++)
        ls_forward(s, r);
    for (int b = 0; b < buckets; b++) {
        for (int r = 0; r < n; r++)
            ls_backward(s, r, ls_bucket(s, 0, b));
        ls_all_reduce(s, 0, b);
    }
    for (int r = 0; r < n; r++) {
        for (int b = 0; b < buckets; b++)
            ls_update(s, r, ls_bucket(s, 0, b));
        ls_end(s, r);
    }
}

const ls_strategy ls_strategy_mirrored = {
    .name = "mirrored",
    .help = "a replica per device, gradients summed by an all-reduce in buckets",
    .equivalent = true,
    .syncs_statistics = true,
    .replicated = true,
    .reduces = true,
    .build = build,
    .formula = ls_reduced_traffic,
    .sum = ls_sum_by_algorithm,
};
