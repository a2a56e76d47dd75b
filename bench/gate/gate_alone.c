/* SPDX-License-Identifier: MIT */
/*
 * Gate of strategies whose replicas update alone (ls_strategy_alone). They are not meant to
 * be equal to `single`, so their grade is `none`; but they have a definition, which the oracle
 * replays: after each step every replica of all processes must have its bits there, and so must the
 * loss. Where only a library knows the order of a mean, that is within a bound of float64's.
 */
#include "bench/gate/gate.h"

#include "bench/case/case_plan.h"
#include "bench/case/workplace.h"
#include "bench/gate/first_samples.h"
#include "bench/gate/oracle.h"
#include "bench/progress/progress.h"
#include "bench/train/trial/checked.h"
#include "bench/train/interrupt.h"
#include "bench/train/session.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct comparison {
    ls_workplace *workplace;
    const ls_plan_of_case *plan;
    const ls_variables *variables;
    ls_comm *comm;
    bool judges;         /* true on rank 0 */
    bool library;        /* a library computes the means */
    int local, replicas; /* of this process, of all */
    ls_session candidate, judge;
    double whole_loss;       /* of the first step's whole batch in one piece */
    float *candidate_values; /* [elements], the first of three arrays in one piece of memory */
    float *judge_values;
    float *first;        /* of replica 0 after the latest step */
    uint64_t *own, *all; /* [local], [replicas] hashes of the replicas' parameters, as above */
    uint64_t *stepwise;  /* [replicas] the same after the last of successive steps */
    double loss;         /* of the latest step */
} comparison;

/* ---- Opening --------------------------------------------------------------------------------- */

/* Memory and, where judges are, their session. Of `single` only the first loss is compared. */
static ls_status open_judges(comparison *c)
{
    const size_t elements = c->variables->elements + 1, replicas = (size_t)c->replicas;
    LS_TRY(ls_allocate("gate", &c->candidate_values, 3 * elements, sizeof *c->candidate_values));
    LS_TRY(ls_allocate("gate", &c->own, (size_t)c->local + 2 * replicas, sizeof *c->own));
    c->judge_values = c->candidate_values + elements;
    c->first = c->judge_values + elements;
    c->all = c->own + c->local;
    c->stepwise = c->all + replicas;
    LS_TRY(ls_plan_initial(c->plan, c->first));
    if (!c->judges)
        return LS_OK;
    LS_TRY(ls_gate_whole(c->workplace, c->plan, c->judge_values, &c->whole_loss));
    return ls_session_open(c->workplace, c->plan, (ls_opening){.judge = ls_gate_open_oracle},
                           &c->judge);
}

static ls_status open_comparison(ls_workplace *workplace, const ls_plan_of_case *plan,
                                 comparison *c)
{
    const ls_job *job = &plan->job;
    *c = (comparison){.workplace = workplace,
                      .plan = plan,
                      .variables = &plan->model->graph->variables,
                      .comm = job->ranks.comm,
                      .judges = !job->ranks.comm || job->ranks.comm->rank == 0,
                      .library =
                          ls_strategy_reduces(plan->strategy) && !job->exchange.allreduce->oracle,
                      .local = (int)plan->device_count,
                      .replicas = plan->all_devices};
    LS_TRY(ls_world_agree(c->comm, open_judges(c)));
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &c->candidate));
    ls_session_heed(workplace, &c->candidate);
    return LS_OK;
}

static void close_comparison(comparison *c)
{
    ls_session_close(&c->candidate);
    ls_session_close(&c->judge);
    free(c->candidate_values);
    free(c->own);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* The parameters of a replica of this process, to candidate_values. */
static ls_status gather(const comparison *c, int replica)
{
    ls_run *run = c->candidate.run;
    return run->functions->gather_replica(run, replica, ls_job_elements(run->job),
                                          c->candidate_values);
}

/* Hashes the candidate's replicas, and gives all ranks the hashes of all replicas; and
 * compares their copies. */
static ls_status hash_replicas(comparison *c, uint64_t step, ls_gate *gate)
{
    const size_t bytes = c->variables->elements * sizeof *c->candidate_values;
    const ls_range all = {0, c->variables->elements};
    ls_status status = LS_OK;
    for (int i = 0; i < c->local && !status; i++) {
        status = gather(c, i);
        c->own[i] = ls_hash64(c->candidate_values, bytes);
        if (!status)
            status = ls_gate_copies_of(&c->candidate, i, all, c->candidate_values, c->judge_values,
                                       step, gate);
        if (i == 0)
            memcpy(c->first, c->candidate_values, bytes);
    }
    return ls_comm_bring(c->comm, status, c->own, (size_t)c->local * sizeof *c->own, c->all);
}

/* Says where a replica differs: by element, if it is in this process. */
static ls_status note_replica(comparison *c, uint64_t step, int replica, ls_gate *gate)
{
    if (replica >= c->local) {
        ls_gate_wrong(gate,
                      "step %llu: replica %d ends with different parameters than in a run that "
                      "trains one replica at a time",
                      (unsigned long long)step, replica);
        return LS_OK;
    }
    LS_TRY(gather(c, replica));
    const ls_difference d =
        ls_variables_compare(c->variables, c->candidate_values, c->judge_values);
    if (d.same_bits) /* except the bits of NaN */
        return LS_OK;
    const ls_variable *v = ls_variables_holding(c->variables, d.first);
    ls_gate_wrong(gate,
                  "step %llu: %s element %zu is %.9g on replica %d, but %.9g in a run that trains "
                  "one replica at a time",
                  (unsigned long long)step, v->name, d.first - v->offset,
                  ls_unsigned_nan((double)c->candidate_values[d.first]), replica,
                  ls_unsigned_nan((double)c->judge_values[d.first]));
    return LS_OK;
}

static ls_status judge_step(comparison *c, uint64_t step, ls_gate *gate)
{
    const size_t bytes = c->variables->elements * sizeof *c->judge_values;
    const bool given = c->library && ls_job_fragment(&c->plan->job, step) >= 0;
    double loss;
    ls_run *run = c->judge.run;
    ls_oracle_give(run, given ? c->first : NULL);
    LS_TRY(ls_session_one_step(&c->judge, c->judge_values, &loss));
    if (given) {
        const double sums = (double)c->variables->elements * c->replicas;
        const float *wide = ls_oracle_wide_sum(run);
        ls_gate_library(step, ls_model_distance(c->variables, c->first, wide, sums),
                        "the mean that the strategy computed differs from the true mean of the "
                        "replicas' parameters",
                        gate);
    }
    for (int d = 0; d < c->replicas && gate->pass; d++) {
        LS_TRY(run->functions->gather_replica(run, d, ls_job_elements(run->job), c->judge_values));
        if (ls_hash64(c->judge_values, bytes) != c->all[d])
            LS_TRY(note_replica(c, step, d, gate));
    }
    if (gate->pass && !ls_values_same(loss, c->loss))
        ls_gate_wrong(
            gate,
            "step %llu: the loss is %.9g, but %.9g in a run that trains one replica at a time",
            (unsigned long long)step, ls_unsigned_nan(c->loss), ls_unsigned_nan(loss));
    /* Before the first update the loss is `single`'s: this finds bugs that slices share. A mean of
     * the replicas' own means is another one where they have different numbers of targets. */
    const ls_job *job = &c->plan->job;
    if (gate->pass && gate->steps == 0 && !ls_sync_bn_is_own(c->plan) &&
        !(job->sampling.ragged && job->update.own_mean))
        ls_gate_whole_loss(c->plan, step, c->loss, c->whole_loss, gate);
    return LS_OK;
}

/* What all replicas have exchanged must be equal on all. */
static ls_status judge_exchange(comparison *c, uint64_t step, ls_gate *gate)
{
    const ls_job *job = &c->plan->job;
    const int fragment = job->update.period ? ls_job_fragment(job, step) : -1;
    ls_status status = LS_OK;
    if (fragment < 0 || !ls_strategy_reduces(c->plan->strategy) || c->library ||
        c->plan->strategy->average.differ)
        return LS_OK;
    const ls_range due = ls_job_fragment_range(job, fragment);
    for (int i = 0; i < c->local && !status; i++) {
        status = gather(c, i);
        c->own[i] =
            ls_hash64(c->candidate_values + due.first, due.count * sizeof *c->candidate_values);
    }
    LS_TRY(ls_comm_bring(c->comm, status, c->own, (size_t)c->local * sizeof *c->own, c->stepwise));
    gate->exchanges++;
    for (int d = 1; d < c->replicas; d++)
        gate->replicas_differ |= c->stepwise[d] != c->stepwise[0];
    if (gate->replicas_differ && gate->pass)
        ls_gate_wrong(
            gate,
            "step %llu: the replicas' parameters differ after an exchange that should make them "
            "equal; if the strategy intends this, its C code must set .average.differ",
            (unsigned long long)step);
    return LS_OK;
}

static ls_status compare_step(comparison *c, uint64_t step, ls_gate *gate)
{
    ls_step_record record;
    uint64_t mark_ns;
    ls_status status = ls_gate_rate(&c->candidate, step, gate);
    LS_TRY(ls_session_steps(&c->candidate, 1));
    LS_TRY(ls_session_records(&c->candidate, 1, &record, &mark_ns));
    c->loss = record.loss;
    LS_TRY(hash_replicas(c, step, gate));
    if (!status && c->judges)
        status = judge_step(c, step, gate);
    gate->interrupted = ls_interrupted();
    LS_TRY(ls_world_turn(c->comm, status, NULL, &gate->interrupted));
    LS_TRY(judge_exchange(c, step, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    gate->steps++;
    gate->loss_last = c->loss;
    gate->loss_first = gate->steps > 1 ? gate->loss_first : c->loss;
    if (!*gate->diverged)
        ls_loss_diverged(c->loss, step, gate->diverged);
    return LS_OK;
}

/* A kind of step that the first steps do not include: compared from the initial parameters. */
static ls_status compare_kind(comparison *c, uint64_t step, ls_gate *gate)
{
    if (!gate->pass || gate->interrupted)
        return LS_OK;
    ls_status status = ls_session_begin_at(&c->candidate, step, &c->plan->initial);
    if (!status && c->judges)
        status = ls_session_begin_at(&c->judge, step, &c->plan->initial);
    LS_TRY(ls_world_agree(c->comm, status));
    return compare_step(c, step, gate);
}

/* Compares the steps enqueued at once: they may not depend on the host waiting between them. */
static ls_status compare_at_once(comparison *c, uint64_t steps, ls_gate *gate)
{
    const size_t bytes = (size_t)c->replicas * sizeof *c->all;
    memcpy(c->stepwise, c->all, bytes);
    LS_TRY(ls_world_agree(c->comm, ls_session_begin_at(&c->candidate, 0, &c->plan->initial)));
    LS_TRY(ls_gate_put(c->workplace, &c->candidate, steps, LS_GATE_AT_ONCE, ls_gate_alone_share,
                       gate));
    if (gate->interrupted)
        return LS_OK;
    LS_TRY(hash_replicas(c, steps, gate));
    for (int d = 0; d < c->replicas && gate->pass && !c->library; d++)
        if (c->all[d] != c->stepwise[d])
            ls_gate_wrong(gate,
                          "%llu steps in one run: replica %d ends with different parameters than "
                          "when it runs the same steps one at a time",
                          (unsigned long long)steps, d);
    return ls_gate_agree(c->comm, gate);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Kinds of steps that may not be among the first: an epoch's tail, a period's last step, and, if
 * the run has one, a step that is both. */
static ls_status compare_kinds(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_job *job = &c->plan->job;
    const uint64_t all = (uint64_t)(c->plan->warmup + c->plan->timed);
    const uint64_t epoch = ls_job_tail(job) ? ls_job_steps_per_epoch(job) : 0;
    const uint64_t period = (uint64_t)job->update.period;
    uint64_t first[3] = {epoch, period, 0}; /* numbers, from 1; 0 if there is none */
    if (epoch && period) {
        first[2] = epoch / common_divisor(epoch, period) * period;
        first[0] = first[2] == epoch ? 0 : epoch;
        first[1] = first[2] == period ? 0 : period;
    }
    for (int k = 0; k < 3; k++)
        if (first[k] > steps && (first[k] <= all || first[k] == epoch || first[k] == period))
            LS_TRY(compare_kind(c, first[k] - 1, gate));
    const uint64_t each = period / (uint64_t)ls_job_fragments(job);
    for (uint64_t step = each; step < period; step += each) /* of a fragment's exchange */
        if (step > steps && step <= all)
            LS_TRY(compare_kind(c, step - 1, gate));
    return LS_OK;
}

/* What holds after the first steps: evaluation, no dependence on the host, bytes sent, and steps
 * that were not among them. */
static ls_status compare_rest(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_gate_sides sides = {.workplace = c->workplace,
                                 .candidate = &c->candidate,
                                 .oracle = c->judges ? &c->judge : NULL};
    LS_TRY(ls_gate_evaluation(&sides, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (gate->pass)
        LS_TRY(compare_at_once(c, steps, gate));
    if (gate->pass && !gate->interrupted)
        LS_TRY(ls_gate_traffic(c->candidate.run, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    return compare_kinds(c, steps, gate);
}

/* Where a replica of any process is not finite; all ranks learn it. */
static ls_status note_diverged(comparison *c, ls_gate *gate)
{
    const int size = c->comm ? c->comm->size : 1;
    char reason[LS_REASON_SIZE] = "";
    ls_auto char *all = NULL;
    LS_TRY(ls_allocate("gate", &all, (size_t)size, sizeof reason));
    const size_t elements = c->variables->elements;
    ls_status status = LS_OK;
    for (int i = 0; i < c->local && !status && !*reason; i++) {
        status = gather(c, i);
        const size_t e = status ? elements : ls_first_not_finite(c->candidate_values, elements);
        ls_values_diverged(c->variables, e < elements ? e : SIZE_MAX, gate->steps, reason);
    }
    status = ls_comm_bring(c->comm, status, reason, sizeof reason, all);
    for (int r = size; r-- > 0 && !status;)
        if (all[(size_t)r * sizeof reason])
            memcpy(gate->diverged, all + (size_t)r * sizeof reason, sizeof reason);
    return status;
}

static ls_status compare(comparison *c, uint64_t steps, ls_gate *gate)
{
    gate->kernels = ls_step_kernels(c->candidate.run);
    for (uint64_t step = 0; step < steps && gate->pass && !gate->interrupted; step++) {
        LS_TRY(compare_step(c, step, gate));
        ls_progress_update(c->workplace->progress,
                           ls_gate_alone_share * (double)(step + 1) / (double)steps, NAN, c->loss);
    }
    if (!*gate->diverged) /* a loss, which all ranks have */
        LS_TRY(note_diverged(c, gate));
    LS_TRY(ls_gate_keep(c->workplace, &c->candidate, gate));
    return steps && gate->pass && !gate->interrupted ? compare_rest(c, steps, gate) : LS_OK;
}

/* Whether all replicas are on devices of one kind: others do not have the same bits. */
static ls_status are_alike(const ls_plan_of_case *plan, bool *out)
{
    uint8_t kinds[LS_JOB_REPLICAS], kind = (uint8_t)plan->devices[0].kind;
    const int size = plan->job.ranks.comm ? plan->job.ranks.comm->size : 1;
    for (size_t i = 1; i < plan->device_count; i++)
        kind = plan->devices[i].kind == plan->devices[0].kind ? kind : UINT8_MAX;
    LS_TRY(ls_comm_bring(plan->job.ranks.comm, LS_OK, &kind, sizeof kind, kinds));
    *out = kind != UINT8_MAX;
    for (int r = 0; r < size; r++)
        *out = *out && kinds[r] == kind;
    return LS_OK;
}

ls_status ls_gate_alone(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                        ls_gate *gate)
{
    ls_closing(close_comparison) comparison c = {0};
    bool alike;
    LS_TRY(are_alike(plan, &alike));
    if (!alike) {
        snprintf(gate->oracle, sizeof gate->oracle,
                 "not compared: devices of two kinds do not give the same bits");
        return LS_OK;
    }
    gate->checked = gate->replayed = true;
    snprintf(gate->oracle, sizeof gate->oracle, "same bits");
    LS_TRY(open_comparison(workplace, plan, &c));
    LS_TRY(ls_gate_step(&c.candidate, gate));
    return gate->pass ? compare(&c, steps, gate) : LS_OK;
}
