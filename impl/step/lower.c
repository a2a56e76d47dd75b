/* SPDX-License-Identifier: MIT */
/*
 * Steps as devices know them: tasks put on queues, waits as events, a component's tasks as one
 * program. Tasks are put in the order in which they were said, so every wait follows its record, as
 * a capture wants, and whoever puts them is never held up by what waits for one that is still to be
 * put.
 */
#include "impl/step/step_private.h"

#include <stdlib.h>

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
    for (int b = 0; b < LS_BATCHES; b++)
        LS_TRY(open_step(run, &run->step[b]));
    return LS_OK;
}

void ls_steps_close_events(ls_stepped *run)
{
    for (int b = 0; b < LS_BATCHES; b++)
        for (size_t t = 0; t < run->step[b].task_count; t++)
            ls_event_close(run->step[b].tasks[t].event);
    for (int c = 0; c < run->component_count; c++)
        ls_event_close(run->components[c].begun);
}

/* ---- Putting --------------------------------------------------------------------------------- */

static ls_status put_waits(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    if (task->begins)
        LS_TRY(ls_queue_wait(queue, s->run->components[s->run->component[task->lane]].begun));
    for (size_t w = 0; w < task->wait_count; w++)
        LS_TRY(ls_queue_wait(queue, s->tasks[s->waits[task->wait + w]].event));
    return LS_OK;
}

/* What it does, without whom it waits for. */
static ls_status put_work(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    for (size_t i = 0; i < task->op_count; i++)
        LS_TRY(ls_queue_put(queue, s->ops[task->op + i]));
    if (task->to.memory)
        LS_TRY(ls_queue_copy(queue, task->to.memory, ls_step_replica(s, task->to.member)->device,
                             task->from.memory, ls_step_replica(s, task->from.member)->device,
                             task->to.bytes));
    return LS_OK;
}

static ls_status put_task(const ls_step *s, const ls_task *task)
{
    ls_queue *queue = queue_of(s, task->lane);
    LS_TRY(put_waits(s, task));
    LS_TRY(put_work(s, task));
    return task->event ? ls_queue_record(queue, task->event) : LS_OK;
}

static ls_traffic count_ends(ls_comm *const *comms, int count)
{
    ls_traffic sum = {0};
    for (int i = 0; i < count; i++)
        ls_traffic_add(&sum, comms[i]->backend->traffic(comms[i]));
    return sum;
}

/* Tasks that one call puts: those of all ranks of a communicator. */
static ls_status put_lists(ls_step *s, const ls_task *first, ls_comm **comms, ls_op_list *ops,
                           ls_comm_list *lists, int count)
{
    for (int i = 0; i < count; i++) {
        LS_TRY(put_waits(s, &first[i]));
        comms[i] = first[i].comm;
        ops[i] = (ls_op_list){.items = s->ops + first[i].op, .count = first[i].op_count};
        lists[i] = (ls_comm_list){&ops[i], queue_of(s, first[i].lane)};
    }
    const ls_traffic before = count_ends(comms, count);
    LS_TRY(ls_comm_put(comms, lists, count));
    const ls_traffic after = count_ends(comms, count);
    ls_traffic_add(&s->called, (ls_traffic){after.bytes_sent - before.bytes_sent,
                                            after.messages_sent - before.messages_sent});
    for (int i = 0; i < count; i++)
        if (first[i].event)
            LS_TRY(ls_queue_record(queue_of(s, first[i].lane), first[i].event));
    return LS_OK;
}

static ls_status put_call(ls_step *s, size_t first, int count)
{
    ls_comm **comms = calloc((size_t)count, sizeof *comms);
    ls_op_list *ops = calloc((size_t)count, sizeof *ops);
    ls_comm_list *lists = calloc((size_t)count, sizeof *lists);
    ls_status status = comms && ops && lists
                           ? put_lists(s, &s->tasks[first], comms, ops, lists, count)
                           : ls_fail_memory("step", (size_t)count * sizeof *lists);
    free(comms);
    free(ops);
    free(lists);
    return status;
}

ls_status ls_step_put(ls_step *s, int component)
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
            LS_TRY(put_task(s, task));
            continue;
        }
        const size_t first = t;
        while (t + 1 < s->task_count && s->tasks[t + 1].call == task->call)
            t++;
        LS_TRY(put_call(s, first, (int)(t + 1 - first)));
    }
    return LS_OK;
}

ls_status ls_step_put_serially(ls_step *s)
{
    for (size_t t = 0; t < s->task_count; t++) {
        LS_TRY(put_work(s, &s->tasks[t]));
        LS_TRY(ls_queue_sync(queue_of(s, s->tasks[t].lane)));
    }
    return LS_OK;
}

/* ---- Programs -------------------------------------------------------------------------------- */

ls_status ls_steps_capture(ls_stepped *run)
{
    for (int b = 0; b < LS_BATCHES; b++) {
        for (int c = 0; c < run->component_count && run->step[b].task_count; c++) {
            ls_queue *driver = run->lanes[run->components[c].driver].queue;
            LS_TRY(ls_program_begin(driver));
            ls_status put = ls_step_put(&run->step[b], c);
            LS_TRY(ls_status_first(put, ls_program_end(driver, &run->components[c].program[b])));
        }
    }
    return LS_OK;
}
