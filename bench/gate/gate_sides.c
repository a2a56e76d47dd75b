/* SPDX-License-Identifier: MIT */
/* What the gate checks besides the results of steps; see gate.h. */
#include "bench/gate/gate.h"
#include "bench/progress/progress.h"
#include "bench/train/change.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "common/base/clock.h"
#include "impl/step/run/run.h"

#include <math.h>

ls_status ls_gate_put(const ls_workplace *workplace, ls_session *session, uint64_t steps,
                      uint64_t most, double done, ls_gate *gate)
{
    const uint64_t begin = ls_clock_ns(), first = session->step;
    most = most < session->job.records ? most : session->job.records;
    while (session->step < steps) {
        uint64_t left = steps - session->step;
        gate->interrupted = ls_interrupted();
        LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &left, &gate->interrupted));
        if (gate->interrupted)
            return LS_OK;
        LS_TRY(ls_change_members(workplace, session, NULL));
        LS_TRY(ls_session_steps(session, ls_change_until(session, left < most ? left : most)));
        const double ended = (double)(session->step - first);
        const double share = ended / (double)(steps - first);
        gate->step_s = (double)(ls_clock_ns() - begin) * 1e-9 / ended;
        ls_progress_update(workplace->progress, done + (1 - done) * share, NAN, NAN);
    }
    return LS_OK;
}

/* All ranks agree on what a check found. */
static ls_status agree_on(const ls_session *candidate, ls_status status, ls_gate *gate)
{
    if (ls_status_code(status) == LS_CODE_CHECK) {
        ls_gate_wrong(gate, "%s", ls_status_text(status));
        ls_status_free(status);
        status = LS_OK;
    }
    LS_TRY(ls_world_agree(candidate->job.ranks.comm, status));
    return ls_gate_agree(candidate->job.ranks.comm, gate);
}

/* Checks the tasks before any of them runs. */
ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate)
{
    return agree_on(candidate, ls_steps_check(candidate->run), gate);
}

ls_status ls_gate_owners(const ls_session *candidate, ls_gate *gate)
{
    return agree_on(candidate, gate->pass ? ls_steps_owners(candidate->run) : LS_OK, gate);
}

ls_status ls_gate_change(const ls_gate_sides *sides, ls_gate *gate)
{
    if (!ls_change_is_due(sides->candidate))
        return LS_OK;
    LS_TRY(ls_gate_owners(sides->candidate, gate));
    LS_TRY(ls_change_members(sides->workplace, sides->candidate, NULL));
    if (sides->oracle)
        LS_TRY(ls_change_members(sides->workplace, sides->oracle, NULL));
    return ls_gate_step(sides->candidate, gate);
}

/* Equal parameters must give the same evaluation. */
static ls_status judge(const ls_gate_sides *sides, const ls_evaluation *mine, ls_gate *gate)
{
    ls_evaluation its;
    const uint64_t samples = ls_reference_tested(sides->candidate->plan);
    if (sides->oracle)
        LS_TRY(ls_session_evaluate(sides->oracle, samples, true, &its));
    else
        its = *ls_reference_evaluation(sides->reference);
    gate->interrupted |= its.stopped;
    if (its.stopped ||
        (its.outputs == mine->outputs && its.right == mine->right && its.counted == mine->counted))
        return LS_OK;
    ls_gate_wrong(gate,
                  "evaluation after %llu steps: %llu of %llu predictions are right, expected %llu "
                  "of %llu (%s), with equal samples and parameters%s",
                  (unsigned long long)gate->steps, (unsigned long long)mine->right,
                  (unsigned long long)mine->counted, (unsigned long long)its.right,
                  (unsigned long long)its.counted, sides->oracle ? "oracle" : "reference",
                  its.outputs == mine->outputs ? "" : "; the outputs differ, too");
    return LS_OK;
}

ls_status ls_gate_evaluation(const ls_gate_sides *sides, ls_gate *gate)
{
    ls_session *candidate = sides->candidate;
    ls_evaluation mine = {0};
    if (!gate->pass || !ls_plan_tests(candidate->plan))
        return LS_OK;
    LS_TRY(ls_session_evaluate(candidate, ls_reference_tested(candidate->plan), true, &mine));
    gate->interrupted = mine.stopped;
    const ls_status status =
        !mine.stopped && (sides->reference || sides->oracle) ? judge(sides, &mine, gate) : LS_OK;
    return ls_world_turn(candidate->job.ranks.comm, status, NULL, &gate->interrupted);
}
