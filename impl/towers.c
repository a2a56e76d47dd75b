/* SPDX-License-Identifier: MIT */
/*
 * towers: in-graph replication. One program drives a tower per device; the variables live on the
 * variable device, where gradients are added and applied, as in the multi-tower tutorials.
 *
 *     each tower fetches the variables; gathers its part of the batch, forward, backward;
 *     its gradients go back; the variable device adds them up and updates the variables
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... by number of the tower; exact mode the rest
 * of the tree over the towers' finished subtrees (slice.h). The tower on the variable device uses
 * the variables where they are; every other one has a copy, and its copies are counted as traffic.
 */
#include "impl/replicas.h"
#include "impl/strategies.h"

#include <stdlib.h>

/* One of a tower's sums, where the variable device can add it. */
typedef struct arrival {
    void *here;        /* on the variable device */
    const void *there; /* on the tower's device; NULL: it is here already */
    int tower;
} arrival;

/* What one step adds up. */
typedef struct plan {
    arrival *arrivals; /* of all towers, in order */
    size_t count;
    ls_op_list sums; /* the additions, on the variable device */
} plan;

typedef struct towers {
    ls_replicated shared; /* its holder is the tower on the variable device */
    ls_event *ready;      /* the variables are up to date */
    ls_event **done;      /* [n] the tower's gradients have arrived */
    plan plans[LS_BATCHES];
    ls_traffic sent[LS_BATCHES]; /* by one step: counted when it is put or captured */
} towers;

static size_t flat_bytes(const ls_replica *replica)
{
    return replica->elements * replica->kernels->table->real_bytes;
}

/* ---- The step ------------------------------------------------------------------------------- */

/* A copy of the flat buffer over a device border, on the tower's queue. */
static ls_status put_copy(ls_traffic *sent, const ls_member *tower, void *to,
                          const ls_replica *to_replica, const void *from,
                          const ls_replica *from_replica)
{
    sent->bytes_sent += flat_bytes(tower->replica);
    sent->messages_sent++;
    return ls_queue_copy(tower->replica->queue, to, to_replica->device, from, from_replica->device,
                         flat_bytes(tower->replica));
}

static ls_status put_tower(towers *me, int number, int which)
{
    ls_member *tower = &me->shared.members[number];
    const ls_replica *holder = me->shared.members[me->shared.holder].replica;
    ls_queue *queue = tower->replica->queue;
    LS_TRY(ls_queue_wait(queue, me->ready));
    LS_TRY(put_copy(&me->sent[which], tower, tower->replica->parameters, tower->replica,
                    holder->parameters, holder));
    LS_TRY(ls_slice_put(tower->slice[which], NULL, NULL));
    for (size_t i = 0; i < me->plans[which].count; i++) {
        const arrival *a = &me->plans[which].arrivals[i];
        if (a->tower == number)
            LS_TRY(put_copy(&me->sent[which], tower, a->here, holder, a->there, tower->replica));
    }
    LS_TRY(ls_op_list_put(&tower->finish[which], queue));
    return ls_queue_record(queue, me->done[number]);
}

static ls_status put_step(ls_replicated *run, ls_member *holder, int which)
{
    towers *me = (towers *)run;
    ls_queue *queue = holder->replica->queue;
    me->sent[which] = (ls_traffic){0};
    LS_TRY(ls_queue_record(queue, me->ready));
    for (int t = 0; t < run->count; t++)
        if (t != me->shared.holder)
            LS_TRY(put_tower(me, t, which));
    if (holder->slice[which])
        LS_TRY(ls_slice_put(holder->slice[which], NULL, NULL));
    for (int t = 0; t < run->count; t++)
        if (t != me->shared.holder)
            LS_TRY(ls_queue_wait(queue, me->done[t]));
    LS_TRY(ls_op_list_put(&me->plans[which].sums, queue));
    LS_TRY(ls_op_list_put(&holder->update[which], queue));
    return ls_op_list_put(&holder->finish[which], queue);
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status append_sum(towers *me, plan *p, const void *a, const void *b, void *y)
{
    const ls_replica *holder = me->shared.members[me->shared.holder].replica;
    const ls_add_args args = {.count = (int64_t)holder->elements, .a = a, .b = b, .y = y};
    ls_op *op;
    LS_TRY(holder->kernels->table->add(holder->kernels, &args, &op));
    return ls_op_list_add(&p->sums, op);
}

/* Where each tower's sums arrive: staging memory, but for the holder's own. */
static ls_status place_arrivals(towers *me, int which)
{
    ls_replicated *run = &me->shared;
    plan *p = &me->plans[which];
    ls_device *device = run->members[me->shared.holder].replica->device;
    for (int t = 0; t < run->count; t++)
        p->count += ls_slice_sums(run->members[t].slice[which]);
    p->arrivals = calloc(p->count, sizeof *p->arrivals);
    if (!p->arrivals)
        return ls_fail_memory("towers", p->count * sizeof *p->arrivals);
    size_t next = 0;
    for (int t = 0; t < run->count; t++) {
        const ls_member *tower = &run->members[t];
        for (size_t k = 0; k < ls_slice_sums(tower->slice[which]); k++, next++) {
            void *sum = ls_slice_gradients(tower->slice[which], k);
            arrival *a = &p->arrivals[next];
            *a = (arrival){.here = sum, .tower = t};
            if (t == me->shared.holder)
                continue;
            a->here = NULL;
            a->there = sum;
            if (p->count == 1) { /* nothing to add: it arrives where it is needed */
                a->here = run->members[run->holder].replica->gradients;
                continue;
            }
            LS_TRY(ls_device_allocate(device, LS_MEMORY_COMMUNICATION, flat_bytes(tower->replica),
                                      &a->here));
        }
    }
    return LS_OK;
}

/* Adds arrivals up in the documented order; the last addition ends in the gradient buffer. */
static ls_status build_sums(towers *me, int which)
{
    plan *p = &me->plans[which];
    const ls_job *job = me->shared.base.job;
    void *gradients = me->shared.members[me->shared.holder].replica->gradients;
    ls_tree_sum *sums;
    size_t count;
    LS_TRY(ls_slice_tree(job, ls_replicated_batch(job, which), me->shared.count, &sums, &count));
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        arrival *left = &p->arrivals[sums[i].left], *right = &p->arrivals[sums[i].right];
        void *to = i + 1 == count ? gradients : left->here;
        status = append_sum(me, p, left->here, right->here, to);
    }
    free(sums);
    return status;
}

static ls_status build(towers *me, const ls_job *job)
{
    ls_replicated *run = &me->shared;
    run->holder = (int)job->device_count; /* one more member, unless a tower is there */
    for (int i = 0; i < (int)job->device_count; i++)
        if (job->devices[i] == job->variable_device)
            run->holder = i;
    LS_TRY(ls_replicated_open(run, &ls_strategy_towers, job, put_step));
    LS_TRY(ls_event_open(job->variable_device, &me->ready));
    me->done = calloc((size_t)run->count, sizeof *me->done);
    if (!me->done)
        return ls_fail_memory("towers", (size_t)run->count * sizeof *me->done);
    for (int t = 0; t < run->count; t++)
        LS_TRY(ls_event_open(job->devices[t], &me->done[t]));
    ls_member *holder = &run->members[run->holder];
    for (int b = 0; b < LS_BATCHES; b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        LS_TRY(place_arrivals(me, b));
        LS_TRY(build_sums(me, b));
        LS_TRY(
            ls_replica_update(holder->replica, 0, holder->replica->elements, &holder->update[b]));
    }
    return ls_replicated_capture(run);
}

/* ---- The strategy --------------------------------------------------------------------------- */

static ls_status check(const ls_outline *outline)
{
    if (outline->ranks != 1)
        return ls_fail(LS_CODE_USAGE, "strategy", "towers",
                       "is in-graph: one process, not %d ranks; use --ranks 1", outline->ranks);
    return LS_OK;
}

static void close_run(ls_run *base)
{
    towers *me = (towers *)base;
    ls_status_free(ls_replicated_sync(base));
    for (int b = 0; b < LS_BATCHES; b++) {
        ls_op_list_clear(&me->plans[b].sums);
        for (size_t i = 0; i < me->plans[b].count; i++)
            if (me->plans[b].arrivals[i].there && me->plans[b].count > 1)
                ls_device_release(base->job->variable_device, me->plans[b].arrivals[i].here);
        free(me->plans[b].arrivals);
    }
    ls_event_close(me->ready);
    for (int t = 0; me->done && t < me->shared.count; t++)
        ls_event_close(me->done[t]);
    free(me->done);
    ls_replicated_close(base);
}

static ls_status open_run(const ls_job *job, ls_run **out)
{
    towers *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("towers", sizeof *me);
    me->shared.base.job = job;
    ls_status status = build(me, job);
    if (status)
        close_run(&me->shared.base);
    else
        *out = &me->shared.base;
    return status;
}

static ls_status gather(ls_run *base, float *parameters)
{
    const ls_replicated *run = (const ls_replicated *)base;
    return ls_replica_gather(run->members[run->holder].replica, parameters);
}

/* With the first tower's net, on the variables as they are now. */
static ls_status evaluate(ls_run *base, double *accuracy)
{
    const ls_replicated *run = (const ls_replicated *)base;
    const ls_replica *holder = run->members[run->holder].replica;
    const ls_replica *tower = run->members[0].replica;
    if (tower != holder)
        LS_TRY(ls_queue_copy(tower->queue, tower->parameters, tower->device, holder->parameters,
                             holder->device, flat_bytes(holder)));
    return ls_replicated_evaluate(base, accuracy);
}

static ls_memory_formula memory(const ls_run *base, size_t index)
{
    const towers *me = (const towers *)base;
    ls_memory_formula formula = ls_replicated_memory(base, index);
    for (int b = 0; b < LS_BATCHES && (int)index == me->shared.holder; b++)
        for (size_t i = 0; i < me->plans[b].count; i++)
            if (me->plans[b].arrivals[i].there && me->plans[b].count > 1)
                formula.bytes[LS_MEMORY_COMMUNICATION] += flat_bytes(me->shared.members[0].replica);
    return formula;
}

/* Every tower but the holder: the variables there, its sums back. */
static void traffic(const ls_run *base, ls_traffic *sent, ls_traffic *formula)
{
    const towers *me = (const towers *)base;
    size_t bytes = base->job->model->graph->variables.elements * sizeof(float);
    *sent = me->sent[LS_FULL];
    *formula = (ls_traffic){0};
    for (int t = 0; t < me->shared.count; t++)
        if (t != me->shared.holder)
            formula->messages_sent +=
                1 + ls_slice_count_sums(base->job, base->job->batch, t, me->shared.count);
    formula->bytes_sent = formula->messages_sent * bytes;
}

const ls_strategy ls_strategy_towers = {
    .name = "towers",
    .help = "in-graph: one program drives a tower per device, variables on the variable device",
    .equivalent = true,
    .holds_variables = true,
    .replicated = true,
    .check = check,
    .open = open_run,
    .load = ls_replicated_load,
    .step = ls_replicated_step,
    .sync = ls_replicated_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = gather,
    .evaluate = evaluate,
    .describe = ls_replicated_describe,
    .each_op = ls_replicated_each,
    .memory = memory,
    .traffic = traffic,
    .sum = ls_sum_in_order,
    .close = close_run,
};
