/* SPDX-License-Identifier: MIT */
/* Changes of members; see change.h. */
#include "bench/train/change.h"

#include "bench/train/time_steps.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "impl/step/plan/state_parts.h"

#include <stdlib.h>
#include <string.h>

static const ls_elastic_phase *next_phase(const ls_session *session)
{
    return session->plan->phase ? session->plan->phase->next : NULL;
}

bool ls_change_is_due(const ls_session *session)
{
    const ls_elastic_phase *next = next_phase(session);
    return next && next->first == session->step;
}

uint64_t ls_change_until(const ls_session *session, uint64_t count)
{
    const ls_elastic_phase *next = next_phase(session);
    const uint64_t until = next ? next->first - session->step : count;
    return count < until ? count : until;
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* The event of a phase for which a replica gets state: its own, or the last one. */
static size_t event_of(const ls_elastic_phase *phase, int replica)
{
    const ls_elastic *all = phase->plan.whole->elastic;
    size_t i = phase->begin;
    while (i + 1 < phase->end &&
           (all->events[i].replica != replica || all->events[i].kind != LS_ELASTIC_JOIN))
        i++;
    return i;
}

/* Counts what each device of `to` gets. */
static ls_status count_devices(const ls_elastic_phase *from, const ls_elastic_phase *to,
                               uint64_t *bytes)
{
    const size_t devices = to->plan.whole->device_count;
    ls_closing(ls_step_plan_close) ls_step_plan old = {0}, new = {0};
    ls_auto int *of = NULL;
    LS_TRY(ls_allocate("change", &of, devices, sizeof *of));
    for (size_t d = 0; d < devices; d++)
        if (to->member[d] >= 0)
            of[to->member[d]] = from->member[d];
    LS_TRY(ls_step_plan_open(from->plan.strategy, &from->plan.job, &old));
    LS_TRY(ls_step_plan_open(to->plan.strategy, &to->plan.job, &new));
    return ls_state_moved(&old, &new, of, bytes);
}

/* Adds the events of `to`. */
static ls_status note(const ls_elastic_phase *from, const ls_elastic_phase *to, ls_changes *changes)
{
    const size_t devices = to->plan.whole->device_count;
    ls_auto uint64_t *bytes = NULL;
    uint64_t all = 0;
    LS_TRY(ls_allocate("change", &bytes, devices, sizeof *bytes));
    LS_TRY(count_devices(from, to, bytes));
    changes->begin = changes->end ? changes->begin : to->begin;
    changes->end = to->end;
    for (size_t i = to->begin; i < to->end; i++)
        changes->members[i] = to->members;
    for (size_t d = 0; d < devices; d++) {
        const uint64_t got = to->member[d] < 0 ? 0 : bytes[to->member[d]];
        changes->moved_bytes[event_of(to, (int)d / to->plan.whole->elastic->each)] += got;
        all += got;
    }
    uint64_t formula;
    LS_TRY(ls_elastic_formula(from, to, &formula));
    if (all == formula)
        return LS_OK;
    return ls_fail(
        LS_CODE_CHECK, NULL, NULL,
        "step %llu: before this step, moving the training state to other devices sent "
        "%llu bytes, but %llu were expected: this is a bug of lockstep, so please report it",
        (unsigned long long)to->first, (unsigned long long)all, (unsigned long long)formula);
}

/* ---- Changing -------------------------------------------------------------------------------- */

static ls_status read_kept(const ls_state_source *source, ls_values array, ls_range range,
                           float *out)
{
    float *const *values = source->from;
    memcpy(out, values[array] + range.first, range.count * sizeof *out);
    return LS_OK;
}

static ls_status go_on(const ls_workplace *workplace, ls_session *session,
                       const ls_elastic_phase *to, float *const values[LS_ARRAYS])
{
    const ls_state_source state = {.read = read_kept, .from = values};
    const uint64_t step = session->step;
    LS_TRY(ls_session_renew(workplace, &to->plan, session));
    session->lent->resumed = &state;
    ls_status status = ls_session_begin_at(session, step, &state);
    if (!status)
        status = session->run->functions->sync(session->run);
    session->lent->resumed = session->job.resumed;
    return status;
}

static ls_status change_to(const ls_workplace *workplace, ls_session *session,
                           const ls_elastic_phase *to)
{
    const size_t elements = session->plan->model->graph->variables.elements;
    ls_run *run = session->run;
    ls_auto float *all = NULL;
    float *values[LS_ARRAYS] = {0};
    LS_TRY(ls_allocate("change", &all, LS_ARRAYS * elements, sizeof *all));
    for (int a = 0; a < LS_ARRAYS; a++) {
        if (!ls_state_name(run->job, (ls_values)a))
            continue;
        values[a] = all + (size_t)a * elements;
        LS_TRY(run->functions->state(run, (ls_values)a, ls_job_elements(run->job), values[a]));
    }
    if (to->deaths && !session->judge) { /* the step in which a member dies is dropped */
        LS_TRY(ls_session_steps(session, 1));
        session->step--;
    }
    return go_on(workplace, session, to, values);
}

ls_status ls_change_members(const ls_workplace *workplace, ls_session *session, ls_changes *changes)
{
    while (ls_change_is_due(session)) {
        const uint64_t begin_ns = ls_clock_ns();
        const ls_elastic_phase *from = session->plan->phase, *to = from->next;
        LS_TRY(change_to(workplace, session, to));
        if (!changes)
            continue;
        changes->void_steps += to->deaths;
        changes->paused_ns += ls_clock_ns() - begin_ns;
        LS_TRY(note(from, to, changes));
    }
    return LS_OK;
}

ls_status ls_change_back(const ls_workplace *workplace, ls_session *session)
{
    const ls_plan_of_case *plan = session->plan, *whole = plan->whole;
    if (whole && plan->phase != whole->phases)
        LS_TRY(ls_session_renew(workplace, &whole->phases->plan, session));
    plan = session->plan;
    return ls_session_begin_at(session, plan->job.start, &plan->initial);
}
