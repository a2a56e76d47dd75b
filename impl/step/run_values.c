/* SPDX-License-Identifier: MIT */
/* The variables of a run; see run.h. */
#include "common/base/grow.h"
#include "impl/step/run.h"

#include <stdlib.h>

/* The replica with a part in this process: sends what each place has to the replica's other
 * processes. */
static ls_status gather_places(ls_step_run *me, ls_values values, float *parameters)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const int own = ls_step_plan_own(plan), first = own - own % plan->mesh.places;
    const ls_planned_member *members = &plan->members[first];
    LS_TRY(
        ls_comm_agree(job->ranks.comm, ls_resources_gather(&me->resources, first, plan->mesh.places,
                                                           values, parameters)));
    for (int p = 0; p < plan->mesh.places; p++) {
        const ls_graph_part *part = ls_graph_parts_at(&plan->parts, p);
        for (size_t v = 0; v < part->graph->variables.count; v++) {
            const ls_variable *its = &part->graph->variables.items[v];
            const ls_slab whole = {.rows = 1, .ranges = 1, .width = its->count};
            const ls_slab *slab = part->slabs ? &part->slabs[v] : &whole;
            for (size_t i = 0; i < slab->rows * slab->ranges && its->offset < part->owned; i++)
                LS_TRY(ls_broadcast(job, members[p].process, members[0].process,
                                    members[plan->mesh.places - 1].process,
                                    parameters + part->whole[v] +
                                        i / slab->ranges * slab->row_stride +
                                        i % slab->ranges * slab->range_stride,
                                    slab->width));
        }
    }
    return LS_OK;
}

/* Sends a member's share of a bucket from its process to all others; `packed` has room for it. */
static ls_status broadcast_share(const ls_step_plan *plan, int m, size_t b, float *packed,
                                 float *out)
{
    const ls_job *job = plan->job;
    const ls_graph_part *part = ls_step_plan_part(plan, m);
    const ls_range share = ls_step_plan_bucket_share(plan, m, b);
    if (!share.count)
        return LS_OK;
    ls_graph_part_copy(part, share, packed, out, true);
    LS_TRY(ls_broadcast(job, plan->members[m].process, 0, job->ranks.comm->size - 1, packed,
                        share.count));
    ls_graph_part_copy(part, share, packed, out, false);
    return LS_OK;
}

/* The shares of the variables, or of their averages, of the members that have them all: of all
 * places or, of several groups of replicas, of the first; all groups have the same. */
static ls_status gather_shares(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const int count = (int)ls_step_plan_copy(plan, &plan->state, 0).count;
    float *packed;
    LS_TRY(
        ls_comm_agree(job->ranks.comm, ls_resources_gather(&me->resources, 0, count, values, out)));
    LS_TRY(ls_comm_agree(
        job->ranks.comm,
        ls_allocate("step", &packed, job->model->graph->variables.elements, sizeof *packed)));
    ls_status status = LS_OK;
    for (int m = 0; m < count && job->ranks.comm; m++) {
        const size_t buckets = ls_step_planned_group(plan, plan->members[m].place)->buckets.count;
        for (size_t b = 0; b < buckets && !status; b++)
            status = broadcast_share(plan, m, b, packed, out);
    }
    free(packed);
    return status;
}

/* What each owner has: sent from its process to all others. */
static ls_status gather_owned(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const int first = (int)plan->owners.first, count = (int)plan->owners.count;
    ls_range range;
    LS_TRY(ls_comm_agree(job->ranks.comm,
                         ls_resources_gather(&me->resources, first, count, values, out)));
    for (int m = first; m < first + count; m++)
        for (size_t i = 0; ls_step_plan_owned(plan, m, i, &range); i++)
            LS_TRY(ls_broadcast(job, plan->members[m].process, 0, job->ranks.comm->size - 1,
                                out + range.first, range.count));
    return LS_OK;
}

ls_status ls_steps_gather(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const bool parameters =
        values == LS_VALUES && plan->job->kernels.precision == LS_PRECISION_FLOAT32;
    const ls_spread *spread = parameters ? &plan->parameters : &plan->state;
    const ls_range copy = ls_step_plan_copy(plan, spread, ls_step_plan_own(plan));
    if (spread->on[LS_MEMBER] == LS_PLACED && plan->job->ranks.comm)
        return gather_owned(me, values, out);
    if (spread->on[LS_MEMBER] == LS_SHARE)
        return gather_shares(me, values, out);
    if (copy.count > plan->job->device_count)
        return gather_places(me, values, out);
    return ls_resources_gather(&me->resources, (int)copy.first, (int)copy.count, values, out);
}
