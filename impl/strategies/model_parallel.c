/* SPDX-License-Identifier: MIT */
/*
 * model-parallel: one model divided over the devices by layer or branch. Nothing is replicated:
 * each device holds the variables of its own nodes, and activations and their gradients cross
 * borders.
 *
 * Order of summation: that of `single`, in fast mode as in exact mode.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void build(ls_step *s)
{
    for (int p = 0; p < ls_pieces(s, 0); p++) {
        for (int n = 0; n < ls_nodes(s); n++)
            ls_forward_node(s, 0, p, n);
        for (int n = ls_nodes(s); n-- > 0;)
            ls_backward_node(s, 0, p, n);
    }
    for (int m = 0; m < ls_members(s); m++)
        ls_update(s, m, ls_owned(s, m));
    ls_share_values(s, 0);
    for (int m = ls_members(s); m-- > 0;)
        ls_end(s, m);
}

/* It runs anywhere; how the model is cut is looked at with that (places.h). */
static ls_status check(const ls_outline *outline)
{
    (void)outline;
    return LS_OK;
}

const ls_strategy ls_strategy_model_parallel = {
    .name = "model-parallel",
    .help = "one model divided over the devices by layer or branch",
    .equivalent = true,
    .variables = LS_VARIABLES_PLACED,
    .check = check,
    .build = build,
    .formula = ls_border_traffic,
    .sum = ls_sum_in_order,
};
