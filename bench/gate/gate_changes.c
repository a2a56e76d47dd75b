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
#include "common/base/grow.h"
#include "common/base/numbers.h"

typedef struct changes {
    const ls_workplace *workplace;
    ls_session *candidate, *judge;
    ls_session *single; /* next to an oracle; NULL if `single` is the judge */
    const ls_variables *variables;
    float *candidate_values, *judge_values; /* [elements] */
} changes;

static void compare_values(const changes *c, const char *what, uint64_t step, ls_gate *gate)
{
    const ls_difference d =
        ls_variables_compare(c->variables, c->candidate_values, c->judge_values);
    if (d.same_bits || !gate->pass)
        return;
    const ls_variable *v = ls_variables_holding(c->variables, d.first);
    ls_gate_wrong(
        gate,
        "step %llu, where a replica leaves or joins: %s%s%s element %zu is %.9g, but %.9g in %s",
        (unsigned long long)step, what, *what ? " of " : "", v->name, d.first - v->offset,
        ls_unsigned_nan((double)c->candidate_values[d.first]),
        ls_unsigned_nan((double)c->judge_values[d.first]), ls_gate_judge_name(c->single != NULL));
}

static ls_status compare_step(const changes *c, bool behind, ls_gate *gate)
{
    const uint64_t step = c->candidate->step;
    ls_session_found found;
    double loss, expected, whole = 0;
    behind = behind && c->single && !ls_sync_bn_is_own(c->candidate->plan);
    if (behind) { /* the loss in one piece, with the parameters that the candidate has now */
        const ls_state_source held = ls_state_held(c->candidate_values);
        LS_TRY(ls_session_begin_at(c->single, step, &held));
        LS_TRY(ls_session_one_step(c->single, c->judge_values, &whole));
    }
    LS_TRY(ls_gate_rate(c->candidate, step, gate));
    LS_TRY(ls_session_one_step(c->candidate, c->candidate_values, &loss));
    LS_TRY(ls_session_one_step(c->judge, c->judge_values, &expected));
    compare_values(c, "", step, gate);
    if (gate->pass && !ls_values_same(loss, expected))
        ls_gate_wrong(
            gate, "step %llu, where a replica leaves or joins: the loss is %.9g, but %.9g in %s",
            (unsigned long long)step, ls_unsigned_nan(loss), ls_unsigned_nan(expected),
            ls_gate_judge_name(c->single != NULL));
    if (gate->pass && behind)
        ls_gate_whole_loss(c->candidate->plan, step, loss, whole, gate);
    LS_TRY(ls_session_look(c->candidate, &found));
    if (*found.differs && gate->pass)
        ls_gate_wrong(gate, "step %llu: %.220s", (unsigned long long)step, found.differs);
    gate->steps++;
    return ls_gate_copies(c->candidate, step, gate);
}

/* Slots and averages after the latest step. */
static ls_status compare_state(const changes *c, ls_gate *gate)
{
    const ls_job *job = c->candidate->run->job;
    ls_run *judge = c->judge->run;
    for (int a = LS_SLOT_0; a < LS_ARRAYS && gate->pass; a++) {
        const char *name = ls_state_name(job, (ls_values)a);
        if (!name)
            continue;
        LS_TRY(ls_session_gather(c->candidate, (ls_values)a, c->candidate_values));
        LS_TRY(judge->functions->state(judge, (ls_values)a, ls_job_elements(judge->job),
                                       c->judge_values));
        compare_values(c, name, c->candidate->step - 1, gate);
    }
    return LS_OK;
}

static ls_status begin_in(const changes *c, ls_session *session, const ls_elastic_phase *phase,
                          bool changes_members)
{
    if (changes_members && session->plan->phase != phase)
        LS_TRY(ls_session_renew(c->workplace, &phase->plan, session));
    return ls_session_begin_at(session, phase->next->first - 1, &session->plan->initial);
}

/* Hashes of the arrays that the candidate has; its parameters are then in candidate_values. */
static ls_status hash_state(const changes *c, uint64_t hashes[LS_ARRAYS])
{
    for (int a = LS_ARRAYS; a-- > 0;) {
        hashes[a] = 0;
        if (!ls_state_name(c->candidate->run->job, (ls_values)a))
            continue;
        LS_TRY(ls_session_gather(c->candidate, (ls_values)a, c->candidate_values));
        hashes[a] =
            ls_hash64(c->candidate_values, c->variables->elements * sizeof *c->candidate_values);
    }
    return LS_OK;
}

/* A change must not alter the state's values; an oracle changes its state, too. */
static ls_status change_members(const changes *c, const ls_gate_sides *sides, ls_gate *gate)
{
    uint64_t before[LS_ARRAYS], behind[LS_ARRAYS];
    LS_TRY(hash_state(c, before));
    LS_TRY(ls_gate_switch_members(sides, gate));
    LS_TRY(hash_state(c, behind));
    for (int a = 0; a < LS_ARRAYS && gate->pass; a++)
        if (before[a] != behind[a])
            ls_gate_wrong(gate,
                          "step %llu: before this step, moving the training state to other devices "
                          "changed the values of %s",
                          (unsigned long long)c->candidate->step,
                          ls_state_name(c->candidate->run->job, (ls_values)a));
    return LS_OK;
}

static ls_status compare_change(const changes *c, const ls_elastic_phase *phase, ls_gate *gate)
{
    const ls_gate_sides sides = {.workplace = c->workplace,
                                 .candidate = c->candidate,
                                 .oracle = c->single ? c->judge : NULL};
    LS_TRY(begin_in(c, c->candidate, phase, true));
    LS_TRY(begin_in(c, c->judge, phase, c->single));
    LS_TRY(compare_step(c, false, gate));
    LS_TRY(change_members(c, &sides, gate));
    LS_TRY(compare_step(c, true, gate));
    LS_TRY(ls_gate_owners(c->candidate, gate));
    return compare_state(c, gate);
}

ls_status ls_gate_check_changes(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                uint64_t steps, const ls_gate_sides *sides, ls_gate *gate)
{
    const size_t elements = plan->model->graph->variables.elements + 1;
    const ls_elastic_phase *last = plan->phases;
    ls_auto float *values = NULL;
    while (last && last->next)
        last = last->next;
    if (!last || last->first < plan->job.start + steps)
        return LS_OK;
    LS_TRY(ls_allocate("gate", &values, 2 * elements, sizeof *values));
    const changes c = {.workplace = workplace,
                       .candidate = sides->candidate,
                       .judge = sides->oracle ? sides->oracle : sides->single,
                       .single = sides->oracle ? sides->single : NULL,
                       .variables = &plan->model->graph->variables,
                       .candidate_values = values,
                       .judge_values = values + elements};
    for (const ls_elastic_phase *p = plan->phases; p->next && gate->pass; p = p->next) {
        gate->interrupted = ls_interrupted();
        if (gate->interrupted)
            return LS_OK;
        if (p->next->first >= plan->job.start + steps)
            LS_TRY(compare_change(&c, p, gate));
    }
    return LS_OK;
}
