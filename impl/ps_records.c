/* SPDX-License-Identifier: MIT */
/*
 * What the processes of a `ps` run find out together: ends and losses of steps, the parameters,
 * accuracy, traffic. All of them call these; each brings what its own members know. The chief,
 * worker 0, adds weight decay's part to the loss, and evaluates with its net.
 */
#include "impl/ps.h"

#include <stdlib.h>
#include <string.h>

static int processes_of(const ls_job *job)
{
    return job->comm ? job->comm->size : 1;
}

static int process_of_chief(const ls_ps *me)
{
    return me->layout.members[me->layout.worker_rank[0]].process;
}

/* ---- Records -------------------------------------------------------------------------------- */

/*
 * Of each record a process tells END (ns from its latest mark to the last end of its members),
 * DECAY (the chief's), and `parts` numbers for each worker, of which it fills in its own: the parts
 * of its loss; with backup workers, and where workers are by themselves, these.
 */
enum { END, DECAY, LOSSES };
enum { LOSS, OWN_DECAY, TOOK, BACKUP_PARTS }; /* TOOK: whether it took the step at all */
enum { OWN_END = 1, ALONE_PARTS };            /* OWN_END: ns from its process's latest mark */

/** One of the gradients of workers that are by themselves. */
typedef struct gradient {
    double end_ns, loss; /* as told */
    int64_t rows;        /* samples that it is of */
} gradient;

typedef struct reading {
    ls_ps *me;
    uint64_t first, count;
    size_t parts, width;
    uint64_t mark_ns;
    ls_step_record *records; /* [count] of one member */
    uint64_t *ends_ns;       /* [count] */
    double *mine, *all;      /* [count, width], [processes, count, width] */
} reading;

static ls_status read_ends(reading *r, ls_replica *replica)
{
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    for (uint64_t k = 0; k < r->count; k++)
        if (r->records[k].end_ns > r->ends_ns[k])
            r->ends_ns[k] = r->records[k].end_ns;
    return LS_OK;
}

/* It may be behind: a step ends where the servers end it, and began where they did. */
static ls_status read_backup_worker(reading *r, const ls_ps_worker *w)
{
    ls_replica *replica = w->member.replica;
    const size_t place = LOSSES + (size_t)w->place->number * r->parts;
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->mine + k * r->width + place;
        numbers[LOSS] = r->records[k].loss;
        numbers[TOOK] = w->took[(r->first + k) % replica->job->records];
        r->records[k].loss = 0;
    }
    LS_TRY(ls_replica_add_decay(replica, r->first, r->count, r->records));
    for (uint64_t k = 0; k < r->count; k++)
        r->mine[k * r->width + place + OWN_DECAY] = r->records[k].loss;
    return LS_OK;
}

static ls_status read_worker(reading *r, const ls_ps_worker *w)
{
    ls_replica *replica = w->member.replica;
    const size_t place = LOSSES + (size_t)w->place->number * r->parts;
    if (r->me->base.job->ps.backups)
        return read_backup_worker(r, w);
    LS_TRY(read_ends(r, replica));
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->mine + k * r->width;
        numbers[place] = r->records[k].loss;
        if (r->me->base.job->ps.mode != LS_PS_SYNC)
            numbers[place + OWN_END] = (double)r->records[k].end_ns;
        if (replica->sums > 1)
            LS_TRY(ls_replica_more_losses(replica, r->first + k, numbers + place + 1));
        r->records[k].loss = 0;
    }
    LS_TRY(ls_replica_add_decay(replica, r->first, r->count, r->records));
    for (uint64_t k = 0; k < r->count; k++)
        r->mine[k * r->width + DECAY] += r->records[k].loss;
    return LS_OK;
}

static ls_status read_here(reading *r)
{
    for (int i = 0; i < r->me->worker_count; i++)
        LS_TRY(read_worker(r, &r->me->workers[i]));
    const bool alone = r->me->base.job->ps.mode != LS_PS_SYNC; /* a server's records are updates */
    const bool backups = r->me->base.job->ps.backups > 0;
    for (int i = 0; i < r->me->server_count && !alone; i++)
        if (!backups || r->me->servers[i].replica->elements) /* else it is asked for nothing */
            LS_TRY(read_ends(r, r->me->servers[i].replica));
    for (uint64_t k = 0; k < r->count; k++)
        r->mine[k * r->width + END] = (double)(r->ends_ns[k] - r->mark_ns);
    for (int i = 0; i < r->me->worker_count && alone; i++) /* counted from the mark, now known */
        for (uint64_t k = 0; k < r->count; k++)
            r->mine[k * r->width + LOSSES + (size_t)r->me->workers[i].place->number * r->parts +
                    OWN_END] -= (double)r->mark_ns;
    return LS_OK;
}

/* What process `process` tells of record k. */
static const double *told(const reading *r, int process, uint64_t k)
{
    return r->all + ((uint64_t)process * r->count + k) * r->width;
}

/* Of those that took the step, which know the same of weight decay; parts are scaled by the whole
 * batch. */
static double backup_loss(const reading *r, int64_t batch, const double *const *each)
{
    const int64_t workers = r->me->layout.workers;
    double sum = 0, decay = 0;
    int64_t samples = 0;
    for (int64_t w = 0; w < workers; w++) {
        int64_t rows = ls_slice_begin(batch, w + 1, workers) - ls_slice_begin(batch, w, workers);
        if (!rows || each[w][TOOK] == 0)
            continue;
        sum += each[w][LOSS];
        decay = each[w][OWN_DECAY];
        samples += rows;
    }
    return sum * (double)batch / (double)samples + decay;
}

static int64_t batch_at(const reading *r, uint64_t k)
{
    const ls_job *job = r->me->base.job;
    return ls_replicated_batch(job, ls_job_is_tail(job, r->first + k) ? LS_TAIL : LS_FULL);
}

/* What worker `worker` tells of record k. */
static const double *told_by(const reading *r, int worker, uint64_t k)
{
    const ls_ps_layout *l = &r->me->layout;
    return told(r, l->members[l->worker_rank[worker]].process, k) + LOSSES +
           (size_t)worker * r->parts;
}

static void add_up(const reading *r, uint64_t k, ls_step_record *out)
{
    const ls_ps *me = r->me;
    const ls_job *job = me->base.job;
    const double *each[LS_JOB_REPLICAS];
    const int64_t batch = batch_at(r, k);
    double end_ns = 0;
    for (int p = 0; p < processes_of(job); p++)
        end_ns = told(r, p, k)[END] > end_ns ? told(r, p, k)[END] : end_ns;
    for (int w = 0; w < me->layout.workers; w++)
        each[w] = told_by(r, w, k);
    out->end_ns = r->mark_ns + (uint64_t)end_ns;
    out->loss = job->ps.backups ? backup_loss(r, batch, each)
                                : ls_slice_loss_sum(job, batch, each, me->layout.workers);
    out->loss += told(r, process_of_chief(me), k)[DECAY];
}

/* ---- Workers by themselves ------------------------------------------------------------------ */

static int ends_before(const void *a, const void *b)
{
    const gradient *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* All workers' gradients, but for those of no samples. */
static size_t list_gradients(const reading *r, gradient *out)
{
    const int64_t workers = r->me->layout.workers;
    size_t count = 0;
    for (uint64_t k = 0; k < r->count; k++) {
        const int64_t batch = batch_at(r, k);
        for (int64_t w = 0; w < workers; w++) {
            const double *numbers = told_by(r, (int)w, k);
            const int64_t rows =
                ls_slice_begin(batch, w + 1, workers) - ls_slice_begin(batch, w, workers);
            if (rows)
                out[count++] = (gradient){numbers[OWN_END], numbers[LOSS], rows};
        }
    }
    return count;
}

/* A step is as many gradients as it has workers with samples, in the order in which they ended: the
 * first steps are of those that run ahead, the last ones of the slowest. Losses are means over
 * their workers' shares. */
static ls_status add_up_alone(const reading *r, ls_step_record *out)
{
    const int workers = r->me->layout.workers;
    gradient *all = calloc(r->count * (size_t)workers + 1, sizeof *all);
    if (!all)
        return ls_fail_memory("records", r->count * (size_t)workers * sizeof *all);
    qsort(all, list_gradients(r, all), sizeof *all, ends_before);
    const gradient *next = all;
    for (uint64_t k = 0; k < r->count; k++) {
        const int64_t batch = batch_at(r, k), of_step = batch < workers ? batch : workers;
        const gradient *end = next + of_step;
        double sum = of_step == 1 ? next->loss : 0;
        int64_t samples = 0;
        for (; of_step > 1 && next < end; next++) {
            sum += (double)next->rows * next->loss;
            samples += next->rows;
        }
        next = end;
        out[k].end_ns = r->mark_ns + (uint64_t)(end[-1].end_ns > 0 ? end[-1].end_ns : 0);
        out[k].loss =
            (samples ? sum / (double)samples : sum) + told(r, process_of_chief(r->me), k)[DECAY];
    }
    free(all);
    return LS_OK;
}

ls_status ls_ps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                        uint64_t *mark_ns)
{
    ls_ps *me = (ls_ps *)run;
    const size_t processes = (size_t)processes_of(run->job);
    reading r = {.me = me, .first = first, .count = count, .parts = 1};
    if (run->job->ps.backups)
        r.parts = BACKUP_PARTS;
    if (run->job->ps.mode != LS_PS_SYNC)
        r.parts = ALONE_PARTS;
    for (int w = 0; w < me->layout.workers; w++) {
        size_t sums = ls_replicated_sums(run->job, w);
        r.parts = sums > r.parts ? sums : r.parts;
    }
    r.width = LOSSES + (size_t)me->layout.workers * r.parts;
    const size_t numbers = count * r.width + 1;
    r.records = calloc(count + 1, sizeof *r.records);
    r.ends_ns = calloc(count + 1, sizeof *r.ends_ns);
    r.mine = calloc(numbers, sizeof *r.mine);
    r.all = calloc(numbers * processes, sizeof *r.all);
    ls_status status = r.records && r.ends_ns && r.mine && r.all
                           ? read_here(&r)
                           : ls_fail_memory("records", numbers * sizeof *r.mine);
    status = ls_comm_bring(run->job->comm, status, r.mine, count * r.width * sizeof *r.mine, r.all);
    *mark_ns = r.mark_ns;
    if (!status && run->job->ps.mode != LS_PS_SYNC)
        status = add_up_alone(&r, out);
    else
        for (uint64_t k = 0; k < count && !status; k++)
            add_up(&r, k, &out[k]);
    free(r.records);
    free(r.ends_ns);
    free(r.mine);
    free(r.all);
    return status;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

/* Every range from the process of its server to all. */
static ls_status spread_ranges(const ls_ps *me, float *parameters)
{
    enum { TAG = 0x7073 };
    const ls_ps_layout *l = &me->layout;
    ls_comm *comm = me->base.job->comm;
    for (size_t i = 0; i < l->range_count && comm; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const int from = l->members[l->server_rank[range->server]].process;
        float *data = parameters + range->first;
        const size_t bytes = range->count * sizeof *data;
        if (comm->rank != from)
            LS_TRY(comm->backend->receive(comm, from, TAG, data, bytes));
        for (int to = 0; to < comm->size && comm->rank == from; to++)
            if (to != from)
                LS_TRY(comm->backend->send(comm, to, TAG, data, bytes));
    }
    return LS_OK;
}

ls_status ls_ps_gather(ls_run *run, float *parameters)
{
    ls_ps *me = (ls_ps *)run;
    ls_status status = LS_OK;
    for (int s = 0; s < me->server_count && !status; s++)
        status = ls_ps_server_gather(me, &me->servers[s], parameters);
    LS_TRY(ls_comm_agree(run->job->comm, status));
    return spread_ranges(me, parameters);
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

/* Its own variables are not needed any more: it gets them before it computes again. */
static ls_status evaluate_here(ls_ps_worker *chief, const float *values, uint64_t most,
                               ls_evaluation *out)
{
    ls_replica *r = chief->member.replica;
    LS_TRY(ls_queue_write(r->queue, r->parameters, values, r->elements * sizeof *values));
    return ls_replica_evaluate(r, ls_slice_net(chief->member.slice[LS_FULL]), most, out);
}

ls_status ls_ps_evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    ls_ps *me = (ls_ps *)run;
    const size_t elements = run->job->model->graph->variables.elements;
    const int chief = process_of_chief(me), processes = processes_of(run->job);
    float *values = malloc((elements + 1) * sizeof *values);
    ls_evaluation mine = {0}, *all = calloc((size_t)processes, sizeof *all);
    ls_status status = values && all ? LS_OK : ls_fail_memory("ps", elements * sizeof *values);
    status = ls_comm_agree(run->job->comm, status);
    for (int s = 0; s < me->server_count && !status; s++)
        status = ls_ps_server_averages(me, &me->servers[s], values);
    status = ls_comm_agree(run->job->comm, status);
    if (!status)
        status = spread_ranges(me, values);
    if (!status && chief == ls_ps_process(run->job))
        status = evaluate_here(&me->workers[0], values, most, &mine);
    status = ls_comm_bring(run->job->comm, status, &mine, sizeof mine, all);
    if (!status)
        *out = all[chief];
    free(values);
    free(all);
    return status;
}

/* ---- Traffic -------------------------------------------------------------------------------- */

/* Every worker that is not on the server's device: the ranges to it, and back its sums' pieces. */
static ls_traffic formula_of(const ls_ps *me, int which)
{
    const ls_job *job = me->base.job;
    const ls_ps_layout *l = &me->layout;
    const int64_t batch = ls_replicated_batch(job, which);
    const bool alone = ls_ps_by_arrival(&job->ps); /* whole shards go back */
    const ls_ps_range *back = alone ? l->ranges : l->pieces;
    const size_t back_count = alone ? l->range_count : l->piece_count;
    ls_traffic sum = {0};
    for (int w = 0; w < l->workers && batch; w++) {
        const uint64_t sums = ls_slice_count_sums(job, batch, w, l->workers);
        for (size_t i = 0; i < l->range_count; i++) {
            if (ls_ps_together(job, l, l->ranges[i].server, w))
                continue;
            sum.messages_sent++;
            sum.bytes_sent += l->ranges[i].count * sizeof(float);
        }
        for (size_t i = 0; i < back_count; i++) {
            if (ls_ps_together(job, l, back[i].server, w))
                continue;
            sum.messages_sent += sums;
            sum.bytes_sent += sums * back[i].count * sizeof(float);
        }
    }
    return sum;
}

static void add_traffic(ls_comm *end, ls_traffic *sum)
{
    const ls_traffic one = end->backend->traffic(end);
    sum->bytes_sent += one.bytes_sent;
    sum->messages_sent += one.messages_sent;
}

/* With backup workers a step has as much as its servers served; what all steps sent beyond that, or
 * did not, is shown as of one of them. */
static ls_status backup_traffic(const ls_ps *me, const ls_traffic *all, ls_traffic *sent,
                                ls_traffic *formula)
{
    const uint64_t steps = me->steps[LS_FULL] + me->steps[LS_TAIL];
    ls_traffic mine = {0}, served;
    for (int s = 0; s < me->server_count; s++)
        ls_traffic_add(&mine, me->servers[s].served);
    LS_TRY(ls_traffic_collect(me->base.job->comm, mine, &served));
    *formula = (ls_traffic){served.bytes_sent / steps, served.messages_sent / steps};
    sent->bytes_sent = formula->bytes_sent + (all->bytes_sent - served.bytes_sent);
    sent->messages_sent = formula->messages_sent + (all->messages_sent - served.messages_sent);
    return LS_OK;
}

ls_status ls_ps_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_ps *me = (const ls_ps *)run;
    ls_traffic all, mine = {0};
    if (me->joint) {
        *formula = formula_of(me, LS_FULL);
        *sent = ls_ps_joint_sent(me, LS_FULL);
        return LS_OK;
    }
    for (int w = 0; w < me->worker_count; w++)
        add_traffic(me->workers[w].comm, &mine);
    for (int s = 0; s < me->server_count; s++)
        add_traffic(me->servers[s].comm, &mine);
    LS_TRY(ls_traffic_collect(run->job->comm, mine, &all));
    if (run->job->ps.backups)
        return backup_traffic(me, &all, sent, formula);
    const ls_traffic tail = formula_of(me, LS_TAIL);
    *formula = formula_of(me, LS_FULL);
    *sent = ls_traffic_of_step(&all, &tail, me->steps, formula);
    return LS_OK;
}
