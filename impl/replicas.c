/* SPDX-License-Identifier: MIT */
/* Replicas of this process; see replicas.h. */
#include "impl/replicas.h"

#include "common/base/hooks.h"

#include <stdlib.h>
#include <string.h>

bool ls_replicated_syncs(const ls_job *job)
{
    return job->sync_statistics && (job->exact || ls_job_replicas(job) > 1);
}

int64_t ls_replicated_batch(const ls_job *job, int which)
{
    return which == LS_FULL ? job->batch : ls_job_tail(job);
}

/* The two slices share memory: the one with the larger pieces is opened first. A tail's can be
 * the larger: of 5 replicas, one has 1 of 8 samples but 2 of 7. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, ls_member *m)
{
    ls_slice_options options[LS_BATCHES];
    int64_t rows[LS_BATCHES] = {0};
    for (int b = 0; b < LS_BATCHES; b++) {
        options[b] = (ls_slice_options){.replica = m->replica,
                                        .batch = ls_replicated_batch(job, b),
                                        .number = number,
                                        .count = ls_job_replicas(job),
                                        .pieces = job->microbatches,
                                        .slots = m->slots,
                                        .synced = ls_replicated_syncs(job),
                                        .comm = m->meeting};
        if (options[b].batch && number >= 0)
            rows[b] = ls_slice_rows(job, &options[b]);
    }
    int first = rows[LS_TAIL] > rows[LS_FULL] ? LS_TAIL : LS_FULL;
    for (int i = 0; i < LS_BATCHES; i++) {
        int b = i ? LS_FULL + LS_TAIL - first : first;
        options[b].memory_of = i ? m->slice[first] : NULL;
        if (options[b].batch && number >= 0)
            LS_TRY(ls_slice_open(&options[b], &m->slice[b]));
        if (options[b].batch)
            LS_TRY(ls_replica_finish(m->replica,
                                     LS_PLANTED(tail_position) ? job->batch : options[b].batch,
                                     &m->finish[b]));
    }
    return LS_OK;
}

size_t ls_replicated_sums(const ls_job *job, int number)
{
    size_t most = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        int64_t batch = ls_replicated_batch(job, b);
        size_t sums = batch ? ls_slice_count_sums(job, batch, number, ls_job_replicas(job)) : 0;
        most = sums > most ? sums : most;
    }
    return most;
}

/* ---- Pieces of a divided model's slice ------------------------------------------------------- */

int ls_replicated_pieces(const ls_job *job, int d, int which)
{
    const int64_t batch = ls_replicated_batch(job, which), n = ls_job_replicas(job);
    if (job->exact)
        return (int)ls_slice_share(ls_job_shards(job, batch), d, n);
    const int64_t m = job->microbatches > 1 ? job->microbatches : 1;
    int pieces = 0;
    for (int64_t i = d * m; i < (d + 1) * m; i++)
        pieces += ls_slice_share(batch, i, n * m) > 0;
    return pieces;
}

ls_schedule ls_replicated_schedule(const ls_job *job, int d, int which)
{
    const int pieces = ls_replicated_pieces(job, d, which);
    return (ls_schedule){.stages = ls_job_places(job),
                         .microbatches = job->microbatches < pieces ? job->microbatches : pieces,
                         .one_f_one_b =
                             ls_declared_number(&job->options, &ls_option_pipeline_schedule) ==
                             LS_SCHEDULE_1F1B};
}

/* Pieces at work at once on a pipeline's stage: those of the micro-batches in flight. */
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

static ls_status open_member(const ls_replicated *run, int number, ls_member *m)
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
    m->meeting = replica && run->meetings ? run->meetings[number] : NULL;
    LS_TRY(ls_replica_open(&options, &m->replica));
    return ls_replicated_open_slices(job, replica ? d : -1, m);
}

static ls_status open_shadow(const ls_replicated *run, int number)
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

/* Whether pieces of a batch, or replicas, add up batch statistics, for which replicas need a
 * communicator. */
static bool syncs_statistics(const ls_job *job)
{
    return ls_replicated_syncs(job) && ls_job_replicas(job) > 1;
}

static ls_status prepare(ls_replicated *run, const ls_job *job)
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
    run->meetings = syncs_statistics(job) ? calloc((size_t)run->count, sizeof(ls_comm *)) : NULL;
    return run->meetings || !syncs_statistics(job)
               ? LS_OK
               : ls_fail_memory("replicas", (size_t)run->count * sizeof(ls_comm *));
}

ls_status ls_replicated_open(ls_replicated *run, const ls_job *job)
{
    LS_TRY(ls_job_agree(job, prepare(run, job)));
    if (run->meetings)
        LS_TRY(ls_comm_open(ls_comm_backend_auto(job->comm, LS_DEVICE_CPU), job->comm, job->devices,
                            run->count, run->meetings));
    for (int i = 0; i < run->total; i++)
        LS_TRY(open_member(run, i, &run->members[i]));
    for (int i = 0; i < run->all - run->total; i++)
        if (i != run->holder)
            LS_TRY(open_shadow(run, i));
    return LS_OK;
}

static ls_replicated *replicated(ls_run *run)
{
    return (ls_replicated *)run;
}

static void close_member(ls_member *m)
{
    for (int b = LS_BATCHES; b-- > 0;) {
        ls_op_list_clear(&m->finish[b]);
        ls_slice_close(m->slice[b]);
    }
    ls_replica_close(m->replica);
}

void ls_replicated_close(ls_run *base)
{
    ls_replicated *run = replicated(base);
    for (int i = run->all; i-- > 0;) /* shadows use others' memory */
        close_member(&run->members[i]);
    for (int i = 0; run->meetings && i < run->count; i++)
        ls_comm_close(run->meetings[i]);
    free(run->meetings);
    free(run->process);
    free(run->members);
    ls_graph_parts_close(&run->parts);
    free(run);
}

/* ---- Values in and out ----------------------------------------------------------------------- */

void ls_replicated_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out)
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

/* Copies the variables of a member's part of the model from the whole flat buffer or (`out`) to it.
 */
static ls_status move_part(const ls_replicated *run, int member, float *whole, bool out)
{
    ls_replica *replica = run->members[member].replica;
    const int place = run->first + member % run->places;
    float *here = calloc(replica->elements + 1, sizeof *here);
    if (!here)
        return ls_fail_memory("replicas", replica->elements * sizeof *here);
    if (!out)
        ls_replicated_move(&run->parts, place, whole, here, false);
    ls_status status = (out ? ls_replica_gather(replica, here) : ls_replica_load(replica, here));
    if (out && !status)
        ls_replicated_move(&run->parts, place, whole, here, true);
    free(here);
    return status;
}

ls_status ls_replicated_load(ls_run *base, const float *parameters)
{
    const ls_replicated *run = replicated(base);
    for (int i = 0; i < run->total; i++)
        LS_TRY(run->parts.count ? move_part(run, i, (float *)parameters, false)
                                : ls_replica_load(run->members[i].replica, parameters));
    return LS_OK;
}

ls_status ls_replicated_gather(const ls_replicated *run, int first, float *parameters)
{
    if (!run->parts.count)
        return ls_replica_gather(run->members[first].replica, parameters);
    for (int i = first; i < first + run->places; i++)
        LS_TRY(move_part(run, i, parameters, true));
    return LS_OK;
}
