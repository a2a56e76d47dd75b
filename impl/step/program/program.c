/* SPDX-License-Identifier: MIT */
/* Appending tasks to a program, with their operations and accesses; see program.h. */
#include "impl/step/program/program.h"

#include "common/base/grow.h"
#include "common/comm/comm.h"

#include <stdlib.h>

void ls_step_program_fail(ls_step_program *p, ls_status status)
{
    p->status = ls_status_first(p->status, status);
}

static ls_task *current(ls_step_program *p)
{
    return p->status ? NULL : &p->tasks[p->task_count - 1];
}

void ls_task_touch(ls_step_program *p, const void *memory, size_t bytes, ls_touch touch)
{
    if (p->status || !memory || !bytes)
        return;
    p->status = ls_grow("step", &p->accesses, p->access_count, sizeof *p->accesses);
    if (p->status)
        return;
    p->accesses[p->access_count++] = (ls_access){memory, bytes, touch == LS_WRITES};
    current(p)->accesses.count++;
}

ls_task *ls_task_begin(ls_step_program *p, const char *verb, int lane, ls_range range)
{
    if (!p->status)
        p->status = ls_grow("step", &p->tasks, p->task_count, sizeof *p->tasks);
    if (p->status)
        return NULL;
    ls_task *task = &p->tasks[p->task_count++];
    *task = (ls_task){.verb = verb,
                      .lane = lane,
                      .range = range,
                      .ops.first = p->op_count,
                      .accesses.first = p->access_count,
                      .node = -1,
                      .call = -1,
                      .end = {.channel = -1, .peer = -1},
                      .skip = p->skip,
                      .microbatch = p->microbatch,
                      .piece = p->piece};
    ls_task_touch(p, task->skip, sizeof *task->skip, LS_READS);
    return task;
}

void ls_task_add_ops(ls_step_program *p, const ls_op_list *ops)
{
    for (size_t i = 0; ops && i < ops->count && !p->status; i++) {
        const ls_op *op = ops->items[i];
        p->status = ls_status_first(ls_grow("step", &p->ops, p->op_count, sizeof(ls_op *)),
                                    ls_grow("step", &p->nodes, p->op_count, sizeof *p->nodes));
        if (p->status)
            return;
        p->nodes[p->op_count] = p->node - 1;
        p->ops[p->op_count++] = ops->items[i];
        ls_task *task = current(p);
        task->ops.count++;
        task->flops += op->flops;
        task->bytes += op->bytes;
        for (size_t a = 0; a < op->access_count; a++)
            ls_task_touch(p, op->accesses[a].memory, op->accesses[a].bytes,
                          op->accesses[a].writes ? LS_WRITES : LS_READS);
    }
}

void ls_task_take_ops(ls_step_program *p, ls_op_list *ops)
{
    ls_task_add_ops(p, ops);
    for (size_t i = 0; i < ops->count; i++)
        ls_step_program_fail(p, ls_op_list_add(&p->own, ops->items[i])); /* frees it on failure */
    free(ops->items);
    *ops = (ls_op_list){0};
}

/* Sorts reads before writes, each by address. */
static int compare_accesses(const void *a, const void *b)
{
    const ls_access *x = a, *y = b;
    if (x->writes != y->writes)
        return x->writes - y->writes;
    return ((uintptr_t)x->memory > (uintptr_t)y->memory) -
           ((uintptr_t)x->memory < (uintptr_t)y->memory);
}

void ls_task_finish(ls_step_program *p)
{
    ls_task *task = current(p);
    if (!task || !task->accesses.count)
        return;
    ls_access *all = p->accesses + task->accesses.first;
    qsort(all, task->accesses.count, sizeof *all, compare_accesses);
    size_t kept = 1;
    for (size_t i = 1; i < task->accesses.count; i++) {
        ls_access *last = &all[kept - 1];
        const uintptr_t begin = (uintptr_t)all[i].memory, end = begin + all[i].bytes;
        const uintptr_t last_end = (uintptr_t)last->memory + last->bytes;
        if (all[i].writes != last->writes || begin > last_end)
            all[kept++] = all[i];
        else if (end > last_end)
            last->bytes = end - (uintptr_t)last->memory;
    }
    task->accesses.count = kept;
    p->access_count = task->accesses.first + kept;
}

ls_task *ls_task_of(ls_step_program *p, const char *verb, int lane, ls_range range, ls_op_list *ops,
                    ls_status status)
{
    ls_step_program_fail(p, status);
    ls_task_begin(p, verb, lane, range);
    ls_task_take_ops(p, ops);
    ls_task_finish(p);
    return current(p);
}

ls_task *ls_task_of_op(ls_step_program *p, const char *verb, int lane, ls_range range, ls_op *op,
                       ls_status status)
{
    ls_op_list ops = {0};
    if (!status)
        status = ls_op_list_add(&ops, op);
    return ls_task_of(p, verb, lane, range, &ops, status);
}

void ls_task_count_messages(ls_step_program *p, int rank)
{
    ls_task *task = current(p);
    for (size_t i = 0; task && i < task->ops.count; i++) {
        const ls_op *op = p->ops[task->ops.first + i];
        for (size_t m = 0; m < op->message_count; m++)
            *(op->messages[m].from == rank ? &task->end.sent : &task->end.received) +=
                (op->messages[m].bytes + sizeof(float) - 1) / sizeof(float);
    }
}

void ls_step_program_close(ls_step_program *p)
{
    ls_op_list_clear(&p->own);
    free(p->tasks);
    free(p->ops);
    free(p->nodes);
    free(p->accesses);
    free(p->waits);
    *p = (ls_step_program){0};
}

/* ---- Traffic --------------------------------------------------------------------------------- */

ls_traffic ls_step_program_copied(const ls_step_program *p)
{
    ls_traffic sum = {.messages_sent = p->empty_copies};
    for (size_t t = 0; t < p->task_count; t++)
        if (p->tasks[t].copy.to && p->tasks[t].copy.crosses)
            ls_traffic_add(&sum, (ls_traffic){p->tasks[t].copy.bytes, 1}, 1);
    return sum;
}

/* Whether a task's peer has no tasks. */
static bool is_from_none(const ls_step_program *p, const ls_task *task)
{
    return task->end.channel >= 0 &&
           task->end.peer >= p->lanes->channels[task->end.channel].arrivals;
}

ls_traffic ls_step_program_traffic(const ls_step_program *p)
{
    ls_traffic sum = ls_step_program_copied(p);
    for (size_t t = 0; t < p->task_count; t++) {
        const ls_task *task = &p->tasks[t];
        for (size_t i = task->ops.first; i < task->ops.first + task->ops.count; i++)
            for (size_t k = 0; k < p->ops[i]->message_count; k++) {
                const ls_op_message *m = &p->ops[i]->messages[k];
                if (m->from == ((const ls_comm *)m->channel)->rank || is_from_none(p, task))
                    ls_traffic_add(&sum, (ls_traffic){m->bytes, 1}, 1);
            }
    }
    return sum;
}
