/* SPDX-License-Identifier: MIT */
/*
 * Gate of changes of members that the first steps do not reach: the step before each change and the
 * one after it, from the initial values, and the state that they leave. Replicas that leave, join
 * or die at step 500 are so compared without 500 steps. An oracle takes its slices from the same
 * plan as the candidate, so the loss behind a change is also compared with `single`'s. Left out:
 * sums of a library, which have no order that a judge knows.
 */
#include "bench/gate/gate.h"

#include "bench/case/elastic.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "common/base/digest.h"

/* Hashes of the arrays that the candidate has. */
static ls_status hash_state(ls_comparison *c, uint64_t hashes[LS_ARRAYS])
{
    for (int a = 0; a < LS_ARRAYS; a++) {
        hashes[a] = 0;
        if (!ls_state_name(c->run[LS_CANDIDATE].run->job, (ls_values)a))
            continue;
        LS_TRY(ls_session_gather(&c->run[LS_CANDIDATE], (ls_values)a, c->at_once));
        hashes[a] = ls_hash64(c->at_once, c->variables->elements * sizeof *c->at_once);
    }
    return LS_OK;
}

/* A change must not alter the state's values; an oracle changes its state, too. */
static ls_status change_members(ls_comparison *c, ls_gate *gate)
{
    const ls_session *candidate = &c->run[LS_CANDIDATE];
    uint64_t before[LS_ARRAYS], behind[LS_ARRAYS];
    LS_TRY(hash_state(c, before));
    LS_TRY(ls_gate_switch_members(c, gate));
    LS_TRY(hash_state(c, behind));
    for (int a = 0; a < LS_ARRAYS && gate->pass; a++)
        if (before[a] != behind[a])
            ls_gate_wrong(gate,
                          "step %llu: before this step, moving the training state to other devices "
                          "changed the values of %s",
                          (unsigned long long)candidate->step,
                          ls_state_name(candidate->run->job, (ls_values)a));
    return LS_OK;
}

/* Next to an oracle, `single` computes the loss behind the change in one piece, with the parameters
 * that the candidate has then. */
static ls_status compare_change(ls_comparison *c, const ls_elastic_phase *phase, ls_gate *gate)
{
    const bool whole = c->run[LS_ORACLE].run && !ls_sync_bn_is_own(&phase->next->plan);
    const uint64_t step = phase->next->first;
    double *loss = c->loss;
    for (int side = LS_CANDIDATE; side <= LS_ORACLE; side++)
        if (c->run[side].run && c->run[side].plan->phase != phase)
            LS_TRY(ls_session_renew(c->workplace, &phase->plan, &c->run[side]));
    LS_TRY(ls_gate_compare_at(c, step - 1, gate));
    LS_TRY(change_members(c, gate));
    if (whole) {
        const ls_state_source held = ls_state_held(c->own[LS_CANDIDATE]);
        LS_TRY(ls_session_begin_at(&c->run[LS_SINGLE], step, &held));
        LS_TRY(ls_session_one_step(&c->run[LS_SINGLE], c->own[LS_SINGLE], &loss[LS_SINGLE]));
    }
    LS_TRY(ls_gate_compare_step(c, step, gate));
    if (gate->pass && whole)
        ls_gate_whole_loss(c->plan, step, loss[LS_CANDIDATE], loss[LS_SINGLE], gate);
    LS_TRY(ls_gate_owners(&c->run[LS_CANDIDATE], gate));
    return ls_gate_compare_state(c, gate);
}

ls_status ls_gate_check_changes(ls_comparison *c, uint64_t steps, ls_gate *gate)
{
    c->changes = true;
    for (const ls_elastic_phase *p = c->plan->phases; p && p->next && gate->pass; p = p->next) {
        gate->interrupted = ls_interrupted();
        if (gate->interrupted)
            return LS_OK;
        if (p->next->first >= c->plan->job.start + steps)
            LS_TRY(compare_change(c, p, gate));
    }
    return LS_OK;
}
