/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps, if servers do not wait for all workers; see impl/step/records.c. With
 * backup workers, a step ends when the servers end it, and its loss is that of the workers that
 * took part. With asynchronous servers and n workers, a step is n successive gradients.
 */
#include "common/base/grow.h"
#include "impl/arrival/arrival.h"
#include "impl/ps/served.h"

#include <stdlib.h>

/* What a process sends for each record: its servers' last end, in ns from the mark; then, for each
 * of its workers: */
enum { END, WORKERS };
enum {
    OWN_END,
    LOSS,  /* without weight decay's part */
    DECAY, /* that part */
    TOOK,  /* whether the worker took part in the step */
    NUMBERS
};

typedef struct reading {
    const ls_step_plan *plan;
    const ls_resources *resources;
    const ls_job *job;
    uint64_t first, count;   /* of records */
    size_t width;            /* numbers that a process sends for a record */
    bool gpu;                /* some member of this process is on a GPU */
    uint64_t mark_ns;        /* latest mark of this process */
    ls_step_record *records; /* [count] of the current member */
    double *mine, *all;      /* [count, width] sent, [processes, count, width] received */
} reading;

/* A gradient of a worker of asynchronous servers. */
typedef struct gradient {
    double end_ns, loss; /* as received */
    int64_t rows;        /* its samples */
} gradient;

/* Where a process sends a worker's numbers: several processes have a worker each. */
static size_t at(const reading *r, int worker)
{
    return WORKERS + (r->job->comm ? 0 : (size_t)worker * NUMBERS);
}

/* ---- This process's records ------------------------------------------------------------------ */

static const ls_replica *replica_of(const reading *r, int member)
{
    return r->resources->members[member].replica;
}

static bool on_gpu(const ls_replica *replica)
{
    return ls_device_describe(replica->device)->name.kind == LS_DEVICE_GPU;
}

/* Whether a member's ends are ends of steps: workers', or with backup workers those of servers with
 * variables, which record each update, one per step, while workers may be behind. Clocks of GPUs
 * and processors do not compare: where a process has both, its GPUs' ends count. */
static bool ends_steps(const reading *r, int index)
{
    const ls_replica *replica = replica_of(r, index);
    const bool serves = index >= r->plan->servers.workers;
    if (!replica || r->gpu != on_gpu(replica))
        return false;
    return r->job->ps.backups ? serves && replica->elements : !serves;
}

static ls_status read_mark(reading *r, int index)
{
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(r->resources->members[index].replica, r->first, 0, NULL, &mark_ns));
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    return LS_OK;
}

static ls_status read_member(reading *r, int index)
{
    ls_replica *replica = r->resources->members[index].replica;
    const bool works = index < r->plan->servers.workers;
    double further[LS_REPLICA_LOSSES] = {0};
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->mine + k * r->width;
        const double end_ns = (double)(int64_t)(r->records[k].end_ns - r->mark_ns);
        if (ends_steps(r, index) && end_ns > numbers[END])
            numbers[END] = end_ns;
        if (!works)
            continue;
        if (replica->more)
            LS_TRY(ls_replica_more_losses(replica, r->first + k, further));
        double *its = numbers + at(r, index);
        its[OWN_END] = end_ns;
        its[LOSS] = r->records[k].loss;
        its[DECAY] = replica->decay ? further[replica->sums - 1] : 0;
        its[TOOK] = r->resources->served->clients[index].took[(r->first + k) % r->job->records];
    }
    return LS_OK;
}

static ls_status read_here(reading *r)
{
    for (int i = 0; i < r->plan->total; i++)
        r->gpu |= replica_of(r, i) && on_gpu(replica_of(r, i));
    for (int i = 0; i < r->plan->total; i++)
        if (ends_steps(r, i))
            LS_TRY(read_mark(r, i));
    const bool marked = r->mark_ns != 0; /* false: this process has no member whose ends count */
    for (int i = 0; i < r->plan->total && !marked; i++)
        if (replica_of(r, i))
            LS_TRY(read_mark(r, i));
    for (int i = 0; i < r->plan->total; i++)
        if (replica_of(r, i))
            LS_TRY(read_member(r, i));
    return LS_OK;
}

/* ---- All processes' records ------------------------------------------------------------------ */

/* The numbers that a process sent for record k. */
static const double *sent_by(const reading *r, int process, uint64_t k)
{
    return r->all + ((uint64_t)process * r->count + k) * r->width;
}

static double number_of(const reading *r, uint64_t k, int worker, int what)
{
    return sent_by(r, r->plan->members[worker].process, k)[at(r, worker) + (size_t)what];
}

static int64_t batch_at(const reading *r, uint64_t k)
{
    return ls_replicated_batch(r->job, ls_job_is_tail(r->job, r->first + k) ? LS_TAIL : LS_FULL);
}

/* With backup workers. Weight decay's part of the loss is the same in all that took part; the other
 * parts are scaled to the whole batch. */
static void add_up_taken(const reading *r, uint64_t k, ls_step_record *out)
{
    const int64_t batch = batch_at(r, k);
    double end_ns = 0, sum = 0, decay = 0;
    int64_t samples = 0;
    for (int p = 0; p < ls_job_processes(r->job); p++)
        end_ns = sent_by(r, p, k)[END] > end_ns ? sent_by(r, p, k)[END] : end_ns;
    for (int w = 0; w < r->plan->servers.workers; w++) {
        const int64_t rows = ls_slice_share(batch, w, r->plan->servers.workers);
        if (!rows || number_of(r, k, w, TOOK) == 0)
            continue;
        sum += number_of(r, k, w, LOSS);
        decay = number_of(r, k, w, DECAY);
        samples += rows;
    }
    out->end_ns = r->mark_ns + (uint64_t)end_ns;
    out->loss = sum * (double)batch / (double)samples + decay;
}

static int ends_before(const void *a, const void *b)
{
    const gradient *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Lists the gradients of workers with samples; sets losses to weight decay's part. */
static size_t list_gradients(const reading *r, gradient *out, ls_step_record *losses)
{
    const int workers = r->plan->servers.workers;
    size_t count = 0;
    for (uint64_t k = 0; k < r->count; k++) {
        losses[k].loss = number_of(r, k, 0, DECAY);
        for (int w = 0; w < workers; w++) {
            const int64_t rows = ls_slice_share(batch_at(r, k), w, workers);
            if (rows)
                out[count++] =
                    (gradient){number_of(r, k, w, OWN_END), number_of(r, k, w, LOSS), rows};
        }
    }
    return count;
}

/* Asynchronous servers: gradients of all workers, in the order of their ends, are split into steps
 * of one gradient for each worker with samples. So fast workers fill the first steps, and slow ones
 * the last. A loss is the mean over the workers' slices. */
static ls_status add_up_alone(const reading *r, ls_step_record *out)
{
    const int workers = r->plan->servers.workers;
    gradient *all;
    LS_TRY(ls_allocate("records", &all, r->count * (size_t)workers, sizeof *all));
    qsort(all, list_gradients(r, all, out), sizeof *all, ends_before);
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
        out[k].loss = (samples ? sum / (double)samples : sum) + out[k].loss;
    }
    free(all);
    return LS_OK;
}

ls_status ls_arrival_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    const ls_job *job = run->job;
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    const size_t processes = (size_t)ls_job_processes(job);
    const size_t workers = job->comm ? 1 : (size_t)plan->servers.workers; /* of a process */
    reading r = {.plan = plan,
                 .resources = &ls_step_run_of(run)->resources,
                 .job = job,
                 .first = first,
                 .count = count,
                 .width = WORKERS + workers * NUMBERS,
                 .records = calloc(count + 1, sizeof *r.records)};
    const size_t numbers = count * r.width;
    r.mine = calloc(numbers + 1, sizeof *r.mine);
    r.all = calloc(numbers * processes + 1, sizeof *r.all);
    ls_status status = r.records && r.mine && r.all
                           ? read_here(&r)
                           : ls_fail_memory("records", numbers * processes * sizeof *r.mine);
    status = ls_comm_bring(job->comm, status, r.mine, numbers * sizeof *r.mine, r.all);
    *mark_ns = r.mark_ns;
    if (!status && !job->ps.backups)
        status = add_up_alone(&r, out);
    for (uint64_t k = 0; k < count && !status && job->ps.backups; k++)
        add_up_taken(&r, k, &out[k]);
    free(r.records);
    free(r.mine);
    free(r.all);
    return status;
}
