/* SPDX-License-Identifier: MIT */
/*
 * The state of a run by blocks of the model's elements; see run.h. Where the members that have a
 * copy of an array are in several processes, each sends what it has of the block to the others.
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"

/* Members that together have a copy of an array, and the processes that get each one's part. */
typedef struct copy {
    ls_range members;
    int first, last; /* processes */
    bool shares;     /* each member has what it updates; false if all that its place has */
    bool sends;
} copy;

static copy find_copy(const ls_step_plan *plan, ls_values values)
{
    const bool parameters = values == LS_VALUES && !ls_job_rounds(plan->job);
    const ls_spread *spread = parameters ? &plan->parameters : &plan->state;
    const ls_comm *comm = plan->job->ranks.comm;
    const ls_kind kind = spread->on[LS_MEMBER];
    const bool all = kind == LS_PLACED || kind == LS_SHARE;
    /* if several groups have shares, the first group's: all groups' are equal */
    const int member = kind == LS_SHARE ? 0 : ls_step_plan_first_local(plan);
    copy c = {.members = ls_step_plan_copy(plan, spread, member), .shares = all};
    c.sends = comm && (all || c.members.count > plan->job->device_count);
    if (!c.sends)
        return c;
    const size_t end = c.members.first + c.members.count;
    c.first = all ? 0 : plan->members[c.members.first].process;
    c.last = all ? comm->size - 1 : plan->members[end - 1].process;
    return c;
}

/* Range number i of the elements that a member of the copy has; false if there are no more. */
static bool range_of(const ls_step_plan *plan, const copy *c, int member, size_t i, ls_range *out)
{
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    if (c->shares)
        return ls_step_plan_owned_range(plan, member, i, out);
    *out = (ls_range){0, part ? part->owned : plan->job->model->graph->variables.elements};
    return i == 0;
}

/* Sends what a member has of the block; `packed` has room for it. */
static ls_status send_range(const ls_step_plan *plan, const copy *c, int member, ls_range range,
                            ls_range block, float *packed, float *out)
{
    const ls_graph_part *part = ls_step_plan_part(plan, member); /* NULL means the model's */
    ls_range some;
    for (size_t v = 0; ls_graph_part_next(part, range, block, &v, &some);) {
        ls_graph_part_copy(part, some, packed, block, out, true);
        LS_TRY(ls_broadcast(plan->job, plan->members[member].process, c->first, c->last, packed,
                            some.count));
        ls_graph_part_copy(part, some, packed, block, out, false);
    }
    return LS_OK;
}

ls_status ls_steps_gather(ls_step_run *me, ls_values values, ls_range block, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const copy c = find_copy(plan, values);
    ls_status status = ls_resources_gather(&me->resources, c.members, values, block, out);
    if (!c.sends)
        return status;
    ls_auto float *packed = NULL;
    if (!status)
        status = ls_allocate("step", &packed, block.count, sizeof *packed);
    LS_TRY(ls_comm_agree(plan->job->ranks.comm, status));
    const int end = (int)(c.members.first + c.members.count);
    ls_range range;
    for (int m = (int)c.members.first; m < end; m++)
        for (size_t i = 0; range_of(plan, &c, m, i, &range); i++)
            LS_TRY(send_range(plan, &c, m, range, block, packed, out));
    return LS_OK;
}
