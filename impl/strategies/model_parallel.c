/* SPDX-License-Identifier: MIT */
/*
 * model-parallel: one model divided over the devices by layer or branch, without replication. Each
 * device owns the variables of its nodes. Activations and their gradients are sent between devices.
 *
 * Reduction order: as `single`, in fast and in exact mode.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void passes(ls_step *s, int replica)
{
    const int first = ls_first_piece(s, replica), end = first + ls_pieces(s, replica);
    for (int p = first; p < end; p++) {
        for (int n = 0; n < ls_nodes(s); n++)
            ls_forward_node(s, replica, p, n);
        for (int n = ls_nodes(s); n-- > 0;)
            ls_backward_node(s, replica, p, n);
    }
}

const ls_declared_option ls_option_model_parallel_place = {
    .name = "model-parallel-place",
    .placeholder = "NODE=DEVICE,..",
    .follows = true,
    .fallback = "none",
    .unit = "",
    .help = "device of each layer, dense0=cpu:0,dense1=cpu:1, or a file; none: balanced by their "
            "work",
    .type = LS_DECLARED_TEXT,
    .high = 512,
    .continues = true,
};

const ls_strategy ls_strategy_model_parallel = {
    .name = "model-parallel",
    .help = "one model divided over the devices by layer or branch",
    .rounds = true,
    .spreads = {.mesh.rest = LS_STAGE, .parameters.on[LS_STAGE] = LS_PLACED},
    .options = (const ls_declared_option *const[]){&ls_option_model_parallel_place, NULL},
    .build = ls_build_divided,
    .passes = passes,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
