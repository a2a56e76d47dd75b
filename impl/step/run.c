/* SPDX-License-Identifier: MIT */
/* Runs of steps: opening, enqueuing, waiting, closing; see run.h. */
#include "common/base/grow.h"
#include "impl/step/run.h"

#include "impl/step/served.h"
#include "impl/step/trace_private.h"

#include <stdlib.h>

static ls_stepped *stepped(const ls_run *run)
{
    return (ls_stepped *)run;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* The holder, if replicas have no variables of their own: the replica on the variable device, or
 * one more member. */
static int find_holder(const ls_strategy *strategy, const ls_job *job)
{
    const int n = (int)job->device_count;
    const bool held = strategy->variables == LS_VARIABLES_HELD;
    for (int i = 0; i < n && held; i++)
        if (job->devices[i] == job->variable_device)
            return i;
    return held ? n : -1;
}

/* A member's compute queue is the lane with its number. */
static ls_status open_lanes(ls_stepped *me)
{
    const size_t most = 3 * (size_t)me->all; /* and communication and transfers */
    LS_TRY(ls_allocate("step", &me->lanes, most, sizeof *me->lanes));
    for (int m = 0; m < me->all; m++) {
        me->lanes[m] = (ls_lane){.member = m, .name = "compute"};
        if (me->members[m].replica)
            me->lanes[m].queue = me->members[m].replica->queue;
    }
    me->lane_count = me->all;
    return LS_OK;
}

ls_status ls_lane_open(ls_stepped *me, int member, const char *name, bool own, int *out)
{
    ls_lane lane = {.member = member, .name = name, .own = true};
    *out = member;
    if (!own)
        return LS_OK;
    LS_TRY(ls_queue_open(me->members[member].replica->device, name, &lane.queue));
    *out = me->lane_count;
    me->lanes[me->lane_count++] = lane;
    return LS_OK;
}

static ls_status open_members(ls_stepped *me)
{
    const ls_strategy *strategy = me->base.strategy;
    const ls_job *job = me->base.job;
    me->holder = find_holder(strategy, job);
    LS_TRY(ls_members_open(me));
    /* Groups are empty if nothing is reduced. */
    LS_TRY(ls_allocate("step", &me->groups, (size_t)me->places, sizeof *me->groups));
    return open_lanes(me);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static ls_status build_steps(ls_stepped *me)
{
    for (int kind = 0; kind < LS_STEPS; kind++)
        LS_TRY(ls_step_open(me, kind, &me->step[kind]));
    for (int kind = 0; kind < LS_KINDS; kind++)
        if (ls_replicated_batch(me->base.job, kind % LS_BATCHES) &&
            (kind < LS_LAST || me->base.job->period)) {
            me->base.strategy->build(&me->step[kind]);
            ls_step_append_ends(&me->step[kind]);
        }
    for (int kind = 0; kind < LS_STEPS; kind++)
        LS_TRY(me->step[kind].status);
    return LS_OK;
}

static ls_status open_groups(ls_stepped *me)
{
    while (me->group_count < me->places) {
        const int p = me->group_count++;
        LS_TRY(ls_group_open(me, p, &me->groups[p]));
    }
    return LS_OK;
}

static ls_status build(ls_stepped *me)
{
    const ls_job *job = me->base.job;
    LS_TRY(ls_comm_agree(job->comm, open_members(me)));
    LS_TRY(ls_places_open(me));
    LS_TRY(ls_ends_open(me));
    if (me->base.strategy->reduces)
        LS_TRY(open_groups(me));
    LS_TRY(ls_comm_agree(job->comm, build_steps(me)));
    LS_TRY(LS_STEPS_EDITED(ls_steps_edit_tasks(me)));
    LS_TRY(ls_steps_order(me));
    LS_TRY(LS_STEPS_EDITED(ls_steps_edit_waits(me)));
    LS_TRY(ls_steps_open_events(me));
    return job->capture ? ls_steps_capture(me) : LS_OK;
}

/* ---- Enqueuing and waiting ------------------------------------------------------------------- */

/*
 * A launch blocks if a GPU's queue is full of replays, for ever if a library waits for a lost rank.
 * So the library is checked after so many replays.
 */
enum { REPLAYS_AHEAD = 128 };

/* Begins a turn on all devices, before a step that is enqueued operation by operation. */
static void begin_turn(const ls_job *job)
{
    for (size_t i = 0; i < job->device_count; i++)
        ls_device_turn(job->devices[i]);
    if (job->variable_device)
        ls_device_turn(job->variable_device);
}

/*
 * If servers serve as requests arrive, steps are not turns (ls_device_turn): a worker may wait for
 * another one's step, so a full queue of one must not block others.
 */
static ls_status enqueue_times(ls_stepped *me, int kind, uint64_t times)
{
    const bool turns = !me->step[LS_BEFORE].task_count && !me->step[LS_AFTER].task_count;
    ls_lanes_note_put(me, &me->step[kind], times);
    me->enqueued[kind] += times;
    me->at += times;
    for (int c = 0; c < me->component_count && me->base.job->capture; c++)
        if (me->components[c].program[kind])
            LS_TRY(ls_program_launch(me->components[c].program[kind], times));
    for (; times && !me->base.job->capture; times--) {
        if (turns)
            begin_turn(me->base.job);
        me->step[kind].called = (ls_traffic){0};
        LS_TRY(ls_step_enqueue(&me->step[kind], -1));
    }
    return LS_OK;
}

/* If a library may make queues wait for ever: waits until they are empty or the library is
 * aborted. */
static ls_status wait_for_library(ls_stepped *me, bool *waits)
{
    ls_status status = LS_OK;
    for (int k = 0; k < me->group_count; k++) {
        const ls_group *g = &me->groups[k];
        for (int i = 0; i < g->count && g->comms[i]->backend->wait; i++) {
            *waits = true;
            status = ls_status_first(
                status, g->comms[i]->backend->wait(g->comms[i], me->lanes[g->members[i]].queue,
                                                   me->lanes[g->ends[i].lane].queue,
                                                   me->base.job->timeout_ns));
        }
    }
    return status;
}

static ls_status enqueue_alike(ls_stepped *me, int kind, uint64_t times)
{
    bool waits = times > REPLAYS_AHEAD;
    while (waits && times > REPLAYS_AHEAD) {
        LS_TRY(enqueue_times(me, kind, REPLAYS_AHEAD));
        waits = false;
        LS_TRY(wait_for_library(me, &waits));
        times -= REPLAYS_AHEAD;
    }
    return enqueue_times(me, kind, times);
}

/* Enqueues steps; the last step of a period has a kind of its own. */
static ls_status enqueue_all(ls_stepped *me, int batch_kind, uint64_t times)
{
    const uint64_t period = (uint64_t)me->base.job->period;
    if (!period)
        return enqueue_alike(me, batch_kind, times);
    while (times) {
        const uint64_t before = period - 1 - me->at % period;
        const uint64_t alike = before && before < times ? before
                               : before || period == 1  ? times
                                                        : 1;
        LS_TRY(enqueue_alike(me, before ? batch_kind : batch_kind + LS_LAST, alike));
        times -= alike;
    }
    return LS_OK;
}

static ls_status enqueue_steps(ls_stepped *me, bool tail, uint64_t times)
{
    ls_lanes_note_put(me, &me->step[LS_BEFORE], 1);
    LS_TRY(ls_step_enqueue_apart(&me->step[LS_BEFORE]));
    LS_TRY(enqueue_all(me, tail ? LS_TAIL : LS_FULL, times));
    ls_lanes_note_put(me, &me->step[LS_AFTER], 1);
    return ls_step_enqueue_apart(&me->step[LS_AFTER]);
}

/* If some queues did not get their part of a step, those that did may wait for it. */
ls_status ls_stepped_step(ls_run *run, bool tail, uint64_t times)
{
    ls_status status = enqueue_steps(stepped(run), tail, times);
    if (status)
        ls_held_abandon(stepped(run));
    return status;
}

/* Members' queues are first: then all that other lanes wait for is enqueued. If one fails, others,
 * also in other processes, may wait for its messages: an operation that fails on a CPU device gives
 * up its communicator, but nothing does so for what a lost GPU leaves out (not yet run on a GPU).
 */
ls_status ls_stepped_sync(ls_run *run)
{
    ls_stepped *me = stepped(run);
    bool waits;
    ls_status status = wait_for_library(me, &waits);
    if (status)
        ls_held_abandon(me);
    for (int l = 0; l < me->lane_count; l++) {
        ls_status failed = me->lanes[l].queue ? ls_queue_sync(me->lanes[l].queue) : LS_OK;
        if (failed && !status)
            ls_held_abandon(me);
        status = ls_status_first(status, failed);
    }
    return status;
}

/* Marks drivers only: a component's other lanes start after its driver. */
ls_status ls_stepped_mark(ls_run *run)
{
    ls_stepped *me = stepped(run);
    for (int c = 0; c < me->component_count; c++) {
        const ls_lane *driver = &me->lanes[me->components[c].driver];
        if (driver->queue)
            LS_TRY(
                ls_queue_enqueue(driver->queue, ls_step_replica(me->step, driver->member)->mark));
    }
    return LS_OK;
}

ls_status ls_stepped_profile(ls_run *run, uint64_t steps)
{
    ls_stepped *me = stepped(run);
    if (steps)
        LS_TRY(ls_lanes_open_logs(me, steps));
    for (int l = 0; l < me->lane_count; l++) {
        ls_lane *lane = &me->lanes[l];
        if (steps)
            lane->times = (ls_time_profile){0};
        if (lane->queue)
            LS_TRY(ls_queue_profile(lane->queue, steps ? &lane->times : NULL,
                                    steps && lane->log.items ? &lane->log : NULL));
    }
    me->profiled = steps;
    return LS_OK;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

void ls_stepped_close(ls_run *run)
{
    ls_stepped *me = stepped(run);
    ls_served *served = me->served;
    ls_status_free(ls_stepped_sync(run));
    for (int c = 0; c < me->component_count; c++)
        for (int kind = LS_KINDS; kind-- > 0;)
            ls_program_close(me->components[c].program[kind]);
    ls_steps_close_events(me);
    for (int kind = 0; kind < LS_STEPS; kind++)
        ls_step_close(&me->step[kind]);
    ls_places_close(me);
    for (int l = 0; l < me->lane_count; l++) {
        if (me->lanes[l].own)
            ls_queue_close(me->lanes[l].queue);
        free(me->lanes[l].log.items);
    }
    free(me->puts);
    for (int g = 0; g < me->group_count; g++)
        ls_group_close(&me->groups[g]);
    free(me->groups);
    ls_served_close_talk(me);
    ls_held_close(me);
    free(me->lanes);
    free(me->component);
    free(me->rank_in_component);
    free(me->components);
    ls_members_close(me);
    ls_served_close(served);
}

ls_status ls_strategy_open(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    ls_stepped *me;
    LS_TRY(ls_allocate("strategy", &me, 1, sizeof *me));
    me->base = (ls_run){&ls_run_of_steps, strategy, job};
    ls_status status = build(me);
    if (status)
        ls_stepped_close(&me->base);
    else
        *out = &me->base;
    return status;
}
