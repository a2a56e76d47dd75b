/* SPDX-License-Identifier: MIT */
/* `advise`: which strategy, and options, for a model, devices, a network and memory; see command.h.
 */
#include "bench/case/profile.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/output/format_parts.h"
#include "bench/output/results_db.h"
#include "bench/output/standard_output.h"
#include "bench/predict/advise.h"
#include "bench/train/interrupt.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Options --------------------------------------------------------------------------------- */

static bool is_given(const ls_request *request, const char *name)
{
    return ls_option_set_find(request->given, name)->count > 0;
}

static ls_status check_options(const ls_request *request)
{
    static const char *const refused[] = {
        "link",     "ranks",     "comm",       "memory",  "epochs",          "blocks",
        "baseline", "save",      "load",       "target",  "until-precision", "gate-steps",
        "max-time", "resume",    "print-step", "dry-run", "ps-record",       "plan",
        "columns",  "waterfall", NULL};
    for (size_t i = 0; refused[i]; i++) {
        char name[32];
        snprintf(name, sizeof name, "--%s", refused[i]);
        if (is_given(request, refused[i]))
            return ls_fail(LS_CODE_USAGE, "option", name,
                           "is no part of what advise is asked; give --model, --devices, "
                           "--platform, --batch and what a strategy shall keep");
    }
    for (size_t i = 0; i < request->case_count; i++)
        for (size_t k = 0; k < i; k++)
            if (request->cases[i].strategy == request->cases[k].strategy)
                return ls_fail(LS_CODE_USAGE, "advise", "lists",
                               "make several questions, and advise answers one; give one value of "
                               "each option, but for --strategy");
    if (strcmp(request->format, "table") != 0 && strcmp(request->format, "json") != 0 &&
        strcmp(request->format, "jsonl") != 0)
        return ls_fail(LS_CODE_USAGE, "option --format", request->format,
                       "is no form of advice; use table, json or jsonl");
    int64_t number;
    if (!request->prediction.platform && !ls_parse_integer(request->cases->devices, 1, 1, &number))
        return ls_fail(LS_CODE_USAGE, "option", "--platform",
                       "is missing, and there are several devices; as "
                       "flat:latency=10us,bandwidth=1GB/s");
    return LS_OK;
}

/* ---- The line that checks it ------------------------------------------------------------------
 */

/* The options that were given and that `run` has; those of the network as its --link. */
static ls_status write_run_line(const ls_request *request, const ls_predictor *p,
                                const ls_advised *one, char **out)
{
    size_t count, size;
    const ls_option *table = ls_option_table(&count);
    const ls_platform *platform = &p->platform;
    FILE *line = open_memstream(out, &size);
    if (!line)
        return ls_fail_memory("advise", 0);
    fprintf(line, "lockstep run --strategy %s", one->config.strategy->name);
    if (*one->options)
        fprintf(line, " %s", one->options);
    for (size_t i = 0; i < count; i++) {
        const ls_option_given *given = &request->given->given[i];
        if (!given->count || !table[i].sweeps || !(table[i].commands & LS_FOR_RUN) ||
            strcmp(table[i].name, "strategy") == 0 || strcmp(table[i].name, "steps") == 0 ||
            strcmp(table[i].name, "warmup") == 0 || !ls_option_applies(&table[i], &one->config))
            continue;
        fprintf(line, " --%s ", table[i].name);
        ls_write_quoted(line, given->values[0].text);
    }
    if (platform->kind == LS_PLATFORM_FLAT)
        fprintf(line, " --link %s", platform->link);
    if (platform->kind == LS_PLATFORM_TWO_LEVEL)
        fprintf(line, " --link latency=%.0fns,bandwidth=%.6gGB/s", platform->net.latency_ns,
                platform->net.bytes_per_s * 1e-9);
    return fclose(line) == 0 ? LS_OK : ls_fail_memory("advise", 0);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static json_t *break_of(const ls_advice *advice, const ls_break_even *b)
{
    json_t *one = json_object();
    ls_put_text(one, "axis", b->axis);
    if (isfinite(b->value)) {
        ls_put_real(one, "value", b->value);
        ls_put_text(one, "second_leads", b->below ? "below" : "above");
    }
    json_object_set_new(one, "with",
                        b->with < advice->count ? json_integer((json_int_t)b->with) : json_null());
    json_object_set_new(one, "tried", json_pack("[f,f]", b->low, b->high));
    return one;
}

static void put_regret(json_t *all, const char *name, const ls_regret *regret)
{
    if (regret->sets)
        json_object_set_new(all, name,
                            json_pack("{s:f,s:f,s:I}", "mean", regret->mean, "worst", regret->worst,
                                      "sets", (json_int_t)regret->sets));
}

static json_t *advice_json(const ls_advice *advice, bool guess, const char *line)
{
    json_t *ranking = json_array(), *refused = json_array(), *breaks = json_array();
    for (size_t i = 0; i < advice->count; i++) {
        const ls_advised *one = &advice->ranking[i];
        json_array_append_new(ranking,
                              json_pack("{s:O,s:f,s:[f,f],s:I,s:s,s:s}", "case", one->facts,
                                        "samples_per_s", one->samples_per_s, "ci95", one->ci95[0],
                                        one->ci95[1], "memory", (json_int_t)one->memory, "bound_by",
                                        one->bound_by, "options", one->options));
    }
    for (size_t i = 0; i < advice->refused_count; i++)
        json_array_append_new(refused, json_pack("{s:O,s:s}", "case", advice->refused[i].facts,
                                                 "reason", advice->refused[i].reason));
    for (size_t i = 0; i < advice->break_count; i++)
        json_array_append_new(breaks, break_of(advice, &advice->breaks[i]));
    json_t *all =
        json_pack("{s:o,s:o,s:I,s:o}", "ranking", ranking, "refused", refused, "cannot_tell",
                  (json_int_t)(advice->tied > 1 ? advice->tied : 0), "break_even", breaks);
    if (advice->second)
        json_object_set_new(all, "break_even_with", json_integer((json_int_t)advice->second));
    if (guess)
        json_object_set_new(all, "warnings", json_pack("[s]", "guessed"));
    ls_put_text(all, "check", line);
    put_regret(all, "regret", &advice->here);
    put_regret(all, "regret_published", &advice->published);
    return all;
}

static const char *amount_of(const ls_break_even *b, double value, char text[48])
{
    if (strcmp(b->axis, "bandwidth") == 0)
        snprintf(text, 48, "%.3g GB/s", value * 1e-9);
    else if (strcmp(b->axis, "latency") == 0)
        snprintf(text, 48, "%.3g us", value * 1e-3);
    else if (strcmp(b->axis, "devices") == 0)
        snprintf(text, 48, "%.0f", value);
    else
        snprintf(text, 48, "%.1f MiB", value / (1 << 20));
    return text;
}

static void print_break(const ls_advice *advice, const ls_break_even *b, FILE *out)
{
    char value[48], low[48], high[48];
    if (b->with >= advice->count) {
        fprintf(out, "%s below %s: none of these fits\n", b->axis, amount_of(b, b->value, value));
        return;
    }
    const char *other = advice->ranking[b->with].config.strategy->name;
    const size_t number = b->with + 1;
    const bool counted = strcmp(b->axis, "devices") == 0;
    if (!isfinite(b->value))
        fprintf(out, "%s from %s to %s: number 1 stays before %s (number %zu)\n", b->axis,
                amount_of(b, b->low, low), amount_of(b, b->high, high), other, number);
    else
        fprintf(out, "%s %s %s: %s leads (number %zu)\n", b->axis,
                !counted   ? b->below ? "below" : "above"
                : b->below ? "down to"
                           : "from",
                amount_of(b, b->value, value), other, number);
}

static void print_ranking(const ls_advice *advice, FILE *out)
{
    fprintf(out, "%3s  %-15s %12s %7s %10s  %-9s  %s\n", "", "strategy", "samples/s", "±", "memory",
            "bound by", "options");
    for (size_t i = 0; i < advice->count; i++) {
        char memory[32];
        const ls_advised *one = &advice->ranking[i];
        const double half = (one->ci95[1] - one->ci95[0]) / 2 / one->samples_per_s * 100;
        fprintf(out, "%3zu  %-15s %12.5g %6.1f%% %10s  %-9s  %s\n", i + 1,
                one->config.strategy->name, one->samples_per_s, half,
                ls_format_bytes((double)one->memory, memory), one->bound_by, one->options);
    }
}

static void print_regret(const ls_regret *regret, const char *rows, FILE *out)
{
    if (regret->sets)
        fprintf(out,
                "Such choices took %.1f%% more time than the best, on %zu sets of %s; at worst "
                "%.1f%%.\n",
                100 * regret->mean, regret->sets, rows, 100 * regret->worst);
}

static void print_advice(const ls_request *request, const ls_advice *advice, bool guess,
                         const char *line, FILE *out)
{
    const ls_case *c = request->cases;
    fprintf(out, "%s, devices %s, %s: predicted\n\n", c->model, c->devices,
            request->prediction.platform ? request->prediction.platform : "no network");
    print_ranking(advice, out);
    fputc('\n', out);
    if (advice->tied > 1)
        fprintf(out, "Numbers 1 to %zu cannot be told apart: their intervals overlap.\n",
                advice->tied);
    for (size_t i = 0; i < advice->break_count; i++)
        print_break(advice, &advice->breaks[i], out);
    for (size_t i = 0; i < advice->refused_count; i++)
        fprintf(out, "refused: %s%s%s: %s\n", advice->refused[i].config.strategy->name,
                *advice->refused[i].options ? " " : "", advice->refused[i].options,
                advice->refused[i].reason);
    print_regret(&advice->here, "rows measured here", out);
    print_regret(&advice->published, "published rows", out);
    if (!advice->here.sets)
        fputs("How good such choices are here is not known: no set of measured rows has been "
              "predicted (predict --validate).\n",
              out);
    if (guess)
        fprintf(out,
                "All this is a guess: durations are FLOPs over a rate (--durations %s); leave that "
                "out, and they are measured.\n",
                request->prediction.durations);
    if (line)
        fprintf(out, "To check number 1: %s\n", line);
}

/* ---- The command ----------------------------------------------------------------------------- */

typedef struct asking {
    ls_predictor predictor;
    ls_workplace workplace;
    ls_results *results;
    ls_validations validations;
    ls_advice advice;
    char *line; /* that checks the first; NULL: there is none */
} asking;

/* Rows so far say how far predictions are to be trusted; no file: nothing is known. */
static ls_status open_results(const ls_request *request, asking *a)
{
    json_auto_t *rows = json_array();
    if (request->results && access(request->results, F_OK) == 0) {
        LS_TRY(ls_results_open(request->results, false, &a->results));
        LS_TRY(ls_results_each(a->results, LS_ROWS_WHOLE, ls_results_collect, rows));
    }
    return ls_validations_open(rows, &a->validations);
}

static ls_status answer(const ls_request *request, asking *a, int *exit_status)
{
    LS_TRY(check_options(request));
    LS_TRY(ls_predictor_open(&request->prediction, &a->predictor));
    LS_TRY(ls_workplace_open(request, &a->workplace));
    LS_TRY(open_results(request, a));
    LS_TRY(ls_advise(&a->predictor, &a->workplace, &a->validations, &a->advice));
    ls_request_tell(request);
    const bool profile = ls_profile_is(request->cases->model);
    const bool guess = a->predictor.durations.flops_per_s > 0 && !profile;
    if (a->advice.count && !profile)
        LS_TRY(write_run_line(request, &a->predictor, a->advice.ranking, &a->line));
    if (strcmp(request->format, "table") == 0) {
        print_advice(request, &a->advice, guess, a->line, ls_output());
    } else {
        json_auto_t *all = advice_json(&a->advice, guess, a->line);
        json_dumpf(all, ls_output(),
                   strcmp(request->format, "json") == 0 ? JSON_INDENT(1) : JSON_COMPACT);
        fputc('\n', ls_output());
    }
    *exit_status = a->advice.count ? 0 : LS_CODE_MISSING;
    return LS_OK;
}

void ls_command_advise_help(FILE *stream)
{
    fputs("\nPlays every strategy that computes what `single` computes, with its options, on\n"
          "virtual devices (lockstep predict), and ranks them. Options that are given are kept.\n",
          stream);
}

ls_status ls_command_advise(const ls_request *request, int *exit_status)
{
    asking a = {0};
    if (ls_platform_list(request->prediction.platform, ls_output()))
        return LS_OK;
    ls_interrupt_install();
    ls_status status = answer(request, &a, exit_status);
    free(a.line);
    ls_advice_close(&a.advice);
    ls_validations_close(&a.validations);
    ls_results_close(a.results);
    ls_predictor_close(&a.predictor);
    ls_workplace_close(&a.workplace);
    return status;
}
