/* SPDX-License-Identifier: MIT */
/* Replicas that update alone, in sequence on one device, which takes each replica's state in turn
 * (carried.h); see replay.h. */
#include "bench/gate/replay.h"

#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "impl/carried.h"
#include "impl/replica/replicas.h"
#include "impl/test_pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct replay {
    ls_run base;
    const ls_strategy *of;
    const ls_job *judged_job;
    int count;  /* n: number of replicas */
    int pieces; /* of each replica's slice */
    size_t elements;
    ls_replica *replica;
    ls_slice **slices[LS_BATCHES]; /* [n, pieces]; the largest one owns the memory */
    ls_op_list update, finish[LS_BATCHES];
    ls_carried *states; /* [n] */
    float *values;      /* [n, elements] parameters after the latest step */
    float *mixed;       /* [n, elements] means over replicas and their peers; NULL means no peers */
    double *losses;     /* [n] of the latest step's slices */
    float *gradient;    /* [2, elements] of the pieces so far, and of one */
    const double **parts;       /* [n] into `losses` */
    ls_sum_order order;         /* of the mean's sum; unset if only a library knows it */
    float **sums;               /* [order.sums, elements] */
    float **parameters;         /* [n] into `values` */
    float **own[LS_OWNED_MOST]; /* [n] of the strategy's own buffers; NULL if it has fewer */
    float *owned;               /* memory of `own` */
    const float *given;         /* [elements] or NULL */
    float *wide;                /* [elements] */
    uint64_t at;                /* number of the next step */
    ls_step_record latest;
} replay;

static float *values_of(const replay *me, int d)
{
    return me->values + (size_t)d * me->elements;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static ls_status open_slices(replay *me, int batch_kind)
{
    const int64_t batch = ls_replicated_batch(me->base.job, batch_kind);
    const int all = me->count * me->pieces;
    LS_TRY(ls_allocate("replay", &me->slices[batch_kind], (size_t)all, sizeof(ls_slice *)));
    /* Pieces differ by at most one row, and none is larger than the last. With own means a piece
     * divides its sums by its replica's samples; pieces of an empty slice are not computed. */
    const bool own = me->base.job->update.own_mean;
    for (int i = all; i-- > 0 && batch;) {
        const int d = i / me->pieces;
        const int64_t first = own ? d * batch / me->count : 0;
        const ls_slice_options options = {.replica = me->replica,
                                          .batch = batch,
                                          .number = i,
                                          .count = all,
                                          .divisor =
                                              own ? (d + 1) * batch / me->count - first : batch,
                                          .divided = first,
                                          .memory_of = me->slices[LS_FULL][all - 1]};
        LS_TRY(ls_slice_open(&options, &me->slices[batch_kind][i]));
    }
    return batch ? ls_replica_finish(me->replica, batch, &me->finish[batch_kind]) : LS_OK;
}

/* Memory of the strategy's own buffers, of all replicas. */
static ls_status open_own(replay *me)
{
    const size_t n = (size_t)me->count, buffers = (size_t)me->judged_job->update.owned;
    LS_TRY(ls_allocate("replay", &me->parameters, n, sizeof *me->parameters));
    LS_TRY(ls_allocate("replay", &me->owned, buffers * n * me->elements + 1, sizeof *me->owned));
    for (size_t d = 0; d < n; d++)
        me->parameters[d] = values_of(me, (int)d);
    for (size_t i = 0; i < buffers; i++) {
        LS_TRY(ls_allocate("replay", &me->own[i], n, sizeof *me->own[i]));
        for (size_t d = 0; d < n; d++)
            me->own[i][d] = me->owned + (i * n + d) * me->elements;
    }
    return LS_OK;
}

static ls_status open_mean(replay *me)
{
    bool has[LS_JOB_REPLICAS];
    if (me->of->average.peers)
        return ls_allocate("replay", &me->mixed, (size_t)me->count * me->elements + 1,
                           sizeof *me->mixed);
    if (!ls_strategy_reduces(me->of))
        return LS_OK;
    for (int d = 0; d < me->count; d++)
        has[d] = true; /* parameters, also of a replica whose slice is empty */
    if (!me->judged_job->exchange.allreduce->oracle)
        return LS_OK;
    LS_TRY(me->of->witness.sum(me->judged_job, has, me->count, &me->order));
    LS_TRY(ls_sum_order_sort(&me->order));
    LS_TRY(ls_allocate("replay", &me->sums, (size_t)me->order.sums, sizeof *me->sums));
    for (int s = 0; s < me->order.sums; s++)
        LS_TRY(ls_allocate("replay", &me->sums[s], me->elements + 1, sizeof **me->sums));
    return LS_OK;
}

static ls_status open_parts(replay *me)
{
    const ls_job *job = me->base.job;
    const size_t n = (size_t)me->count;
    const ls_replica like = {.job = job,
                             .device = job->devices[0],
                             .updates = true,
                             .updated.owns = me->of->owns,
                             .data.rows = job->batch,
                             .loss.sums = 1};
    LS_TRY(ls_replica_open(&like, &me->replica));
    me->elements = me->replica->elements;
    LS_TRY(open_slices(me, LS_FULL));
    LS_TRY(open_slices(me, LS_TAIL));
    LS_TRY(ls_allocate("replay", &me->states, n, sizeof *me->states));
    LS_TRY(ls_allocate("replay", &me->values, n * me->elements + 1, sizeof *me->values));
    LS_TRY(ls_allocate("replay", &me->losses, n, sizeof *me->losses));
    LS_TRY(ls_allocate("replay", &me->gradient, 2 * me->elements + 1, sizeof *me->gradient));
    LS_TRY(ls_allocate("replay", &me->parts, n, sizeof *me->parts));
    LS_TRY(ls_allocate("replay", &me->wide, me->elements + 1, sizeof *me->wide));
    for (size_t d = 0; d < n; d++)
        me->parts[d] = &me->losses[d];
    LS_TRY(open_mean(me));
    LS_TRY(open_own(me));
    LS_TRY(ls_replica_clip_all(me->replica, LS_DECAY_TO_ADD, &me->update));
    return ls_replica_update(me->replica, (ls_range){0, me->elements}, LS_DECAY_TO_ADD,
                             &me->update);
}

/* ---- The step -------------------------------------------------------------------------------- */

/* The device takes a replica's state, or gives it back. */
static ls_status take(replay *me, int d)
{
    me->states[d].gives = true;
    me->states[d].at = 0;
    return ls_replica_keep(me->replica, &me->states[d]);
}

static ls_status give_back(replay *me, int d)
{
    me->states[d].gives = false;
    me->states[d].count = 0;
    LS_TRY(ls_replica_keep(me->replica, &me->states[d]));
    for (int i = 0; i < LS_OWNED_MOST && me->own[i]; i++)
        LS_TRY(ls_queue_read(me->replica->queue, me->own[i][d],
                             me->replica->updated.state[LS_ARRAYS + i],
                             me->elements * sizeof(float)));
    return ls_replica_gather(me->replica, LS_VALUES, (ls_range){0, me->elements}, values_of(me, d));
}

/* On a thread of the device: adds a piece's gradient to the sum of earlier ones. */
static ls_status add_piece(void *context)
{
    const replay *me = context;
    const ls_order_step step = {.count = me->elements};
    ls_order_step_take(&step, me->gradient + me->elements, (float *const[]){me->gradient});
    return LS_OK;
}

/* A replica without samples does not update. */
static ls_status train(replay *me, int batch_kind, int d)
{
    ls_replica *r = me->replica;
    bool any = false;
    me->losses[d] = 0;
    for (int i = d * me->pieces; i < (d + 1) * me->pieces; i++) {
        double loss;
        if (!ls_slice_sums(me->slices[batch_kind][i], 0))
            continue;
        if (!any)
            LS_TRY(take(me, d));
        LS_TRY(ls_slice_enqueue(me->slices[batch_kind][i]));
        LS_TRY(ls_queue_read(r->queue, &loss, r->loss.parts, sizeof loss));
        me->losses[d] = any ? me->losses[d] + loss : loss;
        if (me->pieces > 1) { /* the gradient is summed on the host */
            LS_TRY(ls_queue_read(r->queue, me->gradient + (any ? me->elements : 0), r->gradients,
                                 me->elements * sizeof *me->gradient));
            LS_TRY(any ? ls_device_call(r->device, add_piece, me) : LS_OK);
        }
        any = true;
    }
    if (!any)
        return LS_OK;
    if (me->pieces > 1)
        LS_TRY(ls_queue_write(r->queue, r->gradients, me->gradient,
                              me->elements * sizeof *me->gradient));
    LS_TRY(ls_op_list_enqueue(&me->update, r->queue));
    return give_back(me, d);
}

/* On a thread of the device, which flushes denormals, as replicas' sums do. */
static ls_status sum(void *context)
{
    replay *me = context;
    for (size_t i = 0; i < me->order.count; i++) {
        const ls_order_step *s = &me->order.steps[i];
        ls_order_step_take(s, s->input >= 0 ? values_of(me, s->input) : NULL, me->sums);
    }
    return LS_OK;
}

/* On a thread of the device: divides a sum of so many replicas' parameters. */
static void divide(const replay *me, float *values, int count)
{
    const float factor = (float)(1.0 / count);
    for (size_t i = 0; i < me->elements; i++)
        values[i] = factor * values[i];
}

static ls_status average(void *context)
{
    replay *me = context;
    LS_TRY(sum(me));
    divide(me, me->sums[0], me->count);
    return LS_OK;
}

/* On a thread of the device: means of each replica and its peers, summed in the order of their
 * numbers. */
static ls_status average_peers(void *context)
{
    replay *me = context;
    int peers[LS_JOB_REPLICAS];
    for (int d = 0; d < me->count; d++) {
        float *to = me->mixed + (size_t)d * me->elements;
        const int count = me->of->average.peers(d, me->count, peers);
        bool in[LS_JOB_REPLICAS] = {[0] = false};
        ls_order_step step = {.begins = true, .count = me->elements};
        in[d] = true;
        for (int i = 0; i < count; i++)
            in[peers[i]] = true;
        for (int other = 0; other < me->count; other++) {
            if (!in[other])
                continue;
            ls_order_step_take(&step, values_of(me, other), &to);
            step.begins = false;
        }
        divide(me, to, count + 1);
    }
    memcpy(me->values, me->mixed, (size_t)me->count * me->elements * sizeof *me->values);
    return LS_OK;
}

typedef struct exchange {
    ls_replayed base;
    replay *me;
} exchange;

static const float *mean_of(const ls_replayed *all)
{
    replay *me = ((const exchange *)all)->me;
    const size_t end = all->due.first + all->due.count;
    if (me->judged_job->exchange.wire) {
        ls_replay_wired_mean(all, me->sums[0]);
        return me->sums[0];
    }
    ls_status_free(sum(me)); /* cannot fail */
    for (size_t i = all->due.first; i < end; i++)
        me->sums[0][i] = me->sums[0][i] / (float)me->count;
    return me->sums[0];
}

/* On a thread of the device: what the strategy's own exchange does. */
static ls_status run_exchange(void *context)
{
    replay *me = context;
    const int fragment = ls_job_fragment(me->judged_job, me->at);
    exchange all = {{.job = me->judged_job,
                     .replicas = me->count,
                     .due = ls_job_fragment_range(me->judged_job, fragment),
                     .parameters = me->parameters,
                     .mean = mean_of},
                    me};
    memcpy(all.base.own, me->own, sizeof me->own);
    me->of->witness.exchange(&all.base);
    return LS_OK;
}

/* Sets all replicas' parameters to their mean. */
static ls_status average_all(replay *me)
{
    const size_t bytes = me->elements * sizeof *me->values;
    const float *mean = me->given;
    if (mean) {
        for (size_t i = 0; i < me->elements; i++) {
            double sum = 0;
            for (int d = 0; d < me->count; d++)
                sum += (double)values_of(me, d)[i];
            me->wide[i] = (float)(sum / me->count);
        }
    } else {
        LS_TRY(ls_device_call(me->replica->device, average, me));
        mean = me->sums[0];
    }
    for (int d = 0; d < me->count; d++)
        memcpy(values_of(me, d), mean, bytes);
    return LS_OK;
}

static ls_status finish(replay *me, int batch_kind, int d)
{
    ls_replica *r = me->replica;
    uint64_t mark_ns;
    LS_TRY(take(me, d));
    LS_TRY(ls_replica_put(r, (ls_range){0, me->elements}, values_of(me, d)));
    for (int i = 0; i < LS_OWNED_MOST && me->own[i]; i++)
        LS_TRY(ls_queue_write(r->queue, r->updated.state[LS_ARRAYS + i], me->own[i][d],
                              me->elements * sizeof(float)));
    LS_TRY(ls_op_list_enqueue(&me->finish[batch_kind], r->queue));
    if (d == 0) { /* has weight decay's part of the loss */
        LS_TRY(ls_replica_records(r, me->at, 1, &me->latest, &mark_ns));
        me->latest.loss = ls_slice_loss_sum(
            me->base.job, ls_replicated_batch(me->base.job, batch_kind), me->parts, me->count);
        LS_TRY(ls_replica_add_decay(r, me->at, 1, &me->latest));
    }
    return give_back(me, d);
}

static ls_status one_step(replay *me, int batch_kind)
{
    const bool averages = ls_job_fragment(me->judged_job, me->at) >= 0;
    for (int d = 0; d < me->count; d++)
        LS_TRY(train(me, batch_kind, d));
    if (averages && me->judged_job->update.owned) {
        LS_TRY(ls_device_call(me->replica->device, run_exchange, me));
    } else if (averages && me->of->average.peers) {
        LS_TRY(ls_device_call(me->replica->device, average_peers, me));
    } else if (averages && ls_strategy_reduces(me->of)) {
        LS_TRY(average_all(me));
    }
    for (int d = 0; d < me->count; d++)
        LS_TRY(finish(me, batch_kind, d));
    me->at++;
    return LS_OK;
}

static ls_status step(ls_run *run, ls_batch_kind kind, uint64_t times)
{
    for (; times; times--)
        LS_TRY(one_step((replay *)run, (int)kind));
    return LS_OK;
}

/* ---- The rest of a run ----------------------------------------------------------------------- */

static ls_status load(ls_run *run, const ls_state_source *source)
{
    replay *me = (replay *)run;
    LS_TRY(ls_replicas_load(&me->replica, 1, source));
    for (int d = 0; d < me->count; d++)
        LS_TRY(give_back(me, d));
    me->at = run->job->start;
    return LS_OK;
}

static ls_status sync(ls_run *run)
{
    return ls_queue_sync(((replay *)run)->replica->queue);
}

static ls_status records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns)
{
    const replay *me = (const replay *)run;
    if (count != 1 || first + 1 != me->at)
        return ls_fail(
            LS_CODE_USAGE, "replay", "records",
            "only the latest step's records (who exchanged with whom) are kept, so the records of "
            "this step are deleted; the C code must read them before the next step");
    *out = me->latest;
    *mark_ns = 0;
    return LS_OK;
}

static ls_status gather_replica(ls_run *run, int index, ls_range block, float *out)
{
    const replay *me = (const replay *)run;
    memcpy(out, values_of(me, index) + block.first, block.count * sizeof *out);
    return LS_OK;
}

static ls_status state(ls_run *run, ls_values array, ls_range block, float *out)
{
    (void)array;
    return gather_replica(run, 0, block, out);
}

/* The first replica's variables, each replica's part of the samples by its net. */
static ls_status evaluate(ls_run *run, const ls_evaluating *how, ls_evaluation *out)
{
    replay *me = (replay *)run;
    const uint64_t samples = ls_test_samples(me->base.job, how);
    const uint64_t rows = (uint64_t)ls_replicated_first_rows(me->judged_job);
    LS_TRY(take(me, 0));
    *out = (ls_evaluation){.accuracy = -1};
    for (int d = 0; d < me->count && !out->stopped; d++) {
        ls_evaluation part;
        ls_tester tester = {
            .parts = &(ls_tested){me->replica,
                                  ls_slice_piece_net(me->slices[LS_FULL][d * me->pieces], 0), true,
                                  NULL, 0},
            .count = 1};
        const ls_test_pass pass = {.testers = &tester,
                                   .count = 1,
                                   .lent = &me->replica,
                                   .lent_count = 1,
                                   .rounds = ls_test_rounds(samples, rows, me->count)};
        ls_test_share(samples, rows, d, me->count, &tester);
        LS_TRY(ls_test_pass_run(&pass, me->base.job, how, &part));
        ls_evaluation_add(&part, out);
    }
    return LS_OK;
}

static void close_run(ls_run *run)
{
    replay *me = (replay *)run;
    ls_op_list_clear(&me->update);
    for (int b = LS_BATCHES; b-- > 0;) {
        ls_op_list_clear(&me->finish[b]);
        for (int d = 0; me->slices[b] && d < me->count * me->pieces;
             d++) /* the owner of the memory last */
            ls_slice_close(me->slices[b][d]);
        free(me->slices[b]);
    }
    ls_replica_close(me->replica);
    for (int d = 0; me->states && d < me->count; d++)
        ls_carried_close(&me->states[d]);
    for (int s = 0; me->sums && s < me->order.sums; s++)
        free(me->sums[s]);
    ls_sum_order_close(&me->order);
    free(me->sums);
    for (int i = 0; i < LS_OWNED_MOST; i++)
        free(me->own[i]);
    free(me->owned);
    free(me->parameters);
    free(me->states);
    free(me->mixed);
    free(me->values);
    free(me->losses);
    free(me->gradient);
    free(me->parts);
    free(me->wide);
    free(me);
}

static const ls_run_functions replay_run = {
    .load = load,
    .step = step,
    .sync = sync,
    .mark = sync, /* nothing is timed */
    .records = records,
    .state = state,
    .gather_replica = gather_replica,
    .evaluate = evaluate,
    .close = close_run,
};

ls_status ls_replay_open(const ls_strategy *strategy, const ls_job *of, const ls_job *job,
                         ls_run **out)
{
    replay *me;
    LS_TRY(ls_allocate("replay", &me, 1, sizeof *me));
    *me = (replay){.base = {&replay_run, strategy, job},
                   .of = strategy,
                   .judged_job = of,
                   .count = ls_job_replicas(of),
                   .pieces = ls_job_pieces(of)};
    ls_status status = open_parts(me);
    if (status)
        close_run(&me->base);
    else
        *out = &me->base;
    return status;
}

void ls_replay_give(ls_run *run, const float *mean)
{
    ((replay *)run)->given = mean;
}

const float *ls_replay_wide_mean(const ls_run *run)
{
    return ((const replay *)run)->wide;
}
