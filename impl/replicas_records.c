/* SPDX-License-Identifier: MIT */
/* Ends and losses of steps, of the replicas of all processes; see replicas.h. */
#include "impl/replicas.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/*
 * Of each record a process tells the others `width` numbers: the last end of its members from its
 * mark, in ns, so that clocks of several hosts do not matter; weight decay's part of the loss, of
 * the first replica there; and the parts of its replicas' losses.
 */
enum { END, DECAY, LOSSES };

typedef struct reading {
    ls_replicated *run;
    uint64_t first, count; /* records */
    size_t width;
    uint64_t mark_ns;        /* the latest of this process */
    uint64_t *ends_ns;       /* [count] of this process */
    ls_step_record *records; /* [count] of one member */
    double *mine, *all;      /* [count, width], [processes, count, width] */
    const double **each;     /* [replicas] the parts of one record, in `all` */
} reading;

static int processes_of(const ls_job *job)
{
    return job->comm ? job->comm->size : 1;
}

/* The replica whose loss member `index` of process p has: it is where the last node is. -1: none.
 */
static int loss_of(const ls_replicated *run, int p, int index)
{
    const int here = run->count * run->places, places = ls_job_places(run->base.job);
    const int device = p * here + index;
    if (run->process)
        return index < run->count && run->process[index] == p ? index : -1;
    return index < here && device % places == run->losses ? device / places : -1;
}

/* Most numbers that a process tells of a record. */
static size_t width_of(const ls_replicated *run)
{
    const ls_job *job = run->base.job;
    size_t most = 0;
    for (int p = 0; p < processes_of(job); p++) {
        size_t numbers = LOSSES;
        for (int i = 0; i < run->total; i++)
            if (loss_of(run, p, i) >= 0)
                numbers += ls_replicated_sums(job, loss_of(run, p, i));
        most = numbers > most ? numbers : most;
    }
    return most;
}

static bool has_loss(const ls_replicated *run, int index)
{
    const ls_comm *comm = run->base.job->comm;
    return loss_of(run, comm ? comm->rank : 0, index) >= 0;
}

static ls_status read_member(reading *r, int index, size_t place)
{
    ls_replica *replica = r->run->members[index].replica;
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica, r->first, r->count, r->records, &mark_ns));
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->mine + k * r->width;
        if (r->records[k].end_ns > r->ends_ns[k])
            r->ends_ns[k] = r->records[k].end_ns;
        if (!has_loss(r->run, index))
            continue;
        numbers[place] = r->records[k].loss;
        if (replica->sums > 1)
            LS_TRY(ls_replica_more_losses(replica, r->first + k, numbers + place + 1));
    }
    return LS_OK;
}

/* Weight decay's part, of who updates: those of a replica's places are added up. */
static ls_status read_decay(const ls_replicated *run, uint64_t first, uint64_t count,
                            ls_step_record *sums)
{
    const int from = run->holder >= 0 ? run->holder : 0;
    for (int i = from; i < from + run->places; i++)
        if (run->members[i].replica)
            LS_TRY(ls_replica_add_decay(run->members[i].replica, first, count, sums));
    return LS_OK;
}

static ls_status read_here(reading *r)
{
    size_t place = LOSSES;
    for (int i = 0; i < r->run->total; i++) {
        if (!r->run->members[i].replica)
            continue;
        LS_TRY(read_member(r, i, place));
        place += has_loss(r->run, i) ? r->run->members[i].replica->sums : 0;
    }
    for (uint64_t k = 0; k < r->count; k++) {
        r->records[k].loss = 0;
        r->mine[k * r->width + END] = (double)(r->ends_ns[k] - r->mark_ns);
    }
    LS_TRY(read_decay(r->run, r->first, r->count, r->records));
    for (uint64_t k = 0; k < r->count; k++)
        r->mine[k * r->width + DECAY] = r->records[k].loss;
    return LS_OK;
}

/* The latest end of any process, and the loss of all replicas. */
static void add_up(const reading *r, uint64_t k, ls_step_record *out)
{
    const ls_replicated *run = r->run;
    const ls_job *job = run->base.job;
    int64_t batch = ls_replicated_batch(job, ls_job_is_tail(job, r->first + k));
    double end_ns = 0, decay = 0;
    for (int p = 0; p < processes_of(job); p++) {
        const double *numbers = r->all + ((uint64_t)p * r->count + k) * r->width;
        end_ns = numbers[END] > end_ns ? numbers[END] : end_ns;
        if (run->process || p * run->places < ls_job_places(job)) /* the first replica's */
            decay += numbers[DECAY];
        numbers += LOSSES;
        for (int i = 0; i < run->total; i++) {
            const int d = loss_of(run, p, i);
            if (d < 0)
                continue;
            r->each[d] = numbers;
            numbers += ls_replicated_sums(job, d);
        }
    }
    out->end_ns = r->mark_ns + (uint64_t)end_ns;
    out->loss = ls_slice_loss_sum(job, batch, r->each, ls_job_replicas(job));
    if (LS_PLANTED(first_loss))
        out->loss = r->each[0][0];
    out->loss += decay;
}

ls_status ls_replicated_records(ls_run *base, uint64_t first, uint64_t count, ls_step_record *out,
                                uint64_t *mark_ns)
{
    ls_replicated *run = (ls_replicated *)base;
    const ls_job *job = base->job;
    ls_replica *updates = run->members[run->holder >= 0 ? run->holder : 0].replica;
    if (ls_job_replicas(job) * ls_job_places(job) == 1 && run->total == 1 && updates->sums == 1) {
        LS_TRY(ls_replica_records(updates, first, count, out, mark_ns));
        return ls_replica_add_decay(updates, first, count, out);
    }
    const size_t width = width_of(run), numbers = count * width + 1;
    reading r = {.run = run,
                 .first = first,
                 .count = count,
                 .width = width,
                 .ends_ns = calloc(count + 1, sizeof *r.ends_ns),
                 .records = calloc(count + 1, sizeof *r.records),
                 .mine = calloc(numbers, sizeof *r.mine),
                 .all = calloc(numbers * (size_t)processes_of(job), sizeof *r.all),
                 .each = calloc((size_t)ls_job_replicas(job), sizeof *r.each)};
    ls_status status = r.ends_ns && r.records && r.mine && r.all && r.each
                           ? read_here(&r)
                           : ls_fail_memory("records", numbers * sizeof *r.mine);
    status = ls_comm_bring(job->comm, status, r.mine, count * width * sizeof *r.mine, r.all);
    *mark_ns = r.mark_ns;
    for (uint64_t k = 0; k < count && !status; k++)
        add_up(&r, k, &out[k]);
    free(r.ends_ns);
    free(r.records);
    free(r.mine);
    free(r.all);
    free(r.each);
    return status;
}
