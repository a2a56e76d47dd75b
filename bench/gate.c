/* SPDX-License-Identifier: MIT */
/* Gate: candidate and judges side by side, step by step; see gate.h. */
#include "bench/gate.h"

#include "bench/interrupt.h"
#include "bench/reference.h"
#include "bench/row.h"
#include "impl/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rounding difference can flip a ReLU, so slices may differ so much from the whole batch. */
static const double gradient_bound = 2e-2;

/* The candidate, and (for several replicas in fast mode) the oracle run here; `single` is known. */
enum { CANDIDATE, ORACLE, SINGLE, SIDES };

typedef struct contest {
    const ls_plan_of_case *plan;
    ls_session run[SINGLE]; /* candidate, oracle */
    bool here[SINGLE];
    float *own[SINGLE];         /* [elements] their parameters */
    const float *values[SIDES]; /* [elements] that each has reached */
    double loss[SIDES];
    ls_reference *single;
} contest;

static void close_contest(ls_workplace *place, contest *c)
{
    for (int i = 0; i < SINGLE; i++) {
        if (c->here[i])
            ls_session_close(&c->run[i]);
        free(c->own[i]);
    }
    if (c->single)
        ls_reference_done(place, c->single);
}

static ls_status open_oracle(const ls_job *job, int replicas, ls_run **out, const void *context)
{
    return ls_oracle_open(context, job, replicas, out);
}

static ls_status open_contest(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                              contest *c)
{
    size_t bytes = (plan->model->graph->variables.elements + 1) * sizeof(float);
    *c = (contest){.plan = plan};
    for (int i = 0; i < SINGLE; i++) {
        c->own[i] = malloc(bytes);
        if (!c->own[i])
            return ls_fail_memory("gate", bytes);
    }
    for (int i = 0; i < SIDES; i++) /* what is compared after no step at all */
        c->values[i] = plan->initial;
    LS_TRY(ls_reference_get(place, plan, steps, &c->single));
    LS_TRY(ls_session_open(place, plan, &c->run[CANDIDATE]));
    c->here[CANDIDATE] = true;
    if (plan->job.exact || plan->device_count == 1)
        return LS_OK;
    LS_TRY(ls_session_open_one(place, plan, open_oracle, plan->strategy, &c->run[ORACLE]));
    c->here[ORACLE] = true;
    return LS_OK;
}

/* ---- Judging -------------------------------------------------------------------------------- */

static void note_difference(const contest *c, int judge, uint64_t step, const ls_difference *d,
                            ls_gate *gate)
{
    const char *name = judge == ORACLE ? "oracle" : "reference";
    gate->pass = false;
    if (d->same_bits) {
        snprintf(gate->oracle, sizeof gate->oracle, "step %llu: loss is %.9g, %s %.9g",
                 (unsigned long long)step, c->loss[CANDIDATE], name, c->loss[judge]);
        return;
    }
    const ls_variable *v = ls_variables_holding(&c->plan->model->graph->variables, d->first);
    snprintf(gate->oracle, sizeof gate->oracle, "step %llu: %s element %zu is %.9g, %s %.9g",
             (unsigned long long)step, v->name, d->first - v->offset,
             (double)c->values[CANDIDATE][d->first], name, (double)c->values[judge][d->first]);
}

/* The first step's gradient: the oracle's sum of slices against `single`'s whole batch. */
static void judge_gradient(const contest *c, ls_gate *gate)
{
    ls_difference d = ls_variables_compare(&c->plan->model->graph->variables,
                                           ls_oracle_gradient(c->run[ORACLE].run),
                                           ls_reference_gradient(c->single));
    gate->gradient_rel = d.max_rel;
    if (d.max_rel <= gradient_bound || !gate->pass)
        return;
    gate->pass = false;
    snprintf(gate->oracle, sizeof gate->oracle,
             "step 0: the gradient differs from single's by %.3g relative, bound %.3g", d.max_rel,
             gradient_bound);
}

/* One step of each; what differs goes into the gate. */
static ls_status compare_step(contest *c, uint64_t step, ls_gate *gate)
{
    const ls_variables *variables = &c->plan->model->graph->variables;
    int judge = c->here[ORACLE] ? ORACLE : SINGLE;
    for (int i = 0; i < SINGLE; i++) {
        if (!c->here[i])
            continue;
        LS_TRY(ls_session_one_step(&c->run[i], c->own[i], &c->loss[i]));
        c->values[i] = c->own[i];
    }
    LS_TRY(ls_reference_step(c->single, step, &c->values[SINGLE], &c->loss[SINGLE]));
    ls_difference drift = ls_variables_compare(variables, c->values[CANDIDATE], c->values[SINGLE]);
    ls_difference d = ls_variables_compare(variables, c->values[CANDIDATE], c->values[judge]);
    gate->max_ulp = drift.max_ulp > gate->max_ulp ? drift.max_ulp : gate->max_ulp;
    gate->max_rel = drift.max_rel > gate->max_rel ? drift.max_rel : gate->max_rel;
    gate->steps = step + 1;
    if (gate->pass &&
        (!d.same_bits || memcmp(&c->loss[CANDIDATE], &c->loss[judge], sizeof c->loss[judge])))
        note_difference(c, judge, step, &d, gate);
    if (step == 0 && c->here[ORACLE])
        judge_gradient(c, gate);
    return LS_OK;
}

static ls_status compare(contest *c, uint64_t steps, ls_gate *gate)
{
    const ls_plan_of_case *plan = c->plan;
    const ls_variables *variables = &plan->model->graph->variables;
    gate->bound = plan->job.exact ? 0 : gradient_bound;
    gate->kernels = ls_row_kernels(c->run[CANDIDATE].run);
    for (uint64_t step = 0; step < steps && !ls_interrupted(); step++)
        LS_TRY(compare_step(c, step, gate));
    LS_TRY(ls_variables_digest(variables, c->values[CANDIDATE], gate->digest));
    if (steps == (uint64_t)(plan->warmup + plan->timed))
        LS_TRY(ls_variables_digest(variables, c->values[SINGLE], gate->reference_digest));
    return LS_OK;
}

ls_status ls_gate_run(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out)
{
    uint64_t all = (uint64_t)(plan->warmup + plan->timed);
    int64_t asked = plan->config->gate_steps;
    *out = (ls_gate){.grade = "none", .pass = true, .gradient_rel = NAN};
    if (asked == 0 || !plan->strategy->equivalent) {
        snprintf(out->oracle, sizeof out->oracle, "%s",
                 asked == 0 ? "not compared: --gate-steps 0"
                            : "not compared: this strategy is not meant to be equal");
        return LS_OK;
    }
    out->grade = plan->job.exact ? "exact" : "bounded";
    out->compared = true;
    snprintf(out->oracle, sizeof out->oracle, "same bits");
    contest c;
    uint64_t steps = asked < 0 || (uint64_t)asked > all ? all : (uint64_t)asked;
    ls_status status = open_contest(place, plan, steps, &c);
    if (!status)
        status = compare(&c, steps, out);
    close_contest(place, &c);
    return status;
}

void ls_gate_close(ls_gate *gate)
{
    json_decref(gate->kernels);
    *gate = (ls_gate){0};
}
