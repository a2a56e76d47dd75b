/* SPDX-License-Identifier: MIT */
/* Runs of steps: opening, enqueuing, waiting, closing; see run.h. */
#include "impl/step/run/run.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* ---- Opening --------------------------------------------------------------------------------- */

/* A member's compute queue is the lane with its number; others are opened. */
static ls_status open_queues(ls_step_run *me)
{
    const ls_lanes *lanes = &me->plan.lanes;
    LS_TRY(ls_allocate("step", &me->queues, (size_t)lanes->count, sizeof *me->queues));
    for (int l = 0; l < lanes->count; l++) {
        const int member = lanes->items[l].member;
        ls_lane_queue *q = &me->queues[l];
        if (l < me->plan.all && me->resources.members[member].replica)
            q->queue = me->resources.members[member].replica->queue;
        if (l < me->plan.all)
            continue;
        LS_TRY(
            ls_queue_open(ls_step_plan_device(&me->plan, member), lanes->items[l].name, &q->queue));
        q->own = true;
    }
    return LS_OK;
}

static ls_status build_programs(ls_step_run *me)
{
    for (int kind = 0; kind < me->kinds; kind++)
        LS_TRY(ls_build_step(&me->resources, kind, me->program));
    LS_TRY(me->program[me->kinds + LS_BEFORE].status);
    return me->program[me->kinds + LS_AFTER].status;
}

static ls_status open_kinds(ls_step_run *me)
{
    const size_t kinds = (size_t)me->kinds;
    LS_TRY(ls_allocate("step", &me->program, kinds + LS_UNORDERED, sizeof *me->program));
    LS_TRY(ls_allocate("step", &me->counts.enqueued, kinds, sizeof *me->counts.enqueued));
    LS_TRY(ls_allocate("step", &me->lowered.events, kinds, sizeof *me->lowered.events));
    return ls_allocate("step", &me->lowered.called, kinds, sizeof *me->lowered.called);
}

static ls_status open_run(ls_step_run *me)
{
    const ls_job *job = me->base.job;
    LS_TRY(ls_comm_agree(job->ranks.comm, ls_step_plan_open(me->base.strategy, job, &me->plan)));
    me->kinds = ls_kinds_of_steps(job);
    LS_TRY(ls_comm_agree(job->ranks.comm, open_kinds(me)));
    for (int kind = 0; kind < me->kinds + LS_UNORDERED; kind++)
        me->program[kind].lanes = &me->plan.lanes;
    LS_TRY(ls_resources_open(&me->plan, &me->resources));
    LS_TRY(ls_comm_agree(job->ranks.comm, open_queues(me)));
    LS_TRY(ls_comm_agree(job->ranks.comm, build_programs(me)));
    LS_TRY(ls_comm_agree(job->ranks.comm,
                         ls_steps_check_spans(me, me->program, me->kinds + LS_UNORDERED)));
    LS_TRY(LS_STEPS_EDITED(ls_steps_edit_tasks(me)));
    LS_TRY(ls_step_programs_order(me->program, me->kinds, &me->components));
    LS_TRY(LS_STEPS_EDITED(ls_steps_edit_waits(me)));
    return ls_lower(me);
}

ls_status ls_strategy_open(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    ls_step_run *me;
    LS_TRY(ls_allocate("strategy", &me, 1, sizeof *me));
    me->functions = ls_strategy_serves(strategy) ? ls_arrival_functions(job) : ls_run_of_steps;
    me->base = (ls_run){&me->functions, strategy, job};
    ls_status status = open_run(me);
    if (status)
        ls_steps_close(&me->base);
    else
        *out = &me->base;
    return status;
}

/* ---- Enqueuing and waiting ------------------------------------------------------------------- */

/*
 * A launch blocks if a GPU's queue is full of replays, for ever if a library waits for a lost rank.
 * So the library is checked after so many replays.
 */
enum { REPLAYS_AHEAD = 128 };

/*
 * Where tasks run before or after steps, steps are not turns (ls_device_turn): a member may wait
 * for another one's step, so a full queue of one must not block others.
 */
static ls_status enqueue_times(ls_step_run *me, int kind, uint64_t times)
{
    const ls_step_program *unordered = &me->program[me->kinds];
    const bool turns = !unordered[LS_BEFORE].task_count && !unordered[LS_AFTER].task_count;
    const ls_job *job = me->plan.job;
    bool captured = false;
    ls_steps_profile_note(me, &me->program[kind], times);
    me->counts.enqueued[kind] += times;
    me->counts.at += times;
    for (int c = 0; c < me->components.count; c++)
        if (me->lowered.captured[c][kind]) {
            captured = true;
            LS_TRY(ls_program_launch(me->lowered.captured[c][kind], times));
        }
    for (; times && !captured; times--) {
        if (turns) {
            /* before a step that is enqueued operation by operation */
            for (size_t i = 0; i < job->device_count; i++)
                ls_device_turn(job->devices[i]);
            if (job->variable_device)
                ls_device_turn(job->variable_device);
        }
        me->lowered.called[kind] = (ls_traffic){0};
        LS_TRY(ls_enqueue_step(me, kind, -1));
    }
    return LS_OK;
}

/* If a library may make queues wait for ever: waits until they are empty or the library is
 * aborted. */
static ls_status wait_for_library(ls_step_run *me, bool *waits)
{
    ls_status status = LS_OK;
    for (int g = LS_GROUPS; g < LS_GROUPS + me->plan.group_count; g++) {
        const ls_channel *c = &me->plan.lanes.channels[g];
        for (int i = 0; i < c->local_count; i++) {
            const int member = c->local[i];
            ls_comm *comm = me->resources.ends[g].items[member].comm;
            ls_queue *queue = me->queues[c->lane[member]].queue;
            if (!comm || !comm->backend->wait)
                break;
            if (!queue) /* opening failed before it */
                continue;
            *waits = true;
            status =
                ls_status_first(status, comm->backend->wait(comm, me->queues[member].queue, queue,
                                                            me->plan.job->ranks.timeout_ns));
        }
    }
    return status;
}

/* Enqueues steps; steps of a period that exchange parameters have separate kinds. */
static ls_status enqueue_all(ls_step_run *me, int batch_kind, uint64_t times)
{
    const ls_job *job = me->plan.job;
    uint64_t room = REPLAYS_AHEAD;
    bool waits = true;
    for (uint64_t alike; times; times -= alike) {
        const int kind = ls_kind_of_step(job, batch_kind, me->counts.at);
        const uint64_t most = waits && room < times ? room : times;
        alike = 1;
        while (alike < most && ls_kind_of_step(job, batch_kind, me->counts.at + alike) == kind)
            alike++;
        LS_TRY(enqueue_times(me, kind, alike));
        room -= waits ? alike : 0;
        if (room || times == alike)
            continue;
        room = REPLAYS_AHEAD;
        waits = false;
        LS_TRY(wait_for_library(me, &waits));
    }
    return LS_OK;
}

static ls_status enqueue_between(ls_step_run *me, ls_batch_kind kind, uint64_t times)
{
    const ls_step_program *unordered = &me->program[me->kinds];
    ls_steps_profile_note(me, &unordered[LS_BEFORE], 1);
    LS_TRY(ls_enqueue_unordered(me, &unordered[LS_BEFORE]));
    LS_TRY(enqueue_all(me, (int)kind, times));
    ls_steps_profile_note(me, &unordered[LS_AFTER], 1);
    return ls_enqueue_unordered(me, &unordered[LS_AFTER]);
}

/* If some queues did not get their part of a step, other queues may wait for it. */
ls_status ls_steps_enqueue(ls_run *run, ls_batch_kind kind, uint64_t times)
{
    ls_step_run *me = ls_step_run_of(run);
    ls_status status = enqueue_between(me, kind, times);
    if (status)
        ls_resources_abandon(&me->resources);
    return status;
}

/* Members' queues are first: then all that other lanes wait for is enqueued. If one fails, others,
 * also in other processes, may wait for its messages: an operation that fails on a CPU device gives
 * up its communicator, but nothing does so for what a lost GPU leaves out (not yet run on a GPU).
 */
ls_status ls_steps_sync(ls_run *run)
{
    ls_step_run *me = ls_step_run_of(run);
    bool waits;
    ls_status status = wait_for_library(me, &waits);
    if (status)
        ls_resources_abandon(&me->resources);
    for (int l = 0; l < me->plan.lanes.count; l++) {
        ls_status failed = me->queues[l].queue ? ls_queue_sync(me->queues[l].queue) : LS_OK;
        if (failed && !status)
            ls_resources_abandon(&me->resources);
        status = ls_status_first(status, failed);
    }
    return status;
}

/* Marks drivers only: a component's other lanes start after its driver. */
ls_status ls_steps_mark(ls_run *run)
{
    ls_step_run *me = ls_step_run_of(run);
    for (int c = 0; c < me->components.count; c++) {
        const int driver = me->components.items[c].driver;
        const ls_replica *r = me->resources.members[me->plan.lanes.items[driver].member].replica;
        if (me->queues[driver].queue)
            LS_TRY(ls_queue_enqueue(me->queues[driver].queue, r->timing.mark));
    }
    return LS_OK;
}

ls_status ls_steps_profile(ls_run *run, uint64_t steps)
{
    ls_step_run *me = ls_step_run_of(run);
    if (steps)
        LS_TRY(ls_steps_profile_open(me, steps));
    for (int l = 0; l < me->plan.lanes.count; l++) {
        ls_lane_queue *q = &me->queues[l];
        if (steps)
            q->times = (ls_time_profile){0};
        if (q->queue)
            LS_TRY(ls_queue_profile(q->queue, steps ? &q->times : NULL,
                                    steps && q->log.items ? &q->log : NULL));
    }
    me->profile.steps = steps;
    return LS_OK;
}

/* ---- Closing --------------------------------------------------------------------------------- */

void ls_steps_close(ls_run *run)
{
    ls_step_run *me = ls_step_run_of(run);
    if (me->queues)
        ls_status_free(ls_steps_sync(run));
    ls_lowered_close(me);
    for (int kind = 0; me->program && kind < me->kinds + LS_UNORDERED; kind++)
        ls_step_program_close(&me->program[kind]);
    free(me->program);
    free(me->counts.enqueued);
    ls_step_program_close(&me->evaluation);
    for (int l = 0; me->queues && l < me->plan.lanes.count; l++) {
        if (me->queues[l].own)
            ls_queue_close(me->queues[l].queue);
        free(me->queues[l].log.items);
    }
    free(me->queues);
    free(me->profile.list);
    ls_components_close(&me->components);
    if (me->resources.plan) {
        ls_resources_disconnect(&me->resources);
        ls_resources_close(&me->resources);
    }
    ls_step_plan_close(&me->plan);
    free(me);
}
