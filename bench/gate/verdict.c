/* SPDX-License-Identifier: MIT */
/* The gate's verdict; see gate.h. */
#include "bench/gate/gate.h"

#include "bench/train/world.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

ls_status ls_gate_keep(const ls_workplace *workplace, ls_session *candidate, ls_gate *gate)
{
    const size_t elements = candidate->job.model->graph->variables.elements;
    ls_status status = LS_OK;
    if (!workplace->request->verify || !workplace->request->save)
        return LS_OK;
    if (ls_session_leads(candidate))
        status = ls_allocate("gate", &gate->parameters, elements + 1, sizeof *gate->parameters);
    LS_TRY(ls_world_agree(candidate->job.ranks.comm, status));
    return ls_session_gather(candidate, LS_VALUES, gate->parameters);
}

void ls_gate_wrong(ls_gate *gate, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(gate->oracle, sizeof gate->oracle, why, arguments);
    va_end(arguments);
    gate->pass = false;
}

const char *ls_gate_judge_name(bool oracle)
{
    return oracle ? "a replay of the same sums on one device" : "training on one device";
}

const char *ls_gate_difference(double rel, double bound, char text[LS_GATE_BY])
{
    if (isfinite(rel))
        snprintf(text, LS_GATE_BY, "by %.3g relative, bound %.3g", rel, bound);
    else
        snprintf(text, LS_GATE_BY, "so much that only one of the two is finite");
    return text;
}

void ls_gate_library(uint64_t step, double rel, const char *differs, ls_gate *gate)
{
    static const double bound = 1e-5; /* rounding, far less than the loss of one slice */
    char by[LS_GATE_BY];
    if (rel > gate->library_rel || isnan(gate->library_rel))
        gate->library_rel = rel;
    if (gate->pass && !(rel <= bound))
        ls_gate_wrong(gate, "step %llu: %s %s", (unsigned long long)step, differs,
                      ls_gate_difference(rel, bound, by));
}

void ls_gate_whole_loss(const ls_plan_of_case *plan, uint64_t step, double loss, double whole,
                        ls_gate *gate)
{
    const double products = ls_gate_products(plan, plan->job.batch);
    const double distance = ls_value_distance(loss, whole);
    /* pieces with batch statistics are rounded apart: half a unit of bfloat16 */
    const double bound =
        plan->job.kernels.precision == LS_PRECISION_BF16 ? 0x1p-8 : ls_gate_loss_bound;
    if (distance > 0 && !(distance <= bound * fabs(whole) + (double)FLT_MIN * products))
        ls_gate_wrong(gate,
                      "step %llu: the loss is %.9g, but %.9g when the whole batch is computed in "
                      "one pass; the relative difference may be at most %.3g",
                      (unsigned long long)step, ls_unsigned_nan(loss), ls_unsigned_nan(whole),
                      bound);
}

ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate)
{
    ls_status failed = gate->pass ? LS_OK : ls_fail(LS_CODE_CHECK, NULL, NULL, "%s", gate->oracle);
    ls_status status = ls_world_agree(comm, failed);
    if (ls_status_code(status) != LS_CODE_CHECK)
        return status;
    ls_gate_wrong(gate, "%s", ls_status_text(status));
    ls_status_free(status);
    return LS_OK;
}

ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate)
{
    ls_traffic sent, formula;
    if (ls_job_tail(run->job) && ls_job_steps_per_epoch(run->job) == 1)
        return LS_OK;
    LS_TRY(run->functions->traffic(run, &sent, &formula));
    if (sent.bytes_sent == formula.bytes_sent && sent.messages_sent == formula.messages_sent)
        return LS_OK;
    ls_gate_wrong(gate,
                  "traffic: a step sent %llu bytes in %llu messages, but the strategy's formula "
                  "says %llu bytes in %llu messages",
                  (unsigned long long)sent.bytes_sent, (unsigned long long)sent.messages_sent,
                  (unsigned long long)formula.bytes_sent,
                  (unsigned long long)formula.messages_sent);
    return LS_OK;
}

void ls_gate_close(ls_gate *gate)
{
    json_decref(gate->kernels);
    free(gate->parameters);
    *gate = (ls_gate){0};
}
