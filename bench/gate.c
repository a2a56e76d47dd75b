/* SPDX-License-Identifier: MIT */
/* Gate: candidate and judges side by side, step by step; see gate.h. */
#include "bench/gate.h"

#include "bench/interrupt.h"
#include "bench/row.h"
#include "impl/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rounding difference can flip a ReLU, so slices may differ so much from the whole batch. */
static const double gradient_bound = 2e-2;

/* The candidate, `single`, and (for several replicas in fast mode) the oracle; and the parameters
 * that each has reached. */
enum { CANDIDATE, SINGLE, ORACLE, RUNS };

typedef struct contest {
    const ls_plan_of_case *plan;
    ls_session run[RUNS];
    bool here[RUNS];
    float *values[RUNS]; /* [elements] */
    double loss[RUNS];
    float *gradient; /* [elements] of `single` at the first step */
} contest;

static void close_contest(contest *c)
{
    for (int i = 0; i < RUNS; i++) {
        if (c->here[i])
            ls_session_close(&c->run[i]);
        free(c->values[i]);
    }
    free(c->gradient);
}

static ls_status open_oracle(const ls_job *job, int replicas, ls_run **out, const void *context)
{
    return ls_oracle_open(context, job, replicas, out);
}

static ls_status open_single(const ls_job *job, int replicas, ls_run **out, const void *context)
{
    (void)replicas;
    return ((const ls_strategy *)context)->open(job, out);
}

static ls_status open_contest(const ls_workplace *place, const ls_plan_of_case *plan, contest *c)
{
    size_t bytes = (plan->model->graph->variables.elements + 1) * sizeof(float);
    const ls_strategy *single;
    *c = (contest){.plan = plan};
    LS_TRY(ls_strategy_find("single", &single));
    for (int i = 0; i < RUNS; i++)
        c->values[i] = malloc(bytes);
    c->gradient = malloc(bytes);
    if (!c->values[CANDIDATE] || !c->values[SINGLE] || !c->values[ORACLE] || !c->gradient)
        return ls_fail_memory("gate", bytes);
    LS_TRY(ls_session_open(place, plan, &c->run[CANDIDATE]));
    c->here[CANDIDATE] = true;
    LS_TRY(ls_session_open_one(place, plan, open_single, single, &c->run[SINGLE]));
    c->here[SINGLE] = true;
    if (plan->job.exact || plan->device_count == 1)
        return LS_OK;
    LS_TRY(ls_session_open_one(place, plan, open_oracle, plan->strategy, &c->run[ORACLE]));
    c->here[ORACLE] = true;
    return LS_OK;
}

static ls_status one_step(ls_session *session, float *values, double *loss)
{
    ls_step_record record;
    uint64_t mark_ns;
    LS_TRY(ls_session_steps(session, 1));
    LS_TRY(ls_session_records(session, 1, &record, &mark_ns));
    *loss = record.loss;
    return session->run->strategy->gather(session->run, values);
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
static ls_status judge_gradient(contest *c, ls_gate *gate)
{
    ls_run *single = c->run[SINGLE].run;
    LS_TRY(single->strategy->gradient(single, c->gradient));
    ls_difference d = ls_variables_compare(&c->plan->model->graph->variables,
                                           ls_oracle_gradient(c->run[ORACLE].run), c->gradient);
    gate->gradient_rel = d.max_rel;
    if (d.max_rel <= gradient_bound || !gate->pass)
        return LS_OK;
    gate->pass = false;
    snprintf(gate->oracle, sizeof gate->oracle,
             "step 0: the gradient differs from single's by %.3g relative, bound %.3g", d.max_rel,
             gradient_bound);
    return LS_OK;
}

/* One step of each; what differs goes into the gate. */
static ls_status compare_step(contest *c, uint64_t step, ls_gate *gate)
{
    const ls_variables *variables = &c->plan->model->graph->variables;
    int judge = c->here[ORACLE] ? ORACLE : SINGLE;
    for (int i = 0; i < RUNS; i++)
        if (c->here[i])
            LS_TRY(one_step(&c->run[i], c->values[i], &c->loss[i]));
    ls_difference drift = ls_variables_compare(variables, c->values[CANDIDATE], c->values[SINGLE]);
    ls_difference d = ls_variables_compare(variables, c->values[CANDIDATE], c->values[judge]);
    gate->max_ulp = drift.max_ulp > gate->max_ulp ? drift.max_ulp : gate->max_ulp;
    gate->max_rel = drift.max_rel > gate->max_rel ? drift.max_rel : gate->max_rel;
    gate->steps = step + 1;
    if (gate->pass &&
        (!d.same_bits || memcmp(&c->loss[CANDIDATE], &c->loss[judge], sizeof c->loss[judge])))
        note_difference(c, judge, step, &d, gate);
    return step == 0 && c->here[ORACLE] ? judge_gradient(c, gate) : LS_OK;
}

static ls_status compare(contest *c, uint64_t steps, ls_gate *gate)
{
    const ls_plan_of_case *plan = c->plan;
    const ls_variables *variables = &plan->model->graph->variables;
    gate->bound = plan->job.exact ? 0 : gradient_bound;
    gate->kernels = ls_row_kernels(c->run[CANDIDATE].run);
    for (int i = 0; i < RUNS; i++) /* what is compared after no step at all */
        memcpy(c->values[i], plan->initial, variables->elements * sizeof(float));
    for (uint64_t step = 0; step < steps && !ls_interrupted(); step++)
        LS_TRY(compare_step(c, step, gate));
    LS_TRY(ls_variables_digest(variables, c->values[CANDIDATE], gate->digest));
    if (steps == (uint64_t)(plan->warmup + plan->timed))
        LS_TRY(ls_variables_digest(variables, c->values[SINGLE], gate->reference_digest));
    return LS_OK;
}

ls_status ls_gate_run(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out)
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
    ls_status status = open_contest(place, plan, &c);
    if (!status)
        status = compare(&c, asked < 0 || (uint64_t)asked > all ? all : (uint64_t)asked, out);
    close_contest(&c);
    return status;
}

void ls_gate_close(ls_gate *gate)
{
    json_decref(gate->kernels);
    *gate = (ls_gate){0};
}
