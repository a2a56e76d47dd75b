/* SPDX-License-Identifier: MIT */
/*
 * Gate of servers that serve requests in order of arrival. Timing decides the result of such a run,
 * so there is no reference to compare with. The gate checks what holds in any order: races between
 * tasks, finite values, how far ahead a worker was, the bytes sent. A test shows that the result
 * depends on the order of service alone (tests/ps_replay.c).
 */
#include "bench/gate/gate.h"
#include "bench/train/trial/checked.h"
#include "bench/train/session.h"
#include "bench/train/world.h"
#include "common/base/grow.h"
#include "impl/arrival/ps_report.h"

#include <stdio.h>

/* Steps enqueued at once: few enough that an interrupt takes effect soon. */
enum { STEPS_AT_ONCE = 1000 };

/* Losses must be finite: the losses of the latest steps, as many as are kept. */
static ls_status judge_losses(ls_session *session, ls_gate *gate)
{
    const uint64_t kept = session->job.records, steps = session->step;
    const uint64_t count = steps < kept ? steps : kept;
    ls_auto ls_step_record *records = NULL;
    uint64_t mark_ns;
    LS_TRY(ls_world_agree(session->job.ranks.comm,
                          ls_allocate("gate", &records, count, sizeof *records)));
    if (count)
        LS_TRY(ls_session_records(session, count, records, &mark_ns));
    for (uint64_t i = 0; i < count && !*gate->diverged; i++)
        ls_loss_diverged(records[i].loss, steps - count + i, gate->diverged);
    return LS_OK;
}

static ls_status judge(const ls_workplace *workplace, ls_session *session, uint64_t steps,
                       ls_gate *gate)
{
    ls_session_found found;
    ls_ps_report report;
    const ls_variables *variables = &session->plan->model->graph->variables;
    gate->kernels = ls_step_kernels(session->run);
    LS_TRY(ls_gate_put(workplace, session, steps, STEPS_AT_ONCE, 0, gate));
    gate->steps = session->step;
    if (gate->interrupted)
        return LS_OK;
    LS_TRY(ls_session_look(session, &found));
    LS_TRY(ls_ps_report_collect(session->run, &report));
    if (session->job.ps.mode == LS_PS_SSP && report.lead.max > (uint64_t)session->job.ps.staleness)
        ls_gate_wrong(gate,
                      "lead: a worker was %llu steps ahead of the slowest worker, but "
                      "--ps-staleness allows %d",
                      (unsigned long long)report.lead.max, session->job.ps.staleness);
    if (steps)
        LS_TRY(ls_gate_traffic(session->run, gate));
    LS_TRY(judge_losses(session, gate));
    if (!ls_job_tail(&session->job)) /* whose empty slices are pushed by nobody */
        LS_TRY(ls_world_agree(session->job.ranks.comm, ls_gate_rate(session, session->step, gate)));
    if (!*gate->diverged)
        ls_values_diverged(variables, found.infinite, gate->steps, gate->diverged);
    return ls_gate_keep(workplace, session, gate);
}

ls_status ls_gate_arrival(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate)
{
    ls_closing(ls_session_close) ls_session session = {0};
    gate->checked = true;
    snprintf(gate->oracle, sizeof gate->oracle, "not compared: timing decides %s",
             plan->job.ps.backups ? "which gradients a step has, and in which order"
                                  : "in which order gradients are applied");
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &session));
    ls_session_heed(workplace, &session);
    LS_TRY(ls_gate_step(&session, gate));
    if (gate->pass)
        LS_TRY(judge(workplace, &session, steps, gate));
    return ls_gate_agree(plan->job.ranks.comm, gate);
}
