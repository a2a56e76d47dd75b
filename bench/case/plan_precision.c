/* SPDX-License-Identifier: MIT */
/* What a case with --precision bf16, or with --gradient-wire bf16, cannot have. */
#include "bench/case/case_plan.h"
#include "bench/case/profile.h"
#include "common/nn/layers.h"

#include <string.h>

#define WHERE "option --precision"
static const char bf16[] = "bf16";

static ls_status check_parts(const ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    if (c->math == LS_MATH_TF32)
        return ls_fail(LS_CODE_USAGE, WHERE, bf16,
                       "cannot be used with --math tf32; use --math float32");
    if (!plan->strategy->rounds)
        return ls_fail(LS_CODE_USAGE, WHERE, bf16,
                       "does not work with --strategy %s; use --precision float32, or --strategy "
                       "mirrored, zero, pipeline, tensor-parallel or hybrid",
                       plan->strategy->name);
    const ls_mesh mesh = ls_job_mesh(&plan->job);
    if (mesh.size[LS_SLICE] > 1 && !plan->job.exact.on && !ls_strategy_reduces(plan->strategy) &&
        strcmp(c->allreduce, "auto") != 0 && strcmp(c->allreduce, "owners") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "with --precision bf16, '%s' would round a sum more than once in a layer "
                       "that several devices share; use --allreduce owners or auto",
                       c->allreduce);
    return mesh.size[LS_POSITION] > 1
               ? ls_fail(LS_CODE_USAGE, WHERE, bf16,
                         "does not work with --hybrid-inner context-parallel; use --precision "
                         "float32, or --hybrid-inner tensor-parallel or pipeline")
               : LS_OK;
}

ls_status ls_plan_check_precision(const ls_plan_of_case *plan)
{
    if (ls_profile_is(plan->config->model) && plan->job.exchange.gradient_wire)
        return ls_fail(LS_CODE_USAGE, "option --gradient-wire", bf16,
                       "does not work with --model profile:FILE, since the file says how many "
                       "bytes are sent; use --gradient-wire float32");
    if (plan->config->precision == LS_PRECISION_FLOAT32)
        return LS_OK;
    LS_TRY(check_parts(plan));
    if (ls_profile_is(plan->config->model))
        return ls_fail(LS_CODE_USAGE, WHERE, bf16,
                       "does not work with --model profile:FILE, since the file says how many "
                       "bytes are sent and kept; use --precision float32");
    const ls_graph *graph = plan->model->graph;
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].layer->float32_only)
            return ls_fail(
                LS_CODE_USAGE, WHERE, bf16,
                "there are no bf16 kernels for the layer %s of this model; use --precision float32",
                graph->nodes[n].layer->name);
    return LS_OK;
}
