/* SPDX-License-Identifier: MIT */
/* The all-reduces of a job's step, as a network sees them; see loads.h. */
#include "impl/step/plan/loads.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"
#include "impl/step/plan/plan.h"

#include <stdlib.h>

static bool is_alike(const ls_sum_load *a, const ls_sum_load *b)
{
    return a->ranks == b->ranks && a->stride == b->stride && a->groups == b->groups &&
           a->group_stride == b->group_stride && a->layout == b->layout && a->half == b->half &&
           a->extent.count == b->extent.count;
}

static ls_status add(ls_loads *loads, const ls_sum_load *load)
{
    for (size_t i = 0; i < loads->count; i++)
        if (is_alike(&loads->items[i], load)) {
            loads->items[i].times += load->times;
            return LS_OK;
        }
    LS_TRY(ls_grow("step", &loads->items, loads->count, sizeof *loads->items));
    loads->items[loads->count++] = *load;
    return LS_OK;
}

/* ---- Sums of split layers -------------------------------------------------------------------- */

int ls_loads_half(const ls_graph *whole, int n, bool backward)
{
    /* how places have a layer's output, or backward its input's gradient, and how they need it */
    static const struct {
        const ls_layer *layer;
        bool sequence, backward;
        ls_kind has, needs;
    } spreads[] = {
        {&ls_layer_join, false, false, LS_PARTIAL, LS_WHOLE},
        {&ls_layer_fork, false, true, LS_PARTIAL, LS_WHOLE},
        {&ls_layer_join, true, false, LS_PARTIAL, LS_SHARE},
        {&ls_layer_join, true, true, LS_SHARE, LS_WHOLE},
        {&ls_layer_gather, true, false, LS_SHARE, LS_WHOLE},
        {&ls_layer_gather, true, true, LS_PARTIAL, LS_SHARE},
    };
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++)
        if (spreads[i].layer == whole->nodes[n].layer && spreads[i].backward == backward &&
            spreads[i].sequence == whole->slices.sequence)
            return ls_step_plan_move(spreads[i].has, spreads[i].needs);
    return LS_NO_SUM;
}

/* Over the places of each stage, once for each micro-batch. */
static ls_status add_activations(const ls_job *job, ls_loads *loads)
{
    ls_closing(ls_graph_part_close) ls_graph_part split = {0};
    LS_TRY(ls_graph_split(job->model->graph, ls_job_splits(job), job->division.sequence, NULL,
                          &split));
    const ls_graph *whole = split.graph;
    const ls_mesh mesh = ls_job_mesh(job);
    const int across = mesh.size[LS_SLICE], replicas = mesh.replicas;
    const int pieces = ls_job_pieces(job);
    const int64_t parts = (int64_t)replicas * pieces;
    const size_t rows = (size_t)((job->batch + parts - 1) / parts);
    ls_sum_load load = {.ranks = across,
                        .stride = 1,
                        .groups = replicas * mesh.size[LS_STAGE],
                        .group_stride = across,
                        .times = pieces};
    for (int n = 0; n < whole->count; n++) {
        load.extent = ls_elements(rows * (size_t)ls_shape_elements(&whole->nodes[n].shape));
        for (int backward = 0; backward < 2; backward++) {
            const int half = ls_loads_half(whole, n, backward);
            load.half = (ls_half)half;
            if (half != LS_NO_SUM)
                LS_TRY(add(loads, &load));
        }
    }
    return LS_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Adds the loads of one bucket, a part in each stage and slice: between replicas that share the
 * update, or not; then of shares between groups. */
static ls_status add_bucket(const ls_job *job, const ls_mesh *mesh, size_t count, ls_loads *loads)
{
    const int members = mesh->size[LS_MEMBER], groups = mesh->size[LS_GROUP];
    const ls_kind has = ls_spread_held(&job->state), needs = ls_spread_held(&job->parameters);
    const int parts = mesh->size[LS_STAGE] * mesh->size[LS_SLICE];
    ls_sum_load load = {.ranks = members * mesh->size[LS_POSITION],
                        .stride = parts,
                        .groups = groups * parts,
                        .group_stride = groups > 1 ? members : 1,
                        .layout = ls_step_plan_layout(job, 0, loads->hosts, &loads->own_layout),
                        .extent = ls_elements(count / (size_t)parts),
                        .times = ls_slice_exchanges(job)};
    load.half = (ls_half)ls_step_plan_move(LS_PARTIAL, has);
    LS_TRY(add(loads, &load));
    load.half = LS_ALL_GATHER; /* of updated shares, or in each exchange */
    if (ls_step_plan_move(has, needs) == LS_ALL_GATHER)
        load.times = 1;
    if (has == LS_SHARE)
        LS_TRY(add(loads, &load));
    if (groups == 1 || has != LS_SHARE)
        return LS_OK;
    return add(loads, &(ls_sum_load){.ranks = groups,
                                     .stride = members,
                                     .groups = members,
                                     .group_stride = 1,
                                     .extent = ls_elements(count / (size_t)members),
                                     .times = 1});
}

static ls_status add_gradients(const ls_job *job, ls_loads *loads)
{
    const ls_mesh mesh = ls_job_mesh(job);
    const size_t parts = (size_t)(mesh.size[LS_STAGE] * mesh.size[LS_SLICE]);
    const size_t each = job->exchange.bucket_bytes;
    const ls_bucketing how = {.bytes = each < SIZE_MAX / parts ? each * parts : SIZE_MAX};
    const ls_graph *graph = job->model->graph;
    ls_closing(ls_buckets_close) ls_buckets buckets = {0};
    LS_TRY(ls_allocate("step", &loads->hosts, LS_JOB_REPLICAS, sizeof *loads->hosts));
    LS_TRY(ls_buckets_open(graph, graph->variables.elements, how, &buckets));
    for (size_t b = 0; b < buckets.count; b++)
        LS_TRY(add_bucket(job, &mesh, buckets.items[b].count, loads));
    return LS_OK;
}

ls_status ls_loads_open(const ls_strategy *strategy, const ls_job *job, ls_loads *out)
{
    *out = (ls_loads){0};
    if (job->exact.on)
        return LS_OK;
    if (ls_job_slices(job))
        LS_TRY(add_activations(job, out));
    return ls_strategy_reduces(strategy) ? add_gradients(job, out) : LS_OK;
}

void ls_loads_close(ls_loads *loads)
{
    free(loads->items);
    free(loads->hosts);
    *loads = (ls_loads){0};
}
