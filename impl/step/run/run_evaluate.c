/* SPDX-License-Identifier: MIT */
/*
 * Evaluation with the variables of a run; see run.h. Each replica takes its part of the test
 * samples (impl/test_pass.h). What a step does to have the variables in windows, the forward pass
 * here does, too (ls_build_evaluation).
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"
#include "impl/test_pass.h"

#include <stdlib.h>

typedef struct evaluation {
    ls_step_run *run;
    ls_tester *testers; /* [count] replicas with members in this process */
    ls_tested *parts;   /* [members] */
    ls_replica **lent;  /* [members] */
    int *pieces;        /* [replicas] whose net evaluates; -1 means none */
    int count, part_count, lent_count;
    uint64_t rounds;
    bool differ; /* replicas have variables of their own: replica 0's are evaluated */
} evaluation;

/* ---- Who evaluates --------------------------------------------------------------------------- */

/* Adds a replica's parts that are here; with none, the next tester takes the place. */
static void add_parts(evaluation *e, int replica)
{
    const ls_step_plan *plan = &e->run->plan;
    const int places = plan->mesh.places, piece = e->pieces[replica];
    ls_tester *t = &e->testers[e->count];
    t->parts = &e->parts[e->part_count];
    for (int m = replica * places; m < (replica + 1) * places; m++) {
        const ls_member *member = &e->run->resources.members[m];
        const ls_slice *slice = member->slice[LS_FULL];
        if (!member->replica)
            continue;
        t->parts[t->count++] =
            (ls_tested){.replica = member->replica,
                        .net = ls_slice_node_net(slice, piece, member->replica->graph->count - 1),
                        .chunks = ls_slice_piece_nets(slice, piece),
                        .chunk_count = ls_graph_part_chunks(member->replica->part),
                        .counts = plan->context || m % places == plan->loss_place};
    }
    e->part_count += t->count;
    e->count += t->count > 0;
}

/* Deals the samples to the replicas of all processes that evaluate. */
static void deal(evaluation *e, const ls_evaluating *how)
{
    const ls_job *job = e->run->plan.job;
    const uint64_t samples = ls_test_samples(job, how),
                   rows = (uint64_t)ls_replicated_first_rows(job);
    const int replicas = e->run->plan.mesh.replicas;
    int all = 0;
    for (int r = 0; r < replicas; r++)
        all += (e->pieces[r] = ls_replicated_test_piece(job, r)) >= 0;
    for (int r = 0, at = 0; r < replicas; r++) {
        if (e->pieces[r] < 0)
            continue;
        ls_test_share(samples, rows, at++, all, &e->testers[e->count]);
        add_parts(e, r);
    }
    e->rounds = ls_test_rounds(samples, rows, all);
}

static ls_status open(evaluation *e, const ls_evaluating *how)
{
    const ls_step_plan *plan = &e->run->plan;
    const int members = plan->mesh.replicas * plan->mesh.places;
    LS_TRY(ls_allocate("step", &e->testers, (size_t)members, sizeof *e->testers));
    LS_TRY(ls_allocate("step", &e->parts, (size_t)members, sizeof *e->parts));
    LS_TRY(ls_allocate("step", &e->lent, (size_t)members, sizeof(ls_replica *)));
    LS_TRY(ls_allocate("step", &e->pieces, (size_t)members, sizeof *e->pieces));
    for (int m = 0; m < members; m++)
        if (e->run->resources.members[m].replica)
            e->lent[e->lent_count++] = e->run->resources.members[m].replica;
    deal(e, how);
    return LS_OK;
}

static void close(evaluation *e)
{
    free(e->testers);
    free(e->parts);
    free(e->lent);
    free(e->pieces);
}

/* ---- Their variables and passes -------------------------------------------------------------- */

/* Whether replicas have other variables than the evaluated ones: averages, another replica's, or an
 * owner's. */
static bool is_lent(const evaluation *e)
{
    const ls_step_plan *plan = &e->run->plan;
    return ls_state_name(plan->job, LS_AVERAGES) || (e->differ && plan->mesh.replicas > 1) ||
           plan->parameters.on[LS_MEMBER] == LS_PLACED;
}

/* The averages of a block, or its variables if there are none. */
static ls_status gather(void *context, ls_range block, float *out)
{
    const evaluation *e = context;
    const ls_job *job = e->run->plan.job;
    LS_TRY(ls_steps_gather(e->run, LS_AVERAGES, block, out));
    return e->differ && job->ranks.comm
               ? ls_broadcast(job, 0, 0, job->ranks.comm->size - 1, out, block.count)
               : LS_OK;
}

/* Tasks run node by node: evaluation is not timed. */
static ls_status predict(void *context, const ls_evaluating *how)
{
    evaluation *e = context;
    ls_step_program *p = &e->run->evaluation;
    ls_status status = LS_OK;
    if (!p->lanes) {
        p->lanes = &e->run->plan.lanes;
        status = ls_build_evaluation(&e->run->resources, e->pieces, p);
        if (!status)
            status = ls_steps_check_spans(e->run, p, 1);
    }
    if (!status)
        return ls_enqueue_serially(e->run, p, how);
    ls_step_program_close(p);
    return status;
}

/* For peers that wait for this process. */
static void abandon(void *context)
{
    ls_resources_abandon(&((evaluation *)context)->run->resources);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Runs the samples; what this sends is not a step's. */
static ls_status run_pass(evaluation *e, const ls_evaluating *how, ls_evaluation *out)
{
    ls_step_run *me = e->run;
    const ls_test_pass pass = {.testers = e->testers,
                               .count = e->count,
                               .rounds = e->rounds,
                               .lent = e->lent,
                               .lent_count = e->lent_count,
                               .gather = is_lent(e) ? gather : NULL,
                               .comm = me->plan.job->ranks.comm,
                               .predict = predict,
                               .abandon = abandon,
                               .context = e};
    const ls_traffic before = ls_steps_sent(me);
    const ls_status status = ls_test_pass_run(&pass, me->plan.job, how, out);
    const ls_traffic after = ls_steps_sent(me);
    me->counts.before.bytes_sent -= after.bytes_sent - before.bytes_sent;
    me->counts.before.messages_sent -= after.messages_sent - before.messages_sent;
    return status;
}

ls_status ls_steps_evaluate(ls_run *run, const ls_evaluating *how, ls_evaluation *out)
{
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    ls_closing(close) evaluation e = {.run = ls_step_run_of(run),
                                      .differ = ls_strategy_alone(plan->strategy) &&
                                                plan->parameters.on[LS_MEMBER] != LS_PLACED};
    ls_auto ls_evaluation *all = NULL;
    ls_evaluation own_part = {.accuracy = -1};
    *out = own_part;
    LS_TRY(ls_comm_agree(run->job->ranks.comm, open(&e, how)));
    const ls_status passed = run_pass(&e, how, &own_part);
    LS_TRY(ls_comm_tell(run->job->ranks.comm, passed, &own_part, sizeof own_part, &all));
    for (int p = 0; p < ls_job_processes(run->job); p++)
        ls_evaluation_add(&all[p], out);
    return LS_OK;
}
