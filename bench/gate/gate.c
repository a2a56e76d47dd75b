/* SPDX-License-Identifier: MIT */
/* Gate: runs candidate and judges step by step and compares them; see gate.h. */
#include "bench/gate/gate.h"

#include "bench/case/case_plan.h"
#include "bench/case/workplace.h"
#include "bench/gate/oracle.h"
#include "bench/progress/progress.h"
#include "bench/train/change.h"
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

/* Bound for the sum of slices against the whole batch: a rounding difference can flip a ReLU. */
static const double gradient_bound = 2e-2;

/* Steps enqueued at once with a library's sums. */
enum { LIBRARY_AT_ONCE = 4 };

enum { CANDIDATE = LS_CANDIDATE, ORACLE = LS_ORACLE, SINGLE = LS_SINGLE, SIDES = LS_SIDES };

typedef ls_comparison comparison;

static void close_comparison(comparison *c)
{
    for (int i = 0; i < SIDES; i++) {
        ls_session_close(&c->run[i]);
        free(c->own[i]);
    }
    free(c->other);
    free(c->whole);
    free(c->at_once);
    free(c->given);
    free(c->hashes);
}

/* Of `single` only the first loss is compared where replicas update alone. */
static ls_status open_judges(const ls_workplace *workplace, uint64_t steps, comparison *c)
{
    const ls_plan_of_case *plan = c->plan, *first = plan->phases ? &plan->phases->plan : plan;
    if (!c->judges || !steps)
        return LS_OK;
    if (plan->job.exact.on || c->alone)
        LS_TRY(ls_gate_whole(workplace, plan, c->whole, &c->whole_loss));
    if (!c->alone)
        LS_TRY(ls_session_open(workplace, plan, (ls_opening){.judge = ls_session_single},
                               &c->run[SINGLE]));
    if (!c->alone && (plan->job.exact.on || !ls_job_sums(&plan->job)))
        return LS_OK;
    return ls_session_open(workplace, first, (ls_opening){.judge = ls_gate_open_oracle},
                           &c->run[ORACLE]);
}

static ls_status open_comparison(ls_workplace *workplace, const ls_plan_of_case *plan,
                                 uint64_t steps, comparison *c)
{
    const ls_job *job = &plan->job;
    *c = (comparison){.workplace = workplace,
                      .plan = plan,
                      .variables = &plan->model->graph->variables,
                      .comm = job->ranks.comm,
                      .judges = !job->ranks.comm || job->ranks.comm->rank == 0,
                      .alone = ls_strategy_alone(plan->strategy)};
    c->library = ls_strategy_reduces(plan->strategy) && !job->exact.on &&
                 (plan->all_devices > 1 || c->alone) && !job->exchange.allreduce->oracle;
    const size_t replicas = c->alone ? (size_t)plan->all_devices : 0;
    float **const arrays[] = {&c->at_once, &c->own[CANDIDATE], &c->own[ORACLE], &c->own[SINGLE],
                              &c->given,   &c->other,          &c->whole};
    const size_t count = c->judges || c->alone ? sizeof arrays / sizeof *arrays : c->library;
    ls_status status =
        ls_allocate("gate", &c->hashes, plan->device_count + 2 * replicas, sizeof *c->hashes);
    c->all = c->hashes ? c->hashes + plan->device_count : NULL;
    c->stepwise = c->all ? c->all + replicas : NULL;
    for (size_t i = 0; i < count && !status; i++)
        status = ls_allocate("gate", arrays[i], c->variables->elements + 1, sizeof **arrays[i]);
    c->values[CANDIDATE] = c->values[SINGLE] = c->own[CANDIDATE]; /* if no step runs */
    if (!status && !steps && c->judges)
        status = ls_plan_initial(plan, c->own[CANDIDATE]);
    if (!status)
        status = open_judges(workplace, steps, c);
    LS_TRY(ls_world_agree(job->ranks.comm, status));
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &c->run[CANDIDATE]));
    ls_session_heed(workplace, &c->run[CANDIDATE]);
    return LS_OK;
}

/* ---- Judging -------------------------------------------------------------------------------- */

/* Records the first element that differs. `when`: in which step, or how steps were enqueued. */
static void note_element(const comparison *c, const char *when, const ls_difference *d,
                         const float *values, const char *name, const float *expected,
                         ls_gate *gate)
{
    const ls_variable *v = ls_variables_holding(c->variables, d->first);
    ls_gate_wrong(gate, "%s: %s element %zu is %.9g, but %.9g in %s", when, v->name,
                  d->first - v->offset, ls_unsigned_nan((double)values[d->first]),
                  ls_unsigned_nan((double)expected[d->first]), name);
}

/* Compares the first step's gradient (as the judge summed it) and the candidate's loss with the
 * gradient and loss of the whole batch in one piece. This finds bugs that judge and candidate
 * share. */
static ls_status judge_first_step(const comparison *c, ls_gate *gate)
{
    const double products = ls_gate_products(c->plan, c->plan->job.batch);
    char by[LS_GATE_BY];
    ls_run *oracle = c->run[ORACLE].run, *single = c->run[SINGLE].run;
    LS_TRY(single->functions->gradient(single, oracle ? c->whole : c->other));
    const float *summed = oracle ? ls_oracle_gradient(oracle) : c->other;
    double rel = ls_model_distance(c->variables, summed, c->whole, 0);
    if (!(rel <= gradient_bound))
        rel = ls_model_distance(c->variables, summed, c->whole, products);
    if (!(rel <= gradient_bound))
        LS_TRY(ls_gate_first_again(c->workplace, c->plan, &rel));
    if (oracle)
        gate->gradient_rel = rel;
    if (!gate->pass)
        return LS_OK;
    if (!(rel <= gradient_bound))
        ls_gate_wrong(
            gate,
            "step 0: the gradient differs from the gradient of the whole batch on one device%s",
            ls_gate_difference(rel, gradient_bound, by));
    else
        ls_gate_whole_loss(c->plan, c->plan->job.start, c->loss[CANDIDATE],
                           oracle ? c->loss[SINGLE] : c->whole_loss, gate);
    return LS_OK;
}

/* Repeats the candidate's steps with many enqueued at once, as in a timed run: the result may not
 * depend on the host waiting between steps, nor on what an earlier run left in memory. */
static ls_status judge_at_once(comparison *c, uint64_t steps, ls_gate *gate)
{
    ls_session *session = &c->run[CANDIDATE];
    char when[48];
    const uint64_t first = c->plan->job.start;
    LS_TRY(ls_world_agree(c->comm, ls_change_back(c->workplace, session)));
    LS_TRY(ls_gate_put(c->workplace, session, first + steps, LS_GATE_AT_ONCE, ls_gate_alone_share,
                       gate));
    if (gate->interrupted)
        return LS_OK;
    snprintf(when, sizeof when, "in one run of %llu step%s", (unsigned long long)steps,
             steps == 1 ? "" : "s");
    if (c->comm) { /* ranks without judges have only a digest */
        ls_session_found found;
        LS_TRY(ls_session_look(session, &found));
        if (!*gate->diverged && strcmp(found.digest, c->found.digest) != 0)
            ls_gate_wrong(gate,
                          "%s: a rank ends with different parameters than when it runs the same "
                          "steps one at a time",
                          when);
    }
    LS_TRY(ls_session_gather(session, LS_VALUES, c->at_once));
    if (!c->judges)
        return LS_OK;
    const ls_difference d = ls_variables_compare(c->variables, c->at_once, c->values[CANDIDATE]);
    if (!d.same_bits)
        note_element(c, when, &d, c->at_once, "the same steps, started one at a time",
                     c->values[CANDIDATE], gate);
    return LS_OK;
}

static ls_status take_step(comparison *c, int side)
{
    LS_TRY(ls_session_one_step(&c->run[side], c->own[side], &c->loss[side]));
    c->values[side] = c->own[side];
    return LS_OK;
}

/* Runs steps from `values`, and leaves the result there; only the candidate's run all at once. */
static ls_status run_at_once(comparison *c, uint64_t first, uint64_t count, float *values)
{
    ls_session *candidate = &c->run[CANDIDATE], *oracle = &c->run[ORACLE];
    const bool judges = c->run[ORACLE].run;
    const ls_state_source held = ls_state_held(values);
    ls_status status = judges ? ls_session_begin_at(oracle, first, &held) : LS_OK;
    if (!status)
        status = ls_session_begin_at(candidate, first, &held);
    LS_TRY(ls_world_agree(c->comm, status));
    LS_TRY(ls_session_steps(candidate, count));
    LS_TRY(ls_session_gather(candidate, LS_VALUES, values));
    if (judges)
        ls_oracle_widely(oracle->run);
    for (uint64_t i = 0; i < count && judges && !status; i++)
        status = take_step(c, ORACLE);
    if (judges && !status)
        status = candidate->run->functions->gradient(candidate->run, c->given);
    return ls_world_agree(c->comm, status);
}

/* A library's sums need not be reproducible, so a bitwise comparison tells nothing. A few steps are
 * enqueued at once, from where the previous ones ended. The last gradient must be near the judge's
 * (their parameters differ by rounding only), and all replicas must have the same parameters. */
static ls_status judge_library_at_once(comparison *c, uint64_t steps, ls_gate *gate)
{
    float *values = c->at_once;
    ls_session_found found;
    char by[LS_GATE_BY];
    int other;
    LS_TRY(ls_world_agree(c->comm, ls_plan_initial(c->plan, values)));
    steps = steps < LS_GATE_AT_ONCE ? steps : LS_GATE_AT_ONCE;
    const uint64_t begin = c->plan->job.start, end = begin + steps;
    for (uint64_t first = begin, count; first < end && gate->pass; first += count) {
        count = end - first < LIBRARY_AT_ONCE ? end - first : LIBRARY_AT_ONCE;
        LS_TRY(run_at_once(c, first, count, values));
        const double rel =
            c->run[ORACLE].run
                ? ls_model_distance(c->variables, c->given, ls_oracle_gradient(c->run[ORACLE].run),
                                    ls_gate_products(c->plan, c->plan->job.batch))
                : 0;
        LS_TRY(ls_session_look(&c->run[CANDIDATE], &found));
        LS_TRY(ls_world_differs(c->comm, ls_hash64(found.digest, sizeof found.digest), &other));
        if (other >= 0 && !*found.differs)
            snprintf(found.differs, sizeof found.differs,
                     "rank %d ends with different parameters than rank 0", other);
        if (!(rel <= gradient_bound))
            ls_gate_wrong(
                gate,
                "in one run of %llu step%s: the reduced gradient of step %llu differs from the "
                "sum of the replicas' gradients, added one by one%s",
                (unsigned long long)count, count == 1 ? "" : "s",
                (unsigned long long)(first + count - 1),
                ls_gate_difference(rel, gradient_bound, by));
        else if (*found.differs)
            ls_gate_wrong(gate, "in one run of %llu step%s: %.220s", (unsigned long long)count,
                          count == 1 ? "" : "s", found.differs);
        LS_TRY(ls_gate_agree(c->comm, gate));
    }
    return LS_OK;
}

/* Runs one step of each judge, and records in the gate where the candidate differs. */
static ls_status judge_step(comparison *c, uint64_t step, ls_gate *gate)
{
    const ls_run *candidate = c->run[CANDIDATE].run;
    int judge = c->run[ORACLE].run ? ORACLE : SINGLE;
    if (c->library) {
        LS_TRY(candidate->functions->gradient(c->run[CANDIDATE].run, c->given));
        ls_oracle_give(c->run[ORACLE].run, c->given);
    }
    if (c->run[ORACLE].run)
        LS_TRY(take_step(c, ORACLE));
    if (!c->changes || judge == SINGLE)
        LS_TRY(take_step(c, SINGLE));
    ls_difference d = ls_variables_compare(c->variables, c->values[CANDIDATE], c->values[judge]);
    if (!c->changes) {
        ls_difference drift =
            ls_variables_compare(c->variables, c->values[CANDIDATE], c->values[SINGLE]);
        gate->max_ulp = drift.max_ulp > gate->max_ulp ? drift.max_ulp : gate->max_ulp;
        gate->max_rel = drift.max_rel > gate->max_rel ? drift.max_rel : gate->max_rel;
    }
    if (gate->pass && (!d.same_bits || !ls_values_same(c->loss[CANDIDATE], c->loss[judge]))) {
        const char *name = ls_gate_judge_name(judge == ORACLE);
        char when[80];
        snprintf(when, sizeof when, "step %llu%s", (unsigned long long)step,
                 c->changes ? ", where a replica leaves or joins" : "");
        if (d.same_bits)
            ls_gate_wrong(gate, "%s: the loss is %.9g, but %.9g in %s", when,
                          ls_unsigned_nan(c->loss[CANDIDATE]), ls_unsigned_nan(c->loss[judge]),
                          name);
        else
            note_element(c, when, &d, c->values[CANDIDATE], name, c->values[judge], gate);
    }
    if (c->library) {
        /* each addition may flush its sum */
        const double sums = (double)c->variables->elements * ls_job_parts(&c->plan->job);
        const float *wide = ls_oracle_wide_sum(c->run[ORACLE].run);
        ls_gate_library(step, ls_model_distance(c->variables, c->given, wide, sums),
                        "the reduced gradient differs from the sum of the replicas' gradients, "
                        "added one by one",
                        gate);
    }
    if (step == c->plan->job.start && !c->changes &&
        (c->run[ORACLE].run || c->plan->job.exact.on) && !ls_sync_bn_is_own(c->plan))
        LS_TRY(judge_first_step(c, gate));
    return LS_OK;
}

ls_status ls_gate_compare_step(comparison *c, uint64_t step, ls_gate *gate)
{
    ls_status status = ls_gate_rate(&c->run[CANDIDATE], step, gate);
    LS_TRY(take_step(c, CANDIDATE));
    LS_TRY(c->alone ? ls_gate_hash_replicas(c, step, gate)
                    : ls_session_look(&c->run[CANDIDATE], &c->found));
    if (!status && c->judges)
        status = c->alone ? ls_gate_judge_replicas(c, step, gate) : judge_step(c, step, gate);
    if (*c->found.differs && gate->pass) /* later gradients might not show it */
        ls_gate_wrong(gate, "step %llu: %.220s", (unsigned long long)step, c->found.differs);
    if (!c->alone)
        status = ls_status_first(status, ls_gate_copies(&c->run[CANDIDATE], step, gate));
    gate->interrupted = ls_interrupted();
    LS_TRY(ls_world_turn(c->comm, status, NULL, &gate->interrupted));
    if (c->alone)
        LS_TRY(ls_gate_judge_exchange(c, step, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    gate->steps++;
    if (!c->changes)
        gate->loss_last = c->loss[CANDIDATE];
    gate->loss_first = gate->steps > 1 ? gate->loss_first : gate->loss_last;
    if (!*gate->diverged)
        ls_loss_diverged(c->loss[CANDIDATE], step, gate->diverged);
    return LS_OK;
}

ls_status ls_gate_compare_at(comparison *c, uint64_t step, ls_gate *gate)
{
    ls_status status = LS_OK;
    if (!gate->pass || gate->interrupted)
        return LS_OK;
    for (int side = CANDIDATE; side < SIDES && !status; side++)
        if (c->run[side].run)
            status = ls_session_begin_at(&c->run[side], step, &c->plan->initial);
    LS_TRY(ls_world_agree(c->comm, status));
    return ls_gate_compare_step(c, step, gate);
}

static ls_status judge_state(comparison *c, ls_values array, const char *name, ls_gate *gate)
{
    ls_run *oracle = c->run[ORACLE].run, *judge = oracle ? oracle : c->run[SINGLE].run;
    char when[96];
    snprintf(when, sizeof when, "after %llu steps, %s%s",
             (unsigned long long)(c->run[CANDIDATE].step - c->plan->job.start),
             array == LS_AVERAGES ? "average of parameters" : "optimizer state ",
             array == LS_AVERAGES ? "" : name);
    LS_TRY(judge->functions->state(judge, array, ls_job_elements(judge->job), c->other));
    const ls_difference d = ls_variables_compare(c->variables, c->at_once, c->other);
    if (!d.same_bits && gate->pass)
        note_element(c, when, &d, c->at_once, ls_gate_judge_name(oracle), c->other, gate);
    return LS_OK;
}

ls_status ls_gate_compare_state(comparison *c, ls_gate *gate)
{
    const ls_job *job = c->run[CANDIDATE].run->job;
    const bool compares = gate->pass && !c->library; /* equal on all ranks */
    for (int a = LS_SLOT_0; a < LS_ARRAYS && compares; a++) {
        const char *name = ls_state_name(job, (ls_values)a);
        if (!name)
            continue;
        ls_status status = ls_session_gather(&c->run[CANDIDATE], (ls_values)a, c->at_once);
        if (!status && c->judges)
            status = judge_state(c, (ls_values)a, name, gate);
        LS_TRY(ls_world_agree(c->comm, status));
    }
    return LS_OK;
}

/* All ranks must have the parameters of rank 0, which were compared with the judges'. */
static ls_status compare_ranks(const comparison *c, const char digest[33], ls_gate *gate)
{
    int other;
    LS_TRY(ls_world_differs(c->comm, ls_hash64(digest, strlen(digest)), &other));
    if (other >= 0 && gate->pass)
        ls_gate_wrong(gate, "rank %d ends with different parameters than rank 0", other);
    return LS_OK;
}

/* Each rank keeps the results for itself. */
static ls_status keep_results(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_plan_of_case *plan = c->plan;
    memcpy(gate->digest, c->found.digest, sizeof gate->digest);
    if (!*gate->diverged)
        ls_values_diverged(c->variables, c->found.infinite, gate->steps, gate->diverged);
    LS_TRY(ls_gate_keep(c->workplace, &c->run[CANDIDATE], gate));
    const bool all = steps == (uint64_t)(plan->warmup + plan->timed) && c->judges;
    return ls_world_agree(
        c->comm,
        all ? ls_variables_digest(c->variables, c->values[SINGLE], gate->reference_digest) : LS_OK);
}

/* The last, smaller batch of an epoch has its own program. If the compared steps do not include
 * one, one such step is compared separately, from the initial parameters. */
static ls_status compare_tail(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_plan_of_case *plan = c->plan;
    uint64_t last;
    if (!gate->pass || !steps || !ls_job_lacks_tail(&plan->job, plan->job.start, steps, &last))
        return LS_OK;
    LS_TRY(ls_gate_compare_at(c, last, gate));
    LS_TRY(compare_ranks(c, c->found.digest, gate));
    return ls_gate_agree(c->comm, gate);
}

static ls_status compare(comparison *c, uint64_t steps, ls_gate *gate)
{
    const ls_plan_of_case *plan = c->plan;
    gate->bound = plan->job.exact.on || c->alone ? 0 : gradient_bound;
    gate->kernels = ls_step_kernels(c->run[CANDIDATE].run);
    for (uint64_t step = 0; step < steps && !gate->interrupted && (gate->pass || !c->alone);
         step++) {
        LS_TRY(ls_gate_switch_members(c, gate));
        LS_TRY(ls_gate_compare_step(c, plan->job.start + step, gate));
        ls_progress_update(c->workplace->progress,
                           ls_gate_alone_share * (double)(step + 1) / (double)steps, NAN,
                           c->loss[CANDIDATE]);
    }
    if (c->alone)
        return ls_gate_compare_replicas(c, steps, gate);
    if (!steps)
        LS_TRY(ls_session_look(&c->run[CANDIDATE], &c->found));
    LS_TRY(keep_results(c, steps, gate));
    if (steps && !gate->interrupted)
        LS_TRY(ls_gate_compare_state(c, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (steps && !gate->interrupted)
        LS_TRY(ls_gate_evaluation(c, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (gate->pass && steps && !gate->interrupted)
        LS_TRY(c->library ? judge_library_at_once(c, steps, gate) : judge_at_once(c, steps, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (gate->pass && steps && !gate->interrupted && ls_session_has_full(&c->run[CANDIDATE]))
        LS_TRY(ls_gate_traffic(c->run[CANDIDATE].run, gate));
    LS_TRY(ls_gate_owners(&c->run[CANDIDATE], gate));
    LS_TRY(compare_ranks(c, gate->digest, gate));
    LS_TRY(ls_gate_agree(c->comm, gate));
    if (!gate->interrupted)
        LS_TRY(compare_tail(c, steps, gate));
    return gate->pass && !gate->interrupted && steps && !c->library
               ? ls_gate_check_changes(c, steps, gate)
               : LS_OK;
}

/* Runs the comparison of all steps. */
static ls_status run_comparison(ls_workplace *workplace, const ls_plan_of_case *plan,
                                uint64_t steps, ls_gate *out)
{
    ls_closing(close_comparison) comparison c = {0};
    bool alike = true;
    if (ls_strategy_alone(plan->strategy)) {
        LS_TRY(ls_gate_are_alike(plan, &alike));
        out->checked = out->replayed = alike;
    } else {
        out->grade = plan->job.exact.on ? "exact" : "bounded";
        out->compared = true;
    }
    snprintf(out->oracle, sizeof out->oracle,
             alike ? "same bits" : "not compared: devices of two kinds do not give the same bits");
    if (!alike)
        return LS_OK;
    LS_TRY(open_comparison(workplace, plan, steps, &c));
    LS_TRY(ls_gate_step(&c.run[CANDIDATE], out));
    return out->pass ? compare(&c, steps, out) : LS_OK;
}

ls_status ls_gate_run(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *out)
{
    uint64_t all = (uint64_t)(plan->warmup + plan->timed);
    int64_t asked = plan->config->gate_steps;
    *out = (ls_gate){
        .grade = "none", .pass = true, .gradient_rel = NAN, .library_rel = NAN, .kernels_rel = NAN};
    if (asked == 0) {
        snprintf(out->oracle, sizeof out->oracle, "not compared: --gate-steps 0");
        return LS_OK;
    }
    uint64_t steps = asked < 0 || (uint64_t)asked > all ? all : (uint64_t)asked;
    ls_status status = ls_ps_by_arrival(&plan->job.ps)
                           ? ls_gate_arrival(workplace, plan, steps, out)
                           : run_comparison(workplace, plan, steps, out);
    if (!status && steps && !out->interrupted)
        status = ls_gate_kernels(workplace, plan, out);
    if (ls_status_code(status) != LS_CODE_INTERRUPTED)
        return status;
    ls_status_free(status);
    out->interrupted = true;
    return LS_OK;
}
