/* SPDX-License-Identifier: MIT */
/*
 * The values that parameters have before the first step; see workplace.h. First values from a file
 * are read by whoever needs them, block by block; before training the processes of a host read each
 * block of it once, to check it.
 */
#include "bench/case/elastic.h"
#include "bench/case/workplace.h"
#include "bench/checkpoint/checkpoint.h"

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
    ls_precision precision;
    float *values;              /* drawn: [elements] */
    ls_variables_file *file;    /* or in a file, */
    struct ls_resumed *resumed; /* or in a checkpoint */
    ls_state_source source;
    uint64_t hash;
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

/* A hash of each variable's first values, since hosts may differ in their logarithms and
 * cosines. */
static uint64_t hash_drawn(const ls_drawn_values *drawn)
{
    enum { MOST = 64 };
    uint64_t hash = 0;
    for (size_t v = 0; v < drawn->variables->count; v++) {
        const ls_variable *variable = &drawn->variables->items[v];
        float values[MOST];
        const ls_range range = {variable->offset, variable->count < MOST ? variable->count : MOST};
        ls_variables_draw(drawn->variables, drawn->seed, range, values);
        hash = 31 * hash + ls_hash64(values, range.count * sizeof *values);
    }
    return hash;
}

/* ---- In files -------------------------------------------------------------------------------- */

static ls_status read_file(const ls_state_source *source, ls_values array, ls_range range,
                           float *out)
{
    (void)array;
    return ls_variables_read(source->from, range, out);
}

static ls_status open_file(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           struct ls_held_values *d)
{
    const char *path = workplace->request->load;
    struct stat is;
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        return ls_plan_open_parameters(workplace, plan, &d->resumed, &d->source, &d->hash);
    LS_TRY(ls_variables_open(&plan->model->graph->variables, path, &d->file));
    d->source = (ls_state_source){.read = read_file, .from = d->file};
    return LS_OK;
}

/* Loaded values are masters, whose rounded copies must be finite. */
static ls_status check_copies(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              ls_range block, const float *values)
{
    for (size_t i = 0; i < block.count; i++) {
        if (isfinite(ls_float_of_bf16(ls_bf16_of_float(values[i]))))
            continue;
        const size_t element = block.first + i;
        const ls_variable *v = ls_variables_holding(&plan->model->graph->variables, element);
        char where[640];
        snprintf(where, sizeof where, "%s: %s", workplace->request->load, v->name);
        return ls_fail(LS_CODE_MISSING, "load", where,
                       "element %zu is %.9g, which --precision bf16 rounds to infinity; use "
                       "--precision float32, or a file with smaller values",
                       element - v->offset, (double)values[i]);
    }
    return LS_OK;
}

/* Reads this process's share, and adds up the blocks' hashes. */
static ls_status check_blocks(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              ls_state_source source, const ls_check_share *share, uint64_t *hash)
{
    ls_auto float *values = NULL;
    size_t number = 0;
    LS_TRY(ls_allocate("parameters", &values, LS_STATE_BLOCK, sizeof *values));
    for (ls_range block = {0}; ls_state_next(plan->model->graph->variables.elements, &block);
         number++) {
        if (number % (size_t)share->shares != (size_t)share->share)
            continue;
        LS_TRY(source.read(&source, LS_VALUES, block, values));
        *hash += (2 * number + 1) * ls_hash64(values, block.count * sizeof *values);
        if (plan->config->precision == LS_PRECISION_BF16)
            LS_TRY(check_copies(workplace, plan, block, values));
    }
    return LS_OK;
}

/* Checks all blocks, with the other processes; *hash: of all that this process's file has. */
static ls_status check_values(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              ls_state_source source, ls_status status, uint64_t *hash)
{
    ls_comm *comm = plan->job.ranks.comm;
    const int count = comm ? comm->size : 1;
    ls_check_share share;
    ls_auto uint64_t *all = NULL;
    LS_TRY(ls_check_share_find(workplace->request->load, workplace->request->processes->host, comm,
                               status, &share));
    uint64_t own_hash[2] = {(uint64_t)share.first};
    status = ls_allocate("parameters", &all, (size_t)count, sizeof own_hash);
    status = ls_status_first(status, check_blocks(workplace, plan, source, &share, &own_hash[1]));
    LS_TRY(ls_comm_bring(comm, status, own_hash, sizeof own_hash, all));
    *hash = 0;
    for (int r = 0; r < count; r++)
        *hash += all[2 * r] == own_hash[0] ? all[2 * r + 1] : 0;
    return LS_OK;
}

/* ---- Held ------------------------------------------------------------------------------------ */

static void close_held(struct ls_held_values *d)
{
    ls_variables_close(d->file);
    ls_resumed_close(d->resumed);
    free(d->values);
    free(d);
}

static ls_status hold(ls_workplace *workplace, const ls_plan_of_case *plan,
                      struct ls_held_values **out)
{
    const ls_case *c = plan->config;
    struct ls_held_values *d;
    LS_TRY(ls_allocate("parameters", &d, 1, sizeof *d));
    memcpy(d->model, c->model, sizeof d->model);
    memcpy(d->data, c->data, sizeof d->data);
    d->seed = c->seed;
    d->precision = c->precision;
    ls_status status;
    if (workplace->request->load) {
        status = open_file(workplace, plan, d);
        status = check_values(workplace, plan, d->source, status, &d->hash);
    } else {
        const ls_variables *variables = &plan->model->graph->variables;
        status = ls_allocate("parameters", &d->values, variables->elements + 1, sizeof *d->values);
        if (!status) {
            ls_variables_initialize(variables, plan->config->seed, d->values);
            d->source = ls_state_held(d->values);
            d->hash = ls_hash64(d->values, variables->elements * sizeof *d->values);
        }
    }
    if (status) {
        close_held(d);
        return status;
    }
    d->next = workplace->held;
    *out = workplace->held = d;
    return LS_OK;
}

/* A file is checked again for each precision. */
static ls_status hold_or_know(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    struct ls_held_values *d = workplace->held;
    while (d && (strcmp(d->model, c->model) || strcmp(d->data, c->data) ||
                 (workplace->request->load ? d->precision != c->precision : d->seed != c->seed)))
        d = d->next;
    if (!d)
        LS_TRY(hold(workplace, plan, &d));
    plan->initial = d->source;
    plan->initial_hash = d->hash;
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

ls_status ls_plan_draw(ls_workplace *workplace, ls_plan_of_case *plan)
{
    for (ls_elastic_phase *phase = plan->phases; phase; phase = phase->next)
        LS_TRY(ls_plan_draw(workplace, &phase->plan));
    if (ls_plan_is_resumed(workplace))
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
        close_held(workplace->held);
        workplace->held = next;
    }
}
