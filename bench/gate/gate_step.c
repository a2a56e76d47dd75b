/* SPDX-License-Identifier: MIT */
/* Gate of the step itself: what must hold of its tasks before any runs; see gate_sides.h. */
#include "bench/gate/gate_sides.h"
#include "bench/train/team.h"
#include "impl/step/run.h"

#include <stdio.h>

ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate)
{
    ls_status status = ls_stepped_check(candidate->run);
    if (ls_status_code(status) == LS_CODE_CHECK) {
        gate->pass = false;
        snprintf(gate->oracle, sizeof gate->oracle, "%s", ls_status_text(status));
        ls_status_free(status);
        status = LS_OK;
    }
    LS_TRY(ls_team_agree(candidate->job.comm, status));
    return ls_gate_agree(candidate->job.comm, gate);
}

ls_status ls_gate_steps_alone(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out)
{
    ls_session session;
    LS_TRY(ls_session_open(place, plan, &session));
    ls_status status = ls_gate_step(&session, out);
    ls_session_close(&session);
    return status;
}
