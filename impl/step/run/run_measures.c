/* SPDX-License-Identifier: MIT */
/* Figures of a run's latest step that some jobs have: a norm, rates, exchanges; see run.h. */
#include "common/base/grow.h"
#include "impl/step/run/run.h"

#include <math.h>

/* ---- The norm of the gradient ---------------------------------------------------------------- */

/* Whether a member has found the norm of the latest step. For its own gradient it needs samples,
 * and an epoch's last batch may have too few. */
static bool has_norm(const ls_step_run *me, int member)
{
    const ls_step_plan *plan = &me->plan;
    const bool tail = ls_job_is_tail(plan->job, me->counts.at - 1);
    if (!ls_strategy_alone(plan->strategy) && !plan->job->update.own_mean)
        return ls_step_plan_updates(plan, member);
    return ls_slice_count_sums(plan->job, ls_replicated_batch(plan->job, tail ? LS_TAIL : LS_FULL),
                               plan->members[member].replica, plan->mesh.replicas) > 0;
}

/* The norm of the first member that has one. */
ls_status ls_steps_norm(const ls_run *run, double *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    int first = 0;
    while (!has_norm(me, first))
        first++;
    const ls_replica *r = me->resources.members[first].replica;
    ls_clip clip = {0};
    ls_auto ls_clip *all = NULL;
    const ls_status status = r ? ls_queue_read(r->queue, &clip, r->norm.clip, sizeof clip) : LS_OK;
    LS_TRY(ls_comm_tell(run->job->ranks.comm, status, &clip, sizeof clip, &all));
    *out = all[me->plan.members[first].process].norm;
    return LS_OK;
}

ls_status ls_steps_rates(const ls_run *run, double range[2])
{
    const ls_step_run *me = ls_step_run_of(run);
    range[0] = INFINITY;
    range[1] = 0;
    for (int m = 0; m < me->plan.all; m++) {
        const ls_replica *r = me->resources.members[m].replica;
        ls_step_state state;
        if (!r || !r->updates)
            continue;
        LS_TRY(ls_queue_read(r->queue, &state, r->state, sizeof state));
        range[0] = fmin(range[0], state.learning_rate);
        range[1] = fmax(range[1], state.learning_rate);
    }
    return LS_OK;
}

/* ---- Exchanges of periods -------------------------------------------------------------------- */

ls_status ls_steps_exchanged(const ls_run *run, ls_exchanged *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    const size_t n = (size_t)ls_job_processes(run->job);
    double largest = 0;
    ls_auto double *all = NULL;
    ls_status status = LS_OK;
    for (int m = 0; m < me->plan.all && !status; m++) {
        const ls_replica *r = me->resources.members[m].replica;
        float error = 0;
        if (r && r->wire_error)
            status = ls_queue_read(r->queue, &error, r->wire_error, sizeof error);
        largest = fmax(largest, (double)error);
    }
    LS_TRY(ls_comm_tell(run->job->ranks.comm, status, &largest, sizeof largest, &all));
    *out = (ls_exchanged){0};
    for (size_t p = 0; p < n; p++)
        out->wire_error = fmax(out->wire_error, all[p]);
    for (int kind = LS_LAST; kind < me->kinds; kind++)
        out->count += me->counts.enqueued[kind];
    return LS_OK;
}
