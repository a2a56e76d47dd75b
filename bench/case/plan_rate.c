/* SPDX-License-Identifier: MIT */
/*
 * The learning-rate schedule of a case: from --lr-schedule, or the model's own. Where it ends is a
 * number of steps: the run's, unless it is given. A predicted run has few steps, which stand for
 * all; there it ends no earlier than it can.
 */
#include "bench/case/case_plan.h"
#include "common/nn/rate.h"

#include <string.h>

/* Sets where the curve ends (N), and refuses what leaves no room for it. */
static ls_status find_end(const ls_request *request, const ls_plan_of_case *plan,
                          ls_rate_schedule *s)
{
    const ls_case *c = plan->config;
    const int64_t steps = plan->warmup + plan->timed, warmup = c->lr_warmup;
    const bool fixed = request->precision <= 0 && !request->budget_ns;
    int64_t end = c->lr_decay;
    if (!end && !fixed)
        return ls_fail(LS_CODE_USAGE, "option --lr-schedule", c->lr_schedule,
                       "this schedule ends with the run, but with %s the number of steps is not "
                       "known in advance; give --lr-decay-steps N",
                       request->budget_ns ? "`budget:` in the plan" : "--until-precision");
    if (!end)
        end = request->predict && steps <= warmup ? warmup + 1 : steps;
    if (!end) /* a run of no steps */
        end = 1;
    if (warmup >= end)
        return ls_fail(LS_CODE_USAGE, "option", "--lr-warmup-steps",
                       "%lld warm-up steps fill the whole schedule of %lld steps, so the rate "
                       "could never fall; use fewer than %lld, or a larger --lr-decay-steps",
                       (long long)warmup, (long long)end, (long long)end);
    s->decay = (uint64_t)end;
    const int64_t tenth = end / 10 ? end / 10 : 1, rest = end - warmup;
    s->down = (uint64_t)(c->lr_wsd_decay ? c->lr_wsd_decay : tenth < rest ? tenth : rest);
    if (s->kind == LS_RATE_WSD && c->lr_wsd_decay > rest)
        return ls_fail(LS_CODE_USAGE, "option", "--lr-wsd-decay-steps",
                       "%lld steps are more than the %lld steps that the schedule has after the "
                       "warm-up; use at most %lld",
                       (long long)c->lr_wsd_decay, (long long)rest, (long long)rest);
    return LS_OK;
}

ls_status ls_plan_choose_rate(const ls_request *request, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    const ls_model_family *family = plan->model->family;
    const ls_rate_rule *rule =
        ls_registry_find(&ls_rate_rules, c->lr_schedule, strlen(c->lr_schedule));
    const int64_t steps = plan->warmup + plan->timed;
    ls_job *job = &plan->job;
    ls_rate_schedule *s = &job->update.schedule;
    *s = (ls_rate_schedule){.initial =
                                c->learning_rate > 0 ? c->learning_rate : family->default_rate,
                            .kind = rule ? rule->kind : LS_RATE_CONSTANT,
                            .warmup = (uint64_t)c->lr_warmup,
                            .least = c->min_lr};
    /* Such servers apply each worker's gradient by itself. */
    if (ls_ps_by_arrival(&job->ps) && !job->ps.backups)
        s->updates = (uint64_t)ls_job_replicas(job);
    if (!rule && family->rate_epochs) {
        s->factor = 0.1;
        s->period = (uint64_t)family->rate_epochs * ls_job_steps_per_epoch(job);
    }
    if (s->least > s->initial)
        return ls_fail(LS_CODE_USAGE, "option", "--min-lr",
                       "%.15g is above the learning rate, %.15g; use at most the learning rate, or "
                       "a larger --lr",
                       s->least, s->initial);
    if (s->kind != LS_RATE_CONSTANT)
        return find_end(request, plan, s);
    if (c->lr_warmup > steps && !request->predict && !request->budget_ns)
        return ls_fail(
            LS_CODE_USAGE, "option", "--lr-warmup-steps",
            "%lld steps are more than the run's %lld; use at most %lld, or a longer run (--steps "
            "or --epochs)",
            (long long)c->lr_warmup, (long long)steps, (long long)steps);
    return LS_OK;
}
