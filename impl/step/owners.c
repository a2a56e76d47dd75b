/* SPDX-License-Identifier: MIT */
/*
 * Who owns which elements: of all that update the same copy of the model together (a replica; its
 * places; those that share an update; all servers), exactly one owns each element, and updates it
 * once in a step. Two owners need not show in any value: they may compute the same bits.
 */
#include "common/base/grow.h"
#include "impl/step/run.h"

#include <stdlib.h>
#include <string.h>

/* Adds 1 to how often each of some elements occurs (the context), up to 255. */
static void count(void *context, size_t at, size_t element, size_t elements)
{
    unsigned char *times = context;
    (void)at;
    for (size_t i = element; i < element + elements; i++)
        times[i] = times[i] < UINT8_MAX ? (unsigned char)(times[i] + 1) : UINT8_MAX;
}

/* ---- By the plan ----------------------------------------------------------------------------- */

/* Range number i that a member owns, of its own elements, or a server's of the model's; false:
 * there are no more. */
static bool owned_range(const ls_step_plan *plan, int member, size_t i, ls_range *out)
{
    const ls_ps_layout *servers = &plan->servers;
    if (servers->servers)
        return ls_ps_layout_range(servers, member - servers->workers, i, out);
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    *out = (ls_range){0, part ? part->owned : plan->job->model->graph->variables.elements};
    if (!ls_step_plan_shares(plan))
        return i == 0;
    if (i >= ls_step_planned_group(plan, plan->members[member].place)->buckets.count)
        return false;
    *out = ls_step_plan_bucket_share(plan, member, i);
    return true;
}

/* Counts what a member owns; of what all places of a stage have, that of the first one. */
static void count_owned(const ls_step_plan *plan, int member, unsigned char *times)
{
    const bool served = plan->servers.servers;
    const ls_graph_part *part = served ? NULL : ls_step_plan_part(plan, member);
    const bool again = plan->members[member].place % plan->mesh.size[LS_SLICE];
    ls_range range;
    for (size_t i = 0; owned_range(plan, member, i, &range); i++) {
        if (!part) {
            count(times, 0, range.first, range.count);
            continue;
        }
        for (size_t v = 0; v < part->graph->variables.count; v++) {
            const ls_variable *its = &part->graph->variables.items[v];
            if (!again || ls_graph_slice(part->graph, v))
                ls_graph_part_each(part,
                                   ls_range_common(range, (ls_range){its->offset, its->count}),
                                   count, times);
        }
    }
}

/* The first element that is not there once. */
static ls_status judge(const ls_variables *variables, const unsigned char *times, const char *what)
{
    for (size_t i = 0; i < variables->elements; i++)
        if (times[i] != 1) {
            const ls_variable *v = ls_variables_holding(variables, i);
            return ls_fail(LS_CODE_CHECK, "owner", NULL, "%s element %zu %s %d times, not once",
                           v->name, i - v->offset, what, times[i]);
        }
    return LS_OK;
}

/* ---- By the step ----------------------------------------------------------------------------- */

/* What a member owns is what its step updates. */
static ls_status judge_step(const ls_step_run *run, int member, unsigned char *times)
{
    const ls_step_plan *plan = &run->plan;
    const ls_step_program *p = &run->program[LS_FULL];
    const ls_graph_part *part = plan->servers.servers ? NULL : ls_step_plan_part(plan, member);
    const ls_variables *variables =
        part ? &part->graph->variables : &plan->job->model->graph->variables;
    ls_range range;
    memset(times, 1, variables->elements);
    for (size_t i = 0; owned_range(plan, member, i, &range); i++)
        memset(times + range.first, 0, range.count);
    for (size_t k = 0; k < p->task_count; k++)
        if (strcmp(p->tasks[k].verb, "update") == 0 &&
            p->lanes->items[p->tasks[k].lane].member == member)
            count(times, 0, p->tasks[k].range.first, p->tasks[k].range.count);
    return judge(variables, times, "is updated in a step");
}

ls_status ls_steps_owners(const ls_run *run)
{
    const ls_step_run *me = ls_step_run_of(run);
    const ls_step_plan *plan = &me->plan;
    size_t most = plan->job->model->graph->variables.elements;
    unsigned char *times;
    for (int p = 0; p < plan->parts.count; p++)
        if (plan->parts.parts[p].graph->variables.elements > most)
            most = plan->parts.parts[p].graph->variables.elements;
    LS_TRY(ls_allocate("owners", &times, most + 1, 1));
    /* Of the copy of the model that the first owner has a part in: all copies are divided alike. */
    const ls_range copy = ls_step_plan_copy(plan, &plan->state, (int)plan->owners.first);
    for (size_t m = copy.first; m < copy.first + copy.count; m++)
        count_owned(plan, (int)m, times);
    ls_status status = judge(&plan->job->model->graph->variables, times, "is owned");
    for (int m = 0; m < plan->total && !status && !ls_ps_by_arrival(&plan->job->ps); m++)
        if (ls_step_plan_owns(plan, m) && me->resources.members[m].replica)
            status = judge_step(me, m, times);
    free(times);
    return status;
}
