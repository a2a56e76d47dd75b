/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps, and traffic, where servers do not wait for all workers: what a step is,
 * and what it moves, is then what came of it. All processes call these; each brings what its own
 * members know. Where servers wait for all, records are those of replicas (replicas_records.c).
 */
#include "impl/ps/ps_records.h"

#include "impl/step/run.h"
#include "impl/step/served.h"
#include "impl/traffic.h"

#include <stdlib.h>

/*
 * Of each record a process tells END (ns from its latest mark to the last end of its servers, or
 * where workers are by themselves of these), and of each worker, of which it fills in its own:
 */
enum { END, WORKERS };
enum {
    LOSS,
    DECAY,   /* weight decay's part, of who knows it */
    OWN_END, /* ns from its process's latest mark */
    TOOK,    /* whether it took the step at all */
    NUMBERS
};

/** One of the gradients of workers that are by themselves. */
typedef struct gradient {
    double end_ns, loss; /* as told */
    int64_t rows;        /* samples that it is of */
} gradient;

typedef struct reading {
    const ls_replicated *run;
    const ls_served *served;
    uint64_t first, count;
    size_t width;
    uint64_t mark_ns;
    ls_step_record *records; /* [count] of one member */
    uint64_t *ends_ns;       /* [count] */
    double *mine, *all;      /* [count, width], [processes, count, width] */
} reading;

static size_t processes_of(const ls_job *job)
{
    return job->comm ? (size_t)job->comm->size : 1;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void note_ends(reading *r, uint64_t mark_ns)
{
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    for (uint64_t k = 0; k < r->count; k++)
        if (r->records[k].end_ns > r->ends_ns[k])
            r->ends_ns[k] = r->records[k].end_ns;
}

/* With backup workers it may be behind: a step ends, and began, where the servers end it. */
static ls_status read_worker(reading *r, int worker)
{
    ls_replica *replica = r->run->members[worker].replica;
    const ls_job *job = replica->job;
    double *numbers = r->mine + WORKERS + (size_t)worker * NUMBERS;
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    if (!job->ps.backups)
        note_ends(r, mark_ns);
    for (uint64_t k = 0; k < r->count; k++, numbers += r->width) {
        numbers[LOSS] = r->records[k].loss;
        numbers[OWN_END] = (double)r->records[k].end_ns;
        numbers[TOOK] = r->served->speakers[worker].took[(r->first + k) % job->records];
        r->records[k].loss = 0;
    }
    LS_TRY(ls_replica_add_decay(replica, r->first, r->count, r->records));
    numbers = r->mine + WORKERS + (size_t)worker * NUMBERS;
    for (uint64_t k = 0; k < r->count; k++, numbers += r->width)
        numbers[DECAY] = r->records[k].loss;
    return LS_OK;
}

/* Its records are updates: with backup workers one a step, of those that hold something. */
static ls_status read_server(reading *r, ls_replica *replica)
{
    uint64_t mark_ns;
    if (!replica->job->ps.backups || !replica->elements)
        return LS_OK;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    note_ends(r, mark_ns);
    return LS_OK;
}

static ls_status read_here(reading *r)
{
    const int workers = r->served->layout.workers;
    for (int m = 0; m < r->run->total; m++)
        if (r->run->members[m].replica)
            LS_TRY(m < workers ? read_worker(r, m) : read_server(r, r->run->members[m].replica));
    for (uint64_t k = 0; k < r->count; k++) { /* counted from the mark, now known */
        double *numbers = r->mine + k * r->width;
        numbers[END] = (double)(r->ends_ns[k] - r->mark_ns);
        for (int w = 0; w < workers; w++)
            numbers[WORKERS + (size_t)w * NUMBERS + OWN_END] -= (double)r->mark_ns;
    }
    return LS_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* What process `process` tells of record k; what worker `worker` does. */
static const double *told(const reading *r, size_t process, uint64_t k)
{
    return r->all + (process * r->count + k) * r->width;
}

static const double *told_by(const reading *r, int worker, uint64_t k)
{
    return told(r, (size_t)r->served->process[worker], k) + WORKERS + (size_t)worker * NUMBERS;
}

static int64_t batch_at(const reading *r, uint64_t k)
{
    const ls_job *job = r->run->base.job;
    return ls_replicated_batch(job, ls_job_is_tail(job, r->first + k) ? LS_TAIL : LS_FULL);
}

static int64_t rows_of(const reading *r, int64_t batch, int64_t worker)
{
    const int64_t workers = r->served->layout.workers;
    return ls_slice_begin(batch, worker + 1, workers) - ls_slice_begin(batch, worker, workers);
}

/* The loss is of those that took the step, which know the same of weight decay; parts are scaled by
 * the whole batch. */
static void add_up(const reading *r, uint64_t k, ls_step_record *out)
{
    const int64_t batch = batch_at(r, k);
    double end_ns = 0, sum = 0, decay = 0;
    int64_t samples = 0;
    for (size_t p = 0; p < processes_of(r->run->base.job); p++)
        end_ns = told(r, p, k)[END] > end_ns ? told(r, p, k)[END] : end_ns;
    for (int w = 0; w < r->served->layout.workers; w++) {
        const double *numbers = told_by(r, w, k);
        if (!rows_of(r, batch, w) || numbers[TOOK] == 0)
            continue;
        sum += numbers[LOSS];
        decay = numbers[DECAY];
        samples += rows_of(r, batch, w);
    }
    out->end_ns = r->mark_ns + (uint64_t)end_ns;
    out->loss = sum * (double)batch / (double)samples + decay;
}

static int ends_before(const void *a, const void *b)
{
    const gradient *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* All workers' gradients, but for those of no samples. */
static size_t list_gradients(const reading *r, gradient *out)
{
    size_t count = 0;
    for (uint64_t k = 0; k < r->count; k++) {
        for (int w = 0; w < r->served->layout.workers; w++) {
            const double *numbers = told_by(r, w, k);
            const int64_t rows = rows_of(r, batch_at(r, k), w);
            if (rows)
                out[count++] = (gradient){numbers[OWN_END], numbers[LOSS], rows};
        }
    }
    return count;
}

/* Workers by themselves: a step is as many gradients as it has workers with samples, in the order
 * in which they ended: the first steps are of those that run ahead, the last ones of the slowest.
 * Losses are means over their workers' shares. */
static ls_status add_up_alone(const reading *r, ls_step_record *out)
{
    const int workers = r->served->layout.workers;
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
        out[k].loss = (samples ? sum / (double)samples : sum) + told_by(r, 0, k)[DECAY];
    }
    free(all);
    return LS_OK;
}

ls_status ls_ps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                        uint64_t *mark_ns)
{
    const ls_job *job = run->job;
    reading r = {.run = (const ls_replicated *)run,
                 .served = ls_served_of(run),
                 .first = first,
                 .count = count};
    r.width = WORKERS + (size_t)r.served->layout.workers * NUMBERS;
    const size_t numbers = count * r.width + 1;
    r.records = calloc(count + 1, sizeof *r.records);
    r.ends_ns = calloc(count + 1, sizeof *r.ends_ns);
    r.mine = calloc(numbers, sizeof *r.mine);
    r.all = calloc(numbers * processes_of(job), sizeof *r.all);
    ls_status status = r.records && r.ends_ns && r.mine && r.all
                           ? read_here(&r)
                           : ls_fail_memory("records", numbers * sizeof *r.mine);
    status = ls_comm_bring(job->comm, status, r.mine, count * r.width * sizeof *r.mine, r.all);
    *mark_ns = r.mark_ns;
    if (!status && !job->ps.backups)
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

/* ---- Traffic --------------------------------------------------------------------------------- */

/* With backup workers a step has as much as its servers served; what all steps sent beyond that, or
 * did not, is shown as of one of them. */
ls_status ls_ps_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_served *me = ls_served_of(run);
    const uint64_t *put = ((const ls_replicated *)run)->steps, steps = put[LS_FULL] + put[LS_TAIL];
    ls_traffic counted = {0}, mine = {0}, all, served;
    for (int m = 0; m < me->layout.member_count; m++)
        if (me->ends[m].comm)
            ls_traffic_add(&counted, me->ends[m].comm->backend->traffic(me->ends[m].comm));
    for (int k = 0; k < me->layout.servers; k++)
        ls_traffic_add(&mine, me->servers[k].serving.served);
    LS_TRY(ls_traffic_collect(run->job->comm, counted, &all));
    LS_TRY(ls_traffic_collect(run->job->comm, mine, &served));
    *formula = (ls_traffic){served.bytes_sent / steps, served.messages_sent / steps};
    sent->bytes_sent = formula->bytes_sent + (all.bytes_sent - served.bytes_sent);
    sent->messages_sent = formula->messages_sent + (all.messages_sent - served.messages_sent);
    return LS_OK;
}
