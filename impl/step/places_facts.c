/* SPDX-License-Identifier: MIT */
/* A model over several places: its values, what it makes of a test set, what it holds and moves. */
#include "impl/step/step_private.h"

#include <stdlib.h>

/* ---- Values ---------------------------------------------------------------------------------- */

/* Every process tells all what its place number i owns, one i after the other. */
ls_status ls_places_gather(ls_stepped *run, float *parameters)
{
    const ls_job *job = run->base.job;
    const int places = run->parts.count, mine = ls_job_replica_on(job, 0);
    size_t most = 1;
    for (int p = 0; p < places; p++)
        most = run->parts.parts[p].elements > most ? run->parts.parts[p].elements : most;
    float *here = calloc(most, sizeof *here);
    float *all = calloc(most * (size_t)job->comm->size, sizeof *all);
    ls_status status = here && all ? LS_OK : ls_fail_memory("parameters", most * sizeof *all);
    status = ls_comm_agree(job->comm, status);
    for (int i = 0; i < run->places && !status; i++) {
        status = ls_comm_bring(job->comm, ls_replica_gather(run->members[i].replica, here), here,
                               most * sizeof *here, all);
        for (int k = 0; k < job->comm->size && !status; k++) {
            const int device = k * run->places + i;
            if (device / places == mine)
                ls_members_move(&run->parts, device % places, parameters, all + (size_t)k * most,
                                true);
        }
    }
    free(here);
    free(all);
    return status;
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* The first replica's, of the first piece of a full batch. */
static ls_status build_test(ls_stepped *run)
{
    ls_step *s = &run->divided.test;
    if (s->task_count)
        return LS_OK;
    ls_status status = ls_step_open(run, LS_FULL, s);
    for (int n = 0; n + 1 < ls_nodes(s) && !status; n++) {
        ls_forward_node(s, 0, 0, n);
        status = s->status;
    }
    if (status) {
        ls_step_close(s);
        *s = (ls_step){0};
    }
    return status;
}

/* One batch after the other; the host waits at every border, for nothing is timed here. */
static ls_status evaluate_here(ls_stepped *run, uint64_t most, ls_evaluation *out)
{
    ls_member *members = run->members;
    const int judge = run->losses - run->first;
    const bool judges = judge >= 0 && judge < run->places;
    const uint64_t samples = ls_replica_test_samples(run->base.job, most);
    const uint64_t rows = (uint64_t)ls_net_rows(ls_slice_piece_net(members[0].slice[LS_FULL], 0));
    LS_TRY(build_test(run));
    for (int m = 0; m < run->places; m++) {
        LS_TRY(ls_replica_average_in(members[m].replica));
        LS_TRY(ls_replica_test_begin(members[m].replica,
                                     ls_slice_piece_net(members[m].slice[LS_FULL], 0)));
    }
    for (uint64_t at = 0; at < samples; at += rows) {
        for (int m = 0; m < run->places; m++)
            LS_TRY(ls_replica_test_feed(members[m].replica, at));
        LS_TRY(ls_step_put_serially(&run->divided.test));
        if (judges)
            LS_TRY(ls_replica_test_count(members[judge].replica));
    }
    *out = (ls_evaluation){.accuracy = -1};
    if (judges)
        LS_TRY(ls_replica_test_end(members[judge].replica, out));
    for (int m = 0; m < run->places; m++)
        LS_TRY(ls_replica_average_out(members[m].replica));
    return LS_OK;
}

ls_status ls_places_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out)
{
    ls_comm **ends = run->divided.ends;
    ls_status status = evaluate_here(run, most, out);
    for (int m = 0; status && ends && m < run->places; m++)
        ends[m]->backend->abandon(ends[m]); /* for who waits at a border for this one */
    return ends ? ls_stepped_tell(run->base.job, status, out) : status;
}

/* ---- Traffic ---------------------------------------------------------------------- */

/* Every output over a border, its gradient back, of all rows once; gradients of copies once a
 * piece, their values once. */
ls_traffic ls_border_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const ls_graph_parts *parts = &s->run->parts;
    const uint64_t batch = (uint64_t)ls_replicated_batch(job, s->which);
    const int n = ls_job_replicas(job);
    uint64_t pieces = 0;
    ls_traffic sum = {0};
    for (int d = 0; d < n; d++)
        pieces += (uint64_t)ls_replicated_pieces(job, d, s->which);
    for (size_t i = 0; i < parts->border_count; i++) {
        const uint64_t ways = parts->borders[i].gradient ? 2 : 1;
        sum.messages_sent += ways * pieces;
        sum.bytes_sent += ways * batch * parts->borders[i].samples * sizeof(float);
    }
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *c = &parts->copies[i];
        const uint64_t times = c->owner == c->holder ? 0 : pieces + (uint64_t)n;
        sum.messages_sent += times;
        sum.bytes_sent += times * c->count * sizeof(float);
    }
    return sum;
}
