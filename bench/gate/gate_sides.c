/* SPDX-License-Identifier: MIT */
/* What the gate checks besides the results of steps; see gate.h. */
#include "bench/gate/gate.h"
#include "bench/progress/progress.h"
#include "bench/train/change.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "common/base/bf16_inline.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/run/run.h"

#include <math.h>

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
                  "predictions are right here, and %llu of "
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
