/* SPDX-License-Identifier: MIT */
/* Members: opening, values, closing; see step_private.h. */
#include "common/base/grow.h"
#include "impl/step/served.h"

#include <stdlib.h>

/* Pieces in flight on a pipeline's stage: those of its micro-batches in flight. */
static int slots_of(const ls_job *job, int d, int place)
{
    int most = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_schedule schedule = ls_replicated_schedule(job, d, b);
        const int pieces = ls_replicated_pieces(job, d, b), m = schedule.microbatches;
        int slots = m ? (pieces + m - 1) / m * ls_schedule_in_flight(&schedule, place) : 0;
        slots = slots < pieces ? slots : pieces;
        most = slots > most ? slots : most;
    }
    return most;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static ls_device *device_of(const ls_stepped *run, int number)
{
    const ls_job *job = run->base.job;
    const int index = number - ls_job_member(job, 0);
    if (run->served)
        return ls_ps_seat_of(job, &run->served->layout, number).device;
    return index < (int)job->device_count ? job->devices[index] : job->variable_device;
}

/* Workers get variables in each step, so one of them computes weight decay's part of the loss; with
 * backup workers all do, since worker 0 may skip the step. */
static ls_decay_loss decay_loss_of(const ls_stepped *run, int replica)
{
    if (!run->served)
        return LS_DECAY_UPDATES;
    return replica == 0 || run->base.job->ps.backups ? LS_DECAY_HERE : LS_DECAY_ELSEWHERE;
}

/* Opens a part of a replica, a shadow, or a holder that is no replica. */
static ls_status open_member(const ls_stepped *run, int index)
{
    const ls_job *job = run->base.job;
    const bool shadow = index >= run->total;
    const int number = shadow ? index - run->total : index;
    const int d = number / run->places, place = number % run->places;
    const bool replica = d < run->count;
    ls_member *m = &run->members[index];
    const ls_replica *holder = shadow ? run->members[run->holder].replica : NULL;
    const ls_replica_options options = {.job = job,
                                        .device = holder ? holder->device : device_of(run, number),
                                        .number = number,
                                        .rows = replica ? job->batch : 0,
                                        .sums = replica ? ls_replicated_sums(job, d) : 1,
                                        .part = run->parts.count ? &run->parts.parts[place] : NULL,
                                        .no_optimizer = run->served ||
                                                        (run->holder >= 0 && run->holder != index),
                                        .decay_loss = decay_loss_of(run, d),
                                        .variables_of = holder};
    m->slots = run->parts.count && job->microbatches > 0 ? slots_of(job, d, place) : 0;
    LS_TRY(ls_replica_open(&options, &m->replica));
    return replica ? ls_replicated_open_slices(job, d, m) : LS_OK;
}

static ls_status prepare(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    const size_t devices = job->device_count;
    run->places = ls_job_places(job);
    run->count = ls_job_replicas(job);
    run->total = run->count * run->places + (run->holder == (int)devices);
    if (ls_strategy_serves(run->base.strategy))
        LS_TRY(ls_served_open(run));
    if (ls_strategy_divides(run->base.strategy)) {
        LS_TRY(ls_graph_parts_open(job->model->graph, job->place, run->places, &run->parts));
        run->loss_place = job->place[job->model->graph->count - 1];
    }
    const size_t total = (size_t)run->total, shadows = run->holder >= 0 && job->backward_held;
    const size_t all = total + shadows * devices;
    LS_TRY(ls_allocate("replicas", &run->ends, total, sizeof *run->ends));
    LS_TRY(ls_allocate("replicas", &run->comms, total + 1, sizeof(ls_comm *)));
    LS_TRY(ls_allocate("replicas", &run->members, all, sizeof *run->members));
    run->all = (int)all;
    LS_TRY(ls_allocate("replicas", &run->here, total, sizeof *run->here));
    for (int m = 0; m < run->total; m++) {
        run->here[ls_members_rank(run, m)] = m;
        if (job->comm)
            run->members[m].process = run->served
                                          ? ls_ps_seat_of(job, &run->served->layout, m).process
                                          : m / (int)devices;
    }
    for (int rank = 0; rank < run->total; rank++)
        if (run->members[run->here[rank]].process == ls_job_process(job))
            run->here[run->here_count++] = run->here[rank];
    return LS_OK;
}

/* Opens the communicator with which replicas sum batch statistics. */
static ls_status open_statistics(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    const int devices = (int)job->device_count, first = ls_job_member(job, 0);
    if (!ls_replicated_syncs(job) || run->count == 1)
        return LS_OK;
    LS_TRY(ls_comm_agree(job->comm, ls_allocate("replicas", &run->statistics_comms,
                                                job->device_count, sizeof(ls_comm *))));
    LS_TRY(ls_comm_open(ls_comm_backend_auto(job->comm, LS_DEVICE_CPU), job->comm, job->devices,
                        devices, run->statistics_comms));
    for (int i = 0; i < devices; i++)
        run->members[first + i].statistics_comm = run->statistics_comms[i];
    return LS_OK;
}

int ls_members_training(const ls_stepped *run)
{
    return run->served ? run->count : run->total;
}

bool ls_members_on(const ls_stepped *run, int member, size_t index)
{
    const ls_job *job = run->base.job;
    const ls_replica *r = run->members[member].replica;
    return r &&
           r->device == (index < job->device_count ? job->devices[index] : job->variable_device);
}

int ls_members_rank(const ls_stepped *run, int member)
{
    return run->served ? ls_ps_seat_of(run->base.job, &run->served->layout, member).rank : member;
}

ls_status ls_members_open(ls_stepped *run)
{
    LS_TRY(ls_comm_agree(run->base.job->comm, prepare(run)));
    LS_TRY(open_statistics(run));
    for (int i = 0; i < run->here_count; i++)
        LS_TRY(run->served && run->here[i] >= run->count ? ls_served_open_server(run, run->here[i])
                                                         : open_member(run, run->here[i]));
    for (int i = run->total; i < run->all; i++)
        if (i - run->total != run->holder)
            LS_TRY(open_member(run, i));
    return LS_OK;
}

static void close_member(ls_member *m)
{
    for (int b = LS_BATCHES; b-- > 0;)
        ls_slice_close(m->slice[b]);
    ls_replica_close(m->replica);
}

void ls_members_close(ls_stepped *run)
{
    for (int i = run->all; i-- > 0;) /* shadows share members' memory */
        close_member(&run->members[i]);
    for (size_t i = 0; run->statistics_comms && i < run->base.job->device_count; i++)
        ls_comm_close(run->statistics_comms[i]);
    free(run->statistics_comms);
    free(run->ends);
    free(run->comms);
    free(run->here);
    free(run->members);
    ls_graph_parts_close(&run->parts);
    free(run);
}

/* ---- Values ---------------------------------------------------------------------------------- */

ls_status ls_members_load(const ls_stepped *run, const float *parameters)
{
    for (int i = 0; i < run->total; i++)
        if (run->members[i].replica)
            LS_TRY(ls_replica_load(run->members[i].replica, parameters));
    return LS_OK;
}

ls_status ls_members_tell(const ls_stepped *run, int from, int first, int last, float *values,
                          size_t count)
{
    enum { TAG = 0x7073 };
    ls_comm *comm = run->base.job->comm;
    if (comm->rank != from)
        return comm->backend->receive(comm, from, TAG, values, count * sizeof *values);
    for (int to = first; to <= last; to++)
        if (to != from)
            LS_TRY(comm->backend->send(comm, to, TAG, values, count * sizeof *values));
    return LS_OK;
}

int ls_members_own(const ls_stepped *run)
{
    int own = 0;
    while (!run->members[own].replica)
        own++;
    return own;
}

ls_status ls_members_gather(const ls_stepped *run, int first, int count, bool averages,
                            float *parameters)
{
    for (int i = first; i < first + count; i++)
        if (run->members[i].replica)
            LS_TRY(ls_replica_gather(run->members[i].replica, averages, parameters));
    return LS_OK;
}
