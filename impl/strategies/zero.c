/* SPDX-License-Identifier: MIT */
/*
 * zero: synchronous data parallelism without redundant memory (Rajbhandari et al., "ZeRO: Memory
 * Optimizations Toward Training Trillion Parameter Models", SC 2020; stage 3 is PyTorch's FSDP).
 * Replica q of n owns, and alone updates, a share of every bucket: of P elements floor(q P / n) to
 * floor((q + 1) P / n) - 1. In stage 1 it holds shares of optimizer state and moving averages. In
 * stage 2 it holds shares of gradients, too; complete gradients of two buckets are in windows,
 * which the buckets take in turns. In stage 3 it holds shares of parameters, too; complete
 * parameters of W buckets are gathered into windows before each of their passes. A gather waits
 * until its window is not read any more, so it runs while W - 1 other buckets are computed. In
 * backward, a gather is issued before the pass that needs it. Issued after the reduce-scatter, it
 * would queue behind it on the communication lane. In `hybrid` (HSDP) groups of n replicas sum
 * their shares.
 *
 * Reduction order: as `mirrored` with the same algorithm and buckets; in exact mode the fixed tree
 * (slice.h), in buckets of --bucket-bytes, too. With --gradient-wire bf16 a share's owner keeps its
 * float32 sum of what the replicas sent. Leaves out: sums of libraries; gradients of several
 * batches without an exchange.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

enum { WINDOWS = 2 }; /* of gradients */

static void build(ls_step *s)
{
    const int n = ls_replicas(s), buckets = ls_bucket_count(s);
    for (int e = 0; ls_next_exchange(s, e); e++) {
        for (int b = buckets; b-- > 0;) {
            ls_need(s, b, LS_PASS_FORWARD);
            for (int r = 0; r < n; r++)
                ls_forward(s, r, ls_bucket(s, b));
        }
        for (int b = 0; b < buckets; b++) {
            ls_need(s, b, LS_PASS_BACKWARD);
            for (int r = 0; r < n; r++)
                ls_backward(s, r, ls_bucket(s, b));
            ls_give(s, b);
        }
    }
    ls_clip_gradients(s, LS_TOGETHER);
    for (int b = 0; b < buckets; b++)
        for (int r = 0; r < n; r++)
            ls_update(s, r, ls_share(s, r, b));
    ls_settle(s);
}

static void resolve(ls_job *job, int ranks)
{
    const int64_t number = ls_declared_number(&job->options, &ls_option_zero_stage);
    const int count = (int)ls_declared_number(&job->options, &ls_option_zero_windows);
    (void)ranks;
    const bool again = ls_declared_number(&job->options, &ls_option_zero_reshard);
    job->state.on[LS_MEMBER] = LS_SHARE;
    if (number > 1)
        job->gradients = (ls_spread){{[LS_MEMBER] = LS_SHARE}, number == 3 ? count : WINDOWS};
    if (number == 3)
        job->parameters = (ls_spread){{[LS_MEMBER] = LS_SHARE}, again ? count : LS_ALL_WINDOWS};
    for (int i = 0; i < LS_DECLARED_MOST; i++)
        job->division.windows_given |= job->options.items[i].option == &ls_option_zero_windows;
}

const ls_strategy ls_strategy_zero = {
    .name = "zero",
    .help = "mirrored, with optimizer state, gradients, parameters shared out (ZeRO 1-3, FSDP)",
    .rounds = true,
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL, .state.on[LS_MEMBER] = LS_SHARE},
    .options =
        (const ls_declared_option *const[]){&ls_option_zero_stage, &ls_option_zero_reshard,
                                            &ls_option_zero_windows, &ls_option_zero_accumulation,
                                            &ls_option_accumulation_exchange,
                                            &ls_option_gradient_wire, NULL},
    .resolve = resolve,
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_by_algorithm,
};
