/* SPDX-License-Identifier: MIT */
/* Advice; see advise.h. */
#include "bench/predict/advise/advise_parts.h"

#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/cli/cases.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/output/format_parts.h"
#include "bench/row/row.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What is compared ------------------------------------------------------------------------ */

/* Options of a strategy that change its speed or its memory, and the values that are tried: those
 * that a case has with the values of the earlier ones. */
static const struct axis {
    const char *strategy, *option;
    const char *values[15];
} axes[] = {
    {"towers", "towers-staged", {"no", "yes"}},
    {"mirrored",
     "allreduce",
     {"ring", "halving-doubling", "tree", "hierarchical", "flat", "canonical"}},
    {"mirrored", "bucket-bytes", {"auto", "1GiB"}},
    {"zero", "zero-stage", {"1", "2", "3"}},
    {"pipeline", "pipeline-microbatches", {"2", "4", "8", "16"}},
    {"pipeline", "pipeline-schedule", {"gpipe", "1f1b"}},
    {"tensor-parallel", "tensor-parallel-sequence", {"no", "yes"}},
    {"hybrid",
     "hybrid-replicas",
     {"2", "3", "4", "5", "6", "8", "12", "16", "32", "64", "128", "256", "512"}},
    {"hybrid",
     "hybrid-inner",
     {"model-parallel", "pipeline", "tensor-parallel", "context-parallel", "zero"}},
    {"hybrid", "pipeline-microbatches", {"4", "16"}}, /* of stages of split layers: the default */
    {"hybrid", "hybrid-stages", {"1", "2", "4", "8"}},
    {"hybrid", "tensor-parallel-sequence", {"no", "yes"}},
    {"hybrid", "hybrid-outer", {"mirrored", "zero"}},
    {"hybrid", "zero-stage", {"1", "3"}},
    {"ps", "ps-mode", {"sync", "async", "ssp"}},
};
enum { AXES = sizeof axes / sizeof *axes, VALUES = sizeof axes->values / sizeof *axes->values };

ls_status ls_advising_set(ls_case *one, const char *name, const char *value)
{
    const ls_option *option = ls_option_find_in(name, strlen(name), LS_FOR_RUN);
    const ls_setting setting = {.option = option, .text = value, .one = one};
    return option->set(&setting);
}

static void add_word(char *text, size_t size, const char *name, const char *value)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s--%s %s", used ? " " : "", name, value);
}

static ls_status append(ls_advised **list, size_t *count, const ls_advised *one)
{
    LS_TRY(ls_grow("advice", list, *count, sizeof *one));
    memcpy(&(*list)[(*count)++], one, sizeof *one);
    return LS_OK;
}

/* Takes over what `one` owns; an equal reason of the same strategy is said once. */
static ls_status refuse(ls_advising *a, ls_advised *one, ls_code code, const char *reason)
{
    one->code = code;
    snprintf(one->reason, sizeof one->reason, "%s", reason);
    for (size_t i = 0; i < a->out->refused_count; i++) {
        const ls_advised *known = &a->out->refused[i];
        if (known->config.strategy == one->config.strategy &&
            strcmp(known->reason, one->reason) == 0) {
            json_decref(one->facts);
            return LS_OK;
        }
    }
    if (!one->facts) {
        one->facts = json_object();
        ls_put_text(one->facts, "strategy", one->config.strategy->name);
        ls_put_text(one->facts, "options", one->options);
    }
    return append(&a->out->refused, &a->out->refused_count, one);
}

/* ---- Progress -------------------------------------------------------------------------------- */

static void open_progress(ls_advising *a, const ls_request *request)
{
    const bool asked = request->progress > 0 || (request->progress < 0 && isatty(STDERR_FILENO));
    a->progress = asked ? ls_progress_open(stderr, request->progress) : NULL;
    ls_progress_cases(a->progress, a->all);
}

void ls_advising_show(ls_advising *a, const char *what, const char *options)
{
    static const double alike[LS_PHASES] = {[LS_PHASE_TIMING] = 1};
    char title[200];
    snprintf(title, sizeof title, "%s%s%s", what, *options ? " " : "", options);
    if (a->at)
        ls_progress_end(a->progress, a->at - 1);
    for (size_t i = a->at; i < a->all; i++)
        ls_progress_expect(a->progress, i, title, alike, false);
    ls_progress_enter(a->progress, a->at++, LS_PHASE_TIMING);
}

/* ---- Predictions ----------------------------------------------------------------------------- */

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
                      ls_advised *one)
{
    json_t *row = NULL;
    ls_interval step;
    bool added;
    LS_TRY(ls_predicted_row(a->predictor, a->workplace, plan, predicted, NULL, &row));
    ls_status status = a->validations ? ls_validations_take(a->validations, row, &added) : LS_OK;
    const bool known = ls_row_pace(row, &step);
    const double batch_s = (double)plan->job.batch * 1e3;
    one->step_ms = step.value;
    one->samples_per_s = ls_row_number(row, "time.samples_per_s");
    one->memory = predicted->most_memory;
    if (a->predictor->others == a->ideal)
        one->bound_by = bound_of(a, predicted, one->step_ms);
    one->ci95[0] = known ? batch_s / step.high : one->samples_per_s;
    one->ci95[1] = known ? batch_s / step.low : one->samples_per_s;
    json_decref(one->facts);
    one->facts = json_incref(json_object_get(row, "case"));
    json_decref(row);
    return status;
}

ls_status ls_advising_predict(ls_advising *a, ls_advised *one, ls_predicted *predicted,
                              ls_status *refused)
{
    ls_case given, played;
    ls_plan_of_case plan;
    memcpy(&given, &one->config, sizeof given);
    if (a->quick && !ls_option_set_has(a->workplace->request->given, "steps")) {
        given.warmup = 1;
        given.steps = 2;
    }
    *predicted = (ls_predicted){0};
    *refused = ls_case_check(&one->config, a->workplace->request);
    if (!*refused)
        *refused = ls_predictor_plan(a->predictor, a->workplace, &given, &played, &plan);
    if (*refused)
        return LS_OK;
    *refused = ls_predict(a->predictor, a->workplace->machine, &plan, predicted);
    ls_status status = LS_OK;
    one->memory = predicted->most_memory;
    if (!*refused)
        status = take(a, &plan, predicted, one);
    else if (predicted->most_memory > a->predictor->memory_limit && !one->facts)
        one->facts = ls_row_case(&(ls_row_facts){.workplace = a->workplace, .plan = &plan});
    ls_plan_close(&plan);
    return status;
}

/* Options that change nothing here: the same step to the last bit, and the same memory. */
static bool is_same(const ls_advising *a, const ls_advised *one)
{
    for (size_t i = 0; i < a->out->count; i++) {
        const ls_advised *known = &a->out->ranking[i];
        if (known->config.strategy == one->config.strategy && known->memory == one->memory &&
            !(known->step_ms < one->step_ms) && !(known->step_ms > one->step_ms))
            return true;
    }
    return false;
}

static void note_memory(ls_advising *a, const ls_advised *one)
{
    ls_advice *out = a->out;
    if (one->memory <= a->predictor->memory_limit)
        return;
    if (!out->over++ || one->memory < out->least.memory)
        memcpy(&out->least, one, sizeof *one);
    out->least.facts = NULL;
}

/* What is wrong with the platform or the machine ends it all; the rest concerns one case. */
static ls_status try_case(ls_advising *a, ls_advised *one)
{
    ls_predicted predicted;
    ls_status refused = LS_OK;
    if (a->counts) {
        a->all++;
        return LS_OK;
    }
    ls_advising_show(a, one->config.strategy->name, one->options);
    ls_status status = ls_interrupted() ? ls_engine_interrupted()
                                        : ls_advising_predict(a, one, &predicted, &refused);
    if (!status)
        ls_predicted_close(&predicted);
    if (ls_status_code(refused) == LS_CODE_INTERRUPTED)
        return ls_status_first(status, refused);
    note_memory(a, one);
    if (!status && refused)
        status = refuse(a, one, ls_status_code(refused), ls_status_text(refused));
    else if (!status && !is_same(a, one))
        status = append(&a->out->ranking, &a->out->count, one);
    else if (!status)
        json_decref(one->facts);
    ls_status_free(refused);
    return status;
}

/* Whether a case has the axis: its strategy, with the options so far, and the user left it open. */
static bool has_axis(const ls_advising *a, const ls_advised *base, const struct axis *axis)
{
    const ls_option *option = ls_option_find_in(axis->option, strlen(axis->option), LS_FOR_RUN);
    return strcmp(axis->strategy, base->config.strategy->name) == 0 &&
           !ls_option_set_has(a->workplace->request->given, axis->option) &&
           ls_option_applies(option, &base->config);
}

/* Whether so many replicas can share the devices, or so many stages the places of a replica, with
 * two or more for each. */
static bool can_share(const ls_advising *a, const ls_case *base, const char *option,
                      const char *value)
{
    ls_job job = {0};
    int64_t number, among = a->devices;
    const bool stages = strcmp(option, "hybrid-stages") == 0;
    if (!stages && strcmp(option, "hybrid-replicas") != 0)
        return true;
    ls_case_job(base, &job);
    if (stages)
        among /= job.split_replicas;
    return ls_parse_integer(value, 1, INT32_MAX, &number) && number < among && among % number == 0;
}

/* One case for each combination of the values of axis `index` and those behind it. */
static ls_status try_axes(ls_advising *a, const ls_advised *base, size_t index)
{
    ls_advised one;
    memcpy(&one, base, sizeof one);
    if (index == AXES)
        return try_case(a, &one);
    const struct axis *axis = &axes[index];
    if (!has_axis(a, base, axis))
        return try_axes(a, base, index + 1);
    for (size_t v = 0; v < VALUES && axis->values[v]; v++) {
        memcpy(&one, base, sizeof one);
        if (!can_share(a, &base->config, axis->option, axis->values[v]))
            continue;
        LS_TRY(ls_advising_set(&one.config, axis->option, axis->values[v]));
        add_word(one.options, sizeof one.options, axis->option, axis->values[v]);
        LS_TRY(try_axes(a, &one, index + 1));
    }
    return LS_OK;
}

static ls_status try_strategy(ls_advising *a, const ls_case *base)
{
    ls_advised one = {0};
    memcpy(&one.config, base, sizeof *base);
    if (!base->strategy->equivalent && a->counts)
        return LS_OK;
    if (!base->strategy->equivalent)
        return refuse(a, &one, LS_CODE_USAGE,
                      "its grade is none: it does not compute what single computes");
    const size_t ranked = a->out->count, before = a->out->refused_count;
    LS_TRY(try_axes(a, &one, 0));
    if (a->out->count == ranked && a->out->refused_count == before + 1) {
        ls_advised *alike = &a->out->refused[before]; /* whatever its options are */
        *alike->options = 0;
        if (json_object_get(alike->facts, "options"))
            ls_put_text(alike->facts, "options", "");
    }
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Quick: by formulas and medians, of few steps. */
static void set_pace(ls_advising *a, bool quick)
{
    ls_predictor *p = a->predictor;
    a->quick = quick;
    p->draws = quick ? 1 : a->draws;
    p->level = quick && p->platform.kind != LS_PLATFORM_FILE ? LS_EXPAND_FORMULA : a->level;
}

static ls_status try_all(ls_advising *a)
{
    for (size_t i = 0; i < a->workplace->request->case_count; i++)
        LS_TRY(try_strategy(a, &a->workplace->request->cases[i]));
    return LS_OK;
}

/* Whether measuring a whole batch on one device costs no more than the others did. */
static bool may_play_alone(const ls_advising *a)
{
    static const double most = 2e9; /* bytes */
    const bool profile = ls_profile_is(a->workplace->request->cases->model);
    if (a->devices == 1 || !a->out->count)
        return false;
    return profile || !a->predictor->measures ||
           (a->devices <= LS_ADVICE_PLAYS &&
            (double)a->out->ranking->memory * (double)a->devices < most);
}

/* What one device does alone: whether several are worth it. */
static ls_status play_alone(ls_advising *a)
{
    ls_advised one = {0};
    ls_predicted predicted = {0};
    ls_status refused = LS_OK;
    if (!may_play_alone(a))
        return LS_OK;
    ls_advising_show(a, "one device alone", "");
    memcpy(&one.config, a->workplace->request->cases, sizeof one.config);
    LS_TRY(ls_advising_set(&one.config, "strategy", "single"));
    LS_TRY(ls_advising_set(&one.config, "devices", "1"));
    ls_status status = ls_advising_predict(a, &one, &predicted, &refused);
    if (!status)
        ls_predicted_close(&predicted);
    if (!status && !refused)
        a->out->alone_per_s = one.samples_per_s;
    json_decref(one.facts);
    if (ls_status_code(refused) == LS_CODE_INTERRUPTED)
        return ls_status_first(status, refused);
    ls_status_free(refused);
    return status;
}

static ls_status advise(ls_advising *a)
{
    enum { PLAYED = 6, BREAKS = 3 };
    ls_predictor *p = a->predictor;
    const bool many = a->devices > LS_ADVICE_PLAYS;
    p->others = a->ideal;
    p->other_count = p->platform.kind == LS_PLATFORM_FILE ? 1 : 2;
    a->counts = true;
    LS_TRY(try_all(a));
    a->counts = false;
    a->out->tried = a->all;
    a->all += (size_t)BREAKS + (many ? PLAYED : 0);
    open_progress(a, a->workplace->request);
    set_pace(a, many);
    LS_TRY(try_all(a));
    for (size_t i = 0; i < a->out->count; i++)
        a->out->ranking[i].played = !many;
    ls_advising_rank(a->out);
    set_pace(a, false);
    if (many)
        LS_TRY(ls_advising_play_first(a, PLAYED));
    ls_advising_ties(a->out);
    LS_TRY(play_alone(a));
    set_pace(a, many);
    p->draws = 1;
    ls_status status = ls_advising_breaks(a);
    set_pace(a, false);
    return status;
}

ls_status ls_advise(ls_predictor *p, ls_workplace *workplace, ls_validations *validations,
                    ls_advice *out)
{
    const char *devices = workplace->request->cases->devices;
    static const double no_limit = 1e15;
    ls_advising a = {.predictor = p,
                     .workplace = workplace,
                     .validations = validations,
                     .ideal = {{.kind = LS_PLATFORM_FLAT}, p->platform},
                     .out = out,
                     .draws = p->draws,
                     .level = p->level,
                     .devices = 1};
    *out = (ls_advice){0};
    if (!ls_parse_integer(devices, 1, INT32_MAX, &a.devices))
        for (const char *c = devices; *c; c++)
            a.devices += *c == '+';
    out->devices = (int)a.devices;
    a.ideal[1].device.bytes_per_s = p->platform.kind == LS_PLATFORM_TWO_LEVEL ? no_limit : 0;
    a.ideal[1].net.bytes_per_s = no_limit;
    if (p->platform.kind == LS_PLATFORM_FILE)
        LS_TRY(ls_engine_probe(p->engine, &p->platform, (int)a.devices, p->devices_per_host));
    out->here = ls_validations_regret(validations);
    out->published = ls_published_regret();
    ls_status status = advise(&a);
    ls_progress_close(a.progress);
    p->others = NULL;
    p->other_count = 0;
    return status;
}

ls_status ls_advice_check(const ls_advice *advice, const ls_predictor *p)
{
    char least[32], limit[32];
    const ls_advised *one = &advice->least, *why = NULL;
    if (advice->count)
        return LS_OK;
    if (advice->over)
        return ls_fail(
            LS_CODE_MISSING, "option --memory-limit", p->request->memory_limit,
            "none of the %zu combinations that can run fits into %s of a device; the "
            "least is %s, of %s%s%s; a smaller --batch, or more --devices, may need less",
            advice->over, ls_format_bytes((double)p->memory_limit, limit),
            ls_format_bytes((double)one->memory, least), one->config.strategy->name,
            *one->options ? " " : "", one->options);
    for (size_t i = 0; i < advice->refused_count; i++) { /* the last of what can be equal */
        const ls_advised *refused = &advice->refused[i];
        if (!why || !why->config.strategy->equivalent || refused->code == LS_CODE_MISSING)
            why = refused;
    }
    return ls_fail(why && why->code == LS_CODE_MISSING ? LS_CODE_MISSING : LS_CODE_USAGE, "advise",
                   "ranking", "is empty: each strategy is refused, as %s: %s%s",
                   why ? why->config.strategy->name : "all", why ? why->reason : "",
                   why && why->config.strategy->equivalent
                       ? ""
                       : "; leave --strategy out, and others are tried");
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
