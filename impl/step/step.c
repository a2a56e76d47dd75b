/* SPDX-License-Identifier: MIT */
/* Appending tasks to a step, with their operations and accesses; see step.h. */
#include "common/base/grow.h"
#include "impl/step/step_private.h"

#include <stdlib.h>

/* ---- Status ---------------------------------------------------------------------------------- */

void ls_step_fail(ls_step *s, ls_status status)
{
    s->status = ls_status_first(s->status, status);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static ls_task *current(ls_step *s)
{
    return s->status ? NULL : &s->tasks[s->task_count - 1];
}

void ls_task_touch(ls_step *s, const void *memory, size_t bytes, bool writes)
{
    if (s->status || !memory || !bytes)
        return;
    s->status = ls_grow("step", &s->accesses, s->access_count, sizeof *s->accesses);
    if (s->status)
        return;
    s->accesses[s->access_count++] = (ls_access){memory, bytes, writes};
    current(s)->access_count++;
}

ls_task *ls_task_begin(ls_step *s, const char *verb, int lane, ls_range range)
{
    if (!s->status)
        s->status = ls_grow("step", &s->tasks, s->task_count, sizeof *s->tasks);
    if (s->status)
        return NULL;
    ls_task *task = &s->tasks[s->task_count++];
    const int member = s->run->lanes[lane].member;
    *task = (ls_task){.verb = verb,
                      .lane = lane,
                      .range = range,
                      .op = s->op_count,
                      .access = s->access_count,
                      .node = -1,
                      .call = -1,
                      .peer = -1,
                      .pass = s->pass[member]};
    ls_task_touch(s, task->pass, sizeof *task->pass, false);
    return task;
}

void ls_task_add_ops(ls_step *s, const ls_op_list *ops)
{
    for (size_t i = 0; ops && i < ops->count && !s->status; i++) {
        const ls_op *op = ops->items[i];
        s->status = ls_grow("step", &s->ops, s->op_count, sizeof *s->ops);
        if (s->status)
            return;
        s->ops[s->op_count++] = ops->items[i];
        current(s)->op_count++;
        for (size_t a = 0; a < op->access_count; a++)
            ls_task_touch(s, op->accesses[a].memory, op->accesses[a].bytes, op->accesses[a].writes);
    }
}

void ls_task_take_ops(ls_step *s, ls_op_list *ops)
{
    ls_task_add_ops(s, ops);
    for (size_t i = 0; i < ops->count; i++)
        ls_step_fail(s, ls_op_list_add(&s->own, ops->items[i])); /* frees it on failure */
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

void ls_task_end(ls_step *s)
{
    ls_task *task = current(s);
    if (!task || !task->access_count)
        return;
    ls_access *all = s->accesses + task->access;
    qsort(all, task->access_count, sizeof *all, compare_accesses);
    size_t kept = 1;
    for (size_t i = 1; i < task->access_count; i++) {
        ls_access *last = &all[kept - 1];
        const uintptr_t begin = (uintptr_t)all[i].memory, end = begin + all[i].bytes;
        const uintptr_t last_end = (uintptr_t)last->memory + last->bytes;
        if (all[i].writes != last->writes || begin > last_end)
            all[kept++] = all[i];
        else if (end > last_end)
            last->bytes = end - (uintptr_t)last->memory;
    }
    task->access_count = kept;
    s->access_count = task->access + kept;
}

ls_task *ls_task_of(ls_step *s, const char *verb, int lane, ls_range range, ls_op_list *ops,
                    ls_status status)
{
    ls_step_fail(s, status);
    ls_task_begin(s, verb, lane, range);
    ls_task_take_ops(s, ops);
    ls_task_end(s);
    return current(s);
}

ls_task *ls_task_of_op(ls_step *s, const char *verb, int lane, ls_range range, ls_op *op,
                       ls_status status)
{
    ls_op_list ops = {0};
    if (!status)
        status = ls_op_list_add(&ops, op);
    return ls_task_of(s, verb, lane, range, &ops, status);
}

ls_status ls_step_open(ls_stepped *run, int kind, ls_step *s)
{
    const size_t members = (size_t)run->lane_count;
    s->run = run;
    s->kind = kind;
    s->batch_kind = kind < LS_KINDS ? kind % LS_BATCHES : LS_FULL;
    LS_TRY(ls_allocate("step", &s->said, members, sizeof *s->said));
    return ls_allocate("step", &s->pass, members, sizeof(bool *));
}

void ls_step_close(ls_step *s)
{
    ls_op_list_clear(&s->own);
    free(s->tasks);
    free(s->ops);
    free(s->accesses);
    free(s->waits);
    free(s->said);
    free(s->pass);
}

/* ---- Queries --------------------------------------------------------------------------------- */

ls_member *ls_step_member(const ls_step *s, int member)
{
    return &s->run->members[member];
}

ls_replica *ls_step_replica(const ls_step *s, int member)
{
    return ls_step_member(s, member)->replica;
}

const ls_job *ls_step_job(const ls_step *s)
{
    return s->run->base.job;
}

bool ls_ends_period(const ls_step *s)
{
    return s->kind >= LS_LAST || !ls_step_job(s)->period;
}

int ls_replicas(const ls_step *s)
{
    return s->run->count;
}

int ls_members(const ls_step *s)
{
    return s->run->count * s->run->places;
}

int ls_place_of(const ls_step *s, int member)
{
    return member % s->run->places;
}

int ls_holder(const ls_step *s)
{
    return s->run->holder;
}

int ls_shadow(const ls_step *s, int replica)
{
    return s->run->total + replica;
}

int64_t ls_shards(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    return job->exact ? ls_job_shards(job, ls_replicated_batch(job, s->batch_kind)) : 0;
}

size_t ls_sums(const ls_step *s, int replica)
{
    const ls_job *job = ls_step_job(s);
    return ls_slice_count_sums(job, ls_replicated_batch(job, s->batch_kind), replica,
                               s->run->count);
}

ls_range ls_all(const ls_step *s)
{
    return (ls_range){0, ls_step_job(s)->model->graph->variables.elements};
}

ls_range ls_owned(const ls_step *s, int member)
{
    const ls_replica *r = ls_step_replica(s, member);
    return (ls_range){0, r ? r->owned : 0};
}

ls_range ls_part(const ls_step *s, int i, int n)
{
    const size_t all = ls_all(s).count, first = ls_comm_share(all, i, n);
    return (ls_range){first, ls_comm_share(all, i + 1, n) - first};
}

ls_span ls_parameters(const ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    if (!r)
        return (ls_span){member, NULL, range.count * sizeof(float)};
    const size_t real = r->kernels->table->real_bytes, first = ls_step_place(s, member, range);
    return (ls_span){member, (char *)r->parameters + first * real, range.count * real};
}
