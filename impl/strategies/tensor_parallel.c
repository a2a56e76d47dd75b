/* SPDX-License-Identifier: MIT */
/*
 * tensor-parallel: one model whose layers are split over the devices (Shoeybi et al.,
 * "Megatron-LM", arXiv 1909.08053). From two dense layers in a row, and what is between them, each
 * device, a place, computes some columns of the first, and from them its part of the second one's
 * sum: attention by heads, an MLP block by its inner width. So one sum over the places is needed
 * forward, of outputs, and one backward, of the gradients of the first layer's inputs. All other
 * layers are computed by every place alike, with its own variables, which keep equal bits
 * everywhere.
 *
 * Reduction order: in fast mode a place has one slice, and sums follow the all-reduce algorithm;
 * single with as many slices, summed in that order, has the same bits. In exact mode there are
 * --micro-splits slices on any number of places up to that, summed in the fixed tree of slices;
 * `single` with as many has the same bits. With --tensor-parallel-sequence (Korthikanti et al.,
 * arXiv 2205.05198) other layers have a block of positions on each place; fast mode only: the
 * gradients of their variables are sums over blocks, in order. Leaves out: sums of libraries, since
 * an error's bound does not survive a nonlinear network; overlap of sums with passes.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

/* A node that is split runs on all places; ls_run_node sums over them. */
static void build(ls_step *s)
{
    ls_pass_nodes(s, 0);
    ls_clip_gradients(s, LS_TOGETHER);
    for (int place = 0; place < ls_members(s); place++)
        ls_update(s, place, ls_all(s));
}

static void resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->division.sequence = ls_declared_number(&job->options, &ls_option_tensor_parallel_sequence);
}

const ls_strategy ls_strategy_tensor_parallel = {
    .name = "tensor-parallel",
    .help = "one model whose layers are split over the devices, by columns, rows and heads",
    .rounds = true,
    .spreads = {.mesh.rest = LS_SLICE, .parameters.on[LS_SLICE] = LS_PLACED},
    .options = (const ls_declared_option *const[]){&ls_option_tensor_parallel_sequence, NULL},
    .resolve = resolve,
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
