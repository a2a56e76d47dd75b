/* SPDX-License-Identifier: MIT */
/* Checks of a trained case; see checked.h. */
#include "bench/train/trial/checked.h"

#include "bench/train/session.h"
#include "bench/train/world.h"
#include "common/base/digest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    snprintf(reason, LS_REASON_SIZE,
             "diverged: the loss is %s at step %llu; use a smaller --lr, or --clip",
             isnan(loss) ? "NaN" : "infinite", (unsigned long long)step);
    return true;
}

bool ls_values_diverged(const ls_variables *variables, size_t infinite, uint64_t steps,
                        char reason[LS_REASON_SIZE])
{
    if (infinite == SIZE_MAX)
        return false;
    const ls_variable *v = ls_variables_holding(variables, infinite);
    snprintf(reason, LS_REASON_SIZE,
             "diverged: %s element %zu is infinite or not a number after step %llu; use a smaller "
             "--lr, or --clip",
             v->name, infinite - v->offset, (unsigned long long)steps);
    return true;
}

void ls_check_losses(const ls_step_times *steps, ls_verdict *verdict)
{
    for (uint64_t i = 0; i < steps->count && !verdict->failed; i++)
        verdict->failed =
            ls_loss_diverged(steps->records[i].loss, steps->first + i, verdict->reason);
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
            verdict, "traffic: a step sent %llu bytes in %llu messages, expected %llu in %llu",
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
    ls_session_found found;
    LS_TRY(ls_session_look(session, &found));
    if (*found.differs)
        ls_verdict_fail(verdict, "after %llu steps: %.220s", (unsigned long long)session->step,
                        found.differs);
    if (!verdict->failed)
        verdict->failed =
            ls_values_diverged(variables, found.infinite, session->step, verdict->reason);
    memcpy(out->digest, found.digest, sizeof out->digest);
    int other = -1;
    if (!ls_strategy_alone(session->run->strategy)) /* replicas that must be equal on all ranks */
        LS_TRY(ls_world_differs(session->job.ranks.comm,
                                ls_hash64(out->digest, strlen(out->digest)), &other));
    if (other >= 0)
        ls_verdict_fail(
            verdict, "the parameters of rank %d differ from rank 0's after the last step", other);
    LS_TRY(check_traffic(session, verdict, out));
    return share_failure(session->job.ranks.comm, verdict);
}
