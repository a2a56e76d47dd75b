/* SPDX-License-Identifier: MIT */
/* Gate of evaluation: equal parameters are evaluated alike; see gate_sides.h. */
#include "bench/gate/gate_sides.h"
#include "bench/train/team.h"

#include <stdio.h>

static ls_status judge(const ls_gate_sides *sides, const ls_evaluation *mine, ls_gate *gate)
{
    ls_evaluation its;
    if (sides->oracle)
        LS_TRY(ls_session_evaluate(sides->oracle, LS_REFERENCE_TESTED, &its));
    else
        its = *ls_reference_evaluation(sides->reference);
    if (its.outputs == mine->outputs && its.accuracy == mine->accuracy)
        return LS_OK;
    gate->pass = false;
    snprintf(gate->oracle, sizeof gate->oracle,
             "evaluation after %llu steps: accuracy is %.9g, %s %.9g, on the same samples by the "
             "same parameters%s",
             (unsigned long long)gate->steps, mine->accuracy,
             sides->oracle ? "oracle" : "reference", its.accuracy,
             its.accuracy == mine->accuracy ? ", and the outputs differ" : "");
    return LS_OK;
}

ls_status ls_gate_evaluation(const ls_gate_sides *sides, ls_gate *gate)
{
    ls_session *candidate = sides->candidate;
    ls_evaluation mine = {0};
    if (!gate->pass || !ls_plan_tests(candidate->plan))
        return LS_OK;
    LS_TRY(ls_session_evaluate(candidate, LS_REFERENCE_TESTED, &mine));
    return ls_team_agree(candidate->job.comm, sides->reference ? judge(sides, &mine, gate) : LS_OK);
}
