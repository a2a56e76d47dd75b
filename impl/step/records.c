/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps. All processes call this; an all-gather gives each the records of all.
 * Ends are relative to the process's latest mark, since clocks of hosts differ.
 *
 * A step ends when its last member ends it, and its loss is the sum of all parts. This differs if
 * servers do not wait for all workers. With backup workers, a step ends when the servers end it,
 * and its loss is that of the workers that took part. With asynchronous servers and n workers, a
 * step is n successive gradients.
 */
#include "common/base/grow.h"
#include "impl/step/run.h"
#include "impl/step/served.h"

#include <stdlib.h>
#include <string.h>

/* The numbers that a process sends for each record: its members' last end, in ns from the mark;
 * weight decay's parts of the loss, of its first replica; then, for each replica whose loss it
 * has: */
enum { END, DECAY, REPLICAS };
enum {
    OWN_END,
    OWN_DECAY, /* weight decay's part, if servers do not wait for all workers */
    TOOK,      /* whether the worker took part in the step */
    LOSSES     /* the parts of its loss */
};

typedef struct reading {
    const ls_step_plan *plan;
    const ls_resources *resources;
    const ls_job *job;
    uint64_t first, count;   /* of records */
    size_t decays;           /* weight decay's parts (ls_replica.decay_parts) */
    size_t width;            /* most numbers that a process sends for a record */
    size_t *at;              /* [replicas] index of the replica's numbers */
    bool gpu;                /* some member of this process is on a GPU */
    uint64_t mark_ns;        /* latest mark of this process */
    ls_step_record *records; /* [count] of the current member */
    double *mine, *all;      /* [count, width] sent, [processes, count, width] received */
    const double **each;     /* [replicas] parts of the current record's loss, in `all` */
} reading;

/** A gradient of a worker of asynchronous servers. */
typedef struct gradient {
    double end_ns, loss; /* as received */
    int64_t rows;        /* its samples */
} gradient;

/* Losses of a replica: of the places' positions, if these are divided; else one. */
static int losses_of(const ls_step_plan *plan)
{
    return plan->mesh.size[LS_POSITION];
}

/* How many losses all replicas have; the members that record number d. */
static int all_losses(const ls_step_plan *plan)
{
    return plan->mesh.replicas * losses_of(plan);
}

static int loss_of(const ls_step_plan *plan, int d)
{
    return d * (plan->mesh.places / losses_of(plan)) + plan->loss_place;
}

/* Sets `at` and `width`; used [processes] must be zero. */
static void lay_out(reading *r, size_t *used)
{
    r->decays = r->plan->split.graph ? (size_t)r->plan->split.graph->slices.splits + 1 : 1;
    r->width = REPLICAS + r->decays - 1;
    for (int d = 0; d < all_losses(r->plan); d++) {
        size_t *its = &used[r->plan->members[loss_of(r->plan, d)].process];
        const size_t before = REPLICAS + r->decays - 1;
        r->at[d] = before + *its;
        *its += LOSSES + ls_replicated_sums(r->job, d / losses_of(r->plan));
        r->width = before + *its > r->width ? before + *its : r->width;
    }
}

/* ---- This process's records ------------------------------------------------------------------ */

static bool on_gpu(const ls_replica *replica)
{
    return ls_device_describe(replica->device)->name.kind == LS_DEVICE_GPU;
}

/* Whether a member's ends are ends of steps. GPUs and processors have clocks that do not compare:
 * where a process has both, its GPUs' ends count. With backup workers, those of servers with
 * variables are: such a server records each update, one per step, while workers may be behind. */
static bool ends_steps(const reading *r, int index)
{
    const ls_replica *replica = r->resources->members[index].replica;
    const bool serves = ls_step_plan_owns(r->plan, index);
    if (!replica || r->gpu != on_gpu(replica))
        return false;
    if (!ls_ps_by_arrival(&r->job->ps))
        return true;
    return r->job->ps.backups ? serves && replica->elements : !serves;
}

static ls_status read_mark(reading *r, int index)
{
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(r->resources->members[index].replica, r->first, 0, NULL, &mark_ns));
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    return LS_OK;
}

/* Reads a member's records into `mine`. Weight decay's part comes from members that update: it is
 * summed over the places of the first replica. */
static ls_status read_member(reading *r, int index)
{
    ls_replica *replica = r->resources->members[index].replica;
    const int d = index / (r->plan->mesh.places / losses_of(r->plan));
    const bool has_loss = d < all_losses(r->plan) && index == loss_of(r->plan, d);
    const bool *took =
        has_loss && r->resources->served ? r->resources->served->clients[index].took : NULL;
    const int from = r->plan->holder >= 0 ? r->plan->holder : 0;
    const bool first = index >= from && index < from + r->plan->mesh.places;
    /* Of split layers, every place has the rest of the variables. */
    const bool counts_rest = r->plan->members[index].place % r->plan->mesh.size[LS_SLICE] == 0;
    const bool more = replica->more && (first || replica->sums > 1 || took);
    double further[LS_REPLICA_LOSSES] = {0}; /* further parts, then weight decay's */
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->mine + k * r->width;
        const double end_ns = (double)(int64_t)(r->records[k].end_ns - r->mark_ns);
        if (more)
            LS_TRY(ls_replica_more_losses(replica, r->first + k, further));
        if (ends_steps(r, index) && end_ns > numbers[END])
            numbers[END] = end_ns;
        for (size_t i = 0; i < r->decays && first && replica->decay; i++)
            if (i + 1 < r->decays || counts_rest)
                numbers[DECAY + i] += further[replica->sums - 1 + i];
        if (!has_loss)
            continue;
        double *its = numbers + r->at[d];
        its[OWN_END] = end_ns;
        its[OWN_DECAY] = replica->decay ? further[replica->sums - 1] : 0;
        its[TOOK] = !took || took[(r->first + k) % r->job->records];
        its[LOSSES] = r->records[k].loss;
        memcpy(its + LOSSES + 1, further, (replica->sums - 1) * sizeof *its);
    }
    return LS_OK;
}

static ls_status read_here(reading *r)
{
    for (int i = 0; i < r->plan->total; i++)
        r->gpu |= r->resources->members[i].replica && on_gpu(r->resources->members[i].replica);
    for (int i = 0; i < r->plan->total; i++)
        if (ends_steps(r, i))
            LS_TRY(read_mark(r, i));
    const bool marked = r->mark_ns != 0; /* false: this process has only workers */
    for (int i = 0; i < r->plan->total && !marked; i++)
        if (r->resources->members[i].replica)
            LS_TRY(read_mark(r, i));
    for (int i = 0; i < r->plan->total; i++)
        if (r->resources->members[i].replica)
            LS_TRY(read_member(r, i));
    return LS_OK;
}

/* ---- All processes' records ------------------------------------------------------------------ */

/* The numbers that a process sent for record k. */
static const double *sent_by(const reading *r, int process, uint64_t k)
{
    return r->all + ((uint64_t)process * r->count + k) * r->width;
}

/* Finds the numbers of each replica for record k. Returns the latest end of all processes; *decay:
 * weight decay's part of the loss. */
static double find_numbers(const reading *r, uint64_t k, double *decay)
{
    double end_ns = 0, decays[LS_REPLICA_LOSSES] = {0};
    for (int p = 0; p < ls_job_processes(r->job); p++) {
        const double *numbers = sent_by(r, p, k);
        end_ns = numbers[END] > end_ns ? numbers[END] : end_ns;
        for (size_t i = 0; i < r->decays; i++)
            decays[i] += numbers[DECAY + i];
    }
    *decay = ls_replica_decay_sum(decays, r->decays);
    for (int d = 0; d < all_losses(r->plan); d++) {
        const int process = r->plan->members[loss_of(r->plan, d)].process;
        r->each[d] = sent_by(r, process, k) + r->at[d] + LOSSES;
    }
    return end_ns;
}

static double number_of(const reading *r, int replica, int what)
{
    return r->each[replica][what - LOSSES];
}

static int64_t batch_at(const reading *r, uint64_t k)
{
    return ls_replicated_batch(r->job, ls_job_is_tail(r->job, r->first + k) ? LS_TAIL : LS_FULL);
}

/* The loss of the workers that took part. Weight decay's part is the same in all of them; the other
 * parts are scaled to the whole batch. */
static double loss_of_taken(const reading *r, int64_t batch)
{
    double sum = 0, decay = 0;
    int64_t samples = 0;
    for (int w = 0; w < r->plan->mesh.replicas; w++) {
        const int64_t rows = ls_slice_share(batch, w, r->plan->mesh.replicas);
        if (!rows || number_of(r, w, TOOK) == 0)
            continue;
        sum += number_of(r, w, LOSSES);
        decay = number_of(r, w, OWN_DECAY);
        samples += rows;
    }
    return sum * (double)batch / (double)samples + decay;
}

/* The loss of all replicas; where places have parts of the positions, these are summed first. */
static double loss_of_all(const reading *r, int64_t batch)
{
    const int n = ls_job_replicas(r->job), each = losses_of(r->plan);
    double sums[LS_JOB_REPLICAS];
    const double *replicas[LS_JOB_REPLICAS];
    if (each == 1)
        return ls_slice_loss_sum(r->job, batch, r->each, n);
    for (int d = 0; d < n; d++) {
        sums[d] = *r->each[d * each];
        for (int j = 1; j < each; j++)
            sums[d] += *r->each[d * each + j];
        replicas[d] = &sums[d];
    }
    return ls_slice_loss_sum(r->job, batch, replicas, n);
}

static void add_up(const reading *r, uint64_t k, ls_step_record *out)
{
    const int64_t batch = batch_at(r, k);
    double decay;
    out->end_ns = r->mark_ns + (uint64_t)find_numbers(r, k, &decay);
    if (r->job->ps.backups)
        out->loss = loss_of_taken(r, batch);
    else
        out->loss = loss_of_all(r, batch) + decay;
}

static int ends_before(const void *a, const void *b)
{
    const gradient *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Lists the gradients of workers with samples; sets losses to weight decay's part. */
static size_t list_gradients(const reading *r, gradient *out, ls_step_record *losses)
{
    size_t count = 0;
    for (uint64_t k = 0; k < r->count; k++) {
        double decay;
        find_numbers(r, k, &decay);
        losses[k].loss = number_of(r, 0, OWN_DECAY);
        for (int w = 0; w < r->plan->mesh.replicas; w++) {
            const int64_t rows = ls_slice_share(batch_at(r, k), w, r->plan->mesh.replicas);
            if (rows)
                out[count++] = (gradient){number_of(r, w, OWN_END), number_of(r, w, LOSSES), rows};
        }
    }
    return count;
}

/* Asynchronous servers: gradients of all workers, in the order of their ends, are split into steps
 * of one gradient for each worker with samples. So fast workers fill the first steps, and slow ones
 * the last. A loss is the mean over the workers' slices. */
static ls_status add_up_alone(const reading *r, ls_step_record *out)
{
    const int workers = r->plan->mesh.replicas;
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

ls_status ls_steps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                           uint64_t *mark_ns)
{
    const ls_job *job = run->job;
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    const size_t replicas = (size_t)all_losses(plan), processes = (size_t)ls_job_processes(job);
    reading r = {.plan = plan,
                 .resources = &ls_step_run_of(run)->resources,
                 .job = job,
                 .first = first,
                 .count = count,
                 .records = calloc(count + 1, sizeof *r.records),
                 .at = calloc(replicas + processes, sizeof *r.at),
                 .each = calloc(replicas, sizeof *r.each)};
    if (r.at)
        lay_out(&r, r.at + replicas);
    const size_t numbers = count * r.width;
    r.mine = calloc(numbers + 1, sizeof *r.mine);
    r.all = calloc(numbers * processes + 1, sizeof *r.all);
    ls_status status = r.records && r.at && r.each && r.mine && r.all
                           ? read_here(&r)
                           : ls_fail_memory("records", numbers * processes * sizeof *r.mine);
    status = ls_comm_bring(job->comm, status, r.mine, numbers * sizeof *r.mine, r.all);
    *mark_ns = r.mark_ns;
    if (!status && ls_ps_by_arrival(&job->ps) && !job->ps.backups)
        status = add_up_alone(&r, out);
    else
        for (uint64_t k = 0; k < count && !status; k++)
            add_up(&r, k, &out[k]);
    free(r.records);
    free(r.at);
    free(r.mine);
    free(r.all);
    free(r.each);
    return status;
}
