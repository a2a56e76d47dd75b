/* SPDX-License-Identifier: MIT */
/* Gate by replay; see gate_replay.h. */
#include "bench/gate_replay.h"

#include "bench/interrupt.h"
#include "bench/row.h"
#include "bench/team.h"
#include "impl/ps_report.h"

#include <stdio.h>
#include <stdlib.h>

/* Steps put at once, so that an interrupt is answered between. */
enum { STEPS_AT_ONCE = 1000 };

static ls_status train(ls_session *session, uint64_t steps, ls_gate *gate)
{
    while (gate->steps < steps) {
        uint64_t left = steps - gate->steps;
        gate->interrupted = ls_interrupted();
        LS_TRY(ls_team_turn(session->job.comm, LS_OK, &left, &gate->interrupted));
        if (gate->interrupted)
            return LS_OK;
        left = left < STEPS_AT_ONCE ? left : STEPS_AT_ONCE;
        LS_TRY(
            ls_session_steps(session, left < session->job.records ? left : session->job.records));
        gate->steps = session->step;
    }
    return LS_OK;
}

/* By process 0. */
static ls_status replay(const ls_session *session, const float *values, ls_gate *gate)
{
    const ls_variables *variables = &session->plan->model->graph->variables;
    ls_ps_log *logs = NULL;
    int servers;
    float *again = calloc(variables->elements + 1, sizeof *again);
    ls_status status = again ? ls_ps_report_logs(session->run, &logs, &servers)
                             : ls_fail_memory("gate", variables->elements * sizeof *again);
    if (!status && ls_session_leads(session)) {
        status = ls_ps_replay(session->run, logs, session->plan->initial, again);
        ls_difference d = ls_variables_compare(variables, values, again);
        if (ls_status_code(status) == LS_CODE_CHECK || (!status && !d.same_bits)) {
            gate->pass = false;
            const ls_variable *v = ls_variables_holding(variables, d.first);
            snprintf(gate->oracle, sizeof gate->oracle,
                     "after %llu steps: %s element %zu is %.9g, in sequence %.9g",
                     (unsigned long long)gate->steps, v->name, d.first - v->offset,
                     (double)values[d.first], (double)again[d.first]);
            if (status)
                snprintf(gate->oracle, sizeof gate->oracle, "%s", ls_status_text(status));
            ls_status_free(status);
            status = LS_OK;
        }
    }
    ls_ps_report_free(logs, logs ? servers : 0);
    free(again);
    return status;
}

static ls_status judge_bound(const ls_session *session, ls_gate *gate)
{
    ls_ps_report report;
    LS_TRY(ls_ps_report_collect(session->run, &report));
    if (!gate->pass || session->job.ps.mode != LS_PS_SSP ||
        report.lead.max <= (uint64_t)session->job.ps.staleness)
        return LS_OK;
    gate->pass = false;
    snprintf(gate->oracle, sizeof gate->oracle,
             "lead: a worker was %llu steps ahead of the slowest, and the bound is %d",
             (unsigned long long)report.lead.max, session->job.ps.staleness);
    return LS_OK;
}

static ls_status judge(const ls_workplace *place, ls_session *session, uint64_t steps,
                       ls_gate *gate)
{
    const ls_variables *variables = &session->plan->model->graph->variables;
    float *values = calloc(variables->elements + 1, sizeof *values);
    if (!values)
        return ls_fail_memory("gate", variables->elements * sizeof *values);
    gate->kernels = ls_row_kernels(session->run);
    ls_status status = train(session, steps, gate);
    if (!status && !gate->interrupted)
        status = session->run->strategy->gather(session->run, values);
    if (!status && !gate->interrupted)
        status = replay(session, values, gate);
    if (!status && !gate->interrupted)
        status = judge_bound(session, gate);
    if (!status && steps && !gate->interrupted)
        status = ls_gate_traffic(session->run, gate);
    if (!status)
        ls_values_diverged(variables, values, gate->steps, gate->diverged);
    if (!status && !gate->interrupted)
        status = ls_gate_keep(place, session->plan, values, gate);
    free(values);
    return status;
}

ls_status ls_gate_replay(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                         ls_gate *gate)
{
    ls_session session;
    gate->replayed = true;
    gate->reason = plan->job.ps.backups
                       ? "timing decides which gradients a step has, and in which order"
                       : "timing decides in which order gradients are applied";
    snprintf(gate->oracle, sizeof gate->oracle, "same bits");
    ls_status status = ls_session_open(place, plan, &session);
    const bool open = !status;
    status = ls_team_agree(plan->job.comm, status);
    if (!status)
        status = judge(place, &session, steps, gate);
    if (!status)
        status = ls_gate_agree(plan->job.comm, gate);
    if (open)
        ls_session_close(&session);
    return status;
}
