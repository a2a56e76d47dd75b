/* SPDX-License-Identifier: MIT */
/*
 * Evaluation with the variables of a run; see run.h. Each replica takes its part of the test
 * samples (impl/test_pass.h). First it gets the variables if it does not have any, if it has only a
 * share of them or of their averages, or if replicas differ; afterwards it has again what it had.
 */
#include "common/base/grow.h"
#include "impl/step/run/run.h"
#include "impl/test_pass.h"

#include <limits.h>
#include <stdlib.h>

/* A replica that evaluates, by its members in this process. */
typedef struct tester {
    int replica, piece; /* piece: whose net evaluates */
    int first, count;   /* its tested parts */
    char *kept;         /* its parts' parameters, as it had them, or NULL */
} tester;

/* The forward pass of a member: how far it is. */
typedef struct visit {
    int member;
    int node, bucket; /* node visited last, and bucket last moved into windows */
} visit;

/* How replicas get the variables to be evaluated. Places of divided replicas are at different units
 * at one time, so each process has all that its places need. */
typedef enum lending {
    HAVE,    /* they have them */
    FETCH,   /* set; each step fetches what it needs */
    LEND,    /* set, and afterwards set to what they had */
    PLACES,  /* windows, filled from host memory of each process */
    BY_UNITS /* windows, which all processes fill together, unit by unit */
} lending;

typedef struct evaluation {
    ls_step_run *run;
    const ls_evaluating *how;
    lending lending;
    bool differ;       /* replicas have variables of their own: replica 0's are evaluated */
    tester *testers;   /* [count] */
    ls_tester *shares; /* [count] */
    ls_tested *parts;  /* [parts] */
    visit *visits;     /* [parts] */
    float *block;      /* float32 [LS_STATE_BLOCK], or fewer if the model has fewer elements */
    float **places;    /* [places] where divided replicas' windows are filled from; else NULL */
    int unit;          /* filled last, of windows that all processes fill together */
    int count, part_count;
    uint64_t rounds;
} evaluation;

/* ---- Who evaluates --------------------------------------------------------------------------- */

static const ls_slice *slice_of(const ls_step_run *me, int member)
{
    return me->resources.members[member].slice[LS_FULL];
}

/* Adds a replica's parts that are here, if it takes part. */
static void add_tester(evaluation *e, int replica)
{
    const ls_step_run *me = e->run;
    const int places = me->plan.mesh.places;
    tester *t = &e->testers[e->count];
    *t = (tester){.replica = replica, .first = e->part_count};
    for (int m = replica * places; m < (replica + 1) * places; m++) {
        const ls_slice *slice = slice_of(me, m);
        if (!slice || ls_slice_test_piece(slice) < 0)
            continue;
        t->piece = ls_slice_test_piece(slice);
        e->visits[e->part_count] = (visit){.member = m, .node = INT_MAX};
        ls_replica *r = me->resources.members[m].replica;
        e->parts[e->part_count++] =
            (ls_tested){.replica = r,
                        .net = ls_slice_node_net(slice, t->piece, r->graph->count - 1),
                        .chunks = ls_slice_piece_nets(slice, t->piece),
                        .chunk_count = ls_graph_part_chunks(r->part),
                        .counts = me->plan.context || m % places == me->plan.loss_place};
        t->count++;
    }
    if (t->count)
        e->count++;
}

/* What processes tell each other: the rows of the batch's first piece, or 0, then, for each
 * replica, whether it evaluates. */
static ls_status exchange(evaluation *e, ls_status own_status, uint64_t *said)
{
    const ls_step_plan *plan = &e->run->plan;
    const size_t each = (size_t)plan->mesh.replicas + 1, n = (size_t)ls_job_processes(plan->job);
    ls_auto uint64_t *all = NULL;
    for (int i = 0; i < e->count && !own_status; i++) {
        said[0] =
            (uint64_t)ls_slice_first_rows(slice_of(e->run, e->visits[e->testers[i].first].member));
        said[1 + e->testers[i].replica] = 1;
    }
    LS_TRY(ls_comm_tell(plan->job->ranks.comm, own_status, said, each * sizeof *said, &all));
    for (size_t i = 0; i < n * each; i++)
        said[i % each] = all[i] > said[i % each] ? all[i] : said[i % each];
    return LS_OK;
}

/* Deals the samples to the replicas of all processes that evaluate. */
static ls_status deal(evaluation *e, ls_status own_status)
{
    const ls_step_plan *plan = &e->run->plan;
    const uint64_t samples = ls_test_samples(plan->job, e->how);
    ls_auto uint64_t *said = NULL;
    int count = 0;
    own_status = ls_status_first(
        own_status, ls_allocate("step", &said, (size_t)plan->mesh.replicas + 1, sizeof *said));
    LS_TRY(exchange(e, own_status, said));
    for (int r = 0; r < plan->mesh.replicas; r++)
        count += said[1 + r] > 0;
    for (int r = 0, at = 0, own = 0; r < plan->mesh.replicas; r++) {
        if (own < e->count && e->testers[own].replica == r)
            ls_test_share(samples, said[0], at, count, &e->shares[own++]);
        at += said[1 + r] > 0;
    }
    e->rounds = ls_test_rounds(samples, said[0], count);
    return LS_OK;
}

static ls_status open(evaluation *e)
{
    const ls_step_plan *plan = &e->run->plan;
    const size_t members = (size_t)plan->mesh.replicas * (size_t)plan->mesh.places;
    LS_TRY(ls_allocate("step", &e->testers, (size_t)plan->mesh.replicas, sizeof *e->testers));
    LS_TRY(ls_allocate("step", &e->shares, (size_t)plan->mesh.replicas, sizeof *e->shares));
    LS_TRY(ls_allocate("step", &e->parts, members, sizeof *e->parts));
    LS_TRY(ls_allocate("step", &e->visits, members, sizeof *e->visits));
    LS_TRY(ls_allocate("step", &e->places, (size_t)plan->mesh.places, sizeof *e->places));
    const size_t elements = ls_job_elements(plan->job).count, most = LS_STATE_BLOCK;
    LS_TRY(ls_allocate("step", &e->block, elements < most ? elements : most, sizeof *e->block));
    for (int r = 0; r < plan->mesh.replicas; r++)
        add_tester(e, r);
    for (int i = 0; i < e->count; i++) {
        e->shares[i].parts = &e->parts[e->testers[i].first];
        e->shares[i].count = e->testers[i].count;
    }
    return LS_OK;
}

static void close(evaluation *e)
{
    for (int i = 0; i < e->count; i++)
        free(e->testers[i].kept);
    for (int p = 0; e->places && p < e->run->plan.mesh.places; p++)
        free(e->places[p]);
    free(e->testers);
    free(e->shares);
    free(e->parts);
    free(e->visits);
    free(e->places);
    free(e->block);
}

/* ---- Their variables ------------------------------------------------------------------------- */

static lending lending_of(const ls_step_plan *plan, bool differ)
{
    const bool shared = ls_step_plan_shares(plan) && ls_state_name(plan->job, LS_AVERAGES);
    if (plan->parameters.windows)
        return plan->parts.count ? PLACES : BY_UNITS;
    if (plan->parameters.on[LS_MEMBER] == LS_PLACED)
        return FETCH;
    return (differ && plan->mesh.replicas > 1) || shared ? LEND : HAVE;
}

/* The averages of a block, or its variables if there are none. */
static ls_status gather(const evaluation *e, ls_range block)
{
    const ls_job *job = e->run->plan.job;
    LS_TRY(ls_steps_gather(e->run, LS_AVERAGES, block, e->block));
    return e->differ && job->ranks.comm
               ? ls_broadcast(job, 0, 0, job->ranks.comm->size - 1, e->block, block.count)
               : LS_OK;
}

/* Reads what a tester has into new memory; `back`: writes it, and frees it. */
static ls_status keep(const evaluation *e, tester *t, bool back)
{
    size_t all = 0;
    for (int p = t->first; p < t->first + t->count; p++)
        all += e->parts[p].replica->elements * ls_replica_parameter_bytes(e->parts[p].replica);
    if (!back)
        LS_TRY(ls_allocate("step", &t->kept, all, sizeof *t->kept));
    char *at = t->kept;
    for (int p = t->first; p < t->first + t->count; p++) {
        const ls_replica *r = e->parts[p].replica;
        const size_t bytes = r->elements * ls_replica_parameter_bytes(r);
        LS_TRY(back ? ls_queue_write(r->queue, r->parameters, at, bytes)
                    : ls_queue_read(r->queue, at, r->parameters, bytes));
        at += bytes;
    }
    return LS_OK;
}

/* A tester that gets other variables than it has: not the one that has all. */
static bool is_given(const evaluation *e, const tester *t)
{
    return (e->lending == FETCH || e->lending == LEND) &&
           e->visits[t->first].member != e->run->plan.holder;
}

static ls_status begin_lending(evaluation *e)
{
    for (int p = 0; p < e->part_count && e->lending == PLACES; p++) {
        float **place = &e->places[e->visits[p].member % e->run->plan.mesh.places];
        if (!*place)
            LS_TRY(ls_allocate("step", place, e->parts[p].replica->elements, sizeof **place));
    }
    for (int i = 0; i < e->count; i++) {
        e->shares[i].lent = is_given(e, &e->testers[i]);
        if (e->lending == LEND)
            LS_TRY(keep(e, &e->testers[i], false));
    }
    return LS_OK;
}

/* Gives a block to the testers, or to their places' memory. */
static ls_status lend_block(evaluation *e, ls_range block)
{
    for (int i = 0; i < e->count; i++) {
        const tester *t = &e->testers[i];
        for (int p = t->first; p < t->first + t->count; p++) {
            ls_replica *r = e->parts[p].replica;
            float *place = e->places[e->visits[p].member % e->run->plan.mesh.places];
            if (place)
                ls_graph_part_copy(r->part, (ls_range){0, r->elements}, place, block, e->block,
                                   true);
            else if (is_given(e, t))
                LS_TRY(ls_replica_set(r, block, e->block));
        }
    }
    return LS_OK;
}

/* Gives the testers what they need; all processes call it. */
static ls_status lend(evaluation *e)
{
    const ls_step_plan *plan = &e->run->plan;
    ls_comm *comm = plan->job->ranks.comm;
    if (e->lending == HAVE || e->lending == BY_UNITS)
        return LS_OK;
    LS_TRY(ls_comm_agree(comm, begin_lending(e)));
    ls_status lent = LS_OK;
    for (ls_range block = {0}; ls_state_next(ls_job_elements(plan->job).count, &block);) {
        LS_TRY(gather(e, block));
        if (!lent)
            lent = lend_block(e, block);
    }
    return ls_comm_agree(comm, lent);
}

static ls_status take_back(evaluation *e)
{
    for (int i = 0; i < e->count; i++)
        if (e->testers[i].kept)
            LS_TRY(keep(e, &e->testers[i], true));
    return LS_OK;
}

/* ---- Forward passes -------------------------------------------------------------------------- */

/* Moves each bucket into its window just before the first node of a part that needs it. */
static ls_status fill_windows(evaluation *e, int part, int node)
{
    visit *v = &e->visits[part];
    const ls_replica *r = e->parts[part].replica;
    const float *values = e->places[v->member % e->run->plan.mesh.places];
    const ls_windows *windows = r->windows.parameters;
    if (!values)
        return LS_OK;
    if (node < v->node) { /* another batch */
        v->bucket = (int)windows->buckets->count;
        if (r->elements > windows->owned) /* copies */
            LS_TRY(ls_replica_fill(r, ls_windows_at(windows, windows->owned),
                                   values + windows->owned, r->elements - windows->owned));
    }
    v->node = node;
    for (const int need = ls_windows_need(windows, node); v->bucket > need;) {
        const ls_range bucket = windows->buckets->items[--v->bucket];
        LS_TRY(ls_replica_fill(r, ls_windows_at(windows, bucket.first), values + bucket.first,
                               bucket.count));
    }
    return LS_OK;
}

/* A unit that is filled into the windows of all replicas. */
typedef struct filling {
    const evaluation *e;
    size_t first; /* where the windows have it */
    ls_status status;
} filling;

/* Elements from number `at` of the unit on, which the model has from `model` on. */
static void fill_range(void *context, size_t at, size_t model, size_t count)
{
    filling *f = context;
    const evaluation *e = f->e;
    for (ls_range block = {0}; !f->status && ls_state_next(count, &block);) {
        f->status = gather(e, (ls_range){model + block.first, block.count});
        for (int p = 0; p < e->part_count && !f->status; p++) {
            const ls_replica *r = e->parts[p].replica;
            f->status = ls_replica_fill(r, f->first + at + block.first, e->block, block.count);
        }
    }
}

/* In each batch, all processes fill the same units in the same order. */
static ls_status prepare(void *context, int node)
{
    evaluation *e = context;
    const ls_windows *windows = &ls_step_planned_group(&e->run->plan, 0)->windows;
    if (node == LS_BATCH_BEGINS)
        e->unit = (int)windows->buckets->count;
    const int need = node == LS_BATCH_BEGINS ? e->unit
                     : node == LS_BATCH_ENDS ? 0
                                             : ls_windows_need(windows, node);
    while (e->unit > need) {
        const ls_range unit = windows->buckets->items[--e->unit];
        filling f = {.e = e, .first = ls_windows_at(windows, unit.first)};
        ls_graph_part_each(ls_step_plan_part(&e->run->plan, 0), unit, LS_ALL_OF, fill_range, &f);
        LS_TRY(f.status);
    }
    return LS_OK;
}

/* Before a task of a divided replica. */
static ls_status fill_before(void *context, const ls_task *task)
{
    evaluation *e = context;
    const int member = e->run->plan.lanes.items[task->lane].member;
    for (int p = 0; p < e->part_count && task->node >= 0; p++)
        if (e->visits[p].member == member)
            LS_TRY(fill_windows(e, p, task->node));
    return e->how->check ? e->how->check(e->how->context) : LS_OK;
}

static ls_status build(ls_step_run *me, const tester *t)
{
    if (!me->evaluations)
        LS_TRY(ls_allocate("step", &me->evaluations, (size_t)me->plan.mesh.replicas,
                           sizeof *me->evaluations));
    ls_step_program *p = &me->evaluations[t->replica];
    if (p->task_count)
        return LS_OK;
    p->lanes = &me->plan.lanes;
    ls_status status = ls_build_evaluation(&me->resources, t->replica, t->piece, p);
    if (!status)
        status = ls_steps_check_spans(me, p, 1);
    if (status)
        ls_step_program_close(p);
    return status;
}

/* Evaluates by a divided replica. Tasks run one by one: evaluation is not timed. */
static ls_status predict(void *context, int index)
{
    evaluation *e = context;
    const tester *t = &e->testers[index];
    LS_TRY(build(e->run, t));
    return ls_enqueue_serially(e->run, &e->run->evaluations[t->replica], fill_before, e);
}

/* For peers of a divided replica that wait for this process. */
static void abandon(void *context)
{
    ls_resources_abandon(&((evaluation *)context)->run->resources);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Runs the samples; what this sends is not a step's. */
static ls_status run_pass(evaluation *e, ls_evaluation *out)
{
    ls_step_run *me = e->run;
    const bool divided = me->plan.parts.count;
    const ls_test_pass pass = {.testers = e->shares,
                               .count = e->count,
                               .rounds = e->rounds,
                               .predict = divided ? predict : NULL,
                               .prepare = e->lending == BY_UNITS ? prepare : NULL,
                               .abandon = divided ? abandon : NULL,
                               .context = e};
    const ls_traffic before = ls_steps_sent(me);
    const ls_status status = ls_test_pass_run(&pass, e->how, out);
    const ls_traffic after = ls_steps_sent(me);
    me->counts.before.bytes_sent -= after.bytes_sent - before.bytes_sent;
    me->counts.before.messages_sent -= after.messages_sent - before.messages_sent;
    return status;
}

/* Adds up the counts of all processes. */
static ls_status add_up(const ls_job *job, ls_status own_status, ls_evaluation *out)
{
    ls_auto ls_evaluation *all = NULL;
    const ls_status status = ls_comm_tell(job->ranks.comm, own_status, out, sizeof *out, &all);
    *out = (ls_evaluation){.accuracy = -1};
    for (int p = 0; p < ls_job_processes(job) && !status; p++)
        ls_evaluation_add(&all[p], out);
    return status;
}

ls_status ls_steps_evaluate(ls_run *run, const ls_evaluating *how, ls_evaluation *out)
{
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    const bool differ =
        ls_strategy_alone(plan->strategy) && plan->parameters.on[LS_MEMBER] != LS_PLACED;
    ls_closing(close) evaluation e = {.run = ls_step_run_of(run),
                                      .how = how,
                                      .lending = lending_of(plan, differ),
                                      .differ = differ};
    *out = (ls_evaluation){.accuracy = -1};
    LS_TRY(deal(&e, open(&e)));
    LS_TRY(lend(&e));
    const ls_status passed = run_pass(&e, out);
    return add_up(run->job, ls_status_first(passed, take_back(&e)), out);
}
