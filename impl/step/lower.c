/* SPDX-License-Identifier: MIT */
/* Lowers steps: enqueues tasks on queues, turns waits into events, and captures the tasks of a
 * component as one program. Tasks are enqueued in the order of `build`. So an event is recorded
 * before it is waited for, as a capture requires, and the host never blocks on a task that waits
 * for one not yet enqueued. */
#include "impl/step/step_private.h"

static ls_queue *queue_of(const ls_step *s, int lane)
{
    return s->run->lanes[lane].queue;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static ls_status open_event(const ls_stepped *run, int lane, ls_event **event)
{
    return *event ? LS_OK : ls_event_open(ls_queue_device(run->lanes[lane].queue), event);
}

static ls_status open_step(ls_stepped *run, ls_step *s)
{
    for (size_t w = 0; w < s->wait_count; w++)
        LS_TRY(open_event(run, s->tasks[s->waits[w]].lane, &s->tasks[s->waits[w]].event));
    for (size_t t = 0; t < s->task_count; t++) {
        ls_component *c = &run->components[run->component[s->tasks[t].lane]];
        if (s->tasks[t].begins)
            LS_TRY(open_event(run, c->driver, &c->begun));
    }
    return LS_OK;
}

ls_status ls_steps_open_events(ls_stepped *run)
{
    for (int b = 0; b < LS_KINDS; b++)
        LS_TRY(open_step(run, &run->step[b]));
    return LS_OK;
}

void ls_steps_close_events(ls_stepped *run)
{
    for (int b = 0; b < LS_KINDS; b++)
        for (size_t t = 0; t < run->step[b].task_count; t++)
            ls_event_close(run->step[b].tasks[t].event);
    for (int c = 0; c < run->component_count; c++)
        ls_event_close(run->components[c].begun);
}

/* ---- Enqueuing ------------------------------------------------------------------------------- */

static ls_status enqueue_waits(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    if (task->begins)
        LS_TRY(ls_queue_wait(queue, s->run->components[s->run->component[task->lane]].begun));
    for (size_t w = 0; w < task->wait_count; w++)
        LS_TRY(ls_queue_wait(queue, s->tasks[s->waits[task->wait + w]].event));
    return LS_OK;
}

static ls_status enqueue_ops(const ls_step *s, const ls_task *task)
{
    for (size_t i = 0; i < task->op_count; i++)
        LS_TRY(ls_queue_enqueue(queue_of(s, task->lane), s->ops[task->op + i]));
    return LS_OK;
}

/* Sets the condition on which later tasks of the lane are skipped. */
static ls_status pass_by(ls_lane *lane, const bool *pass)
{
    if (lane->pass == pass)
        return LS_OK;
    lane->pass = pass;
    return ls_queue_skip(lane->queue, pass);
}

/* Enqueues a task without its waits. */
static ls_status enqueue_work(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    LS_TRY(pass_by(&s->run->lanes[task->lane], task->pass));
    LS_TRY(enqueue_ops(s, task));
    if (task->to.memory)
        LS_TRY(ls_queue_copy(queue, task->to.memory, ls_step_replica(s, task->to.member)->device,
                             task->from.memory, ls_step_replica(s, task->from.member)->device,
                             task->to.bytes));
    return LS_OK;
}

static ls_status enqueue_task(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    LS_TRY(enqueue_waits(s, task));
    LS_TRY(enqueue_work(s, task));
    return task->event ? ls_queue_record(queue, task->event) : LS_OK;
}

static ls_traffic count_ends(ls_comm *const *comms, int count)
{
    ls_traffic sum = {0};
    for (int i = 0; i < count; i++)
        ls_traffic_add(&sum, ls_comm_traffic(comms[i]), 1);
    return sum;
}

/* Enqueues the tasks of one ls_comm_enqueue, with their communicator's ends of all ranks. */
static ls_status enqueue_call(ls_step *s, const ls_task *first, int tasks)
{
    ls_comm *const *ends = first->ends;
    const int size = ends[0]->size;
    ls_op_list ops[LS_JOB_REPLICAS + 1]; /* and one server */
    ls_comm_list lists[LS_JOB_REPLICAS + 1];
    if (size < 1 || size > LS_JOB_REPLICAS + 1)
        return ls_fail(LS_CODE_USAGE, "step", first->verb, "of %d ranks is no call", size);
    for (int r = 0; r < size; r++) {
        ops[r] = (ls_op_list){0};
        lists[r] = (ls_comm_list){.ops = &ops[r]};
    }
    for (int i = 0; i < tasks; i++) {
        LS_TRY(enqueue_waits(s, &first[i]));
        ops[first[i].rank] =
            (ls_op_list){.items = s->ops + first[i].op, .count = first[i].op_count};
        lists[first[i].rank].queue = queue_of(s, first[i].lane);
    }
    const ls_traffic before = count_ends(ends, size);
    LS_TRY(ls_comm_enqueue(ends, lists, size));
    const ls_traffic after = count_ends(ends, size);
    ls_traffic_add(&s->called,
                   (ls_traffic){after.bytes_sent - before.bytes_sent,
                                after.messages_sent - before.messages_sent},
                   1);
    for (int i = 0; i < tasks; i++)
        if (first[i].event)
            LS_TRY(ls_queue_record(queue_of(s, first[i].lane), first[i].event));
    return LS_OK;
}

ls_status ls_step_enqueue(ls_step *s, int component)
{
    const ls_stepped *run = s->run;
    for (int c = 0; c < run->component_count; c++)
        if ((component < 0 || component == c) && run->components[c].begun)
            LS_TRY(
                ls_queue_record(queue_of(s, run->components[c].driver), run->components[c].begun));
    for (size_t t = 0; t < s->task_count; t++) {
        const ls_task *task = &s->tasks[t];
        if (component >= 0 && run->component[task->lane] != component)
            continue;
        if (task->call < 0) {
            LS_TRY(enqueue_task(s, task));
            continue;
        }
        const size_t first = t;
        while (t + 1 < s->task_count && s->tasks[t + 1].call == task->call)
            t++;
        LS_TRY(enqueue_call(s, &s->tasks[first], (int)(t + 1 - first)));
    }
    for (int l = 0; l < run->lane_count; l++)
        LS_TRY(pass_by(&run->lanes[l], NULL));
    return LS_OK;
}

ls_status ls_step_enqueue_apart(ls_step *s)
{
    for (size_t t = 0; t < s->task_count; t++)
        LS_TRY(enqueue_ops(s, &s->tasks[t]));
    return LS_OK;
}

ls_status ls_step_enqueue_serially(ls_step *s)
{
    for (size_t t = 0; t < s->task_count; t++) {
        LS_TRY(enqueue_work(s, &s->tasks[t]));
        LS_TRY(ls_queue_sync(queue_of(s, s->tasks[t].lane)));
    }
    return LS_OK;
}

/* ---- Programs -------------------------------------------------------------------------------- */

ls_status ls_steps_capture(ls_stepped *run)
{
    for (int b = 0; b < LS_KINDS; b++) {
        for (int c = 0; c < run->component_count; c++) {
            if (!run->components[c].has[b])
                continue;
            ls_queue *driver = run->lanes[run->components[c].driver].queue;
            LS_TRY(ls_program_begin(driver));
            ls_status enqueued = ls_step_enqueue(&run->step[b], c);
            LS_TRY(
                ls_status_first(enqueued, ls_program_end(driver, &run->components[c].program[b])));
        }
    }
    return LS_OK;
}
