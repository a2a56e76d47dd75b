/* SPDX-License-Identifier: MIT */
/* Which member owns which elements of the state; see state_parts.h. */
#include "impl/step/plan/state_parts.h"

#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

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

/* The copy that gets a variable: that of the variable's middle element. */
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
        const size_t left = v->offset + v->count - model, piece = left < count ? left : count;
        add_part(l, l->at + at, model, piece);
        at += piece;
        model += piece;
        count -= piece;
    }
}

void ls_state_each(const ls_step_plan *plan, int member, ls_range range, ls_graph_part_visit *visit,
                   void *context)
{
    const bool again = plan->members[member].place % plan->mesh.size[LS_SLICE];
    ls_graph_part_each(ls_step_plan_part(plan, member), range, again ? LS_IN_SLICES : LS_ALL_OF,
                       visit, context);
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
        for (size_t i = 0; ls_step_plan_owned_range(plan, l.member, i, &range) && !l.status; i++) {
            ls_state_each(plan, l.member, range, add_elements, &l);
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

/* ---- What moves ----------------------------------------------------------------------------- */

/* Elements that a device has, and how many are missing. */
typedef struct lacking {
    unsigned char *has; /* [elements] */
    uint64_t count;
} lacking;

static void mark_held(void *context, size_t at, size_t model, size_t count)
{
    (void)at;
    memset(((lacking *)context)->has + model, 1, count);
}

static void count_lacking(void *context, size_t at, size_t model, size_t count)
{
    lacking *l = context;
    (void)at;
    for (size_t i = model; i < model + count; i++)
        l->count += !l->has[i];
}

enum { COPIES = LS_ARRAYS }; /* next to a job's arrays: rounded parameters */

/* Bytes of an element that moves; 0 if none does. What is rounded follows from masters that a
 * member has itself. */
static size_t moved_bytes(const ls_step_plan *plan, int array)
{
    const bool gathers = ls_step_plan_move(ls_spread_held(&plan->state),
                                           ls_spread_held(&plan->parameters)) == LS_ALL_GATHER;
    if (array == COPIES)
        return gathers && ls_job_rounds(plan->job) ? sizeof(uint16_t) : 0;
    return ls_state_name(plan->job, (ls_values)array) ? sizeof(float) : 0;
}

/* Whether it holds complete variables, not only what a member updates. */
static bool is_whole(const ls_step_plan *plan, int array)
{
    return array == (moved_bytes(plan, COPIES) ? COPIES : LS_VALUES) &&
           plan->parameters.on[LS_MEMBER] != LS_SHARE;
}

/* Visits the elements of an array that a member holds between steps. */
static void each_held(const ls_step_plan *plan, int member, int array, ls_graph_part_visit *visit,
                      lacking *l)
{
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    ls_range range = {0, part ? part->owned : plan->job->model->graph->variables.elements};
    if (is_whole(plan, array))
        ls_state_each(plan, member, range, visit, l);
    else
        for (size_t i = 0; ls_step_plan_owned_range(plan, member, i, &range); i++)
            ls_state_each(plan, member, range, visit, l);
}

ls_status ls_state_moved(const ls_step_plan *from, const ls_step_plan *to, const int *of,
                         uint64_t *out)
{
    const size_t elements = to->job->model->graph->variables.elements;
    ls_auto unsigned char *has = NULL;
    LS_TRY(ls_allocate("state", &has, elements, sizeof *has));
    lacking l = {.has = has};
    for (int m = 0; m < to->total; m++) {
        out[m] = 0;
        for (int a = 0; a <= COPIES; a++) {
            if (!moved_bytes(to, a))
                continue;
            l.count = 0;
            memset(l.has, 0, elements);
            if (of[m] >= 0)
                each_held(from, of[m], a, mark_held, &l);
            each_held(to, m, a, count_lacking, &l);
            out[m] += l.count * moved_bytes(to, a);
        }
    }
    return LS_OK;
}
