/* SPDX-License-Identifier: MIT */
/* The oracle of replicas that update alone: one device takes each replica's state in turn
 * (carried.h); see oracle.h. */
#include "bench/gate/oracle_parts.h"

#include "common/base/grow.h"
#include "common/comm/sum_order.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef ls_oracle oracle;

static float *values_of(const oracle *me, int d)
{
    return me->replays.parameters[d];
}

static ls_range all_of(const oracle *me)
{
    return (ls_range){0, me->replica->elements};
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Memory of the replicas' parameters, of the strategy's own buffers, and of means over peers. */
static ls_status open_values(oracle *me)
{
    const size_t n = (size_t)me->replicas, elements = me->replica->elements;
    const size_t own = (size_t)me->judged_job->update.owned;
    const size_t arrays = n * (1 + own + (me->base.strategy->average.peers != NULL));
    ls_replayed *all = &me->replays;
    LS_TRY(ls_allocate("oracle", &me->values, arrays * elements + 1, sizeof *me->values));
    LS_TRY(ls_allocate("oracle", &all->parameters, arrays, sizeof *all->parameters));
    for (size_t i = 0; i < arrays; i++)
        all->parameters[i] = me->values + i * elements;
    for (size_t i = 0; i < own; i++)
        all->own[i] = all->parameters + (i + 1) * n;
    me->mixed = me->values + n * (1 + own) * elements;
    return LS_OK;
}

static const float *mean_of(const ls_replayed *all);

ls_status ls_oracle_alone_open(oracle *me)
{
    const ls_strategy *of = me->base.strategy;
    bool has[LS_JOB_REPLICAS]; /* parameters, also of a replica whose slice is empty */
    memset(has, true, sizeof has);
    me->replays = (ls_replayed){.job = me->judged_job, .replicas = me->replicas, .mean = mean_of};
    LS_TRY(ls_allocate("oracle", &me->states, (size_t)me->replicas, sizeof *me->states));
    LS_TRY(open_values(me));
    return ls_strategy_reduces(of) && !of->average.peers
               ? ls_oracle_order(me, has, me->replicas, LS_FULL)
               : LS_OK;
}

void ls_oracle_alone_close(oracle *me)
{
    for (int d = 0; me->states && d < me->replicas; d++)
        ls_carried_close(&me->states[d]);
    free(me->states);
    free(me->replays.parameters);
    free(me->values);
}

/* ---- A replica's part of a step -------------------------------------------------------------- */

ls_status ls_oracle_take(oracle *me, int d)
{
    me->states[d].gives = true;
    me->states[d].at = 0;
    return ls_replica_keep(me->replica, &me->states[d]);
}

ls_status ls_oracle_give_back(oracle *me, int d)
{
    ls_replica *r = me->replica;
    me->states[d].gives = false;
    me->states[d].count = 0;
    LS_TRY(ls_replica_keep(r, &me->states[d]));
    for (int i = 0; i < me->judged_job->update.owned; i++)
        LS_TRY(ls_queue_read(r->queue, me->replays.own[i][d], r->updated.state[LS_ARRAYS + i],
                             r->elements * sizeof(float)));
    return ls_replica_gather(r, LS_VALUES, all_of(me), values_of(me, d));
}

/* A replica without samples does not update. */
static ls_status train(oracle *me, int batch_kind, int d)
{
    ls_replica *r = me->replica;
    const int pieces = me->count / me->replicas;
    ls_order_step add = {.begins = true, .count = r->elements};
    for (int i = d * pieces; i < (d + 1) * pieces; i++) {
        if (!me->has[batch_kind][i])
            continue;
        if (add.begins)
            LS_TRY(ls_oracle_take(me, d));
        LS_TRY(ls_oracle_slice(me, batch_kind, i));
        LS_TRY(ls_oracle_add(me, &add, &add + 1));
        add.begins = false;
    }
    if (add.begins)
        return LS_OK;
    LS_TRY(ls_queue_write(r->queue, r->gradients, me->sums[0], r->elements * sizeof(float)));
    LS_TRY(ls_op_list_enqueue(&me->update, r->queue));
    return ls_oracle_give_back(me, d);
}

static ls_status finish(oracle *me, int batch_kind, int d)
{
    ls_replica *r = me->replica;
    uint64_t mark_ns;
    LS_TRY(ls_oracle_take(me, d));
    LS_TRY(ls_replica_put(r, all_of(me), values_of(me, d)));
    for (int i = 0; i < me->judged_job->update.owned; i++)
        LS_TRY(ls_queue_write(r->queue, r->updated.state[LS_ARRAYS + i], me->replays.own[i][d],
                              r->elements * sizeof(float)));
    LS_TRY(ls_op_list_enqueue(&me->finish[batch_kind], r->queue));
    if (d == 0) { /* has weight decay's part of the loss */
        LS_TRY(ls_replica_records(r, me->at, 1, &me->latest, &mark_ns));
        me->latest.loss = ls_oracle_loss(me, batch_kind);
        LS_TRY(ls_replica_add_decay(r, me->at, 1, &me->latest));
    }
    return ls_oracle_give_back(me, d);
}

/* ---- What replicas exchange ------------------------------------------------------------------ */
/* On a thread of the device, which flushes denormals, as replicas' sums do. */

static void sum(const oracle *me)
{
    const ls_sum_order *order = &me->order[LS_FULL];
    for (size_t i = 0; i < order->count; i++) {
        const int d = order->steps[i].input;
        ls_order_step_take(&order->steps[i], d >= 0 ? values_of(me, d) : NULL, me->sums);
    }
}

/* Divides a sum of so many replicas' parameters. */
static void divide(const oracle *me, float *values, int count)
{
    const float factor = (float)(1.0 / count);
    for (size_t i = 0; i < me->replica->elements; i++)
        values[i] = factor * values[i];
}

static ls_status average(void *context)
{
    const oracle *me = context;
    sum(me);
    divide(me, me->sums[0], me->replicas);
    return LS_OK;
}

/* Means of each replica and its peers, summed in the order of their numbers. */
static ls_status average_peers(void *context)
{
    const oracle *me = context;
    const size_t elements = me->replica->elements;
    int peers[LS_JOB_REPLICAS];
    for (int d = 0; d < me->replicas; d++) {
        float *to = me->mixed + (size_t)d * elements;
        const int count = me->base.strategy->average.peers(d, me->replicas, peers);
        ls_order_step step = {.begins = true, .count = elements};
        for (int other = 0; other < me->replicas; other++) {
            bool in = other == d;
            for (int i = 0; i < count; i++)
                in |= peers[i] == other;
            if (!in)
                continue;
            ls_order_step_take(&step, values_of(me, other), &to);
            step.begins = false;
        }
        divide(me, to, count + 1);
    }
    memcpy(me->values, me->mixed, (size_t)me->replicas * elements * sizeof *me->values);
    return LS_OK;
}

/* Sets all replicas' parameters to their mean. */
static ls_status average_all(oracle *me)
{
    const size_t elements = me->replica->elements;
    const float *mean = me->given ? me->given : me->sums[0];
    for (size_t i = 0; i < elements && me->given; i++) {
        double all = 0;
        for (int d = 0; d < me->replicas; d++)
            all += (double)values_of(me, d)[i];
        me->wide[i] = (float)(all / me->replicas);
    }
    if (!me->given)
        LS_TRY(ls_device_call(me->replica->device, average, me));
    for (int d = 0; d < me->replicas; d++)
        memcpy(values_of(me, d), mean, elements * sizeof *mean);
    return LS_OK;
}

/* ---- A wire's rounding by its definition ----------------------------------------------------- */
/* bf16 by the distance to its two neighbours, int8 row by row, in float32 (common/comm/comm_wire.h
 * has both in other words). */

enum { ROW = 512 };

/* What arrives of a row that is sent. */
static void send_row(ls_wire_form wire, float *x, size_t count)
{
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite = finite && isfinite(x[i]);
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    const float scale = finite ? largest / 127 : NAN;
    for (size_t i = 0; i < count; i++)
        x[i] = wire == LS_WIRE_BF16          ? ls_nearest_bf16(x[i])
               : scale > 0                   ? (float)(int)rintf(x[i] / scale) * scale
               : finite /* a row of zeros */ ? 0
                                             : NAN;
}

static void mean_row(const ls_replayed *all, size_t first, size_t count, float *mean)
{
    float sent[ROW];
    for (int r = 0; r < all->replicas; r++) {
        memcpy(sent, all->parameters[r] + first, count * sizeof *sent);
        send_row(all->job->exchange.wire, sent, count);
        for (size_t i = 0; i < count; i++)
            mean[first + i] = r ? mean[first + i] + sent[i] : sent[i];
    }
    for (size_t i = 0; i < count; i++)
        mean[first + i] = mean[first + i] / (float)all->replicas;
    send_row(all->job->exchange.wire, mean + first, count);
}

/* ---- The step -------------------------------------------------------------------------------- */

static const float *mean_of(const ls_replayed *all)
{
    const oracle *me = (const oracle *)((const char *)all - offsetof(oracle, replays));
    const ls_variables *variables = &all->job->model->graph->variables;
    const size_t first = all->due.first, end = first + all->due.count;
    float *mean = me->sums[0];
    if (!all->job->exchange.wire)
        sum(me);
    for (size_t i = first; i < end && !all->job->exchange.wire; i++)
        mean[i] = mean[i] / (float)me->replicas;
    for (size_t v = 0; v < variables->count && all->job->exchange.wire; v++) {
        const ls_variable *one = &variables->items[v];
        for (size_t at = 0; at < one->count && one->offset >= first && one->offset < end; at += ROW)
            mean_row(all, one->offset + at, one->count - at < ROW ? one->count - at : ROW, mean);
    }
    return mean;
}

/* On a thread of the device: what the strategy's own exchange does. */
static ls_status run_exchange(void *context)
{
    oracle *me = context;
    me->base.strategy->witness.exchange(&me->replays);
    return LS_OK;
}

ls_status ls_oracle_alone_step(oracle *me, int batch_kind)
{
    const ls_strategy *of = me->base.strategy;
    ls_device *device = me->replica->device;
    const int fragment = ls_job_fragment(me->judged_job, me->at);
    for (int d = 0; d < me->replicas; d++)
        LS_TRY(train(me, batch_kind, d));
    if (fragment >= 0 && me->judged_job->update.owned) {
        me->replays.due = ls_job_fragment_range(me->judged_job, fragment);
        LS_TRY(ls_device_call(device, run_exchange, me));
    } else if (fragment >= 0 && of->average.peers) {
        LS_TRY(ls_device_call(device, average_peers, me));
    } else if (fragment >= 0 && ls_strategy_reduces(of)) {
        LS_TRY(average_all(me));
    }
    for (int d = 0; d < me->replicas; d++)
        LS_TRY(finish(me, batch_kind, d));
    return LS_OK;
}
