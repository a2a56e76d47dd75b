/* SPDX-License-Identifier: MIT */
/* Compares what a session's replicas have; see session.h. */
#include "bench/train/session.h"

#include "common/base/numbers.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

/* What a device has must have the same bits as in the whole. Of split layers, the whole has them
 * from each place in turn; of shares in groups, from the first group: so what several devices have
 * is alike. */
static ls_status compare_device(ls_session *session, int device, const float *whole, float *other,
                                char differs[LS_REASON_SIZE])
{
    const ls_variables *variables = &session->job.model->graph->variables;
    memcpy(other, whole, variables->elements * sizeof *whole);
    LS_TRY(session->run->functions->gather_device(session->run, device, other));
    const ls_difference d = ls_variables_compare(variables, other, whole);
    if (*differs || d.same_bits)
        return LS_OK;
    const ls_variable *v = ls_variables_holding(variables, d.first);
    snprintf(differs, LS_REASON_SIZE,
             "%s element %zu, which several devices have, is %.9g on device %d, on another %.9g",
             v->name, d.first - v->offset, ls_unsigned_nan((double)other[d.first]),
             ls_job_member(&session->job, (size_t)device), ls_unsigned_nan((double)whole[d.first]));
    return LS_OK;
}

ls_status ls_session_compare_replicas(ls_session *session, const float *first, float *other,
                                      char differs[LS_REASON_SIZE])
{
    const ls_strategy *strategy = session->run->strategy;
    const ls_variables *variables = &session->job.model->graph->variables;
    const size_t here = session->job.device_count / (size_t)ls_job_places(&session->job);
    const ls_mesh *mesh = &session->job.mesh;
    const int windows = session->job.parameters.windows;
    const bool parts = mesh->rest == LS_SLICE || mesh->rest == LS_POSITION ||
                       (windows && mesh->size[LS_GROUP] > 1);
    const bool have = ls_strategy_reduces(strategy) && !ls_strategy_alone(strategy) && !windows;
    *differs = 0;
    for (size_t i = 0; i < session->job.device_count && parts; i++)
        LS_TRY(compare_device(session, (int)i, first, other, differs));
    for (size_t i = 1; i < here && have && !parts; i++) {
        memcpy(other, first, variables->elements * sizeof *first); /* of masters it has its share */
        LS_TRY(session->run->functions->gather_replica(session->run, (int)i, other));
        const ls_difference d = ls_variables_compare(variables, other, first);
        if (d.same_bits)
            continue;
        const ls_variable *v = ls_variables_holding(variables, d.first);
        snprintf(differs, LS_REASON_SIZE,
                 "%s element %zu is %.9g on replica %zu, on replica 0 %.9g", v->name,
                 d.first - v->offset, ls_unsigned_nan((double)other[d.first]), i,
                 ls_unsigned_nan((double)first[d.first]));
        return LS_OK;
    }
    return LS_OK;
}
