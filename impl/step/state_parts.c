/* SPDX-License-Identifier: MIT */
/* Which member owns which elements of the state; see state_parts.h. */
#include "impl/step/state_parts.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* The parts of a member that are being listed. */
typedef struct listing {
    const ls_variables *variables; /* of the model */
    ls_state_parts *out;
    int member;
    size_t copy, copies; /* the member's copy of the model, and how many there are */
    size_t at;           /* where the current range begins among the elements that it updates */
    size_t variable;     /* of the last part: the next one is near */
    ls_status status;
} listing;

/* The copy to which a variable is dealt, by where its middle is. */
static size_t dealt_to(const listing *l, const ls_variable *v)
{
    const double middle = (double)v->offset + (double)v->count / 2;
    return (size_t)(middle / (double)l->variables->elements * (double)l->copies);
}

static void add_part(listing *l, size_t at, size_t first, size_t count)
{
    const ls_variable *v = &l->variables->items[l->variable];
    ls_state_parts *out = l->out;
    ls_state_part *last = out->count ? &out->items[out->count - 1] : NULL;
    const size_t begin = first - v->offset;
    if (dealt_to(l, v) != l->copy)
        return;
    if (last && last->member == l->member && last->variable == l->variable &&
        last->first + last->count == begin && last->at + last->count == at) {
        last->count += count;
        return;
    }
    l->status = ls_grow("state", &out->items, out->count, sizeof *out->items);
    if (!l->status)
        out->items[out->count++] = (ls_state_part){
            .member = l->member, .variable = l->variable, .first = begin, .count = count, .at = at};
}

/* Elements [model, model + count) of the model, cut where variables end. */
static void add_elements(void *context, size_t at, size_t model, size_t count)
{
    listing *l = context;
    while (count && !l->status) {
        const ls_variable *v = &l->variables->items[l->variable];
        if (model - v->offset >= v->count) {
            v = ls_variables_holding(l->variables, model);
            l->variable = (size_t)(v - l->variables->items);
        }
        const size_t left = v->offset + v->count - model, here = left < count ? left : count;
        add_part(l, l->at + at, model, here);
        at += here;
        model += here;
        count -= here;
    }
}

/* A range of a member's own elements. What all places of a stage have is the first one's. */
static void add_range(const ls_step_plan *plan, ls_range range, listing *l)
{
    const ls_graph_part *part = ls_step_plan_part(plan, l->member);
    const bool again = plan->members[l->member].place % plan->mesh.size[LS_SLICE];
    const size_t begin = l->at;
    if (!part || plan->servers.servers) {
        add_elements(l, 0, range.first, range.count);
        return;
    }
    for (size_t v = 0; v < part->graph->variables.count; v++) {
        const ls_variable *its = &part->graph->variables.items[v];
        const ls_range both = ls_range_common(range, (ls_range){its->offset, its->count});
        if (!both.count || (again && !ls_graph_slice(part->graph, v)))
            continue;
        l->at = begin + (both.first - range.first);
        ls_graph_part_each(part, both, add_elements, l);
    }
    l->at = begin;
}

ls_status ls_state_parts_open(const ls_step_plan *plan, ls_state_parts *out)
{
    const size_t each = ls_step_plan_copy(plan, &plan->state, (int)plan->owners.first).count;
    *out = (ls_state_parts){0};
    for (size_t k = 0; k < plan->owners.count; k++) {
        listing l = {.variables = &plan->job->model->graph->variables,
                     .out = out,
                     .member = (int)(plan->owners.first + k),
                     .copy = k / each,
                     .copies = plan->owners.count / each};
        ls_range range;
        for (size_t i = 0; ls_step_plan_owned(plan, l.member, i, &range) && !l.status; i++) {
            if (range.count)
                add_range(plan, range, &l);
            l.at += range.count;
        }
        LS_TRY(l.status);
    }
    return LS_OK;
}

void ls_state_parts_close(ls_state_parts *parts)
{
    free(parts->items);
    *parts = (ls_state_parts){0};
}
