/* SPDX-License-Identifier: MIT */
/* The gate's verdict, and what it checks besides the results of steps; see gate.h. */
#include "bench/gate/gate.h"

#include "bench/case/elastic.h"
#include "bench/progress/progress.h"
#include "bench/train/change.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/trial/checked.h"
#include "bench/train/world.h"
#include "common/base/bf16_inline.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/arrival/ps_report.h"
#include "impl/step/run/run.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

ls_status ls_gate_keep(const ls_workplace *workplace, ls_session *candidate, ls_gate *gate)
{
    const size_t elements = candidate->job.model->graph->variables.elements;
    ls_status status = LS_OK;
    if (!workplace->request->verify || !workplace->request->save)
        return LS_OK;
    if (ls_session_leads(candidate))
        status = ls_allocate("gate", &gate->parameters, elements + 1, sizeof *gate->parameters);
    LS_TRY(ls_world_agree(candidate->job.ranks.comm, status));
    return ls_session_gather(candidate, LS_VALUES, gate->parameters);
}

void ls_gate_wrong(ls_gate *gate, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(gate->oracle, sizeof gate->oracle, why, arguments);
    va_end(arguments);
    gate->pass = false;
}

const char *ls_gate_judge_name(bool oracle)
{
    return oracle ? "a run on one device with the same order of additions"
                  : "training on one device";
}

const char *ls_gate_difference(double rel, double bound, char text[LS_GATE_BY])
{
    if (isfinite(rel))
        snprintf(text, LS_GATE_BY, " (relative difference %.3g, allowed %.3g)", rel, bound);
    else
        snprintf(text, LS_GATE_BY, ", and only one of the two is finite");
    return text;
}

void ls_gate_library(uint64_t step, double rel, const char *differs, ls_gate *gate)
{
    static const double bound = 1e-5; /* rounding, far less than the loss of one slice */
    char by[LS_GATE_BY];
    if (rel > gate->library_rel || isnan(gate->library_rel))
        gate->library_rel = rel;
    if (gate->pass && !(rel <= bound))
        ls_gate_wrong(gate, "step %llu: %s%s", (unsigned long long)step, differs,
                      ls_gate_difference(rel, bound, by));
}

void ls_gate_whole_loss(const ls_plan_of_case *plan, uint64_t step, double loss, double whole,
                        ls_gate *gate)
{
    const double products = ls_gate_products(plan, plan->job.batch);
    const double distance = ls_value_distance(loss, whole);
    /* pieces with batch statistics are rounded apart: half a unit of bfloat16 */
    const double bound =
        plan->job.kernels.precision == LS_PRECISION_BF16 ? 0x1p-8 : ls_gate_loss_bound;
    if (distance > 0 && !(distance <= bound * fabs(whole) + (double)FLT_MIN * products))
        ls_gate_wrong(gate,
                      "step %llu: the loss is %.9g, but %.9g when the whole batch is computed in "
                      "one pass; the relative difference may be at most %.3g",
                      (unsigned long long)step, ls_unsigned_nan(loss), ls_unsigned_nan(whole),
                      bound);
}

ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate)
{
    ls_status failed = gate->pass ? LS_OK : ls_fail(LS_CODE_CHECK, NULL, NULL, "%s", gate->oracle);
    ls_status status = ls_world_agree(comm, failed);
    if (ls_status_code(status) != LS_CODE_CHECK)
        return status;
    ls_gate_wrong(gate, "%s", ls_status_text(status));
    ls_status_free(status);
    return LS_OK;
}

ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate)
{
    ls_traffic sent, formula;
    if (ls_job_tail(run->job) && ls_job_steps_per_epoch(run->job) == 1)
        return LS_OK;
    LS_TRY(run->functions->traffic(run, &sent, &formula));
    if (sent.bytes_sent == formula.bytes_sent && sent.messages_sent == formula.messages_sent)
        return LS_OK;
    ls_gate_wrong(gate,
                  "traffic: a step sent %llu bytes in %llu messages, but the strategy's formula "
                  "says %llu bytes in %llu messages",
                  (unsigned long long)sent.bytes_sent, (unsigned long long)sent.messages_sent,
                  (unsigned long long)formula.bytes_sent,
                  (unsigned long long)formula.messages_sent);
    return LS_OK;
}

void ls_gate_close(ls_gate *gate)
{
    json_decref(gate->kernels);
    free(gate->parameters);
    *gate = (ls_gate){0};
}

/* ---- Steps and evaluation -------------------------------------------------------------------- */

ls_status ls_gate_put(const ls_workplace *workplace, ls_session *session, uint64_t steps,
                      uint64_t most, double done, ls_gate *gate)
{
    const uint64_t begin = ls_clock_ns(), first = session->step;
    most = most < session->job.records ? most : session->job.records;
    while (session->step < steps) {
        uint64_t left = steps - session->step;
        gate->interrupted = ls_interrupted();
        LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &left, &gate->interrupted));
        if (gate->interrupted)
            return LS_OK;
        LS_TRY(ls_change_members(workplace, session, NULL));
        LS_TRY(ls_session_steps(session, ls_change_until(session, left < most ? left : most)));
        const double ended = (double)(session->step - first);
        const double share = ended / (double)(steps - first);
        gate->step_s = (double)(ls_clock_ns() - begin) * 1e-9 / ended;
        ls_progress_update(workplace->progress, done + (1 - done) * share, NAN, NAN);
    }
    return LS_OK;
}

/* All ranks agree on what a check found. */
static ls_status agree_on(const ls_session *candidate, ls_status status, ls_gate *gate)
{
    if (ls_status_code(status) == LS_CODE_CHECK) {
        ls_gate_wrong(gate, "%s", ls_status_text(status));
        ls_status_free(status);
        status = LS_OK;
    }
    LS_TRY(ls_world_agree(candidate->job.ranks.comm, status));
    return ls_gate_agree(candidate->job.ranks.comm, gate);
}

/* Checks the tasks before any of them runs. */
ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate)
{
    return agree_on(candidate, ls_steps_check(candidate->run), gate);
}

ls_status ls_gate_owners(const ls_session *candidate, ls_gate *gate)
{
    return agree_on(candidate, gate->pass ? ls_steps_owners(candidate->run) : LS_OK, gate);
}

ls_status ls_gate_switch_members(ls_comparison *c, ls_gate *gate)
{
    ls_session *candidate = &c->run[LS_CANDIDATE], *oracle = &c->run[LS_ORACLE];
    if (!ls_change_is_due(candidate))
        return LS_OK;
    LS_TRY(ls_gate_owners(candidate, gate));
    LS_TRY(ls_change_members(c->workplace, candidate, NULL));
    if (oracle->run)
        LS_TRY(ls_change_members(c->workplace, oracle, NULL));
    return ls_gate_step(candidate, gate);
}

/* How many test samples are compared: at least a batch, so that all replicas evaluate some. */
static uint64_t tested(const ls_plan_of_case *plan)
{
    const uint64_t batch = (uint64_t)plan->job.batch;
    const uint64_t least = ls_plan_has_tokens(plan) ? 16 : 256;
    return batch > least ? batch : least;
}

/* Equal parameters must give the same evaluation. */
static ls_status judge(ls_session *judge, bool oracle, const ls_evaluation *found, ls_gate *gate)
{
    ls_evaluation expected;
    LS_TRY(ls_session_evaluate(judge, tested(judge->plan), true, &expected));
    gate->interrupted |= expected.stopped;
    if (expected.stopped || (expected.outputs == found->outputs && expected.right == found->right &&
                             expected.counted == found->counted))
        return LS_OK;
    ls_gate_wrong(gate,
                  "evaluation after %llu steps: with equal samples and parameters, %llu of %llu "
                  "predictions are right here, but %llu of "
                  "%llu in %s%s",
                  (unsigned long long)gate->steps, (unsigned long long)found->right,
                  (unsigned long long)found->counted, (unsigned long long)expected.right,
                  (unsigned long long)expected.counted, ls_gate_judge_name(oracle),
                  expected.outputs == found->outputs ? "" : "; the model's outputs differ");
    return LS_OK;
}

ls_status ls_gate_evaluation(ls_comparison *c, ls_gate *gate)
{
    ls_session *candidate = &c->run[LS_CANDIDATE];
    const bool oracle = c->run[LS_ORACLE].run;
    ls_evaluation found = {0};
    if (!gate->pass || !ls_plan_tests(candidate->plan))
        return LS_OK;
    LS_TRY(ls_session_evaluate(candidate, tested(candidate->plan), true, &found));
    gate->interrupted = found.stopped;
    const ls_status status =
        !found.stopped && c->judges
            ? judge(&c->run[oracle ? LS_ORACLE : LS_SINGLE], oracle, &found, gate)
            : LS_OK;
    return ls_world_turn(candidate->job.ranks.comm, status, NULL, &gate->interrupted);
}

/* ---- The learning rate ----------------------------------------------------------------------- */

/* The rate that devices are about to apply is compared with the schedule's formula, computed here
 * once more, by the C library. Candidate and judges share one implementation: without this check
 * nobody would see a wrong formula there, or a schedule that advances once per replica or piece. */

/* Relative to the highest rate: more than two ways of rounding differ by. */
static const double bound = 1e-14;

static double rate_of_step(const ls_rate_schedule *s, double t)
{
    const double peak = s->initial, low = s->least, w = (double)s->warmup, n = (double)s->decay;
    if (t < w)
        return peak * (t + 1) / w;
    const double x = fmin(1, (t - w) / (n - w));
    switch (s->kind) {
    case LS_RATE_CONSTANT:
        return s->period ? peak * pow(s->factor, floor(t / (double)s->period)) : peak;
    case LS_RATE_LINEAR:
        return peak + (low - peak) * x;
    case LS_RATE_COSINE:
        return low + (peak - low) * (1 + cos(acos(-1) * x)) / 2;
    case LS_RATE_WSD:
        return peak + (low - peak) * fmin(1, fmax(0, (t - n + (double)s->down) / (double)s->down));
    }
    return NAN;
}

ls_status ls_gate_rate(const ls_session *candidate, uint64_t step, ls_gate *gate)
{
    const ls_rate_schedule *s = &candidate->job.update.schedule;
    const ls_run *run = candidate->run;
    const double right = rate_of_step(s, (double)step);
    double range[2];
    LS_TRY(run->functions->rates(run, range));
    /* none, where this process updates nothing, as with servers elsewhere */
    for (int i = 0; i < 2 && gate->pass && range[0] <= range[1]; i++)
        if (!(fabs(range[i] - right) <= bound * s->initial))
            ls_gate_wrong(
                gate,
                "step %llu: the learning rate is %.17g on a device, but the schedule says %.17g",
                (unsigned long long)step, range[i], right);
    return LS_OK;
}

/* ---- Copies that layers read where parameters are stored in bfloat16 ------------------------- */

const char ls_gate_copies_differ[] = "copies: ";

ls_status ls_gate_copies_of(const ls_session *candidate, int device, ls_range block,
                            const float *masters, float *other, uint64_t step, ls_gate *gate)
{
    if (candidate->job.kernels.precision != LS_PRECISION_BF16 || !gate->pass)
        return LS_OK;
    for (size_t i = 0; i < block.count; i++)
        other[i] = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
    LS_TRY(candidate->run->functions->gather_device(candidate->run, device, true, block, other));
    gate->copies = true;
    for (size_t i = 0; i < block.count; i++) {
        const float want = ls_float_of_bf16(ls_bf16_of_float(masters[i]));
        if (ls_values_same((double)other[i], (double)want))
            continue;
        const ls_variable *v =
            ls_variables_holding(&candidate->job.model->graph->variables, block.first + i);
        ls_gate_wrong(gate,
                      "%sstep %llu: the bf16 copy of %s element %zu on device %d is %.9g, but the "
                      "float32 parameter rounds to %.9g",
                      ls_gate_copies_differ, (unsigned long long)step, v->name,
                      block.first + i - v->offset, ls_job_member(&candidate->job, (size_t)device),
                      ls_unsigned_nan((double)other[i]), ls_unsigned_nan((double)want));
        return LS_OK;
    }
    return LS_OK;
}

/* All devices of this process. */
typedef struct looking {
    const ls_session *candidate;
    uint64_t step;
    ls_gate *gate;
    float *other; /* [LS_STATE_BLOCK] */
} looking;

static ls_status look(void *context, ls_range block, const float *masters)
{
    const looking *l = context;
    for (size_t i = 0; i < l->candidate->job.device_count; i++)
        LS_TRY(ls_gate_copies_of(l->candidate, (int)i, block, masters, l->other, l->step, l->gate));
    return LS_OK;
}

ls_status ls_gate_copies(ls_session *candidate, uint64_t step, ls_gate *gate)
{
    ls_auto float *other = NULL;
    if (candidate->job.kernels.precision != LS_PRECISION_BF16)
        return LS_OK;
    LS_TRY(ls_world_agree(candidate->job.ranks.comm,
                          ls_allocate("gate", &other, LS_STATE_BLOCK, sizeof *other)));
    looking l = {.candidate = candidate, .step = step, .gate = gate, .other = other};
    return ls_session_each(candidate, LS_VALUES, false, look, &l);
}

/* ---- Changes of members that the first steps do not reach ------------------------------------ */

/* The step before each change and the one after it, from the initial values, and the state that
 * they leave. Replicas that leave, join or die at step 500 are so compared without 500 steps. An
 * oracle takes its slices from the same plan as the candidate, so the loss behind a change is also
 * compared with `single`'s. Left out: sums of a library, which have no order that a judge knows. */

/* Hashes of the arrays that the candidate has. */
static ls_status hash_state(ls_comparison *c, uint64_t hashes[LS_ARRAYS])
{
    for (int a = 0; a < LS_ARRAYS; a++) {
        hashes[a] = 0;
        if (!ls_state_name(c->run[LS_CANDIDATE].run->job, (ls_values)a))
            continue;
        LS_TRY(ls_session_gather(&c->run[LS_CANDIDATE], (ls_values)a, c->at_once));
        hashes[a] = ls_hash64(c->at_once, c->variables->elements * sizeof *c->at_once);
    }
    return LS_OK;
}

/* A change must not alter the state's values; an oracle changes its state, too. */
static ls_status change_members(ls_comparison *c, ls_gate *gate)
{
    const ls_session *candidate = &c->run[LS_CANDIDATE];
    uint64_t before[LS_ARRAYS], behind[LS_ARRAYS];
    LS_TRY(hash_state(c, before));
    LS_TRY(ls_gate_switch_members(c, gate));
    LS_TRY(hash_state(c, behind));
    for (int a = 0; a < LS_ARRAYS && gate->pass; a++)
        if (before[a] != behind[a])
            ls_gate_wrong(gate,
                          "step %llu: before this step, moving the training state to other devices "
                          "changed the values of %s",
                          (unsigned long long)candidate->step,
                          ls_state_name(candidate->run->job, (ls_values)a));
    return LS_OK;
}

/* Next to an oracle, `single` computes the loss behind the change in one piece, with the parameters
 * that the candidate has then. */
static ls_status compare_change(ls_comparison *c, const ls_elastic_phase *phase, ls_gate *gate)
{
    const bool whole = c->run[LS_ORACLE].run && !ls_sync_bn_is_own(&phase->next->plan);
    const uint64_t step = phase->next->first;
    double *loss = c->loss;
    for (int side = LS_CANDIDATE; side <= LS_ORACLE; side++)
        if (c->run[side].run && c->run[side].plan->phase != phase)
            LS_TRY(ls_session_renew(c->workplace, &phase->plan, &c->run[side]));
    LS_TRY(ls_gate_compare_at(c, step - 1, gate));
    LS_TRY(change_members(c, gate));
    if (whole) {
        const ls_state_source held = ls_state_held(c->own[LS_CANDIDATE]);
        LS_TRY(ls_session_begin_at(&c->run[LS_SINGLE], step, &held));
        LS_TRY(ls_session_one_step(&c->run[LS_SINGLE], c->own[LS_SINGLE], &loss[LS_SINGLE]));
    }
    LS_TRY(ls_gate_compare_step(c, step, gate));
    if (gate->pass && whole)
        ls_gate_whole_loss(c->plan, step, loss[LS_CANDIDATE], loss[LS_SINGLE], gate);
    LS_TRY(ls_gate_owners(&c->run[LS_CANDIDATE], gate));
    return ls_gate_compare_state(c, gate);
}

ls_status ls_gate_check_changes(ls_comparison *c, uint64_t steps, ls_gate *gate)
{
    c->changes = true;
    for (const ls_elastic_phase *p = c->plan->phases; p && p->next && gate->pass; p = p->next) {
        gate->interrupted = ls_interrupted();
        if (gate->interrupted)
            return LS_OK;
        if (p->next->first >= c->plan->job.start + steps)
            LS_TRY(compare_change(c, p, gate));
    }
    return LS_OK;
}

/* ---- Servers in order of arrival ------------------------------------------------------------- */

/* Timing decides the result of such a run, so there is no reference to compare with. What holds in
 * any order is checked: races between tasks, finite values, how far ahead a worker was, the bytes
 * sent. A test shows that the result depends on the order of service alone (tests/ps_replay.c). */

/* Steps enqueued at once: few enough that an interrupt takes effect soon. */
enum { ARRIVALS_AT_ONCE = 1000 };

/* Losses must be finite: the losses of the latest steps, as many as are kept. */
static ls_status judge_losses(ls_session *session, ls_gate *gate)
{
    const uint64_t kept = session->job.records, steps = session->step;
    const uint64_t count = steps < kept ? steps : kept;
    ls_auto ls_step_record *records = NULL;
    uint64_t mark_ns;
    LS_TRY(ls_world_agree(session->job.ranks.comm,
                          ls_allocate("gate", &records, count, sizeof *records)));
    if (count)
        LS_TRY(ls_session_records(session, count, records, &mark_ns));
    for (uint64_t i = 0; i < count && !*gate->diverged; i++)
        ls_loss_diverged(records[i].loss, steps - count + i, gate->diverged);
    return LS_OK;
}

static ls_status check_arrival(const ls_workplace *workplace, ls_session *session, uint64_t steps,
                               ls_gate *gate)
{
    ls_session_found found;
    ls_ps_report report;
    const ls_variables *variables = &session->plan->model->graph->variables;
    gate->kernels = ls_step_kernels(session->run);
    LS_TRY(ls_gate_put(workplace, session, steps, ARRIVALS_AT_ONCE, 0, gate));
    gate->steps = session->step;
    if (gate->interrupted)
        return LS_OK;
    LS_TRY(ls_session_look(session, &found));
    LS_TRY(ls_ps_report_collect(session->run, &report));
    if (session->job.ps.mode == LS_PS_SSP && report.lead.max > (uint64_t)session->job.ps.staleness)
        ls_gate_wrong(gate,
                      "lead: a worker was %llu steps ahead of the slowest worker, but "
                      "--ps-staleness allows %d",
                      (unsigned long long)report.lead.max, session->job.ps.staleness);
    if (steps)
        LS_TRY(ls_gate_traffic(session->run, gate));
    LS_TRY(judge_losses(session, gate));
    if (!ls_job_tail(&session->job)) /* whose empty slices are pushed by nobody */
        LS_TRY(ls_world_agree(session->job.ranks.comm, ls_gate_rate(session, session->step, gate)));
    if (!*gate->diverged)
        ls_values_diverged(variables, found.infinite, gate->steps, gate->diverged);
    return ls_gate_keep(workplace, session, gate);
}

ls_status ls_gate_arrival(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate)
{
    ls_closing(ls_session_close) ls_session session = {0};
    gate->checked = true;
    snprintf(gate->oracle, sizeof gate->oracle, "not compared: timing decides %s",
             plan->job.ps.backups ? "which gradients a step has, and in which order"
                                  : "in which order gradients are applied");
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &session));
    ls_session_heed(workplace, &session);
    LS_TRY(ls_gate_step(&session, gate));
    if (gate->pass)
        LS_TRY(check_arrival(workplace, &session, steps, gate));
    return ls_gate_agree(plan->job.ranks.comm, gate);
}
