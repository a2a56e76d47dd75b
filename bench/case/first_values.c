/* SPDX-License-Identifier: MIT */
/* The values that parameters have before the first step; see workplace.h. */
#include "bench/case/elastic.h"
#include "bench/case/workplace.h"

#include "common/base/bf16_inline.h"
#include "common/base/digest.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ls_held_values {
    char model[LS_MODEL_TEXT], data[600]; /* as in ls_case: a data set may give a model its sizes */
    uint64_t seed;
    float *values; /* [elements] */
    struct ls_held_values *next;
};

/* ---- By a seed ------------------------------------------------------------------------------- */

static ls_status read_drawn(const ls_state_source *source, ls_values array, ls_range range,
                            float *out)
{
    const ls_drawn_values *drawn = source->from;
    (void)array;
    ls_variables_draw(drawn->variables, drawn->seed, range, out);
    return LS_OK;
}

ls_state_source ls_drawn_source(const ls_drawn_values *drawn)
{
    return (ls_state_source){.read = read_drawn, .from = drawn};
}

/* Of each variable's first values: hosts may differ in their logarithms and cosines. */
static uint64_t hash_drawn(const ls_drawn_values *drawn)
{
    enum { MOST = 64 };
    uint64_t hash = 0;
    for (size_t v = 0; v < drawn->variables->count; v++) {
        const ls_variable *its = &drawn->variables->items[v];
        float values[MOST];
        const ls_range range = {its->offset, its->count < MOST ? its->count : MOST};
        ls_variables_draw(drawn->variables, drawn->seed, range, values);
        hash = 31 * hash + ls_hash64(values, range.count * sizeof *values);
    }
    return hash;
}

/* ---- Held ------------------------------------------------------------------------------------ */

/* From a file or, if there is none, by the case's seed. */
static ls_status fill(const ls_workplace *workplace, const ls_plan_of_case *plan, float *out)
{
    const ls_variables *variables = &plan->model->graph->variables;
    const char *path = workplace->request->load;
    struct stat is;
    if (!path) {
        ls_variables_initialize(variables, plan->config->seed, out);
        return LS_OK;
    }
    return stat(path, &is) == 0 && S_ISDIR(is.st_mode) ? ls_plan_load_folder(variables, path, out)
                                                       : ls_variables_load(variables, path, out);
}

static ls_status hold(ls_workplace *workplace, const ls_plan_of_case *plan,
                      struct ls_held_values **out)
{
    const ls_case *c = plan->config;
    const ls_variables *variables = &plan->model->graph->variables;
    struct ls_held_values *d;
    LS_TRY(ls_allocate("parameters", &d, 1, sizeof *d));
    memcpy(d->model, c->model, sizeof d->model);
    memcpy(d->data, c->data, sizeof d->data);
    d->seed = c->seed;
    ls_status status =
        ls_allocate("parameters", &d->values, variables->elements + 1, sizeof *d->values);
    if (!status)
        status = fill(workplace, plan, d->values);
    if (status) {
        free(d->values);
        free(d);
        return status;
    }
    d->next = workplace->held;
    *out = workplace->held = d;
    return LS_OK;
}

/* Loaded values are masters, whose rounded copies must be finite. */
static ls_status check_copies(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    const ls_variables *variables = &plan->model->graph->variables;
    float *values;
    LS_TRY(ls_allocate("parameters", &values, LS_STATE_BLOCK, sizeof *values));
    ls_status status = LS_OK;
    for (ls_range block = {0}; !status && ls_state_next(variables->elements, &block);) {
        status = plan->initial.read(&plan->initial, LS_VALUES, block, values);
        for (size_t i = 0; i < block.count && !status; i++) {
            if (isfinite(ls_float_of_bf16(ls_bf16_of_float(values[i]))))
                continue;
            const ls_variable *v = ls_variables_holding(variables, block.first + i);
            char where[640];
            snprintf(where, sizeof where, "%s: %s", workplace->request->load, v->name);
            status = ls_fail(LS_CODE_MISSING, "load", where,
                             "element %zu is %.9g, which --precision bf16 rounds to an infinite "
                             "copy; use float32, or smaller values",
                             block.first + i - v->offset, (double)values[i]);
        }
    }
    free(values);
    return status;
}

static ls_status hold_or_know(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    struct ls_held_values *d = workplace->held;
    while (d && (strcmp(d->model, c->model) || strcmp(d->data, c->data) ||
                 (!workplace->request->load && d->seed != c->seed)))
        d = d->next;
    if (!d)
        LS_TRY(hold(workplace, plan, &d));
    plan->initial = ls_state_held(d->values);
    plan->initial_hash =
        ls_hash64(d->values, plan->model->graph->variables.elements * sizeof *d->values);
    return c->precision == LS_PRECISION_BF16 && workplace->request->load
               ? check_copies(workplace, plan)
               : LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

ls_status ls_plan_draw(ls_workplace *workplace, ls_plan_of_case *plan)
{
    for (ls_elastic_phase *phase = plan->phases; phase; phase = phase->next)
        LS_TRY(ls_plan_draw(workplace, &phase->plan));
    if (ls_plan_resumes(workplace))
        return ls_plan_read_state(workplace, plan);
    if (workplace->request->load || workplace->holds)
        return hold_or_know(workplace, plan);
    plan->drawn = (ls_drawn_values){&plan->model->graph->variables, plan->config->seed};
    plan->initial = ls_drawn_source(&plan->drawn);
    plan->initial_hash = hash_drawn(&plan->drawn);
    return LS_OK;
}

ls_status ls_plan_initial(const ls_plan_of_case *plan, float *out)
{
    const ls_range all = {0, plan->model->graph->variables.elements};
    return plan->initial.read(&plan->initial, LS_VALUES, all, out);
}

void ls_first_values_close(ls_workplace *workplace)
{
    while (workplace->held) {
        struct ls_held_values *next = workplace->held->next;
        free(workplace->held->values);
        free(workplace->held);
        workplace->held = next;
    }
}
