/* SPDX-License-Identifier: MIT */
/* Advice; see advise.h. */
#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/cli/options.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/output/format.h"
#include "bench/predict/advise/advise_parts.h"
#include "bench/row/row.h"
#include "bench/rows/row.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/strategies.h"
#include "published_questions.h"
#include "published_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/times.h>
#include <unistd.h>

ls_status ls_advising_set(ls_case *config, const char *name, const char *value)
{
    const ls_option *option = ls_option_find(name, LS_FOR_RUN);
    const ls_setting setting = {.option = option, .text = value, .one = config};
    return option->set(&setting);
}

static ls_status append(ls_advised **list, size_t *count, const ls_advised *advised)
{
    LS_TRY(ls_grow("advice", list, *count, sizeof *advised));
    memcpy(&(*list)[(*count)++], advised, sizeof *advised);
    return LS_OK;
}

/* Takes over what `advised` owns, and the reason; an equal one of a strategy is said once. */
static ls_status refuse(ls_advising *a, ls_advised *advised, ls_status why)
{
    advised->code = ls_status_code(why);
    snprintf(advised->reason, sizeof advised->reason, "%s", ls_status_text(why));
    ls_status_free(why);
    for (size_t i = 0; i < a->out->refused_count; i++) {
        const ls_advised *known = &a->out->refused[i];
        if (known->config.strategy == advised->config.strategy &&
            strcmp(known->reason, advised->reason) == 0) {
            json_decref(advised->facts);
            return LS_OK;
        }
    }
    if (!advised->facts) {
        advised->facts = json_object();
        json_object_set_new(advised->facts, "strategy",
                            json_string(advised->config.strategy->name));
        json_object_set_new(advised->facts, "options", ls_text_value(advised->options));
    }
    return append(&a->out->refused, &a->out->refused_count, advised);
}

/* ---- Time and progress ---------------------------------------------------------------------- */

/* With that of lockstep-simgrid, which is a child. */
static double processor_s(void)
{
    struct tms used;
    times(&used);
    return (double)(used.tms_utime + used.tms_stime + used.tms_cutime + used.tms_cstime) /
           (double)sysconf(_SC_CLK_TCK);
}

double ls_advising_spent(const ls_advising *a)
{
    return processor_s() - a->begun_s - a->predictor->measuring_s;
}

/* How many there will be is not known, so there is no time left: what is at work, and the best. */
void ls_advising_show(ls_advising *a, const char *what, const char *options)
{
    static const double unknown[LS_PHASES] = {0};
    char title[400];
    const ls_advised *best = NULL;
    for (size_t i = 0; i < a->out->count; i++)
        if (!best || a->out->ranking[i].samples_per_s > best->samples_per_s)
            best = &a->out->ranking[i];
    snprintf(title, sizeof title, "%s %s%s%s", a->estimates ? "estimates" : "plays", what,
             *options ? " " : "", options);
    if (best)
        ls_text_add(title, sizeof title, "; best of %zu so far: %s, %.5g samples/s", a->out->count,
                    best->config.strategy->name, best->samples_per_s);
    ls_progress_expect(a->progress, 0, title, unknown, false);
    ls_progress_enter(a->progress, 0, LS_PHASE_TIMING);
}

/* ---- Predictions ---------------------------------------------------------------------------- */

static const char *bound_of(const ls_advising *a, const ls_predicted *p, double step_ms)
{
    const double compute = p->other_ms[0];
    if (a->predictor->platform.kind == LS_PLATFORM_FILE)
        return compute >= step_ms - compute ? "compute" : "network";
    const double latency = p->other_ms[1] - compute, bandwidth = step_ms - p->other_ms[1];
    if (compute >= latency && compute >= bandwidth)
        return "compute";
    return latency > bandwidth ? "latency" : "bandwidth";
}

static ls_status take(ls_advising *a, const ls_plan_of_case *plan, const ls_predicted *predicted,
                      ls_advised *advised)
{
    json_auto_t *row = NULL;
    ls_interval step;
    bool added;
    LS_TRY(ls_predicted_row(a->predictor, a->workplace, plan, predicted, NULL, &row));
    if (a->validations)
        LS_TRY(ls_validations_take(a->validations, row, &added));
    const bool known = ls_row_pace(row, &step);
    const double batch_s = (double)plan->job.batch * 1e3;
    advised->step_ms = step.value;
    advised->samples_per_s = ls_row_real(row, LS_F_time_samples_per_s);
    advised->memory = predicted->most_memory;
    advised->activities = predicted->activities / (size_t)(plan->warmup + plan->timed);
    if (a->predictor->others == a->ideal) {
        advised->bound_by = bound_of(a, predicted, advised->step_ms);
        /* What is not computing is the network's as far as the step is shorter without it. */
        const double busy = predicted->busy_ms / (predicted->all_ms * (double)predicted->devices);
        const double compute =
            busy < 1 ? busy : 1; /* several lanes of a device may be busy at once */
        const double network =
            fmin(fmax(1 - predicted->other_ms[0] / advised->step_ms, 0), 1 - compute);
        advised->shares = (ls_advised_shares){compute, network, 1 - compute - network};
    }
    advised->ci95[0] = known ? batch_s / step.high : advised->samples_per_s;
    advised->ci95[1] = known ? batch_s / step.low : advised->samples_per_s;
    json_decref(advised->facts);
    advised->facts = json_incref(ls_row_group(row, LS_G_case));
    return LS_OK;
}

ls_status ls_advising_predict(ls_advising *a, ls_advised *advised, double *other_ms)
{
    ls_case given, played;
    ls_closing(ls_plan_close) ls_plan_of_case plan = {0};
    ls_closing(ls_predicted_close) ls_predicted predicted = {0};
    memcpy(&given, &advised->config, sizeof given);
    /* fewer steps, if it is an estimate, or a play of so many activities takes minutes */
    enum { MOST = 100000 };
    if ((a->estimates || advised->activities > MOST) &&
        !ls_option_set_has(a->workplace->request->given, "steps")) {
        given.warmup = 1;
        given.steps = a->estimates ? 1 : 2;
    }
    LS_TRY(ls_case_check(&advised->config, a->workplace->request));
    LS_TRY(ls_predictor_plan(a->predictor, a->workplace, &given, &played, &plan));
    ls_status refused = ls_predict(a->predictor, a->workplace->machine, &plan, &predicted);
    advised->memory = predicted.most_memory;
    if (!refused && other_ms)
        memcpy(other_ms, predicted.other_ms, a->predictor->other_count * sizeof *other_ms);
    if (!refused)
        return take(a, &plan, &predicted, advised);
    if (predicted.most_memory > a->predictor->memory_limit && !advised->facts)
        advised->facts = ls_row_case(&(ls_row_facts){.workplace = a->workplace, .plan = &plan});
    return refused;
}

/* Options that change nothing here: neither the step, to the last bit, nor the memory. */
static bool is_same(const ls_advising *a, const ls_advised *advised)
{
    for (size_t i = 0; i < a->out->count; i++) {
        const ls_advised *known = &a->out->ranking[i];
        if (known->config.strategy == advised->config.strategy &&
            known->memory == advised->memory && !(known->step_ms < advised->step_ms) &&
            !(known->step_ms > advised->step_ms))
            return true;
    }
    return false;
}

static void note_memory(ls_advising *a, const ls_advised *advised)
{
    ls_advice *out = a->out;
    if (advised->memory <= a->predictor->memory_limit)
        return;
    if (!out->over++ || advised->memory < out->least.memory)
        memcpy(&out->least, advised, sizeof *advised);
    out->least.facts = NULL;
}

ls_status ls_advising_estimate(ls_advising *a, ls_advised *advised)
{
    ls_advising_show(a, advised->config.strategy->name, advised->options);
    ls_status refused =
        ls_interrupted() ? ls_engine_interrupted() : ls_advising_predict(a, advised, NULL);
    if (ls_status_code(refused) == LS_CODE_INTERRUPTED) {
        json_decref(advised->facts);
        return refused;
    }
    note_memory(a, advised);
    advised->quick_per_s = refused ? 0 : advised->samples_per_s;
    if (refused)
        return refuse(a, advised, refused);
    if (!is_same(a, advised))
        return append(&a->out->ranking, &a->out->count, advised);
    json_decref(advised->facts);
    return LS_OK;
}

ls_status ls_advising_withdraw(ls_advising *a, size_t number, ls_status why)
{
    ls_advice *out = a->out;
    ls_advised advised;
    memcpy(&advised, &out->ranking[number], sizeof advised);
    advised.samples_per_s = 0;
    out->count--;
    memmove(&out->ranking[number], &out->ranking[number + 1],
            (out->count - number) * sizeof *out->ranking);
    if (strcmp(advised.options, out->usual.options) == 0 &&
        advised.config.strategy == out->usual.config.strategy)
        out->usual.memory = advised.memory;
    note_memory(a, &advised);
    return refuse(a, &advised, why);
}

/* The default, and `all`, are the list of all. */
ls_status ls_advising_takes(ls_advising *a, const ls_case *base, bool *takes)
{
    static const char why[] = "its grade is none: it does not compute what single computes; name "
                              "it with --strategy, and it is ranked";
    ls_advised advised = {0};
    *takes = !ls_strategy_alone(base->strategy) ||
             a->workplace->request->case_count < ls_registry_count(&ls_strategies);
    memcpy(&advised.config, base, sizeof *base);
    return *takes ? LS_OK : refuse(a, &advised, ls_fail(LS_CODE_USAGE, NULL, NULL, "%s", why));
}

/* A reason that all options of a strategy share is said without them. */
static void generalize(ls_advice *advice)
{
    for (size_t i = 0; i < advice->refused_count; i++) {
        ls_advised *advised = &advice->refused[i];
        size_t others = 0;
        for (size_t k = 0; k < advice->refused_count; k++)
            others += k != i && advice->refused[k].config.strategy == advised->config.strategy;
        for (size_t k = 0; k < advice->count; k++)
            others += advice->ranking[k].config.strategy == advised->config.strategy;
        if (others)
            continue;
        *advised->options = 0;
        if (json_object_get(advised->facts, "options"))
            json_object_set_new(advised->facts, "options", json_string(""));
    }
}

/* ---- All ------------------------------------------------------------------------------------ */

static void set_pace(ls_advising *a, bool estimates)
{
    enum { MANY = 16, DRAWS = 8 };
    ls_predictor *p = a->predictor;
    const ls_predictor *asked = &a->asked;
    a->estimates = estimates;
    p->draws = estimates ? 1 : !asked->draws && a->devices > MANY ? DRAWS : asked->draws;
    p->engine = estimates && p->platform.kind != LS_PLATFORM_FILE ? LS_ENGINE_PORTS : asked->engine;
    p->level = estimates && asked->level == LS_EXPAND_MESSAGES ? LS_EXPAND_FLOWS : asked->level;
}

/* Whether measuring a whole batch on one device costs no more than the others did. */
static bool may_play_alone(const ls_advising *a)
{
    static const double most = 2e9; /* bytes */
    enum { few = 16 };
    const bool profile = ls_profile_is(a->workplace->request->cases->model);
    if (a->devices == 1 || !a->out->count)
        return false;
    return profile || !a->predictor->measures ||
           (a->devices <= few && (double)a->out->ranking->memory * (double)a->devices < most);
}

/* What one device does alone: whether several are worth it. */
static ls_status play_alone(ls_advising *a)
{
    ls_advised advised = {0};
    if (!may_play_alone(a))
        return LS_OK;
    ls_advising_show(a, "one device alone", "");
    memcpy(&advised.config, a->workplace->request->cases, sizeof advised.config);
    LS_TRY(ls_advising_set(&advised.config, "strategy", "single"));
    LS_TRY(ls_advising_set(&advised.config, "devices", "1"));
    ls_status refused = ls_advising_predict(a, &advised, NULL);
    a->out->alone_per_s = refused ? 0 : advised.samples_per_s;
    json_decref(advised.facts);
    if (ls_status_code(refused) == LS_CODE_INTERRUPTED)
        return refused;
    ls_status_free(refused);
    return LS_OK;
}

/* The batch of a step, or with weak scaling of a replica; the batch of a case that can be
 * resolved. */
static void find_batch(ls_advising *a)
{
    for (size_t i = 0; i < a->workplace->request->case_count && !a->out->batch; i++) {
        const ls_case *c = &a->workplace->request->cases[i];
        ls_case played;
        ls_closing(ls_plan_close) ls_plan_of_case plan = {0};
        ls_status status = ls_predictor_plan(a->predictor, a->workplace, c, &played, &plan);
        const bool weak = c->scaling == LS_SCALING_WEAK;
        if (!status)
            a->out->batch = plan.job.batch / (weak ? ls_job_replicas(&plan.job) : 1);
        ls_status_free(status);
    }
}

/* First estimates, then plays, most promising first; then what lies around the answer. */
static ls_status advise(ls_advising *a)
{
    ls_predictor *p = a->predictor;
    find_batch(a);
    p->others = a->ideal;
    p->other_count = p->platform.kind == LS_PLATFORM_FILE ? 1 : 2;
    set_pace(a, true);
    LS_TRY(ls_advising_search(a));
    generalize(a->out);
    if (a->progress) { /* the ranking by estimates: playing may take most of the time */
        ls_advising_rank(a);
        ls_progress_pause(a->progress);
        ls_advice_print_estimates(a->out, ls_profile_is(a->workplace->request->cases->model),
                                  stderr);
    }
    set_pace(a, false);
    LS_TRY(ls_advising_play_first(a));
    LS_TRY(play_alone(a));
    ls_advising_ties(a->out);
    set_pace(a, true);
    return ls_advising_breaks(a);
}

/* Over published rows (results/published.jsonl, ci/published.sh), by the questions that they answer
 * (reports/questions.json). */
static ls_regret published_regret(void)
{
    json_auto_t *document = json_pack("{s:o,s:o}", "rows", ls_embedded_rows(ls_published_rows),
                                      "questions", json_loads(ls_published_questions, 0, NULL));
    return ls_regret_of(document);
}

ls_status ls_advise(ls_predictor *p, ls_workplace *workplace, ls_validations *validations,
                    ls_advice *out)
{
    static const double no_limit = 1e15;
    ls_advising a = {.predictor = p,
                     .workplace = workplace,
                     .validations = validations,
                     .ideal = {{.kind = LS_PLATFORM_FLAT}, p->platform},
                     .out = out,
                     .asked = *p,
                     .begun_s = processor_s(),
                     .devices = (int64_t)ls_case_devices(workplace->request->cases)};
    *out = (ls_advice){0};
    out->devices = (int)a.devices;
    out->devices_per_host = p->devices_per_host;
    a.ideal[1].device.bytes_per_s = p->platform.kind == LS_PLATFORM_TWO_LEVEL ? no_limit : 0;
    a.ideal[1].net.bytes_per_s = no_limit;
    if (p->platform.kind == LS_PLATFORM_FILE)
        LS_TRY(ls_engine_probe(p->engine, &p->platform, (int)a.devices, p->devices_per_host));
    out->measured = ls_validations_regret(validations);
    out->published = published_regret();
    const bool asked = workplace->request->progress > 0 ||
                       (workplace->request->progress < 0 && isatty(STDERR_FILENO));
    a.progress = asked ? ls_progress_open(stderr, workplace->request->progress) : NULL;
    ls_progress_cases(a.progress, 1);
    ls_status status = advise(&a);
    ls_progress_close(a.progress);
    p->others = NULL;
    p->other_count = 0;
    set_pace(&a, false);
    out->interrupted = ls_status_code(status) == LS_CODE_INTERRUPTED;
    if (!out->interrupted)
        return status;
    ls_status_free(status);
    ls_advising_rank(&a);
    ls_advising_ties(out);
    return LS_OK;
}

ls_status ls_advice_check(const ls_advice *advice, const ls_predictor *p)
{
    char least[32], limit[32];
    const ls_advised *advised = &advice->least, *why = NULL;
    if (advice->count)
        return LS_OK;
    if (advice->interrupted)
        return ls_fail(LS_CODE_INTERRUPTED, "advise", "ranking",
                       "the ranking is empty, since advise was interrupted before the first "
                       "estimate; run the command again");
    if (advice->over)
        return ls_fail(
            LS_CODE_MISSING, "option --memory-limit", p->request->memory_limit,
            "no combination of options fits into a device's memory (tried: %zu; limit: %s); the "
            "smallest, --strategy %s%s%s, needs %s; use a smaller --batch or more --devices",
            advice->over, ls_format_bytes((double)p->memory_limit, limit),
            advised->config.strategy->name, *advised->options ? " " : "", advised->options,
            ls_format_bytes((double)advised->memory, least));
    bool several = false;                                /* strategies */
    for (size_t i = 0; i < advice->refused_count; i++) { /* the last among equal cases */
        const ls_advised *refused = &advice->refused[i];
        several |= refused->config.strategy != advice->refused->config.strategy;
        if (!why || ls_strategy_alone(why->config.strategy) || refused->code == LS_CODE_MISSING)
            why = refused;
    }
    const char *name = why ? why->config.strategy->name : "all", *reason = why ? why->reason : "";
    char scope[64];
    const int length = snprintf(scope, sizeof scope, "strategy: %s: ", name);
    return ls_fail(why && why->code == LS_CODE_MISSING ? LS_CODE_MISSING : LS_CODE_USAGE, "advise",
                   "ranking", "the ranking is empty, since %s is refused; --strategy %s: %s%s",
                   several ? "every strategy tried" : "the only strategy tried", name,
                   reason + (strncmp(reason, scope, (size_t)length) == 0 ? length : 0),
                   why && !ls_strategy_alone(why->config.strategy) ? "" : ", or remove --strategy");
}

void ls_advice_close(ls_advice *advice)
{
    for (size_t i = 0; i < advice->count; i++)
        json_decref(advice->ranking[i].facts);
    for (size_t i = 0; i < advice->refused_count; i++)
        json_decref(advice->refused[i].facts);
    free(advice->ranking);
    free(advice->refused);
    free(advice->breaks);
    *advice = (ls_advice){0};
}
