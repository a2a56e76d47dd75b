/* SPDX-License-Identifier: MIT */
/* A model over several places: its parameters, evaluation, memory and traffic. */
#include "impl/step/step_private.h"

#include <stdlib.h>

/* ---- Values ---------------------------------------------------------------------------------- */

/* Every process sends all others what its place number i owns, for one i after the other. */
ls_status ls_places_gather(ls_stepped *run, float *parameters)
{
    const ls_replicated *r = &run->shared;
    const ls_job *job = r->base.job;
    const int places = r->parts.count, mine = ls_job_replica_on(job, 0);
    size_t most = 1;
    for (int p = 0; p < places; p++)
        most = r->parts.parts[p].elements > most ? r->parts.parts[p].elements : most;
    float *here = calloc(most, sizeof *here);
    float *all = calloc(most * (size_t)job->comm->size, sizeof *all);
    ls_status status = here && all ? LS_OK : ls_fail_memory("parameters", most * sizeof *all);
    status = ls_comm_agree(job->comm, status);
    for (int i = 0; i < r->places && !status; i++) {
        status = ls_comm_bring(job->comm, ls_replica_gather(r->members[i].replica, here), here,
                               most * sizeof *here, all);
        for (int k = 0; k < job->comm->size && !status; k++) {
            const int device = k * r->places + i;
            if (device / places == mine)
                ls_replicated_move(&r->parts, device % places, parameters, all + (size_t)k * most,
                                   true);
        }
    }
    free(here);
    free(all);
    return status;
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* Builds evaluation's forward pass: the first replica's, with the first piece of a full batch. */
static ls_status build_test(ls_stepped *run)
{
    ls_step *s = &run->places.test;
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
    const ls_replicated *r = &run->shared;
    ls_member *members = r->members;
    const int judge = r->loss_place - r->first;
    const bool judges = judge >= 0 && judge < r->places;
    const uint64_t samples = ls_replica_test_samples(r->base.job, most);
    const uint64_t rows = (uint64_t)ls_net_rows(ls_slice_net(members[0].slice[LS_FULL]));
    LS_TRY(build_test(run));
    for (int m = 0; m < r->places; m++) {
        LS_TRY(ls_replica_average_in(members[m].replica));
        LS_TRY(ls_replica_test_begin(members[m].replica, ls_slice_net(members[m].slice[LS_FULL])));
    }
    for (uint64_t at = 0; at < samples; at += rows) {
        for (int m = 0; m < r->places; m++)
            LS_TRY(ls_replica_test_feed(members[m].replica, at));
        LS_TRY(ls_step_put_serially(&run->places.test));
        if (judges)
            LS_TRY(ls_replica_test_count(members[judge].replica));
    }
    *out = (ls_evaluation){.accuracy = -1};
    if (judges)
        LS_TRY(ls_replica_test_end(members[judge].replica, out));
    for (int m = 0; m < r->places; m++)
        LS_TRY(ls_replica_average_out(members[m].replica));
    return LS_OK;
}

ls_status ls_places_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out)
{
    ls_comm **ends = run->places.ends;
    ls_status status = evaluate_here(run, most, out);
    for (int m = 0; status && ends && m < run->shared.places; m++)
        ends[m]->backend->abandon(ends[m]); /* so that nobody waits at a border for this one */
    return ends ? ls_stepped_tell(run->shared.base.job, status, out) : status;
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

void ls_places_memory(const ls_stepped *run, int member, ls_memory_formula *formula)
{
    const ls_replicated *r = &run->shared;
    const ls_comm *end = run->places.ends ? run->places.ends[member] : NULL;
    for (size_t i = 0; i < r->parts.copy_count; i++)
        if (r->parts.copies[i].owner == r->first + member % r->places)
            formula->bytes[LS_MEMORY_COMMUNICATION] +=
                ls_places_arrived(run, &r->parts.copies[i], member);
    if (end && end->backend->memory)
        formula->bytes[LS_MEMORY_COMMUNICATION] += end->backend->memory(end);
}

/* Outputs over borders and their gradients back, once for each row; gradients of copies once per
 * piece, their values once. */
ls_traffic ls_border_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const ls_graph_parts *parts = &s->run->shared.parts;
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
