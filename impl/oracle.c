/* SPDX-License-Identifier: MIT */
/* Oracle: slices in sequence, sums on the host in the strategy's order; see oracle.h. */
#include "impl/oracle.h"

#include "impl/replicas.h"

#include <stdlib.h>
#include <string.h>

typedef struct oracle {
    ls_run base; /* its strategy's entries are this file's */
    const ls_strategy *of;
    const ls_job *its_job;
    int count; /* n: parts */
    ls_replica *replica;
    ls_slice **slices[LS_BATCHES]; /* [n]; the largest holds the memory of all. Where replicas add
                                      batch statistics up: one of n pieces, the others NULL */
    ls_op_list update, apply; /* `apply`: of a gradient that was given, with weight decay in it */
    ls_op_list finish[LS_BATCHES];
    float *parts;       /* [n, P] each slice's gradient */
    const float **each; /* [n] into parts; NULL: an empty slice */
    double *losses;     /* [n] each slice's */
    float *gradient;    /* [P] */
    const float *given; /* [P] or NULL */
    bool widely;        /* the float64 sum is what a step updates by */
    float *wide;        /* [P] that sum, where one of these is so */
} oracle;

static ls_status open_together(oracle *me, int which)
{
    const int64_t batch = ls_replicated_batch(me->base.job, which);
    const ls_slice_options options = {.replica = me->replica,
                                      .batch = batch,
                                      .count = 1,
                                      .pieces = me->count,
                                      .together = true,
                                      .apart = true,
                                      .memory_of = me->slices[LS_FULL][0]};
    LS_TRY(ls_slice_open(&options, &me->slices[which][0]));
    return ls_replica_finish(me->replica, batch, &me->finish[which]);
}

static ls_status open_slices(oracle *me, int which)
{
    const ls_job *job = me->base.job;
    me->slices[which] = calloc((size_t)me->count, sizeof(ls_slice *));
    if (!me->slices[which])
        return ls_fail_memory("oracle", (size_t)me->count * sizeof(ls_slice *));
    if (!ls_replicated_batch(job, which))
        return LS_OK;
    if (job->sync_statistics)
        return open_together(me, which);
    /* Slices differ by one row at most and the last one is never the smaller. */
    for (int d = me->count; d-- > 0;) {
        const ls_slice_options options = {.replica = me->replica,
                                          .batch = ls_replicated_batch(job, which),
                                          .number = d,
                                          .count = me->count,
                                          .memory_of = me->slices[LS_FULL][me->count - 1]};
        LS_TRY(ls_slice_open(&options, &me->slices[which][d]));
    }
    return ls_replica_finish(me->replica, ls_replicated_batch(job, which), &me->finish[which]);
}

static ls_status open_parts(oracle *me)
{
    const ls_job *job = me->base.job;
    const ls_replica_options place = {
        .job = job, .device = job->devices[0], .rows = job->batch, .sums = 1};
    size_t elements = job->model->graph->variables.elements, n = (size_t)me->count;
    me->parts = calloc(n * elements + 1, sizeof *me->parts);
    me->each = calloc(n, sizeof *me->each);
    me->losses = calloc(n, sizeof *me->losses);
    me->gradient = calloc(elements + 1, sizeof *me->gradient);
    me->wide = calloc(elements + 1, sizeof *me->wide);
    if (!me->parts || !me->each || !me->losses || !me->gradient || !me->wide)
        return ls_fail_memory("oracle", n * elements * sizeof *me->parts);
    LS_TRY(ls_replica_open(&place, &me->replica));
    LS_TRY(open_slices(me, LS_FULL));
    LS_TRY(open_slices(me, LS_TAIL));
    LS_TRY(ls_replica_apply(me->replica, 0, elements, &me->apply));
    return ls_replica_update(me->replica, 0, elements, &me->update);
}

/* ---- The step ------------------------------------------------------------------------------- */

/* Each replica's parts in order, then the replicas'. */
static double sum_losses(const oracle *me)
{
    const int replicas = ls_job_replicas(me->its_job), each = me->count / replicas;
    double all = 0;
    bool any = false;
    for (int d = 0; d < replicas; d++) {
        double mine = 0;
        bool some = false;
        for (int i = d * each; i < (d + 1) * each; i++) {
            if (!me->each[i])
                continue;
            mine = some ? mine + me->losses[i] : me->losses[i];
            some = true;
        }
        if (some)
            all = any ? all + mine : mine;
        any |= some;
    }
    return all;
}

/* Every slice's gradient and part of the loss. */
static ls_status run_slices(oracle *me, int which)
{
    ls_replica *r = me->replica;
    const ls_slice *all = r->job->sync_statistics ? me->slices[which][0] : NULL;
    size_t taken = 0;
    if (all)
        LS_TRY(ls_slice_put(me->slices[which][0], NULL, NULL));
    for (int d = 0; d < me->count; d++) {
        ls_slice *slice = me->slices[which][d];
        const void *gradients = r->gradients;
        const double *its_loss = r->loss;
        float *part = me->parts + (size_t)d * r->elements;
        me->each[d] = NULL;
        if (all ? !ls_slice_count_sums(r->job, ls_replicated_batch(r->job, which), d, me->count)
                : !ls_slice_sums(slice))
            continue;
        if (all) {
            gradients = ls_slice_gradients(all, taken);
            its_loss = ls_slice_loss(all, taken++);
        } else {
            LS_TRY(ls_slice_put(slice, NULL, NULL));
        }
        LS_TRY(ls_queue_read(r->queue, part, gradients, r->elements * sizeof *part));
        LS_TRY(ls_queue_read(r->queue, &me->losses[d], its_loss, sizeof *me->losses));
        me->each[d] = part;
    }
    return LS_OK;
}

/* The sum as nearly as it can be told. */
static void sum_widely(oracle *me)
{
    for (size_t i = 0; i < me->replica->elements; i++) {
        double sum = 0;
        for (int d = 0; d < me->count; d++)
            sum += me->each[d] ? (double)me->each[d][i] : 0;
        me->wide[i] = (float)sum;
    }
}

/* What was given has weight decay in it, of the parameters before the update: so gets the sum. */
static ls_status add_decay(oracle *me)
{
    const ls_variables *variables = &me->replica->graph->variables;
    const size_t bytes = me->replica->elements * sizeof(float);
    float *values = malloc(bytes + 1);
    if (!values)
        return ls_fail_memory("oracle", bytes);
    ls_status status = ls_queue_read(me->replica->queue, values, me->replica->parameters, bytes);
    for (size_t i = 0; i < variables->count && !status; i++) {
        const ls_variable *v = &variables->items[i];
        for (size_t k = v->offset; k < v->offset + v->count && v->decay != 0; k++)
            me->wide[k] += (float)(v->decay * (double)values[k]);
    }
    free(values);
    return status;
}

/* The gradient that a step updates by. */
static ls_status take_gradient(oracle *me)
{
    const size_t bytes = me->replica->elements * sizeof *me->gradient;
    if (!me->given && !me->widely)
        return me->of->sum(me->its_job, me->each, me->count, me->gradient);
    sum_widely(me);
    memcpy(me->gradient, me->given ? me->given : me->wide, bytes);
    return me->given ? add_decay(me) : LS_OK;
}

static ls_status one_step(oracle *me, int which)
{
    ls_replica *r = me->replica;
    LS_TRY(run_slices(me, which));
    const double loss = sum_losses(me);
    LS_TRY(take_gradient(me));
    LS_TRY(ls_queue_write(r->queue, r->gradients, me->gradient, r->elements * sizeof(float)));
    LS_TRY(ls_queue_write(r->queue, r->loss, &loss, sizeof loss));
    LS_TRY(ls_op_list_put(me->given ? &me->apply : &me->update, r->queue));
    LS_TRY(ls_op_list_put(&me->finish[which], r->queue));
    /* With what decay added to it. */
    return ls_queue_read(r->queue, me->gradient, r->gradients, r->elements * sizeof(float));
}

static ls_status step(ls_run *run, bool tail, uint64_t times)
{
    for (; times; times--)
        LS_TRY(one_step((oracle *)run, tail ? LS_TAIL : LS_FULL));
    return LS_OK;
}

/* ---- The rest of a run ---------------------------------------------------------------------- */

static ls_status load(ls_run *run, const float *parameters)
{
    return ls_replica_load(((oracle *)run)->replica, parameters);
}

static ls_status sync(ls_run *run)
{
    return ls_queue_sync(((oracle *)run)->replica->queue);
}

static ls_status records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                         uint64_t *mark_ns)
{
    ls_replica *r = ((oracle *)run)->replica;
    LS_TRY(ls_replica_records(r, first, count, out, mark_ns));
    return ls_replica_add_decay(r, first, count, out);
}

static ls_status gather(ls_run *run, float *parameters)
{
    return ls_replica_gather(((oracle *)run)->replica, parameters);
}

/* With the net that the first replica has for its first piece. */
static ls_status evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    oracle *me = (oracle *)run;
    ls_net *net = NULL;
    for (int d = 0; d < me->count && !net; d++)
        net = me->slices[LS_FULL][d] ? ls_slice_net(me->slices[LS_FULL][d]) : NULL;
    LS_TRY(ls_replica_average_in(me->replica));
    ls_status status = ls_replica_evaluate(me->replica, net, most, out);
    return ls_status_first(status, ls_replica_average_out(me->replica));
}

static void close_run(ls_run *run)
{
    oracle *me = (oracle *)run;
    ls_op_list_clear(&me->update);
    ls_op_list_clear(&me->apply);
    for (int b = LS_BATCHES; b-- > 0;) {
        ls_op_list_clear(&me->finish[b]);
        for (int d = 0; me->slices[b] && d < me->count; d++) /* the memory's holder last */
            ls_slice_close(me->slices[b][d]);
        free(me->slices[b]);
    }
    ls_replica_close(me->replica);
    free(me->parts);
    free(me->each);
    free(me->losses);
    free(me->gradient);
    free(me->wide);
    free(me);
}

static const ls_strategy entries = {
    .name = "oracle",
    .help = "a strategy's sums, replayed in sequence",
    .load = load,
    .step = step,
    .sync = sync,
    .mark = sync, /* nothing is timed */
    .records = records,
    .gather = gather,
    .evaluate = evaluate,
    .close = close_run,
};

ls_status ls_oracle_open(const ls_strategy *strategy, const ls_job *of, const ls_job *job,
                         ls_run **out)
{
    oracle *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("oracle", sizeof *me);
    *me =
        (oracle){.base = {&entries, job}, .of = strategy, .its_job = of, .count = ls_job_parts(of)};
    ls_status status = open_parts(me);
    if (status)
        close_run(&me->base);
    else
        *out = &me->base;
    return status;
}

void ls_oracle_give(ls_run *run, const float *gradient)
{
    ((oracle *)run)->given = gradient;
}

void ls_oracle_widely(ls_run *run)
{
    ((oracle *)run)->given = NULL;
    ((oracle *)run)->widely = true;
}

const float *ls_oracle_wide_sum(const ls_run *run)
{
    return ((const oracle *)run)->wide;
}

const float *ls_oracle_gradient(const ls_run *run)
{
    return ((const oracle *)run)->gradient;
}

ls_status ls_sum_in_order(const ls_job *job, const float *const *parts, int count, float *out)
{
    size_t elements = job->model->graph->variables.elements;
    bool first = true;
    for (int d = 0; d < count; d++) {
        if (!parts[d])
            continue;
        if (first)
            memcpy(out, parts[d], elements * sizeof *out);
        for (size_t i = 0; i < elements && !first; i++)
            out[i] += parts[d][i];
        first = false;
    }
    return LS_OK;
}
