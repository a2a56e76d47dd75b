/* SPDX-License-Identifier: MIT */
/* Lowers programs: enqueues tasks on queues, turns waits into events, and captures the tasks of a
 * component as one program. Tasks are enqueued in the order of `build`. So an event is recorded
 * before it is waited for, as a capture requires, and the host never blocks on a task that waits
 * for one not yet enqueued. */
#include "impl/step/run/run.h"

#include "common/base/grow.h"

#include <stdlib.h>

static ls_queue *queue_of(const ls_step_run *run, int lane)
{
    return run->queues[lane].queue;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static ls_status open_event(const ls_step_run *run, int lane, ls_event **event)
{
    return *event ? LS_OK : ls_event_open(ls_queue_device(queue_of(run, lane)), event);
}

static ls_status open_events(ls_step_run *run, int kind)
{
    const ls_step_program *p = &run->program[kind];
    const ls_components *components = &run->components;
    ls_lowered *l = &run->lowered;
    LS_TRY(ls_allocate("step", &l->events[kind], p->task_count, sizeof(ls_event *)));
    for (size_t w = 0; w < p->wait_count; w++)
        LS_TRY(open_event(run, p->tasks[p->waits[w]].lane, &l->events[kind][p->waits[w]]));
    for (size_t t = 0; t < p->task_count; t++) {
        const int c = components->component[p->tasks[t].lane];
        if (p->tasks[t].begins)
            LS_TRY(open_event(run, components->items[c].driver, &l->begun[c]));
    }
    return LS_OK;
}

/* ---- Enqueuing ------------------------------------------------------------------------------- */

static ls_status enqueue_waits(const ls_step_run *run, int kind, const ls_task *task)
{
    const ls_step_program *p = &run->program[kind];
    ls_queue *queue = queue_of(run, task->lane);
    if (task->begins)
        LS_TRY(ls_queue_wait(queue, run->lowered.begun[run->components.component[task->lane]]));
    for (size_t w = 0; w < task->waits.count; w++)
        LS_TRY(ls_queue_wait(queue, run->lowered.events[kind][p->waits[task->waits.first + w]]));
    return LS_OK;
}

/* Records the task's event, if any task waits for it. */
static ls_status record(const ls_step_run *run, int kind, const ls_task *task)
{
    ls_event *event = run->lowered.events[kind][task - run->program[kind].tasks];
    return event ? ls_queue_record(queue_of(run, task->lane), event) : LS_OK;
}

static ls_status enqueue_ops(const ls_step_run *run, const ls_step_program *p, const ls_task *task)
{
    for (size_t i = 0; i < task->ops.count; i++)
        LS_TRY(ls_queue_enqueue(queue_of(run, task->lane), p->ops[task->ops.first + i]));
    return LS_OK;
}

/* Sets the flag on which later tasks of the lane are skipped. */
static ls_status skip_if(ls_lane_queue *lane, const bool *skip)
{
    if (lane->skip == skip)
        return LS_OK;
    lane->skip = skip;
    return ls_queue_skip(lane->queue, skip);
}

/* Enqueues a task without its waits. */
static ls_status enqueue_work(ls_step_run *run, const ls_step_program *p, const ls_task *task)
{
    const ls_task_copy *copy = &task->copy;
    LS_TRY(skip_if(&run->queues[task->lane], task->skip));
    LS_TRY(enqueue_ops(run, p, task));
    if (copy->to)
        LS_TRY(ls_queue_copy(queue_of(run, task->lane), copy->to,
                             ls_step_plan_device(&run->plan, copy->to_member), copy->from,
                             ls_step_plan_device(&run->plan, copy->from_member), copy->bytes));
    return LS_OK;
}

static ls_status enqueue_task(ls_step_run *run, int kind, const ls_task *task)
{
    LS_TRY(enqueue_waits(run, kind, task));
    LS_TRY(enqueue_work(run, &run->program[kind], task));
    return record(run, kind, task);
}

static ls_traffic count_ends(ls_comm *const *comms)
{
    ls_traffic sum = {0};
    for (int i = 0; comms[i]; i++)
        ls_traffic_add(&sum, ls_comm_traffic(comms[i]), 1);
    return sum;
}

/* Enqueues the tasks of one ls_comm_enqueue, with their communicator's ends in this process. */
static ls_status enqueue_together(ls_step_run *run, const ls_step_program *p, const ls_task *first,
                                  int tasks)
{
    const ls_ends *channel = &run->resources.ends[first->end.channel];
    ls_comm *const *ends = channel->comms;
    const int size = run->plan.lanes.channels[first->end.channel].local_count;
    ls_op_list ops[LS_JOB_REPLICAS + 1]; /* and an owner */
    ls_comm_list lists[LS_JOB_REPLICAS + 1];
    if (size < 1 || size > LS_JOB_REPLICAS + 1)
        return ls_fail(LS_CODE_USAGE, "step", first->verb,
                       "%d devices are too many for one exchange, which can have at most %d; use "
                       "fewer --devices",
                       size, LS_JOB_REPLICAS + 1);
    for (int r = 0; r < size; r++) {
        ops[r] = (ls_op_list){0};
        lists[r] = (ls_comm_list){.ops = &ops[r]};
    }
    for (int i = 0; i < tasks; i++) {
        int rank = 0;
        while (ends[rank] != channel->items[run->plan.lanes.items[first[i].lane].member].comm)
            rank++;
        ops[rank] = (ls_op_list){.items = p->ops + first[i].ops.first, .count = first[i].ops.count};
        lists[rank].queue = queue_of(run, first[i].lane);
    }
    return ls_comm_enqueue(ends, lists, size);
}

/* As above, with the tasks' waits; counts what they send. */
static ls_status enqueue_call(ls_step_run *run, int kind, const ls_task *first, int tasks)
{
    ls_comm *const *ends = run->resources.ends[first->end.channel].comms;
    for (int i = 0; i < tasks; i++)
        LS_TRY(enqueue_waits(run, kind, &first[i]));
    const ls_traffic before = count_ends(ends);
    LS_TRY(enqueue_together(run, &run->program[kind], first, tasks));
    const ls_traffic after = count_ends(ends);
    ls_traffic_add(&run->lowered.called[kind],
                   (ls_traffic){after.bytes_sent - before.bytes_sent,
                                after.messages_sent - before.messages_sent},
                   1);
    for (int i = 0; i < tasks; i++)
        LS_TRY(record(run, kind, &first[i]));
    return LS_OK;
}

ls_status ls_enqueue_step(ls_step_run *run, int kind, int component)
{
    const ls_step_program *p = &run->program[kind];
    const ls_components *all = &run->components;
    for (int c = 0; c < all->count; c++)
        if ((component < 0 || component == c) && run->lowered.begun[c])
            LS_TRY(ls_queue_record(queue_of(run, all->items[c].driver), run->lowered.begun[c]));
    for (size_t t = 0; t < p->task_count; t++) {
        const ls_task *task = &p->tasks[t];
        if (component >= 0 && all->component[task->lane] != component)
            continue;
        if (task->call < 0) {
            LS_TRY(enqueue_task(run, kind, task));
            continue;
        }
        const size_t first = t;
        while (t + 1 < p->task_count && p->tasks[t + 1].call == task->call)
            t++;
        LS_TRY(enqueue_call(run, kind, &p->tasks[first], (int)(t + 1 - first)));
    }
    for (int l = 0; l < run->plan.lanes.count; l++)
        LS_TRY(skip_if(&run->queues[l], NULL));
    return LS_OK;
}

ls_status ls_enqueue_unordered(ls_step_run *run, const ls_step_program *p)
{
    for (size_t t = 0; t < p->task_count; t++)
        LS_TRY(enqueue_ops(run, p, &p->tasks[t]));
    return LS_OK;
}

/* Whether a task runs together with the one before it: both are ends of one sum, which wait for
 * each other, or compute on different members. */
static bool runs_with(const ls_task *task, const ls_task *before)
{
    return task->end.channel == before->end.channel && task->lane > before->lane &&
           (task->end.channel >= LS_GROUPS || (task->node >= 0 && before->node >= 0));
}

ls_status ls_enqueue_serially(ls_step_run *run, const ls_step_program *p, const ls_evaluating *how)
{
    for (size_t first = 0, end; first < p->task_count; first = end) {
        const ls_task *task = &p->tasks[first];
        for (end = first + 1; end < p->task_count && runs_with(&p->tasks[end], &p->tasks[end - 1]);)
            end++;
        if (task->call >= 0)
            LS_TRY(enqueue_together(run, p, task, (int)(end - first)));
        for (size_t i = first; i < end && task->call < 0; i++)
            LS_TRY(enqueue_work(run, p, &p->tasks[i]));
        for (size_t i = first; i < end; i++)
            LS_TRY(ls_queue_sync(queue_of(run, p->tasks[i].lane)));
        if (how->check)
            LS_TRY(how->check(how->context));
    }
    return LS_OK;
}

/* ---- Captured programs ----------------------------------------------------------------------- */

static ls_status capture(ls_step_run *run, int kind, int component)
{
    ls_queue *driver = queue_of(run, run->components.items[component].driver);
    LS_TRY(ls_program_begin(driver));
    ls_status enqueued = ls_enqueue_step(run, kind, component);
    return ls_status_first(enqueued,
                           ls_program_end(driver, &run->lowered.captured[component][kind]));
}

ls_status ls_lower(ls_step_run *run)
{
    const size_t components = (size_t)run->components.count;
    ls_lowered *l = &run->lowered;
    LS_TRY(ls_allocate("step", &l->begun, components, sizeof(ls_event *)));
    LS_TRY(ls_allocate("step", &l->captured, components, sizeof *l->captured));
    for (size_t c = 0; c < components; c++)
        LS_TRY(ls_allocate("step", &l->captured[c], (size_t)run->kinds, sizeof **l->captured));
    for (int kind = 0; kind < run->kinds; kind++)
        LS_TRY(open_events(run, kind));
    for (int kind = 0; kind < run->kinds && run->plan.job->kernels.capture; kind++)
        for (int c = 0; c < run->components.count; c++)
            if (run->components.items[c].has[kind])
                LS_TRY(capture(run, kind, c));
    return LS_OK;
}

void ls_lowered_close(ls_step_run *run)
{
    ls_lowered *l = &run->lowered;
    for (int c = 0; l->captured && c < run->components.count; c++) {
        for (int kind = run->kinds; l->captured[c] && kind-- > 0;)
            ls_program_close(l->captured[c][kind]);
        free(l->captured[c]);
    }
    for (int kind = 0; l->events && kind < run->kinds; kind++) {
        for (size_t t = 0; l->events[kind] && t < run->program[kind].task_count; t++)
            ls_event_close(l->events[kind][t]);
        free(l->events[kind]);
    }
    for (int c = 0; l->begun && c < run->components.count; c++)
        ls_event_close(l->begun[c]);
    free(l->begun);
    free(l->captured);
    free(l->events);
    free(l->called);
}
