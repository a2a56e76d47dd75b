/* SPDX-License-Identifier: MIT */
/* Gate: candidate and reference side by side, step by step; see gate.h. */
#include "bench/gate.h"

#include "bench/interrupt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two runs and the parameters that they have reached. */
typedef struct pair {
    ls_session candidate, reference;
    float *a, *b; /* [elements]: the candidate's, the reference's */
} pair;

static void close_pair(pair *p)
{
    ls_session_close(&p->candidate);
    ls_session_close(&p->reference);
    free(p->a);
    free(p->b);
}

static ls_status open_pair(const ls_workplace *place, const ls_plan_of_case *plan, pair *p)
{
    size_t bytes = (plan->model->graph->variables.elements + 1) * sizeof *p->a;
    const ls_strategy *single;
    *p = (pair){0};
    LS_TRY(ls_strategy_find("single", &single));
    p->a = malloc(bytes);
    p->b = malloc(bytes);
    ls_status status = p->a && p->b ? LS_OK : ls_fail_memory("gate", bytes);
    if (!status)
        status = ls_session_open(place, plan, NULL, &p->candidate);
    if (!status)
        status = ls_session_open(place, plan, single, &p->reference);
    if (status)
        close_pair(p);
    return status;
}

static ls_status one_step(ls_session *session, float *parameters, double *loss)
{
    ls_step_record record;
    uint64_t mark_ns;
    LS_TRY(ls_session_steps(session, 1));
    LS_TRY(ls_session_records(session, 1, &record, &mark_ns));
    *loss = record.loss;
    return session->run->strategy->gather(session->run, parameters);
}

static void note_difference(const ls_plan_of_case *plan, const pair *p, uint64_t step,
                            const ls_difference *d, const double loss[2], ls_gate *gate)
{
    gate->pass = false;
    if (d->same_bits) {
        snprintf(gate->oracle, sizeof gate->oracle, "step %llu: loss is %.9g, reference %.9g",
                 (unsigned long long)step, loss[0], loss[1]);
        return;
    }
    const ls_variable *v = ls_variables_holding(&plan->model->graph->variables, d->first);
    snprintf(gate->oracle, sizeof gate->oracle, "step %llu: %s element %zu is %.9g, reference %.9g",
             (unsigned long long)step, v->name, d->first - v->offset, (double)p->a[d->first],
             (double)p->b[d->first]);
}

/* One step of both; what differs goes into the gate. */
static ls_status compare_step(const ls_plan_of_case *plan, pair *p, uint64_t step, ls_gate *gate)
{
    double loss[2];
    LS_TRY(one_step(&p->candidate, p->a, &loss[0]));
    LS_TRY(one_step(&p->reference, p->b, &loss[1]));
    ls_difference d = ls_variables_compare(&plan->model->graph->variables, p->a, p->b);
    gate->max_ulp = d.max_ulp > gate->max_ulp ? d.max_ulp : gate->max_ulp;
    gate->max_rel = d.max_rel > gate->max_rel ? d.max_rel : gate->max_rel;
    gate->steps = step + 1;
    if (gate->pass && (!d.same_bits || memcmp(&loss[0], &loss[1], sizeof loss[0])))
        note_difference(plan, p, step, &d, loss, gate);
    return LS_OK;
}

static ls_status compare(const ls_plan_of_case *plan, pair *p, uint64_t steps, ls_gate *gate)
{
    const ls_variables *variables = &plan->model->graph->variables;
    for (uint64_t step = 0; step < steps && !ls_interrupted(); step++)
        LS_TRY(compare_step(plan, p, step, gate));
    if (!steps) { /* the initial values, then */
        memcpy(p->a, plan->initial, variables->elements * sizeof *p->a);
        memcpy(p->b, plan->initial, variables->elements * sizeof *p->b);
    }
    LS_TRY(ls_variables_digest(variables, p->a, gate->digest));
    if (steps == (uint64_t)(plan->warmup + plan->timed))
        LS_TRY(ls_variables_digest(variables, p->b, gate->reference_digest));
    return LS_OK;
}

ls_status ls_gate_run(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out)
{
    uint64_t all = (uint64_t)(plan->warmup + plan->timed);
    int64_t asked = plan->config->gate_steps;
    *out = (ls_gate){.grade = "none", .pass = true};
    if (asked == 0 || !plan->strategy->equivalent) {
        snprintf(out->oracle, sizeof out->oracle, "%s",
                 asked == 0 ? "not compared: --gate-steps 0"
                            : "not compared: this strategy is not meant to be equal");
        return LS_OK;
    }
    out->grade = plan->job.exact ? "exact" : "bounded";
    out->compared = true;
    snprintf(out->oracle, sizeof out->oracle, "same bits");
    pair p;
    LS_TRY(open_pair(place, plan, &p));
    ls_status status =
        compare(plan, &p, asked < 0 || (uint64_t)asked > all ? all : (uint64_t)asked, out);
    close_pair(&p);
    return status;
}
