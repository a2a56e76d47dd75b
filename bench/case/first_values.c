/* SPDX-License-Identifier: MIT */
/* The values that parameters have before the first step; see workplace.h. */
#include "bench/case/elastic.h"
#include "bench/case/workplace.h"

#include "common/base/bf16_inline.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ls_drawn_values {
    char model[LS_MODEL_TEXT], data[600]; /* as in ls_case: a data set may give a model its sizes */
    uint64_t seed;
    float *values; /* [elements] */
    struct ls_drawn_values *next;
};

static ls_status fill(const ls_workplace *workplace, const ls_plan_of_case *plan, float **out)
{
    const ls_variables *variables = &plan->model->graph->variables;
    LS_TRY(ls_allocate("parameters", out, variables->elements + 1, sizeof **out));
    const char *load = workplace->request->load;
    struct stat is;
    if (load && stat(load, &is) == 0 && S_ISDIR(is.st_mode))
        return ls_plan_load_folder(variables, load, *out);
    if (load)
        return ls_variables_load(variables, load, *out);
    ls_variables_initialize(variables, plan->config->seed, *out);
    return LS_OK;
}

static ls_status draw(ls_workplace *workplace, const ls_plan_of_case *plan,
                      struct ls_drawn_values **out)
{
    const ls_case *c = plan->config;
    struct ls_drawn_values *d;
    LS_TRY(ls_allocate("parameters", &d, 1, sizeof *d));
    memcpy(d->model, c->model, sizeof d->model);
    memcpy(d->data, c->data, sizeof d->data);
    d->seed = c->seed;
    ls_status status = fill(workplace, plan, &d->values);
    if (status) {
        free(d->values);
        free(d);
        return status;
    }
    d->next = workplace->drawn;
    *out = workplace->drawn = d;
    return LS_OK;
}

/* Loaded values are masters, whose rounded copies must be finite. */
static ls_status check_copies(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    const ls_variables *variables = &plan->model->graph->variables;
    const char *load = workplace->request->load;
    for (size_t e = 0; e < variables->elements && load; e++)
        if (!isfinite(ls_float_of_bf16(ls_bf16_of_float(plan->initial[e])))) {
            const ls_variable *v = ls_variables_holding(variables, e);
            char where[640];
            snprintf(where, sizeof where, "%s: %s", load, v->name);
            return ls_fail(LS_CODE_MISSING, "load", where,
                           "element %zu is %.9g, which --precision bf16 rounds to an infinite "
                           "copy; use float32, or smaller values",
                           e - v->offset, (double)plan->initial[e]);
        }
    return LS_OK;
}

ls_status ls_plan_draw(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    struct ls_drawn_values *d = workplace->drawn;
    for (ls_elastic_phase *phase = plan->phases; phase; phase = phase->next)
        LS_TRY(ls_plan_draw(workplace, &phase->plan));
    if (ls_plan_resumes(workplace))
        return ls_plan_read_state(workplace, plan);
    while (d && (d->seed != c->seed || strcmp(d->model, c->model) || strcmp(d->data, c->data)))
        d = d->next;
    if (!d)
        LS_TRY(draw(workplace, plan, &d));
    plan->initial = d->values;
    return c->precision == LS_PRECISION_BF16 ? check_copies(workplace, plan) : LS_OK;
}

void ls_first_values_close(ls_workplace *workplace)
{
    while (workplace->drawn) {
        struct ls_drawn_values *next = workplace->drawn->next;
        free(workplace->drawn->values);
        free(workplace->drawn);
        workplace->drawn = next;
    }
}
