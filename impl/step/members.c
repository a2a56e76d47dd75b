/* SPDX-License-Identifier: MIT */
/* Members of this process: opening, values, closing; see step_private.h. */
#include "impl/step/step_private.h"

#include <stdlib.h>
#include <string.h>

/* Those that are at work at once on a pipeline's stage: of the micro-batches in flight. */
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

/* ---- Members --------------------------------------------------------------------------------- */

static ls_status open_member(const ls_stepped *run, int number, ls_member *m)
{
    const ls_job *job = run->base.job;
    const bool replica = number < (int)job->device_count, divided = run->parts.count;
    const int d = ls_job_replica_on(job, (size_t)number);
    const int place = divided ? ls_job_place_of(job, (size_t)number) : 0;
    const ls_replica_options options = {.job = job,
                                        .device =
                                            replica ? job->devices[number] : job->variable_device,
                                        .number = divided ? d * run->parts.count + place : d,
                                        .rows = replica ? job->batch : 0,
                                        .sums = replica ? ls_replicated_sums(job, d) : 1,
                                        .part = divided ? &run->parts.parts[place] : NULL,
                                        .no_optimizer = run->holder >= 0 && run->holder != number};
    m->slots = divided && job->microbatches > 0 ? slots_of(job, d, place) : 0;
    m->statistics_comm = replica && run->statistics_comms ? run->statistics_comms[number] : NULL;
    LS_TRY(ls_replica_open(&options, &m->replica));
    return replica ? ls_replicated_open_slices(job, d, m) : LS_OK;
}

static ls_status open_shadow(const ls_stepped *run, int number)
{
    const ls_job *job = run->base.job;
    const ls_replica *holder = run->members[run->holder].replica;
    ls_member *shadow = &run->members[run->total + number];
    const ls_replica_options options = {.job = job,
                                        .device = holder->device,
                                        .number = number,
                                        .rows = job->batch,
                                        .sums = run->members[number].replica->sums,
                                        .no_optimizer = true,
                                        .variables_of = holder};
    LS_TRY(ls_replica_open(&options, &shadow->replica));
    return ls_replicated_open_slices(job, number, shadow);
}

/* Where pieces of a batch, or replicas, add up batch statistics, they meet on a communicator. */
static bool syncs_statistics(const ls_job *job)
{
    return ls_replicated_syncs(job) && ls_job_replicas(job) > 1;
}

static ls_status prepare(ls_stepped *run, const ls_job *job)
{
    const int devices = (int)job->device_count, places = ls_job_places(job);
    const size_t total = job->device_count + (run->holder == devices);
    const size_t all = total + (run->holder >= 0 && job->backward_held ? job->device_count : 0);
    if (ls_strategy_divides(run->base.strategy))
        LS_TRY(ls_graph_parts_open(job->model->graph, job->place, places, &run->parts));
    run->members = calloc(all, sizeof *run->members);
    if (!run->members)
        return ls_fail_memory("replicas", all * sizeof *run->members);
    run->places = run->parts.count ? (places < devices ? places : devices) : 1;
    run->first = run->parts.count ? ls_job_place_of(job, 0) : 0;
    run->loss_place = run->parts.count ? job->place[job->model->graph->count - 1] : 0;
    run->count = devices / run->places;
    run->total = (int)total;
    run->all = (int)all;
    run->statistics_comms =
        syncs_statistics(job) ? calloc((size_t)run->count, sizeof(ls_comm *)) : NULL;
    return run->statistics_comms || !syncs_statistics(job)
               ? LS_OK
               : ls_fail_memory("replicas", (size_t)run->count * sizeof(ls_comm *));
}

ls_status ls_members_open(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    LS_TRY(ls_job_agree(job, prepare(run, job)));
    if (run->statistics_comms)
        LS_TRY(ls_comm_open(ls_comm_backend_auto(job->comm, LS_DEVICE_CPU), job->comm, job->devices,
                            run->count, run->statistics_comms));
    for (int i = 0; i < run->total; i++)
        LS_TRY(open_member(run, i, &run->members[i]));
    for (int i = 0; i < run->all - run->total; i++)
        if (i != run->holder)
            LS_TRY(open_shadow(run, i));
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
    for (int i = run->all; i-- > 0;) /* shadows use others' memory */
        close_member(&run->members[i]);
    for (int i = 0; run->statistics_comms && i < run->count; i++)
        ls_comm_close(run->statistics_comms[i]);
    free(run->statistics_comms);
    free(run->process);
    free(run->members);
    ls_graph_parts_close(&run->parts);
    free(run);
}

/* ---- Values in and out ----------------------------------------------------------------------- */

void ls_members_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out)
{
    const ls_graph_part *part = &parts->parts[place];
    for (size_t v = 0; v < part->graph->variables.count; v++) {
        const ls_variable *mine = &part->graph->variables.items[v];
        const ls_variable *all = &parts->whole->variables.items[part->variable[v]];
        if (!out)
            memcpy(here + mine->offset, whole + all->offset, mine->count * sizeof *here);
        else if (mine->offset < part->owned)
            memcpy(whole + all->offset, here + mine->offset, mine->count * sizeof *here);
    }
}

/* Of a part of the model its variables, from the whole flat buffer or, `out`, to it. */
static ls_status move_part(const ls_stepped *run, int member, float *whole, bool out)
{
    ls_replica *replica = run->members[member].replica;
    const int place = run->first + member % run->places;
    float *here = calloc(replica->elements + 1, sizeof *here);
    if (!here)
        return ls_fail_memory("replicas", replica->elements * sizeof *here);
    if (!out)
        ls_members_move(&run->parts, place, whole, here, false);
    ls_status status = (out ? ls_replica_gather(replica, here) : ls_replica_load(replica, here));
    if (out && !status)
        ls_members_move(&run->parts, place, whole, here, true);
    free(here);
    return status;
}

ls_status ls_members_load(const ls_stepped *run, const float *parameters)
{
    for (int i = 0; i < run->total; i++)
        LS_TRY(run->parts.count ? move_part(run, i, (float *)parameters, false)
                                : ls_replica_load(run->members[i].replica, parameters));
    return LS_OK;
}

ls_status ls_members_gather(const ls_stepped *run, int first, float *parameters)
{
    if (!run->parts.count)
        return ls_replica_gather(run->members[first].replica, parameters);
    for (int i = first; i < first + run->places; i++)
        LS_TRY(move_part(run, i, parameters, true));
    return LS_OK;
}
