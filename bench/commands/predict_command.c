/* SPDX-License-Identifier: MIT */
/* `predict`: rows of cases on devices that are not here; see command.h. */
#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/output/format.h"
#include "bench/output/results_db.h"
#include "bench/output/standard_output.h"
#include "bench/predict/measured.h"
#include "bench/predict/predict.h"
#include "bench/predict/validated.h"
#include "bench/report/child.h"
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The state of the command. */
typedef struct prediction {
    const ls_request *request;
    ls_predictor predictor;
    ls_workplace workplace;
    ls_measured_cases measured; /* --validate without --platform: of the results */
    ls_case base;               /* what options say of all cases */
    ls_case *given;             /* [asked] borrowed */
    size_t asked;
    ls_case *configs;       /* [asked] in the form that is played */
    ls_plan_of_case *plans; /* [count] */
    size_t *number;         /* [count] of the case among the given ones */
    size_t count;           /* cases that can be predicted */
    ls_status *left_out;    /* [left_count] why others cannot */
    size_t left_count;
    size_t *left_number; /* [left_count] as `number` */
    ls_results *results;
    ls_validations validations;
    size_t known; /* validations of earlier commands */
    ls_writer *writer;
    ls_chosen chosen;
    FILE *memory; /* lines below the table; NULL if the format is not a table */
    char *memory_text;
    size_t memory_size;
    int width;    /* of the table */
    bool printed; /* a row */
    int code;
} prediction;

/* ---- Options of `run` that `predict` does not have ------------------------------------------- */

/* Keys of a plan; of the command line none is left. */
static ls_status check_plan(const ls_option_set *given)
{
    const ls_option *table = ls_option_table();
    for (size_t i = 0; table[i].name; i++) {
        const ls_option_given *option = &given->given[i];
        if (option->count && table[i].refused & given->command)
            return ls_setting_refuse(
                &(ls_setting){.option = &table[i], .origin = option->values[0].origin},
                LS_CODE_USAGE, "%s", table[i].why_refused);
    }
    return LS_OK;
}

static ls_status check_options(const ls_request *request)
{
    if (!request->prediction.validate) /* else the plan's cases are measured */
        LS_TRY(check_plan(request->given));
    if (request->budget_ns)
        return ls_fail(LS_CODE_USAGE, "option --plan", "budget",
                       "applies only when training, and lockstep predict does not train; remove "
                       "`budget:` from the plan");
    const bool out = ls_option_set_has(request->given, "out");
    if (request->prediction.calibrate != out)
        return ls_fail(LS_CODE_USAGE, "option", out ? "--out" : "--calibrate",
                       "requires %s; give both options, or none",
                       out ? "--calibrate" : "--out FILE");
    const struct {
        const char *option, *path;
    } files[] = {{"option --trace", request->prediction.trace},
                 {"option --goal", request->prediction.goal},
                 {"option --chakra", request->prediction.chakra}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].path && request->case_count > 1)
            return ls_fail(
                LS_CODE_USAGE, files[i].option, files[i].path,
                "%zu cases cannot all be written here; run a single case, or remove this option",
                request->case_count);
    if (request->prediction.validate && !request->results)
        return ls_fail(LS_CODE_USAGE, "option", "--validate",
                       "needs measured rows from a results file, but --results none is given; "
                       "remove --results none");
    if (request->prediction.validate && strcmp(request->format, "table") != 0 &&
        strcmp(request->format, "jsonl") != 0)
        return ls_fail(LS_CODE_USAGE, "option --format", request->format,
                       "this format does not work with --validate; use --format table or jsonl");
    if (request->processes->size > 1)
        return ls_fail(
            LS_CODE_USAGE, "predict", "ranks",
            "a launcher started several ranks, but lockstep predict runs in one process; start it "
            "without a launcher, and give the number of devices with --devices");
    return LS_OK;
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* What could not be written at the end is refused before anything is played. */
static ls_status check_files(const ls_request *request)
{
    const ls_prediction_request *files = &request->prediction;
    if (request->out)
        LS_TRY(ls_file_writable("--out", request->out, 0));
    if (files->trace)
        LS_TRY(ls_file_writable("option --trace", files->trace, 0));
    if (files->goal)
        LS_TRY(ls_file_writable("option --goal", files->goal, 0));
    return files->chakra ? ls_folder_make("option --chakra", files->chakra) : LS_OK;
}

/* --validate predicts the cases that options name, on the platform, or the cases that were
 * measured. */
static bool takes_measured(const ls_request *request)
{
    const bool named = ls_option_set_has(request->given, "platform") ||
                       ls_option_set_has(request->given, "strategy") ||
                       ls_option_set_has(request->given, "model") ||
                       ls_option_set_has(request->given, "devices");
    return request->prediction.validate && (!named || ls_option_set_has(request->given, "plan"));
}

/* Before case `given` is resolved, or played: its network. */
static ls_status turn_to(prediction *p, size_t given)
{
    if (!p->measured.texts)
        return LS_OK;
    const char *platform = p->measured.networks[given].platform;
    const int per_host = ls_option_set_has(p->request->given, "devices-per-host")
                             ? p->request->prediction.devices_per_host
                             : (int)ls_case_devices(&p->given[given]); /* share this one's cores */
    return ls_predictor_set_network(&p->predictor, *platform ? platform : NULL, per_host);
}

/* Cases that cannot be predicted are left out, if others can. */
static ls_status open_plans(prediction *p)
{
    int most = 0; /* devices of a case */
    LS_TRY(ls_allocate("cases", &p->configs, p->asked, sizeof *p->configs));
    LS_TRY(ls_allocate("cases", &p->plans, p->asked, sizeof *p->plans));
    LS_TRY(ls_allocate("cases", &p->number, p->asked, sizeof *p->number));
    LS_TRY(ls_allocate("cases", &p->left_out, p->asked, sizeof *p->left_out));
    LS_TRY(ls_allocate("cases", &p->left_number, p->asked, sizeof *p->left_number));
    for (size_t i = 0; i < p->asked; i++) {
        ls_plan_of_case *plan = &p->plans[p->count];
        ls_status status = turn_to(p, i);
        if (!status)
            status = ls_predictor_plan(&p->predictor, &p->workplace, &p->given[i],
                                       &p->configs[p->count], plan);
        if (!status) {
            const int devices = (int)ls_predictor_devices(plan);
            most = devices > most ? devices : most;
            p->number[p->count++] = i;
        } else if (ls_status_code(status) == LS_CODE_USAGE) {
            p->left_number[p->left_count] = i;
            p->left_out[p->left_count++] = status;
        } else {
            return status;
        }
    }
    if (!p->count && p->left_count) {
        ls_status first = p->left_out[0];
        p->left_out[0] = NULL;
        return first;
    }
    if (p->predictor.slow_device >= most)
        return ls_fail(
            LS_CODE_USAGE, "option --slowdown", p->request->prediction.slowdown,
            "names a device that no case has; the cases have at most %d devices, numbered from 0",
            most);
    return LS_OK;
}

/* Runs the plan of --validate, so that its rows are in the results. */
static ls_status run_plan(const prediction *p)
{
    const char *plan = ls_option_set_text(p->request->given, "plan", NULL);
    const char *const arguments[] = {
        "/proc/self/exe",    "run",      "--plan", plan,      "--results",
        p->request->results, "--format", "jsonl",  "--quiet", NULL};
    ls_closing(ls_child_free) ls_child child = {0};
    ls_interrupt_install(); /* a signal ends the child, too */
    LS_TRY(ls_child_run((char *const *)(size_t)arguments, UINT64_MAX / 4, &child));
    if (child.code == 0) {
        fputs(child.err ? child.err : "", stderr); /* its warnings */
        return LS_OK;
    }
    char said[400];
    ls_child_says(&child, said, sizeof said);
    return ls_fail(LS_CODE_MISSING, "option --validate", plan,
                   "this plan could not be measured, since lockstep run --plan ended with status "
                   "%d (%s%s%s); run it alone to see more",
                   child.code, *said ? "its last message is '" : "without a message", said,
                   *said ? "'" : "");
}

/* Rows so far, measured and predicted, say how far predictions are to be trusted; --validate
 * without cases takes them from there. */
static ls_status open_results(prediction *p)
{
    const ls_request *request = p->request;
    json_auto_t *rows = json_array();
    size_t first = 0;
    p->given = request->cases;
    p->asked = request->case_count;
    if (!request->results || request->prediction.calibrate)
        return ls_validations_open(rows, &p->validations); /* other machines' */
    LS_TRY(ls_results_open(request->results, true, &p->results));
    LS_TRY(ls_results_each(p->results, ls_results_collect, rows));
    if (takes_measured(request) && ls_option_set_has(request->given, "plan")) {
        first = json_array_size(rows);
        json_array_clear(rows);
        LS_TRY(run_plan(p));
        LS_TRY(ls_results_each(p->results, ls_results_collect, rows));
    }
    if (takes_measured(request)) {
        LS_TRY(ls_measured_cases_open(rows, first, &p->base, &p->measured));
        p->given = p->measured.cases;
        p->asked = p->measured.count;
    }
    if (takes_measured(request) && !p->measured.count)
        return ls_fail(LS_CODE_MISSING, "option", "--validate",
                       "%s has no usable row; rows must be measured on this machine in one "
                       "process, and with --link if they have several devices; first run the "
                       "cases with lockstep run --link latency=T,bandwidth=R",
                       request->results);
    LS_TRY(ls_validations_open(rows, &p->validations));
    p->known = p->validations.count;
    return LS_OK;
}

static ls_status open_command(prediction *p)
{
    const ls_request *request = p->request;
    const ls_format *format;
    LS_TRY(check_options(request));
    LS_TRY(ls_format_find(request->format, &format));
    LS_TRY(ls_chosen_read(request->columns, &p->chosen));
    LS_TRY(ls_predictor_open(&request->prediction, &p->predictor));
    LS_TRY(ls_workplace_open(request, &p->workplace));
    LS_TRY(open_results(p));
    LS_TRY(open_plans(p));
    LS_TRY(check_files(request));
    LS_TRY(ls_writer_open(format, ls_output(), &p->writer));
    p->writer->results = p->results ? request->results : NULL;
    json_t *groups = json_array();
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(
            groups, ls_row_case(&(ls_row_facts){.workplace = &p->workplace, .plan = &p->plans[i]}));
    ls_writer_expect(p->writer, groups, ls_request_swept(request));
    p->width = p->writer->width;
    if (strcmp(request->format, "table") == 0 && !request->prediction.validate)
        p->memory = open_memstream(&p->memory_text, &p->memory_size);
    if (p->chosen.columns.count)
        p->writer->columns = &p->chosen.columns;
    return LS_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

enum { GROUPS_SHOWN = 4 }; /* devices with the same needs are one line */

/* Adds what each device of a case needs, by use, to the lines below the table. */
static void note_memory(prediction *p, size_t index, const ls_predicted *predicted)
{
    const ls_plan_of_case *plan = &p->plans[index];
    ls_closing(ls_need_free)
        ls_need need = {.devices = calloc(predicted->devices + 1, sizeof *need.devices)};
    if (!p->memory || !need.devices || ls_profile_is(plan->config->model))
        return;
    for (; need.count < predicted->devices; need.count++) {
        ls_need_device *device = &need.devices[need.count];
        ls_device_name_text(need.count < plan->device_count ? &plan->devices[need.count]
                                                            : &plan->variable_device,
                            device->name);
        device->formula = predicted->memory[need.count];
    }
    for (size_t i = 0, groups = 0; i < need.count && groups < GROUPS_SHOWN; groups++) {
        fprintf(p->memory, "memory, case %zu, ", index + 1);
        i += ls_need_print(p->memory, &need, i);
        fputs(i < need.count && groups + 1 == GROUPS_SHOWN ? "; ..\n" : "\n", p->memory);
    }
}

/* Prints the lines of memory. */
static void tell_memory(prediction *p)
{
    if (!p->memory || fclose(p->memory))
        return;
    for (char *rest = p->memory_text, *line; (line = strsep(&rest, "\n")) && rest;)
        ls_text_wrap(ls_output(), line, 0, 5, p->width);
    free(p->memory_text);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static ls_status predict_case(prediction *p, size_t index)
{
    ls_predicted predicted;
    json_auto_t *row = NULL;
    bool added;
    LS_TRY(turn_to(p, p->number[index]));
    ls_status failed =
        ls_predict(&p->predictor, p->workplace.machine, &p->plans[index], &predicted);
    ls_status status = ls_predicted_row(&p->predictor, &p->workplace, &p->plans[index], &predicted,
                                        failed ? ls_status_text(failed) : NULL, &row);
    if (predicted.unsaved && !failed && !status) {
        ls_row_mark_error(row, ls_status_text(predicted.unsaved));
        p->code = LS_CODE_MISSING;
    }
    note_memory(p, index, &predicted);
    ls_predicted_close(&predicted);
    if (ls_status_code(failed) == LS_CODE_USAGE && !p->printed && index + 1 == p->count) {
        ls_status_free(status);
        return failed; /* of too many activities, or no route: a refusal */
    }
    const bool failed_here = failed, interrupted = ls_status_code(failed) == LS_CODE_INTERRUPTED;
    if (failed)
        p->code = LS_CODE_MISSING;
    ls_status_free(failed);
    LS_TRY(status);
    if (interrupted)
        ls_put_result_status(row, "interrupted");
    status = ls_validations_take(&p->validations, row, &added);
    if (p->results && !status)
        status = ls_results_append(p->results, row);
    if (status)
        ls_row_mark_error(row, ls_status_text(status));
    if (!p->request->prediction.validate || failed_here)
        status = ls_status_first(status, ls_writer_row(p->writer, row));
    p->printed = true;
    return status;
}

/* --calibrate: the durations of all cases. */
static ls_status calibrate(prediction *p)
{
    for (size_t i = 0; i < p->count; i++)
        LS_TRY(ls_predictor_calibrate(&p->predictor, p->workplace.machine, &p->plans[i]));
    LS_TRY(ls_durations_write(p->request->out, &p->predictor.durations));
    ls_log_line(&p->request->log, LS_LOG_NORMAL, "durations of %zu operations are written to %s",
                p->predictor.durations.count, p->request->out);
    char words[160];
    if (ls_durations_words(&p->predictor.durations, true, words, sizeof words))
        ls_log_line(&p->request->log, LS_LOG_NORMAL, "%s", words);
    return LS_OK;
}

static ls_status predict_all(prediction *p)
{
    for (size_t i = 0; i < p->count && !ls_interrupted(); i++) {
        LS_TRY(predict_case(p, i));
        ls_interrupt_install();
    }
    if (p->request->prediction.validate && p->validations.count == p->known && !p->code &&
        !ls_interrupted())
        return ls_fail(LS_CODE_MISSING, "option", "--validate",
                       "%s has no measured rows of the cases to predict; first run them with "
                       "lockstep run --link latency=T,bandwidth=R",
                       p->request->results);
    if (p->request->prediction.validate)
        ls_validations_print(&p->validations, p->known, strcmp(p->request->format, "jsonl") == 0,
                             ls_output());
    return LS_OK;
}

static void close_command(prediction *p)
{
    ls_validations_close(&p->validations);
    ls_results_close(p->results);
    for (size_t i = 0; i < p->count; i++)
        ls_plan_close(&p->plans[i]);
    for (size_t i = 0; i < p->left_count; i++)
        ls_status_free(p->left_out[i]);
    ls_measured_cases_close(&p->measured);
    free(p->left_out);
    free(p->left_number);
    free(p->number);
    free(p->plans);
    free(p->configs);
    ls_predictor_close(&p->predictor);
    ls_workplace_close(&p->workplace);
}

ls_status ls_command_predict(ls_request *request, int *exit_status)
{
    prediction p = {.request = request};
    memcpy(&p.base, request->cases, sizeof p.base);
    ls_interrupt_end_at_once("lockstep: predict: interrupted before its first result\n");
    ls_status refused = open_command(&p), lost = LS_OK;
    if (!refused)
        ls_request_tell(request);
    for (size_t i = 0; i < p.left_count && !refused; i++) {
        const ls_case *c = &p.given[p.left_number[i]];
        ls_log_line(&request->log, LS_LOG_NORMAL, "left out: %s, --strategy %s --devices %s: %s",
                    c->model, c->strategy->name, c->devices, ls_status_text(p.left_out[i]));
    }
    if (!refused && p.measured.others)
        ls_log_line(
            &request->log, LS_LOG_NORMAL,
            "rows that are not compared with predictions, since several processes measured them, "
            "or several devices without --link, or another version wrote them: %zu",
            p.measured.others);
    if (!refused)
        lost = request->prediction.calibrate ? calibrate(&p) : predict_all(&p);
    if (p.writer) {
        lost = ls_status_first(lost, ls_writer_flush(p.writer));
        lost = ls_status_first(lost, ls_writer_close(p.writer));
    }
    tell_memory(&p);
    close_command(&p);
    if (refused || lost)
        return ls_status_first(refused, lost);
    *exit_status = ls_interrupted() ? LS_CODE_INTERRUPTED : p.code;
    return LS_OK;
}
