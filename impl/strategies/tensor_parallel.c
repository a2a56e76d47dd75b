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
#include "common/comm/comm.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

const ls_declared_option ls_option_tensor_parallel_sequence = {
    "tensor-parallel-sequence",
    "no|yes",
    "no",
    "",
    "yes: norms and residuals are divided by positions (sequence parallelism)",
    .type = LS_DECLARED_SWITCH};

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

/* Whether positions can be divided, too. */
static ls_status check_sequence(const ls_outline *o)
{
    if (o->job->exact.on)
        return ls_fail(
            LS_CODE_USAGE, "option", "--tensor-parallel-sequence",
            "the gradients of layer norms would be summed over positions in an order that depends "
            "on the number of devices, which --reduce exact does not allow; use --reduce fast");
    if (o->job->mesh.size[LS_STAGE] > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--tensor-parallel-sequence",
                       "stages of a pipeline exchange complete sequences, which this option "
                       "divides over devices; use --hybrid-stages 1");
    return ls_refuse_uncut(o);
}

static ls_status check(const ls_outline *o)
{
    const int64_t splits = o->job->exact.splits;
    const int places = ls_mesh_of(o->job->mesh, (int)o->devices * o->ranks).size[LS_SLICE];
    LS_TRY(ls_refuse_library(o,
                             "sums activations in an unknown order, so the check against the "
                             "reference could not repeat the sums of --strategy tensor-parallel",
                             "direct, ring, tree, halving-doubling, flat or auto"));
    if (o->job->division.sequence)
        LS_TRY(check_sequence(o));
    if (o->job->exact.on && splits < places)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-splits",
                       "is missing, or less than the %d devices that share a layer; use "
                       "--micro-splits %d, or fewer devices",
                       places, places);
    return LS_OK;
}

const ls_strategy ls_strategy_tensor_parallel = {
    .name = "tensor-parallel",
    .help = "one model whose layers are split over the devices, by columns, rows and heads",
    .rounds = true,
    .spreads = {.mesh.rest = LS_SLICE, .parameters.on[LS_SLICE] = LS_PLACED},
    .options = (const ls_declared_option *const[]){&ls_option_tensor_parallel_sequence, NULL},
    .resolve = resolve,
    .check = check,
    .build = build,
    .witness.formula = ls_moved_traffic,
    .witness.sum = ls_sum_in_order,
};
