/* SPDX-License-Identifier: MIT */
/* Figures of a run's latest step that some jobs have: a norm, rates, exchanges; see run.h. */
#include "common/base/grow.h"
#include "impl/step/run/run.h"

#include <math.h>

/* ---- The norm of the gradient ---------------------------------------------------------------- */

/* A member's norm; which member: -1 if none has any. */
typedef struct norm_of {
    double norm;
    int member;
} norm_of;

/* Whether a member has found the norm of the latest step, if it finds any. For its own gradient it
 * needs samples, and an epoch's last batch may have too few. */
static bool has_norm(const ls_step_run *me, int member)
{
    const ls_job *job = me->plan.job;
    const bool tail = ls_job_is_tail(job, me->counts.at - 1);
    if (!ls_strategy_alone(me->plan.strategy) && !job->update.own_mean)
        return true;
    return ls_slice_count_sums(job, ls_replicated_batch(job, tail ? LS_TAIL : LS_FULL),
                               me->plan.members[member].replica, me->plan.mesh.replicas) > 0;
}

/* The norm of the first member, over all processes, that has one. */
ls_status ls_steps_norm(const ls_run *run, double *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    const size_t n = (size_t)ls_job_processes(run->job);
    norm_of own_norm = {.member = -1};
    ls_auto norm_of *all = NULL;
    ls_status status = LS_OK;
    for (int m = me->plan.total; m-- > 0 && !status;) {
        const ls_replica *r = me->resources.members[m].replica;
        ls_clip clip;
        if (!r || !r->norm.clip || !has_norm(me, m))
            continue;
        status = ls_queue_read(r->queue, &clip, r->norm.clip, sizeof clip);
        own_norm = (norm_of){clip.norm, m};
    }
    LS_TRY(ls_comm_tell(run->job->ranks.comm, status, &own_norm, sizeof own_norm, &all));
    for (size_t p = 0, first = n; p < n; p++) {
        if (all[p].member < 0 || (first < n && all[first].member < all[p].member))
            continue;
        first = p;
        *out = all[p].norm;
    }
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
