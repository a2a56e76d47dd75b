/* SPDX-License-Identifier: MIT */
/* `advise`: which strategy, and options, for a model, devices, a network and memory; see command.h.
 */
#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/options.h"
#include "bench/predict/advise/advise.h"
#include "bench/commands/command.h"
#include "bench/output/results_db.h"
#include "bench/output/standard_output.h"
#include "bench/train/interrupt.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Options --------------------------------------------------------------------------------- */

static ls_status check_options(const ls_request *request)
{
    if (request->processes->size > 1)
        return ls_fail(
            LS_CODE_USAGE, "advise", "ranks",
            "a launcher started several ranks, but lockstep advise runs in one process; start it "
            "without a launcher, and give the number of devices with --devices");
    for (size_t i = 0; i < request->case_count; i++)
        for (size_t k = 0; k < i; k++)
            if (request->cases[i].strategy == request->cases[k].strategy)
                return ls_fail(LS_CODE_USAGE, "advise", "lists",
                               "only --strategy can have a list of values here; give one value for "
                               "each other option");
    if (strcmp(request->format, "table") != 0 && strcmp(request->format, "json") != 0 &&
        strcmp(request->format, "jsonl") != 0)
        return ls_fail(
            LS_CODE_USAGE, "option --format", request->format,
            "this format does not work with lockstep advise; use --format table, json or jsonl");
    if (!request->prediction.platform && ls_case_devices(request->cases) > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--platform",
                       "several devices need a network, but none is given; use for example "
                       "--platform flat:latency=10us,bandwidth=1GB/s");
    return LS_OK;
}

/* ---- The line that checks it ----------------------------------------------------------------- */

/* The options that were given and that `run` has; the network's options as its --link. Unless
 * given, the data are the data that it was played with: a model's own may be missing, or not fit
 * its sizes. */
static ls_status write_run_line(const ls_request *request, const ls_predictor *p,
                                const ls_advised *one, char **out)
{
    size_t size;
    const ls_option *table = ls_option_table();
    const ls_platform *platform = &p->platform;
    ls_case printed = one->config;
    FILE *line = open_memstream(out, &size);
    if (!line)
        return ls_fail_memory("advise", 0);
    if (!*printed.data)
        snprintf(printed.data, sizeof printed.data, LS_PROPOSED_DATA);
    fprintf(line, "lockstep run --strategy %s", one->config.strategy->name);
    if (*one->options)
        fprintf(line, " %s", one->options);
    for (size_t i = 0; table[i].name; i++) {
        const ls_option_given *given = &request->given->given[i];
        if (!given->count || !table[i].sweeps || !(table[i].commands & LS_FOR_RUN) ||
            strcmp(table[i].name, "strategy") == 0 || strcmp(table[i].name, "steps") == 0 ||
            strcmp(table[i].name, "warmup") == 0 || !ls_option_applies(&table[i], &printed))
            continue;
        ls_write_option(line, &table[i], given->values[0].text);
    }
    if (!ls_option_set_has(request->given, "data"))
        fputs(" --data " LS_PROPOSED_DATA, line);
    if (platform->kind == LS_PLATFORM_FLAT)
        fprintf(line, " --link %s", platform->link);
    if (platform->kind == LS_PLATFORM_TWO_LEVEL)
        fprintf(line, " --link latency=%.0fns,bandwidth=%.6gGB/s", platform->net.latency_ns,
                platform->net.bytes_per_s * 1e-9);
    return fclose(line) == 0 ? LS_OK : ls_fail_memory("advise", 0);
}

/* Where `run --link` has another network than the one asked about. */
static const char *differs_of(const ls_platform *platform)
{
    if (platform->kind == LS_PLATFORM_TWO_LEVEL)
        return "its --link is the network between hosts for every pair of devices, each with a "
               "port of its own; within a host it is slower, and devices of a host share no port";
    if (platform->kind == LS_PLATFORM_FILE)
        return "it has no --link, since one link cannot describe the network of the platform "
               "file; so its times may differ from the prediction";
    return "";
}

/* ---- The command ----------------------------------------------------------------------------- */

typedef struct asking {
    ls_predictor predictor;
    ls_workplace workplace;
    ls_results *results;
    ls_validations validations;
    ls_advice advice;
    char *line; /* that checks the first; NULL if there is none */
} asking;

static ls_status answer(const ls_request *request, asking *a, int *exit_status)
{
    json_auto_t *rows = json_array(); /* so far: how far predictions are to be trusted */
    LS_TRY(check_options(request));
    LS_TRY(ls_predictor_open(&request->prediction, &a->predictor));
    LS_TRY(ls_workplace_open(request, &a->workplace));
    if (request->results && access(request->results, F_OK) == 0) { /* else nothing is known */
        LS_TRY(ls_results_open(request->results, false, &a->results));
        LS_TRY(ls_results_each(a->results, ls_results_collect, rows));
    }
    LS_TRY(ls_validations_open(rows, &a->validations));
    LS_TRY(ls_advise(&a->predictor, &a->workplace, &a->validations, &a->advice));
    ls_request_tell(request);
    const ls_advice *advice = &a->advice;
    const bool profile = ls_profile_is(request->cases->model);
    if (advice->count && !profile)
        LS_TRY(write_run_line(request, &a->predictor, advice->ranking, &a->line));
    char noise[160] = "";
    if (!ls_durations_scaled_words(&a->predictor.durations, noise, sizeof noise))
        ls_durations_words(&a->predictor.durations, true, noise, sizeof noise);
    const ls_advice_words words = {
        .guess = a->predictor.durations.flops_per_s > 0 && !profile ? request->prediction.durations
                                                                    : NULL,
        .noise = noise,
        .line = a->line,
        .differs = differs_of(&a->predictor.platform),
        .profile = profile,
        .cores = ls_machine_describe(a->workplace.machine)->cores_allowed};
    LS_TRY(ls_advice_write(request, advice, a->predictor.memory_limit, &words, ls_output()));
    *exit_status = advice->interrupted ? LS_CODE_INTERRUPTED : 0;
    return ls_advice_check(advice, &a->predictor);
}

ls_status ls_command_advise(const ls_request *request, int *exit_status)
{
    asking a = {0};
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
