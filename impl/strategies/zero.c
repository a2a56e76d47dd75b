/* SPDX-License-Identifier: MIT */
/*
 * zero: synchronous data parallelism without redundant optimizer state (Rajbhandari et al., "ZeRO:
 * Memory Optimizations Toward Training Trillion Parameter Models", SC 2020), stage 1. Each device
 * has a replica with all parameters and gradients, as in `mirrored`, but updates only its share of
 * every bucket (floor(q P / n) to floor((q + 1) P / n) - 1 of P elements to replica q), and has
 * optimizer state and moving averages of no more. An all-reduce is cut in two: a reduce-scatter
 * gives each replica the sum of its share's gradients, while backward goes on; behind its update,
 * an all-gather gives all replicas its parameters, while it updates the next share.
 *
 * Reduction order: that of `mirrored` with the same algorithm and buckets; in exact mode the fixed
 * tree (slice.h), in buckets of --bucket-bytes, too. Leaves out: stages 2 and 3, which share
 * gradients and parameters, too; sums of libraries; elements of 16 bits: all are float32, so bytes
 * and memory are twice those of bfloat16.
 */
#include "common/comm/comm.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

#include <string.h>

static void build(ls_step *s)
{
    const int n = ls_replicas(s), buckets = ls_buckets_of(s, 0);
    for (int r = 0; r < n; r++)
        ls_forward(s, r);
    for (int b = 0; b < buckets; b++) {
        for (int r = 0; r < n; r++)
            ls_backward(s, r, ls_bucket(s, 0, b));
        ls_reduce_scatter(s, 0, b);
    }
    ls_clip_gradients(s);
    for (int b = 0; b < buckets; b++) {
        for (int r = 0; r < n; r++)
            ls_update(s, r, ls_share(s, r, b));
        ls_all_gather(s, 0, b);
    }
}

static const ls_declared_option stage = {
    "zero-stage", "1",      "1", "", "what is divided over the replicas; 1: optimizer state",
    .low = 1,     .high = 3};

static ls_status check(const ls_outline *o)
{
    const ls_allreduce *algorithm;
    if (ls_declared_number(&o->job->options, &stage) > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--zero-stage",
                       "this version has stage 1 only: optimizer state by shares; use "
                       "--zero-stage 1");
    if (strcmp(o->allreduce, "library") == 0 || strcmp(o->comm, "nccl") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "zero sums in an order of its own, not a library's; use direct, "
                       "ring, halving-doubling or auto");
    if (strcmp(o->allreduce, "auto") == 0)
        return LS_OK;
    LS_TRY(ls_allreduce_find(o->allreduce, &algorithm));
    return ls_allreduce_check_halves(algorithm);
}

const ls_strategy ls_strategy_zero = {
    .name = "zero",
    .help = "mirrored, with the optimizer's state and update shared out over the replicas",
    .equivalent = true,
    .syncs_statistics = true,
    .replicated = true,
    .reduces = true,
    .shares = true,
    .options = (const ls_declared_option *const[]){&stage, NULL},
    .check = check,
    .build = build,
    .formula = ls_halves_traffic,
    .sum = ls_sum_by_algorithm,
};
