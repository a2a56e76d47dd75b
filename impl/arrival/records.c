/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps, if servers do not wait for all workers; see impl/step/run/records.c.
 * With backup workers, a step ends when the servers end it, and its loss is the loss of the workers
 * that took part. With asynchronous servers and n workers, a step is n successive gradients.
 */
#include "common/base/grow.h"
#include "impl/ps/served.h"
#include "impl/step/run/run.h"

#include <stdlib.h>

/* A worker's numbers for each record. */
enum {
    OWN_END,
    LOSS,  /* without weight decay's part */
    DECAY, /* that part */
    TOOK,  /* whether the worker took part in the step */
    NUMBERS
};

/* A gradient of a worker of asynchronous servers. */
typedef struct gradient {
    double end_ns, loss; /* as received */
    int64_t rows;        /* its samples */
} gradient;

/* Workers' ends are ends of steps; with backup workers the ends of servers with variables. They
 * record each update, one per step, while workers may be behind. */
static bool ends(const ls_step_run *run, int member)
{
    const bool serves = member >= run->plan.placed.workers;
    return run->plan.job->ps.backups ? serves && run->resources.members[member].replica->elements
                                     : !serves;
}

static size_t width(const ls_step_run *run, int member)
{
    return member < run->plan.placed.workers ? NUMBERS : 0;
}

static ls_status read_worker(ls_reading *r, int m, uint64_t k, double end_ns, double *process,
                             double *own)
{
    ls_replica *replica = r->run->resources.members[m].replica;
    double further[LS_REPLICA_LOSSES] = {0};
    (void)process;
    if (!own)
        return LS_OK;
    if (replica->loss.more)
        LS_TRY(ls_replica_more_losses(replica, r->first + k, further));
    own[OWN_END] = end_ns;
    own[LOSS] = r->records[k].loss;
    own[DECAY] = replica->loss.decay ? further[replica->loss.sums - 1] : 0;
    own[TOOK] = r->run->resources.served->clients[m]->took[(r->first + k) % replica->job->records];
    return LS_OK;
}

static double number_of(const ls_reading *r, uint64_t k, int worker, int what)
{
    return ls_reading_of(r, worker, k)[what];
}

/* With backup workers. Weight decay's part of the loss is the same in all that took part; the other
 * parts are scaled to the whole batch. */
static void add_up_taken(const ls_reading *r, uint64_t k, ls_step_record *out)
{
    const int64_t batch = ls_reading_batch(r, k);
    double sum = 0, decay = 0;
    int64_t samples = 0;
    for (int w = 0; w < r->run->plan.placed.workers; w++) {
        const int64_t rows = ls_slice_share(batch, w, r->run->plan.placed.workers);
        if (!rows || number_of(r, k, w, TOOK) == 0)
            continue;
        sum += number_of(r, k, w, LOSS);
        decay = number_of(r, k, w, DECAY);
        samples += rows;
    }
    out->end_ns = ls_reading_end(r, k);
    out->loss = sum * (double)batch / (double)samples + decay;
}

static int ends_before(const void *a, const void *b)
{
    const gradient *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Lists the gradients of workers with samples; sets losses to weight decay's part. */
static size_t list_gradients(const ls_reading *r, gradient *out, ls_step_record *losses)
{
    const int workers = r->run->plan.placed.workers;
    size_t count = 0;
    for (uint64_t k = 0; k < r->count; k++) {
        losses[k].loss = number_of(r, k, 0, DECAY);
        for (int w = 0; w < workers; w++) {
            const int64_t rows = ls_slice_share(ls_reading_batch(r, k), w, workers);
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
static ls_status add_up_alone(const ls_reading *r, ls_step_record *out)
{
    const int workers = r->run->plan.placed.workers;
    ls_auto gradient *all = NULL;
    LS_TRY(ls_allocate("records", &all, r->count * (size_t)workers, sizeof *all));
    qsort(all, list_gradients(r, all, out), sizeof *all, ends_before);
    const gradient *next = all;
    for (uint64_t k = 0; k < r->count; k++) {
        const int64_t batch = ls_reading_batch(r, k), of_step = batch < workers ? batch : workers;
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
    return LS_OK;
}

ls_status ls_arrival_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    const ls_job *job = run->job;
    ls_closing(ls_reading_close) ls_reading r = {.run = ls_step_run_of(run),
                                                 .first = first,
                                                 .count = count,
                                                 .width = width,
                                                 .ends = ends,
                                                 .read = read_worker};
    LS_TRY(ls_reading_open(&r));
    *mark_ns = r.mark_ns;
    for (uint64_t k = 0; k < count && job->ps.backups; k++)
        add_up_taken(&r, k, &out[k]);
    return job->ps.backups ? LS_OK : add_up_alone(&r, out);
}
