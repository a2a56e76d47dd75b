/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps. All processes call this; an all-gather gives each the records of all.
 * Ends are relative to the process's latest mark, since clocks of hosts differ.
 *
 * A step ends when its last member ends it, and its loss is the sum of all parts.
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"

#include <stdlib.h>
#include <string.h>

/* The numbers that a process sends for each record: its members' last end, in ns from the mark;
 * weight decay's part of the loss, of the first copy of the model; then, for each replica whose
 * loss it has, the parts of that loss. */
enum { END, DECAY, REPLICAS };

typedef struct reading {
    ls_reading base;
    const ls_step_plan *plan;
    const ls_job *job;
    size_t *at;          /* [replicas] index of the replica's numbers */
    const double **each; /* [replicas] parts of the current record's loss, as received */
} reading;

/* ---- Reading --------------------------------------------------------------------------------- */

static ls_replica *replica_of(const ls_reading *r, int member)
{
    return r->run->resources.members[member].replica;
}

static bool on_gpu(const ls_replica *replica)
{
    return ls_device_describe(replica->device)->name.kind == LS_DEVICE_GPU;
}

/* GPUs and processors have clocks that do not compare: where a process has both, its GPUs' ends
 * count. */
static bool ends_steps(const ls_reading *r, int member)
{
    const ls_replica *replica = replica_of(r, member);
    return replica && r->gpu == on_gpu(replica) && (!r->ends || r->ends(r->run, member));
}

static ls_status read_mark(ls_reading *r, int member)
{
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica_of(r, member), r->first, 0, NULL, &mark_ns));
    r->mark_ns = mark_ns > r->mark_ns ? mark_ns : r->mark_ns;
    return LS_OK;
}

static ls_status read_records(ls_reading *r, int member)
{
    uint64_t mark_ns;
    LS_TRY(ls_replica_records(replica_of(r, member), r->first, r->count, r->records, &mark_ns));
    for (uint64_t k = 0; k < r->count; k++) {
        double *numbers = r->sent + k * r->width;
        const double end_ns = (double)(int64_t)(r->records[k].end_ns - r->mark_ns);
        if (ends_steps(r, member) && end_ns > numbers[END])
            numbers[END] = end_ns;
        LS_TRY(r->read(r, member, k, end_ns, numbers));
    }
    return LS_OK;
}

static ls_status read_local(ls_reading *r)
{
    const int total = r->run->plan.total;
    for (int m = 0; m < total; m++)
        r->gpu |= replica_of(r, m) && on_gpu(replica_of(r, m));
    for (int m = 0; m < total; m++)
        if (ends_steps(r, m))
            LS_TRY(read_mark(r, m));
    const bool marked = r->mark_ns != 0; /* false if no member's ends are ends of steps */
    for (int m = 0; m < total && !marked; m++)
        if (replica_of(r, m))
            LS_TRY(read_mark(r, m));
    for (int m = 0; m < total; m++)
        if (replica_of(r, m))
            LS_TRY(read_records(r, m));
    return LS_OK;
}

ls_status ls_reading_open(ls_reading *r)
{
    const ls_job *job = r->run->plan.job;
    const size_t numbers = r->count * r->width;
    ls_status status = ls_allocate("records", &r->records, r->count, sizeof *r->records);
    if (!status)
        status = ls_allocate("records", &r->sent, numbers, sizeof *r->sent);
    if (!status)
        status = read_local(r);
    return ls_comm_tell(job->ranks.comm, status, r->sent, numbers * sizeof *r->sent, &r->all);
}

void ls_reading_close(ls_reading *r)
{
    free(r->records);
    free(r->sent);
    free(r->all);
}

const double *ls_reading_of(const ls_reading *r, int process, uint64_t k)
{
    return r->all + ((uint64_t)process * r->count + k) * r->width;
}

int64_t ls_reading_batch(const ls_reading *r, uint64_t k)
{
    const ls_job *job = r->run->plan.job;
    return ls_replicated_batch(job, ls_job_is_tail(job, r->first + k) ? LS_TAIL : LS_FULL);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* Losses of a replica: one for each place, if positions are divided; else one. */
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
    r->base.width = REPLICAS;
    for (int d = 0; d < all_losses(r->plan); d++) {
        size_t *losses = &used[r->plan->members[loss_of(r->plan, d)].process];
        r->at[d] = REPLICAS + *losses;
        *losses += ls_replicated_sums(r->job, d / losses_of(r->plan));
        r->base.width = REPLICAS + *losses > r->base.width ? REPLICAS + *losses : r->base.width;
    }
}

/* Whether a member has a part of weight decay's loss: members that together update one copy of the
 * model do, or the one that computes it for them. */
static bool has_decay(const ls_step_plan *plan, int m, const ls_replica *replica)
{
    const ls_range copy = ls_step_plan_copy(plan, &plan->state, (int)plan->owners.first);
    return (size_t)m - copy.first < copy.count || replica->loss.decays == LS_DECAY_HERE;
}

static ls_status read_losses(ls_reading *base, int m, uint64_t k, double end_ns, double *numbers)
{
    const reading *r = (const reading *)base;
    ls_replica *replica = replica_of(base, m);
    const int d = m / (r->plan->mesh.places / losses_of(r->plan));
    const bool first = has_decay(r->plan, m, replica);
    double further[LS_REPLICA_LOSSES] = {0}; /* further parts, then weight decay's */
    (void)end_ns;
    if (replica->loss.more && (first || replica->loss.sums > 1))
        LS_TRY(ls_replica_more_losses(replica, base->first + k, further));
    if (first && replica->loss.decay)
        numbers[DECAY] += further[replica->loss.sums - 1];
    if (d < all_losses(r->plan) && m == loss_of(r->plan, d)) {
        numbers[r->at[d]] = base->records[k].loss;
        memcpy(numbers + r->at[d] + 1, further, (replica->loss.sums - 1) * sizeof *numbers);
    }
    return LS_OK;
}

/* Finds the numbers of each replica for record k. Returns the latest end of all processes; *decay:
 * weight decay's part of the loss. */
static double find_numbers(const reading *r, uint64_t k, double *decay)
{
    double end_ns = 0;
    *decay = 0;
    for (int p = 0; p < ls_job_processes(r->job); p++) {
        const double *numbers = ls_reading_of(&r->base, p, k);
        end_ns = numbers[END] > end_ns ? numbers[END] : end_ns;
        *decay += numbers[DECAY];
    }
    for (int d = 0; d < all_losses(r->plan); d++) {
        const int process = r->plan->members[loss_of(r->plan, d)].process;
        r->each[d] = ls_reading_of(&r->base, process, k) + r->at[d];
    }
    return end_ns;
}

/* The loss of all replicas; if positions are divided, places' losses are summed first. */
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
    const int64_t batch = ls_reading_batch(&r->base, k);
    double decay;
    out->end_ns = r->base.mark_ns + (uint64_t)find_numbers(r, k, &decay);
    out->loss = loss_of_all(r, batch) + decay;
}

static void close(reading *r)
{
    ls_reading_close(&r->base);
    free(r->at);
    free(r->each);
}

ls_status ls_steps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                           uint64_t *mark_ns)
{
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    const size_t replicas = (size_t)all_losses(plan),
                 processes = (size_t)ls_job_processes(run->job);
    ls_closing(close) reading r = {
        .base = {.run = ls_step_run_of(run), .first = first, .count = count, .read = read_losses},
        .plan = plan,
        .job = run->job};
    const ls_status room = ls_allocate("records", &r.at, replicas + processes, sizeof *r.at);
    LS_TRY(ls_comm_agree(
        run->job->ranks.comm,
        ls_status_first(room, ls_allocate("records", &r.each, replicas, sizeof *r.each))));
    lay_out(&r, r.at + replicas);
    LS_TRY(ls_reading_open(&r.base));
    *mark_ns = r.base.mark_ns;
    for (uint64_t k = 0; k < count; k++)
        add_up(&r, k, &out[k]);
    return LS_OK;
}
