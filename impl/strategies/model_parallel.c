/* SPDX-License-Identifier: MIT */
/*
 * model-parallel: one model divided over the devices by layer or branch, without replication. Each
 * device owns the variables of its nodes. Activations and their gradients are sent between devices.
 *
 * Reduction order: as `single`, in fast and in exact mode.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

void ls_pass_nodes(ls_step *s, int replica)
{
    const ls_range pieces = ls_pieces(s, replica);
    for (size_t p = pieces.first; p < pieces.first + pieces.count; p++) {
        for (int n = 0; n < ls_nodes(s); n++)
            ls_run_node(s, replica, p, n, LS_PASS_FORWARD);
        for (int n = ls_nodes(s); n-- > 0;)
            ls_run_node(s, replica, p, n, LS_PASS_BACKWARD);
    }
}

/* Each place updates its variables, and sends the ones that others use, too. */
static void build(ls_step *s)
{
    ls_pass_nodes(s, 0);
    ls_clip_gradients(s, LS_TOGETHER);
    for (int m = 0; m < ls_members(s); m++)
        ls_update(s, m, ls_all(s));
    ls_settle(s);
}

const ls_strategy ls_strategy_model_parallel = {
    .name = "model-parallel",
    .help = "one model divided over the devices by layer or branch",
    .rounds = true,
    .spreads = {.mesh.rest = LS_STAGE, .parameters.on[LS_STAGE] = LS_PLACED},
    .options = (const ls_declared_option *const[]){&ls_option_model_parallel_place, NULL},
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
