/* SPDX-License-Identifier: MIT */
/* Gate by replay; see gate_replay.h. */
#include "bench/gate_replay.h"

#include "bench/gate_sides.h"
#include "bench/interrupt.h"
#include "bench/row.h"
#include "bench/team.h"
#include "impl/ps/ps_report.h"

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

/* What process 0 does with the servers' logs. */
typedef struct replaying {
    const ls_workplace *place;
    const ls_session *session;
    const ls_ps_log *logs;
    const float *values; /* [elements] that the run has reached */
    float *again;        /* [elements] that the replay has */
    ls_gate *gate;
} replaying;

/* What a replay takes is not the case's: on a device of its own, without the case's limit. A GPU's
 * memory is all the case's already. */
static ls_status replay_apart(const replaying *r)
{
    const ls_session *session = r->session;
    ls_device *own = NULL, *device = session->devices[0];
    if (ls_device_describe(device)->name.kind == LS_DEVICE_CPU)
        LS_TRY(ls_session_judge_device(r->place, session->plan, &own));
    ls_status status =
        ls_ps_replay(session->run, own ? own : device, r->logs, session->plan->initial, r->again);
    ls_device_close(own);
    return status;
}

static ls_status judge_replay(void *context)
{
    const replaying *r = context;
    const ls_variables *variables = &r->session->plan->model->graph->variables;
    ls_gate *gate = r->gate;
    ls_status status = replay_apart(r);
    if (status && ls_status_code(status) != LS_CODE_CHECK)
        return status;
    const ls_difference d = ls_variables_compare(variables, r->values, r->again);
    if (!status && d.same_bits)
        return LS_OK;
    const ls_variable *v = ls_variables_holding(variables, d.first);
    gate->pass = false;
    snprintf(gate->oracle, sizeof gate->oracle,
             "after %llu steps: %s element %zu is %.9g, in sequence %.9g",
             (unsigned long long)gate->steps, v->name, d.first - v->offset,
             (double)r->values[d.first], (double)r->again[d.first]);
    if (status)
        snprintf(gate->oracle, sizeof gate->oracle, "%s", ls_status_text(status));
    ls_status_free(status);
    return LS_OK;
}

static ls_status replay(const ls_workplace *place, const ls_session *session, const float *values,
                        float *again, ls_gate *gate)
{
    ls_ps_log *logs;
    int servers;
    LS_TRY(ls_ps_report_logs(session->run, &logs, &servers));
    replaying r = {place, session, logs, values, again, gate};
    ls_status status = ls_session_alone(session, judge_replay, &r);
    ls_ps_report_free(logs, servers);
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

/* values, again: [elements] */
static ls_status judge(const ls_workplace *place, ls_session *session, uint64_t steps,
                       float *values, float *again, ls_gate *gate)
{
    const ls_variables *variables = &session->plan->model->graph->variables;
    gate->kernels = ls_row_kernels(session->run);
    LS_TRY(train(session, steps, gate));
    if (gate->interrupted)
        return LS_OK;
    LS_TRY(ls_session_gather(session, values));
    LS_TRY(replay(place, session, values, again, gate));
    LS_TRY(judge_bound(session, gate));
    if (steps)
        LS_TRY(ls_gate_traffic(session->run, gate));
    ls_values_diverged(variables, values, gate->steps, gate->diverged);
    return ls_team_agree(session->job.comm, ls_gate_keep(place, session->plan, values, gate));
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
    const size_t elements = plan->model->graph->variables.elements;
    float *memory = calloc(2 * elements + 1, sizeof *memory);
    ls_status status = memory ? LS_OK : ls_fail_memory("gate", 2 * elements * sizeof *memory);
    status = ls_team_agree(plan->job.comm, status);
    if (!status)
        status = ls_session_open(place, plan, &session);
    const bool open = !status;
    if (!status)
        status = ls_gate_step(&session, gate);
    if (!status && gate->pass)
        status = judge(place, &session, steps, memory, memory + elements, gate);
    if (!status)
        status = ls_gate_agree(plan->job.comm, gate);
    if (open)
        ls_session_close(&session);
    free(memory);
    return status;
}
