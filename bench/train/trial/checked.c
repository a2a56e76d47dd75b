/* SPDX-License-Identifier: MIT */
/* Checks of a trained case; see checked.h. */
#include "bench/train/trial/checked.h"

#include "bench/train/session.h"
#include "bench/train/world.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ls_verdict_fail(ls_verdict *verdict, const char *why, ...)
{
    va_list arguments;
    if (verdict->failed)
        return;
    verdict->failed = true;
    va_start(arguments, why);
    vsnprintf(verdict->reason, sizeof verdict->reason, why, arguments);
    va_end(arguments);
}

bool ls_loss_diverged(double loss, uint64_t step, char reason[LS_REASON_SIZE])
{
    if (isfinite(loss))
        return false;
    snprintf(reason, LS_REASON_SIZE, "diverged: the loss is %s at step %llu",
             isnan(loss) ? "NaN" : "infinite", (unsigned long long)step);
    return true;
}

bool ls_values_diverged(const ls_variables *variables, const float *values, uint64_t steps,
                        char reason[LS_REASON_SIZE])
{
    size_t i = 0;
    while (i < variables->elements && isfinite(values[i]))
        i++;
    if (i == variables->elements)
        return false;
    const ls_variable *v = ls_variables_holding(variables, i);
    snprintf(reason, LS_REASON_SIZE, "diverged: %s element %zu is not finite after step %llu",
             v->name, i - v->offset, (unsigned long long)steps);
    return true;
}

void ls_check_losses(const ls_step_times *steps, ls_verdict *verdict)
{
    for (uint64_t i = 0; i < steps->count && !verdict->failed; i++)
        verdict->failed =
            ls_loss_diverged(steps->records[i].loss, steps->first + i, verdict->reason);
}

/* All replicas of this process must still have the same parameters. Replicas of several processes
 * are compared by digest. */
static ls_status check_replicas(ls_session *session, const float *parameters, ls_verdict *verdict)
{
    char differs[LS_REASON_SIZE];
    const size_t bytes = session->plan->model->graph->variables.elements * sizeof(float);
    float *other = malloc(bytes + 1);
    ls_status status = other ? ls_session_compare_replicas(session, parameters, other, differs)
                             : ls_fail_memory("trial", bytes);
    free(other);
    if (!status && *differs)
        ls_verdict_fail(verdict, "after %llu steps: %.220s", (unsigned long long)session->step,
                        differs);
    return ls_world_agree(session->job.ranks.comm, status);
}

/* Full steps must have sent what the formula says; without a full step nothing is checked. */
static ls_status check_traffic(const ls_session *session, ls_verdict *verdict, ls_checked *out)
{
    const ls_run *run = session->run;
    const ls_traffic *sent = &out->sent, *formula = &out->formula;
    const bool alone = session->plan->all_devices == 1 && !ls_strategy_serves(run->strategy);
    if (alone || !ls_session_has_full(session))
        return LS_OK;
    LS_TRY(run->functions->traffic(run, &out->sent, &out->formula));
    out->counted = formula->messages_sent > 0; /* otherwise only a library knows */
    if (sent->bytes_sent != formula->bytes_sent || sent->messages_sent != formula->messages_sent)
        ls_verdict_fail(
            verdict,
            "traffic: %llu bytes and %llu messages a step, and the formula says %llu and %llu",
            (unsigned long long)sent->bytes_sent, (unsigned long long)sent->messages_sent,
            (unsigned long long)formula->bytes_sent, (unsigned long long)formula->messages_sent);
    return LS_OK;
}

/* Agrees on a failed check with all ranks: a failure of one fails the case. */
static ls_status share_failure(ls_comm *comm, ls_verdict *verdict)
{
    ls_status failed =
        verdict->failed ? ls_fail(LS_CODE_CHECK, NULL, NULL, "%s", verdict->reason) : LS_OK;
    ls_status status = ls_world_agree(comm, failed);
    if (ls_status_code(status) != LS_CODE_CHECK)
        return status;
    *verdict = (ls_verdict){0};
    ls_verdict_fail(verdict, "%s", ls_status_text(status));
    ls_status_free(status);
    return LS_OK;
}

ls_status ls_check_trained(ls_session *session, ls_verdict *verdict, ls_checked *out)
{
    const ls_variables *variables = &session->plan->model->graph->variables;
    ls_comm *comm = session->job.ranks.comm;
    LS_TRY(ls_session_gather(session, out->parameters));
    LS_TRY(check_replicas(session, out->parameters, verdict));
    if (!verdict->failed)
        verdict->failed =
            ls_values_diverged(variables, out->parameters, session->step, verdict->reason);
    LS_TRY(check_traffic(session, verdict, out));
    LS_TRY(share_failure(comm, verdict));
    return ls_world_agree(comm, ls_variables_digest(variables, out->parameters, out->digest));
}
