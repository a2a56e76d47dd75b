/* SPDX-License-Identifier: MIT */
/* Which nodes of a plan are repeated (common/nn/repeat.h): of the model, and of each place; whether
 * windows hold what they need at once. */
#include "impl/step/plan/plan.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"

#include <stdlib.h>

const ls_repeat *ls_step_plan_repeats(const ls_step_plan *plan, int place)
{
    return plan->repeats.of ? plan->repeats.of[place] : plan->repeats.whole;
}

/* What the places repeat: a border that has a dropped output of another place drops it, too. */
static void cut_repeats(const ls_step_plan *plan, int part)
{
    const ls_graph_parts *parts = &plan->parts;
    const int place = part % ls_graph_parts_places(parts);
    const ls_graph *graph = ls_graph_parts_at(parts, place)->graph;
    ls_repeat *repeats = plan->repeats.of[place];
    for (int n = 0; n < parts->whole->count; n++) {
        const int local = ls_graph_parts_local(parts, part, n);
        if (local < 0)
            continue;
        const bool border = graph->nodes[local].layer == &ls_layer_border;
        if (border && !plan->repeats.whole[n].drops_output)
            continue;
        repeats[local] = plan->repeats.whole[n];
        repeats[local].again &= !border;
        repeats[local].drops_kept &= !border;
    }
}

ls_status ls_step_plan_open_repeats(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const ls_graph_parts *parts = &plan->parts;
    const ls_graph *graph = parts->count        ? parts->whole
                            : plan->split.graph ? plan->split.graph
                                                : job->model->graph;
    LS_TRY(ls_repeats_open(graph, parts->place, ls_step_plan_each(plan), job->drops,
                           job->division.weights_apart, &plan->repeats.whole));
    if (!plan->repeats.whole || !parts->count)
        return LS_OK;
    const int places = ls_graph_parts_places(parts);
    LS_TRY(ls_allocate("step", &plan->repeats.of, (size_t)places, sizeof(ls_repeat *)));
    for (int p = 0; p < places; p++)
        LS_TRY(ls_allocate("step", &plan->repeats.of[p],
                           (size_t)ls_graph_parts_at(parts, p)->graph->count, sizeof(ls_repeat)));
    for (int part = 0; part < parts->count; part++)
        cut_repeats(plan, part);
    for (int p = 0; p < places; p++)
        LS_TRY(ls_repeats_bound(plan->repeats.of[p], ls_graph_parts_at(parts, p)->graph->count));
    return LS_OK;
}

void ls_step_plan_close_repeats(ls_step_plan *plan)
{
    for (int p = 0; plan->repeats.of && p < ls_graph_parts_places(&plan->parts); p++)
        free(plan->repeats.of[p]);
    free(plan->repeats.of);
    free(plan->repeats.whole);
}

ls_status ls_step_plan_check_windows(const ls_strategy *strategy, const ls_job *job)
{
    ls_closing(ls_step_plan_close) ls_step_plan plan = {0};
    int least = 0;
    if (!job->division.windows_given)
        return LS_OK;
    LS_TRY(ls_step_plan_open(strategy, job, &plan));
    for (int g = 0; g < plan.group_count; g++)
        least = plan.groups[g].windows.count > least ? plan.groups[g].windows.count : least;
    return job->parameters.windows >= least
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "option", "--zero-windows",
                         "one layer of the model (or one block that --recompute repeats) needs %d "
                         "buckets of parameters at once; use at least --zero-windows %d, or a "
                         "larger --bucket-bytes",
                         least, least);
}
