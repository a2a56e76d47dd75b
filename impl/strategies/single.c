/* SPDX-License-Identifier: MIT */
/*
 * single: one device, the whole batch. The reference that every other strategy is compared with.
 *
 * Reduction order: in fast mode the kernels' own, over the batch as one piece; in exact mode the
 * fixed binary tree over the shards (slice.h).
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    ls_forward(s, 0, ls_all(s));
    ls_backward(s, 0, ls_all(s));
    ls_clip_gradients(s, LS_TOGETHER);
    ls_update(s, 0, ls_all(s));
}

static ls_status check(const ls_outline *outline)
{
    if (outline->devices != 1 || outline->ranks != 1)
        return ls_fail(LS_CODE_USAGE, "strategy", "single",
                       "this strategy runs on one device of one rank, but the job has --devices "
                       "%zu and --ranks %d; use --devices 1 and --ranks 1, or --strategy mirrored",
                       outline->devices, outline->ranks);
    return LS_OK;
}

const ls_strategy ls_strategy_single = {
    .name = "single",
    .help = "one device, no replication: the reference",
    .rounds = true,
    .check = check,
    .build = build,
    .witness.sum = ls_sum_in_order,
};
