/* SPDX-License-Identifier: MIT */
/*
 * towers: in-graph replication. One program drives a tower per device; the variables live on the
 * variable device, where gradients are added and applied, as in the multi-tower tutorials.
 *
 *     each tower fetches the variables; gathers its part of the batch, forward, backward;
 *     its gradients go back; the variable device adds them up and updates the variables
 *
 * staged: the variables are updated range by range, and the towers fetch each range for the next
 * step as soon as it is updated. Not colocated: backward runs on the variable device
 * (towers_apart.h).
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... by number of the tower; exact mode the rest
 * of the tree over the towers' finished subtrees (slice.h). The tower on the variable device uses
 * the variables where they are; every other one has a copy, and its copies are counted as traffic.
 */
#include "common/base/hooks.h"
#include "impl/strategies.h"
#include "impl/towers_apart.h"
#include "impl/towers_sums.h"

#include <stdlib.h>

enum { STAGED_RANGES = 4 };

/* A range of the variables: updated, and where staged fetched, on its own. */
typedef struct range {
    size_t first, count; /* elements */
    ls_op_list update;
    ls_event *updated;
} range;

/* What a tower has beside its member. */
typedef struct tower_parts {
    ls_event *done; /* its gradients have arrived */
    ls_event *left; /* its queue has nothing more to do in this step */
    ls_apart apart; /* where backward is not colocated */
} tower_parts;

typedef struct towers {
    ls_replicated shared; /* its holder is the tower on the variable device */
    ls_event *ready;      /* the step has begun */
    tower_parts *towers;  /* [n] */
    range *ranges;        /* of the variables; one, unless they are staged */
    size_t range_count;
    ls_tower_sums sums[LS_BATCHES];
    ls_traffic sent[LS_BATCHES]; /* by one step: counted when it is put or captured */
} towers;

static size_t real_bytes(const towers *me)
{
    return me->shared.members[0].replica->kernels->table->real_bytes;
}

static const ls_member *holder_of(const towers *me)
{
    return &me->shared.members[me->shared.holder];
}

/* Whether a tower's backward runs on the variable device in its place. */
static bool is_apart(const towers *me, int number)
{
    return me->shared.base.job->towers_apart && number != me->shared.holder;
}

/* ---- The step ------------------------------------------------------------------------------- */

/* A tower fetches a range of the variables. */
static ls_status put_fetch(towers *me, int number, const range *part, int which)
{
    const ls_replica *to = me->shared.members[number].replica, *from = holder_of(me)->replica;
    size_t first = part->first * real_bytes(me), bytes = part->count * real_bytes(me);
    me->sent[which].bytes_sent += bytes;
    me->sent[which].messages_sent++;
    return ls_queue_copy(to->queue, (char *)to->parameters + first, to->device,
                         (const char *)from->parameters + first, from->device, bytes);
}

/* Its gradients go to where the variable device adds them. */
static ls_status put_return(towers *me, int number, int which)
{
    const ls_replica *from = me->shared.members[number].replica, *to = holder_of(me)->replica;
    size_t bytes = from->elements * real_bytes(me);
    for (size_t i = 0; i < me->sums[which].count; i++) {
        const ls_arrival *a = &me->sums[which].arrivals[i];
        if (a->tower != number || !a->there)
            continue;
        me->sent[which].bytes_sent += bytes;
        me->sent[which].messages_sent++;
        LS_TRY(ls_queue_copy(from->queue, a->here, to->device, a->there, from->device, bytes));
    }
    return LS_OK;
}

static ls_status put_tower(towers *me, int number, int which)
{
    ls_member *tower = &me->shared.members[number];
    ls_apart *apart = &me->towers[number].apart;
    ls_queue *queue = tower->replica->queue;
    if (!LS_PLANTED(ready_wait))
        LS_TRY(ls_queue_wait(queue, me->ready));
    if (!me->shared.base.job->towers_staged && !LS_PLANTED(stale_variables))
        LS_TRY(put_fetch(me, number, &me->ranges[0], which));
    if (LS_PLANTED(fetched_twice))
        LS_TRY(put_fetch(me, number, &me->ranges[0], which));
    if (is_apart(me, number))
        LS_TRY(ls_apart_put(apart, tower, which, &me->sent[which]));
    else
        LS_TRY(ls_slice_put(tower->slice[which], NULL, NULL));
    LS_TRY(put_return(me, number, which));
    LS_TRY(ls_op_list_put(&tower->finish[which], queue));
    bool behind = is_apart(me, number) && ls_slice_sums(tower->slice[which]);
    return ls_queue_record(behind ? apart->shadow.replica->queue : queue, me->towers[number].done);
}

/* Each range is updated and, where staged, on its way to the towers for the next step. */
static ls_status put_update(towers *me, int which)
{
    ls_queue *queue = holder_of(me)->replica->queue;
    const bool staged = me->shared.base.job->towers_staged;
    for (size_t r = 0; r < me->range_count; r++) {
        range *part = &me->ranges[r];
        LS_TRY(ls_op_list_put(&part->update, queue));
        if (LS_PLANTED(applied_twice))
            LS_TRY(ls_op_list_put(&part->update, queue));
        if (!staged)
            continue;
        LS_TRY(ls_queue_record(queue, part->updated));
        for (int t = 0; t < me->shared.count; t++) {
            if (t == me->shared.holder)
                continue;
            LS_TRY(ls_queue_wait(me->shared.members[t].replica->queue, part->updated));
            LS_TRY(put_fetch(me, t, part, which));
        }
    }
    return LS_OK;
}

static ls_status put_step(ls_replicated *run, ls_member *holder, int which)
{
    towers *me = (towers *)run;
    ls_queue *queue = holder->replica->queue;
    me->sent[which] = (ls_traffic){0};
    LS_TRY(ls_queue_record(queue, me->ready));
    for (int t = 0; t < run->count; t++)
        if (t != run->holder)
            LS_TRY(put_tower(me, t, which));
    if (holder->slice[which])
        LS_TRY(ls_slice_put(holder->slice[which], NULL, NULL));
    for (int t = 0; t < run->count; t++)
        if (t != run->holder && !(LS_PLANTED(done_wait) && t + 1 == run->count))
            LS_TRY(ls_queue_wait(queue, me->towers[t].done));
    LS_TRY(ls_tower_sums_put(run, &me->sums[which]));
    LS_TRY(put_update(me, which));
    for (int t = 0; t < run->count; t++) {
        if (!me->towers[t].left)
            continue;
        LS_TRY(ls_queue_record(run->members[t].replica->queue, me->towers[t].left));
        LS_TRY(ls_queue_wait(queue, me->towers[t].left));
    }
    return ls_op_list_put(&holder->finish[which], queue);
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status open_tower(towers *me, int number)
{
    const ls_job *job = me->shared.base.job;
    tower_parts *tower = &me->towers[number];
    if (number == me->shared.holder)
        return LS_OK;
    if (is_apart(me, number))
        LS_TRY(ls_apart_open(&me->shared, number, &tower->apart));
    if (is_apart(me, number) || job->towers_staged)
        LS_TRY(ls_event_open(job->devices[number], &tower->left));
    return ls_event_open(is_apart(me, number) ? job->variable_device : job->devices[number],
                         &tower->done);
}

/* Staged: equal parts, so that one is updated while another is fetched, in few messages. */
static ls_status open_ranges(towers *me)
{
    const ls_job *job = me->shared.base.job;
    ls_replica *holder = holder_of(me)->replica;
    const int parts = job->towers_staged ? STAGED_RANGES : 1;
    me->ranges = calloc((size_t)parts, sizeof *me->ranges);
    if (!me->ranges)
        return ls_fail_memory("towers", (size_t)parts * sizeof *me->ranges);
    for (int p = 0; p < parts; p++) {
        range *r = &me->ranges[me->range_count];
        r->first = ls_comm_share(holder->elements, p, parts);
        r->count = ls_comm_share(holder->elements, p + 1, parts) - r->first;
        if (!r->count) /* poly has three elements */
            continue;
        me->range_count++;
        LS_TRY(ls_replica_update(holder, r->first, r->count, &r->update));
        LS_TRY(ls_event_open(job->variable_device, &r->updated));
    }
    return LS_OK;
}

static ls_status open_sums(towers *me, int which)
{
    ls_slice *slices[LS_JOB_REPLICAS];
    for (int t = 0; t < me->shared.count; t++)
        slices[t] = is_apart(me, t) ? me->towers[t].apart.shadow.slice[which]
                                    : me->shared.members[t].slice[which];
    return ls_tower_sums_open(&me->shared, which, slices, &me->sums[which]);
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
    me->towers = calloc((size_t)run->count, sizeof *me->towers);
    if (!me->towers)
        return ls_fail_memory("towers", (size_t)run->count * sizeof *me->towers);
    for (int t = 0; t < run->count; t++)
        LS_TRY(open_tower(me, t));
    LS_TRY(open_ranges(me));
    for (int b = 0; b < LS_BATCHES; b++)
        if (ls_replicated_batch(job, b))
            LS_TRY(open_sums(me, b));
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

static ls_status sync_run(ls_run *base)
{
    towers *me = (towers *)base;
    ls_status status = ls_replicated_sync(base);
    for (int t = 0; me->towers && t < me->shared.count; t++)
        if (me->towers[t].apart.shadow.replica)
            status =
                ls_status_first(status, ls_queue_sync(me->towers[t].apart.shadow.replica->queue));
    return status;
}

static void close_run(ls_run *base)
{
    towers *me = (towers *)base;
    ls_status_free(sync_run(base));
    ls_replicated_close_programs(&me->shared);
    for (int b = 0; b < LS_BATCHES; b++)
        ls_tower_sums_close(&me->shared, &me->sums[b]);
    for (size_t r = 0; r < me->range_count; r++) {
        ls_op_list_clear(&me->ranges[r].update);
        ls_event_close(me->ranges[r].updated);
    }
    free(me->ranges);
    for (int t = 0; me->towers && t < me->shared.count; t++) {
        ls_apart_close(&me->towers[t].apart);
        ls_event_close(me->towers[t].done);
        ls_event_close(me->towers[t].left);
    }
    free(me->towers);
    ls_event_close(me->ready);
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

static ls_status fetch_all(const ls_replica *tower, const ls_replica *holder)
{
    return ls_queue_copy(tower->queue, tower->parameters, tower->device, holder->parameters,
                         holder->device, holder->elements * tower->kernels->table->real_bytes);
}

/* With the first tower's net, on the variables as they are now, or their averages; towers that
 * fetched ahead find the variables again. */
static ls_status evaluate(ls_run *base, uint64_t most, ls_evaluation *out)
{
    const ls_replicated *run = (const ls_replicated *)base;
    ls_replica *holder = run->members[run->holder].replica;
    const ls_replica *tower = run->members[0].replica;
    if (tower == holder)
        return ls_replicated_evaluate(base, most, out);
    LS_TRY(ls_replica_average_in(holder));
    LS_TRY(fetch_all(tower, holder));
    LS_TRY(ls_replicated_evaluate(base, most, out));
    LS_TRY(ls_replica_average_out(holder));
    return fetch_all(tower, holder);
}

static ls_memory_formula memory(const ls_run *base, size_t index)
{
    const towers *me = (const towers *)base;
    ls_memory_formula formula = ls_replicated_memory(base, index);
    if ((int)index != me->shared.holder)
        return formula;
    for (int b = 0; b < LS_BATCHES; b++)
        formula.bytes[LS_MEMORY_COMMUNICATION] += ls_tower_sums_bytes(&me->shared, &me->sums[b]);
    for (int t = 0; t < me->shared.count; t++)
        if (is_apart(me, t))
            ls_apart_memory(&me->towers[t].apart, &formula);
    return formula;
}

static void each_op(const ls_run *base, ls_op_visit visit, void *context)
{
    const towers *me = (const towers *)base;
    ls_replicated_each(base, visit, context);
    for (size_t r = 0; r < me->range_count; r++)
        ls_op_list_each(&me->ranges[r].update, visit, context);
}

/* Every tower but the holder: the variables there, range by range; its sums back, or what backward
 * reads. */
static ls_status traffic(const ls_run *base, ls_traffic *sent, ls_traffic *formula)
{
    const towers *me = (const towers *)base;
    const ls_job *job = base->job;
    uint64_t flat = job->model->graph->variables.elements * sizeof(float);
    *sent = me->sent[LS_FULL];
    *formula = (ls_traffic){0};
    for (int t = 0; t < me->shared.count; t++) {
        if (t == me->shared.holder)
            continue;
        ls_traffic back = {0};
        if (is_apart(me, t))
            back = ls_apart_formula(&me->towers[t].apart);
        else
            back.messages_sent = ls_slice_count_sums(job, job->batch, t, me->shared.count);
        formula->messages_sent += me->range_count + back.messages_sent;
        formula->bytes_sent +=
            flat + (is_apart(me, t) ? back.bytes_sent : back.messages_sent * flat);
    }
    ls_traffic met[2];
    LS_TRY(ls_replicated_statistics_traffic(&me->shared, &met[0], &met[1]));
    ls_traffic_add(sent, met[0]);
    ls_traffic_add(formula, met[1]);
    return LS_OK;
}

const ls_strategy ls_strategy_towers = {
    .name = "towers",
    .help = "in-graph: one program drives a tower per device, variables on the variable device",
    .equivalent = true,
    .meets = true,
    .holds_variables = true,
    .replicated = true,
    .check = check,
    .open = open_run,
    .load = ls_replicated_load,
    .step = ls_replicated_step,
    .sync = sync_run,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = gather,
    .evaluate = evaluate,
    .describe = ls_replicated_describe,
    .profile = ls_replicated_profile,
    .times = ls_replicated_times,
    .each_op = each_op,
    .memory = memory,
    .traffic = traffic,
    .sum = ls_sum_in_order,
    .close = close_run,
};
