/* SPDX-License-Identifier: MIT */
/*
 * Checks who updates which elements, from a step's tasks, not from its plan: of each copy of the
 * model (on a replica; on its places; on replicas that share an update; placed), each element is
 * updated exactly once in a step. Two owners need not show in any value: they may compute the same
 * bits. No task says what owners update whose steps end elsewhere: the plan does.
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"
#include "impl/step/plan/state_parts.h"

#include <stdlib.h>
#include <string.h>

/* Elements of a copy that are updated once; a copy is known by its first member. */
typedef struct updated {
    size_t copy, first, count;
} updated;

typedef struct updates {
    updated *items; /* [count] */
    size_t count;
    size_t copy; /* copy of the model that the next elements belong to */
    ls_status status;
} updates;

static void close(updates *u)
{
    free(u->items);
}

static void add(void *context, size_t at, size_t element, size_t elements)
{
    updates *u = context;
    (void)at;
    if (!u->status && elements)
        u->status = ls_grow("owners", &u->items, u->count, sizeof *u->items);
    if (!u->status && elements)
        u->items[u->count++] = (updated){u->copy, element, elements};
}

/* Adds what this process's members update. */
static ls_status find_updates(const ls_step_run *run, updates *out)
{
    const ls_step_plan *plan = &run->plan;
    const ls_step_program *p = &run->program[LS_FULL];
    ls_range range;
    for (size_t k = 0; k < p->task_count; k++) {
        const int member = p->lanes->items[p->tasks[k].lane].member;
        out->copy = ls_step_plan_copy(plan, &plan->state, member).first;
        if (strcmp(p->tasks[k].verb, "update") == 0)
            ls_state_each(plan, member, p->tasks[k].range, add, out);
    }
    out->copy = plan->owners.first;
    for (size_t m = out->copy; m < out->copy + plan->owners.count; m++)
        for (size_t i = 0; run->resources.members[m].replica && !plan->lanes.items[m].ends &&
                           ls_step_plan_owned_range(plan, (int)m, i, &range);
             i++)
            add(out, 0, range.first, range.count);
    return out->status;
}

static int compare(const void *a, const void *b)
{
    const updated *x = a, *y = b;
    return x->copy != y->copy ? (x->copy > y->copy) - (x->copy < y->copy)
                              : (x->first > y->first) - (x->first < y->first);
}

static ls_status refuse(const ls_variables *variables, size_t element, const char *how)
{
    const ls_variable *v = ls_variables_holding(variables, element);
    return ls_fail(LS_CODE_CHECK, "owner", NULL,
                   "%s element %zu is updated %s in a step instead of once; change the strategy's "
                   "build(), so that one device of each replica updates it",
                   v->name, element - v->offset, how);
}

/* In order, the updates of a copy are all its elements. */
static ls_status judge(const ls_step_plan *plan, const updates *u)
{
    const ls_variables *variables = &plan->job->model->graph->variables;
    const size_t each = ls_step_plan_copy(plan, &plan->state, (int)plan->owners.first).count;
    size_t i = 0;
    for (size_t k = 0; k < plan->owners.count; k += each) {
        size_t next = 0;
        for (; i < u->count && u->items[i].copy == plan->owners.first + k; i++) {
            if (u->items[i].first != next)
                break;
            next += u->items[i].count;
        }
        const bool more = i < u->count && u->items[i].copy == plan->owners.first + k;
        if (more && u->items[i].first < next)
            return refuse(variables, u->items[i].first, "twice");
        if (next < variables->elements)
            return refuse(variables, next, "0 times");
    }
    return LS_OK;
}

/* Process 0 judges all processes' updates. */
ls_status ls_steps_owners(const ls_run *run)
{
    const ls_step_run *me = ls_step_run_of(run);
    ls_closing(close) updates own_updates = {0}, all = {0};
    const ls_status found = find_updates(me, &own_updates);
    LS_TRY(ls_comm_gather(run->job->ranks.comm, found, own_updates.items,
                          own_updates.count * sizeof *all.items, &all.items, &all.count));
    all.count /= sizeof *all.items;
    if (all.count)
        qsort(all.items, all.count, sizeof *all.items, compare);
    return ls_job_process(run->job) ? LS_OK : judge(&me->plan, &all);
}
