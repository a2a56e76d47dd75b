/* SPDX-License-Identifier: MIT */
/*
 * Ends and losses of steps. All processes call this; an all-gather gives each the records of all.
 * Ends are relative to the process's latest mark, since clocks of hosts differ.
 *
 * A step ends when its last member ends it, and its loss is the sum of all parts.
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        double *numbers = r->sent + k * r->each;
        const double end_ns = (double)(int64_t)(r->records[k].end_ns - r->mark_ns);
        if (ends_steps(r, member) && end_ns > numbers[LS_READ_END])
            numbers[LS_READ_END] = end_ns;
        double *own = r->width(r->run, member) ? numbers + r->at[member] : NULL;
        LS_TRY(r->read(r, member, k, end_ns, numbers, own));
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

/* Finds where each member's numbers are among those of its process. */
static ls_status lay_out(ls_reading *r)
{
    const ls_step_plan *plan = &r->run->plan;
    ls_auto size_t *used = NULL;
    LS_TRY(ls_allocate("records", &used, (size_t)ls_job_processes(plan->job), sizeof *used));
    LS_TRY(ls_allocate("records", &r->at, (size_t)plan->total, sizeof *r->at));
    for (int m = 0; m < plan->total; m++) {
        size_t *count = &used[plan->members[m].process];
        r->at[m] = LS_READ_MEMBERS + *count;
        *count += r->width(r->run, m);
        r->each = LS_READ_MEMBERS + *count > r->each ? LS_READ_MEMBERS + *count : r->each;
    }
    LS_TRY(ls_allocate("records", &r->records, r->count, sizeof *r->records));
    return ls_allocate("records", &r->sent, r->count * r->each, sizeof *r->sent);
}

ls_status ls_reading_open(ls_reading *r)
{
    ls_comm *comm = r->run->plan.job->ranks.comm;
    LS_TRY(ls_comm_agree(comm, lay_out(r)));
    return ls_comm_tell(comm, read_local(r), r->sent, r->count * r->each * sizeof *r->sent,
                        &r->all);
}

void ls_reading_close(ls_reading *r)
{
    free(r->at);
    free(r->records);
    free(r->sent);
    free(r->all);
}

static const double *numbers_of(const ls_reading *r, int process, uint64_t k)
{
    return r->all + ((uint64_t)process * r->count + k) * r->each;
}

const double *ls_reading_of(const ls_reading *r, int member, uint64_t k)
{
    return numbers_of(r, r->run->plan.members[member].process, k) + r->at[member];
}

uint64_t ls_reading_end(const ls_reading *r, uint64_t k)
{
    double end_ns = 0;
    for (int p = 0; p < ls_job_processes(r->run->plan.job); p++)
        end_ns = fmax(end_ns, numbers_of(r, p, k)[LS_READ_END]);
    return r->mark_ns + (uint64_t)end_ns;
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

/* The member that records number d of the losses of all replicas. */
static int loss_of(const ls_step_plan *plan, int d)
{
    return d * (plan->mesh.places / losses_of(plan)) + plan->loss_place;
}

/* The parts of the loss that a member records, as many as the sums of its replica. */
static size_t losses_at(const ls_step_run *run, int m)
{
    const ls_step_plan *plan = &run->plan;
    const int number = m / plan->mesh.places, each = plan->mesh.places / losses_of(plan);
    return number < plan->mesh.replicas && m % each == plan->loss_place
               ? ls_replicated_sums(plan->job, number)
               : 0;
}

/* Whether a member has a part of weight decay's loss: members that together update one copy of the
 * model do, or the one that computes it for them. */
static bool has_decay(const ls_step_plan *plan, int m, const ls_replica *replica)
{
    const ls_range copy = ls_step_plan_copy(plan, &plan->state, (int)plan->owners.first);
    return (size_t)m - copy.first < copy.count || replica->loss.decays == LS_DECAY_HERE;
}

/* A member sends the parts of its loss. */
static ls_status read_losses(ls_reading *r, int m, uint64_t k, double end_ns, double *process,
                             double *own)
{
    ls_replica *replica = replica_of(r, m);
    const bool first = has_decay(&r->run->plan, m, replica);
    double further[LS_REPLICA_LOSSES] = {0}; /* further parts, then weight decay's */
    (void)end_ns;
    if (replica->loss.more && (first || replica->loss.sums > 1))
        LS_TRY(ls_replica_more_losses(replica, r->first + k, further));
    if (first && replica->loss.decay)
        process[LS_READ_DECAY] += further[replica->loss.sums - 1];
    if (!own)
        return LS_OK;
    own[0] = r->records[k].loss;
    memcpy(own + 1, further, (replica->loss.sums - 1) * sizeof *own);
    return LS_OK;
}

/* The loss of all replicas, without weight decay's part; if positions are divided, places' losses
 * are summed first. */
static double loss_of_all(const ls_reading *r, uint64_t k)
{
    const ls_step_plan *plan = &r->run->plan;
    const int each = losses_of(plan);
    double sums[LS_JOB_REPLICAS];
    const double *replicas[LS_JOB_REPLICAS];
    for (int d = 0; d < plan->mesh.replicas; d++) {
        replicas[d] = ls_reading_of(r, loss_of(plan, d * each), k);
        for (int j = 1; j < each; j++) {
            sums[d] = *replicas[d] + *ls_reading_of(r, loss_of(plan, d * each + j), k);
            replicas[d] = &sums[d];
        }
    }
    return ls_slice_loss_sum(plan->job, ls_reading_batch(r, k), replicas, plan->mesh.replicas);
}

ls_status ls_steps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                           uint64_t *mark_ns)
{
    ls_closing(ls_reading_close) ls_reading r = {.run = ls_step_run_of(run),
                                                 .first = first,
                                                 .count = count,
                                                 .width = losses_at,
                                                 .read = read_losses};
    LS_TRY(ls_reading_open(&r));
    *mark_ns = r.mark_ns;
    for (uint64_t k = 0; k < count; k++) {
        double decay = 0;
        for (int p = 0; p < ls_job_processes(run->job); p++)
            decay += numbers_of(&r, p, k)[LS_READ_DECAY];
        out[k] =
            (ls_step_record){.end_ns = ls_reading_end(&r, k), .loss = loss_of_all(&r, k) + decay};
    }
    return LS_OK;
}
