/* SPDX-License-Identifier: MIT */
/* Whether a strategy can run its case, by what is known before opening anything; see options.h. */
#include "bench/case/case_facts.h"
#include "bench/case/case_plan.h"
#include "bench/case/elastic.h"
#include "bench/case/profile.h"
#include "bench/cli/options.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/nn/divide/graph_context.h"
#include "common/nn/divide/graph_split.h"
#include "common/nn/model.h"
#include "common/nn/divide/places.h"
#include "common/nn/repeat.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

/* Whether the model can be divided over this many devices; a named placement is checked later. */
static ls_status check_division(const ls_job *job, const ls_model *model, int64_t places)
{
    const ls_graph *graph = model->graph;
    if (*ls_declared_text(&job->options, &ls_option_model_parallel_place))
        return LS_OK;
    ls_auto int *place = NULL;
    LS_TRY(ls_allocate("placement", &place, (size_t)graph->count, sizeof *place));
    ls_status status = ls_places_balance(graph, places, place);
    if (!status && ls_job_slices(job))
        ls_graph_split_stages(graph, place);
    if (!status)
        status = ls_places_check(graph, place, (int)places);
    if (!ls_job_slices(job) || ls_status_code(status) != LS_CODE_USAGE)
        return status;
    ls_status_free(status);
    return ls_fail(LS_CODE_USAGE, "option", "--hybrid-stages",
                   "the model cannot be cut into %lld stages, since two layers that are split "
                   "across devices as a pair must stay in one stage; use fewer stages",
                   (long long)places);
}

/* As above, for stages of several parts each; says how many parts work. */
static ls_status check_chunks(const ls_job *job, const ls_model *model, int64_t stages)
{
    int64_t chunks = ls_job_chunks(job);
    ls_status status = check_division(job, model, stages * chunks);
    if (chunks == 1 || ls_status_code(status) != LS_CODE_USAGE)
        return status;
    const long long wanted = chunks * stages;
    while (chunks > 1 && status) {
        ls_status_free(status);
        status = check_division(job, model, stages * --chunks);
    }
    ls_status_free(status);
    char works[64] = "--pipeline-schedule 1f1b";
    if (chunks > 1)
        snprintf(works, sizeof works, "--pipeline-chunks %lld", (long long)chunks);
    return ls_fail(
        LS_CODE_USAGE, "option", "--pipeline-chunks",
        "the model has too few layers for %lld parts on %lld stages; use %s, or fewer devices",
        wanted, (long long)stages, works);
}

static ls_status check_model_case(const ls_case *one, const ls_model *model,
                                  const ls_request *request)
{
    const int hosts = request->processes ? request->processes->hosts : 1;
    const ls_strategy *strategy = one->strategy;
    ls_job job = {.batch = one->batch > 0 ? one->batch : ls_model_batch(model)};
    ls_case_job(one, &job);
    ls_outline outline = ls_case_outline(one, &job, ls_case_devices(one), hosts);
    if (request->predict && strcmp(one->allreduce, "library") == 0)
        outline.comm = "nccl"; /* whose it is (bench/predict/nccl_model.h) */
    int64_t devices;
    if (__builtin_mul_overflow((int64_t)outline.devices, (int64_t)outline.ranks, &devices))
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "is too large: the product of --devices and the number of ranks overflows; "
                       "use fewer devices");
    const int64_t replicas = ls_outline_replicas(strategy, &outline);
    if (one->scaling == LS_SCALING_WEAK && __builtin_mul_overflow(job.batch, replicas, &job.batch))
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "is too large: the product of --batch and the number of devices overflows; "
                       "use a smaller --batch");
    ls_elastic elastic;
    LS_TRY(ls_case_is_elastic(one) ? ls_elastic_check(one, &outline, &elastic)
                                   : ls_strategy_check(strategy, &outline));
    if (job.drops && job.division.backward_held)
        return ls_fail(LS_CODE_USAGE, "option", "--recompute",
                       "cannot be used with --colocate-gradients no, which runs the backward pass "
                       "on another device than the forward pass; use --colocate-gradients yes");
    if (job.drops)
        LS_TRY(ls_repeats_check(model->graph, job.drops));
    LS_TRY(ls_sync_bn_check(&job, strategy, model, replicas, devices));
    if ((size_t)ls_job_fragments(&job) > model->graph->variables.count)
        return ls_fail(LS_CODE_USAGE, "option", "--local-sgd-fragments",
                       "%d fragments are more than the model's %zu parameter tensors (weights and "
                       "biases of layers); use at most that number of fragments",
                       job.update.fragments, model->graph->variables.count);
    const ls_mesh mesh = ls_mesh_of(job.mesh, (int)devices);
    const int64_t splits = job.exact.on ? job.exact.splits : mesh.size[LS_SLICE];
    if (job.division.sequence)
        LS_TRY(ls_graph_split_check_sequence(model->graph, splits));
    if (mesh.rest == LS_POSITION)
        LS_TRY(ls_context_check(model->graph, mesh.size[LS_POSITION]));
    if (splits > 1 || ls_job_slices(&job))
        LS_TRY(ls_graph_split_check(model->graph, splits,
                                    job.exact.on ? "--micro-splits" : "--devices"));
    if (mesh.rest != LS_STAGE && mesh.size[LS_STAGE] == 1)
        return LS_OK;
    return check_chunks(&job, model, mesh.size[LS_STAGE]);
}

ls_status ls_case_check(const ls_case *one, const ls_request *request)
{
    ls_model *model;
    if (ls_profile_is(one->model) && !request->predict)
        return ls_fail(LS_CODE_USAGE, "option --model", one->model,
                       "a profile has only times and sizes, so it cannot be trained; use lockstep "
                       "predict or lockstep advise");
    LS_TRY(ls_case_model_open(one->model, NULL, ls_case_dropout(one), &model));
    ls_status status = check_model_case(one, model, request);
    ls_model_close(model);
    return status;
}
