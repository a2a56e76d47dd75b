/* SPDX-License-Identifier: MIT */
/*
 * context-parallel: one model whose sequences are divided over the devices by their positions
 * (Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509), for sequences that do not fit one device.
 * Each device, a place, has all variables, and two blocks of the positions of every sequence: place
 * j of c has blocks j and 2c - 1 - j of 2c. Only attention needs more than its own position. So
 * before it an all-to-all gives each place q, k and v of all positions for some of the heads, and
 * another one takes the outputs back; backward, their gradients take the same way. The gradients of
 * the variables are sums over positions: an all-reduce over all places.
 *
 * Each position's loss is scaled once, by 1 / (B T), wherever it is; so places with more positions
 * weigh more, and there are only sums.
 *
 * Reduction order: the all-reduce algorithm's over all devices, as `mirrored` has it, where device
 * d c + j has the gradient of the positions of place j in replica d (of `hybrid`; else 0). Leaves
 * out: exact mode, whose fixed tree has samples as leaves, and no blocks of positions; models with
 * other layers than gpt; sums of libraries; a ring of keys and values, which would take more places
 * than heads.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    for (int e = 0; ls_next_exchange(s, e); e++) {
        for (int r = 0; r < ls_replicas(s); r++)
            ls_pass_nodes(s, r);
        for (int b = 0; b < ls_bucket_count(s); b++)
            ls_give(s, b);
    }
    ls_clip_gradients(s, LS_TOGETHER);
    for (int m = 0; m < ls_members(s); m++)
        for (int b = 0; b < ls_bucket_count(s); b++)
            ls_update(s, m, ls_bucket(s, b));
}

const ls_strategy ls_strategy_context_parallel = {
    .name = "context-parallel",
    .help = "one model whose sequences are divided over the devices by their positions",
    .spreads = {.mesh.rest = LS_POSITION, .gradients.on[LS_POSITION] = LS_PARTIAL},
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_by_algorithm,
};
