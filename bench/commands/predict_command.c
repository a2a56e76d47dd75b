/* SPDX-License-Identifier: MIT */
/* `predict`: rows of cases on devices that are not here; see command.h. */
#include "bench/cli/option_set.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/output/format_parts.h"
#include "bench/output/results_db.h"
#include "bench/output/row_columns.h"
#include "bench/output/standard_output.h"
#include "bench/predict/predict.h"
#include "bench/predict/validated.h"
#include "bench/row/row.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

/** The state of the command. */
typedef struct prediction {
    const ls_request *request;
    ls_predictor predictor;
    ls_workplace workplace;
    ls_case *configs;       /* [case_count] as they are played */
    ls_plan_of_case *plans; /* [case_count] */
    ls_results *results;
    ls_validations validations;
    size_t known; /* validations of earlier commands */
    ls_writer *writer;
    ls_chosen chosen;
    int code;
} prediction;

/* ---- What `run` has and `predict` has not ---------------------------------------------------- */

static ls_status check_options(const ls_request *request)
{
    static const char training[] = "is of training, and predict trains nothing; leave it out";
    static const char later[] = "is an option of run that predict lacks; leave it out";
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"link", "is of real devices; give the network by --platform"},
        {"ranks", "is of processes; give all devices by --devices"},
        {"comm", "is of processes; give all devices by --devices"},
        {"memory", "is of real devices; give what a device has by --memory-limit"},
        {"epochs", "is of a data set, and predict reads none; give --steps"},
        {"blocks", training},
        {"gate-steps", training},
        {"baseline", training},
        {"save", training},
        {"load", training},
        {"target", training},
        {"until-precision", training},
        {"max-time", training},
        {"ps-record", training},
        {"resume", later},
        {"print-step", later},
        {"waterfall", later},
        {"dry-run", later},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char name[32];
        snprintf(name, sizeof name, "--%s", refused[i].name);
        if (ls_option_set_find(request->given, refused[i].name)->count)
            return ls_fail(LS_CODE_USAGE, "option", name, "%s", refused[i].why);
    }
    if (request->budget_ns)
        return ls_fail(LS_CODE_USAGE, "option --plan", "budget",
                       "is of training, and predict trains nothing; leave it out");
    const bool out = ls_option_set_find(request->given, "out")->count;
    if (request->prediction.calibrate != out)
        return ls_fail(LS_CODE_USAGE, "option", out ? "--out" : "--calibrate",
                       "goes with %s; give both, or none", out ? "--calibrate" : "--out FILE");
    if (request->prediction.validate && !request->results)
        return ls_fail(LS_CODE_USAGE, "option", "--validate",
                       "looks for measured rows in the results file, and --results names none");
    if (request->prediction.validate && strcmp(request->format, "table") != 0 &&
        strcmp(request->format, "jsonl") != 0)
        return ls_fail(LS_CODE_USAGE, "option --format", request->format,
                       "is no form of --validate; use table or jsonl");
    if (request->processes->size > 1)
        return ls_fail(LS_CODE_USAGE, "predict", "ranks",
                       "a launcher started several; predict runs alone, and --devices says how "
                       "many devices there are");
    return LS_OK;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static ls_status open_plans(prediction *p)
{
    const ls_request *request = p->request;
    LS_TRY(ls_allocate("cases", &p->configs, request->case_count, sizeof *p->configs));
    LS_TRY(ls_allocate("cases", &p->plans, request->case_count, sizeof *p->plans));
    for (size_t i = 0; i < request->case_count; i++) {
        LS_TRY(ls_predictor_case(&p->predictor, &request->cases[i], &p->configs[i]));
        LS_TRY(ls_plan_open(&p->workplace, &p->configs[i], &p->plans[i]));
        p->plans[i].oversubscribed = false;
        LS_TRY(ls_predictor_check(&p->predictor, &p->plans[i]));
        memcpy(p->configs[i].data, request->cases[i].data, sizeof p->configs[i].data); /* shown */
    }
    return LS_OK;
}

/* Rows so far, measured and predicted, say how far predictions are to be trusted. */
static ls_status open_results(prediction *p)
{
    const char *path = p->request->results;
    json_auto_t *rows = json_array();
    if (!path || p->request->prediction.calibrate)
        return LS_OK;
    LS_TRY(ls_results_open(path, true, &p->results));
    LS_TRY(ls_results_each(p->results, LS_ROWS_WHOLE, ls_results_collect, rows));
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
    LS_TRY(open_plans(p));
    LS_TRY(open_results(p));
    LS_TRY(ls_writer_open(format, ls_output(), &p->writer));
    ls_writer_kept_in(p->writer, p->results ? request->results : NULL);
    json_t *groups = json_array();
    for (size_t i = 0; i < request->case_count; i++)
        json_array_append_new(
            groups, ls_row_case(&(ls_row_facts){.workplace = &p->workplace, .plan = &p->plans[i]}));
    ls_writer_expect(p->writer, groups);
    if (p->chosen.columns.count)
        ls_writer_set_columns(p->writer, &p->chosen.columns);
    return LS_OK;
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static ls_status predict_case(prediction *p, size_t index)
{
    ls_predicted predicted;
    json_t *row = NULL;
    bool added;
    ls_status failed =
        ls_predict(&p->predictor, p->workplace.machine, &p->plans[index], &predicted);
    ls_status status = ls_predicted_row(&p->predictor, &p->workplace, &p->plans[index], &predicted,
                                        failed ? ls_status_text(failed) : NULL, &row);
    ls_predicted_close(&predicted);
    const bool failed_here = failed, interrupted = ls_status_code(failed) == LS_CODE_INTERRUPTED;
    if (failed)
        p->code = LS_CODE_MISSING;
    ls_status_free(failed);
    LS_TRY(status);
    if (interrupted)
        ls_put_text(json_object_get(row, "result"), "status", "interrupted");
    if (p->results)
        status = ls_validations_take(&p->validations, row, &added);
    if (p->results && !status)
        status = ls_results_append(p->results, row);
    if (status)
        ls_row_mark_error(row, ls_status_text(status));
    if (!p->request->prediction.validate || failed_here)
        status = ls_status_first(status, ls_writer_row(p->writer, row));
    json_decref(row);
    return status;
}

/* --calibrate: the durations of all cases. */
static ls_status calibrate(prediction *p)
{
    for (size_t i = 0; i < p->request->case_count; i++)
        LS_TRY(ls_predictor_calibrate(&p->predictor, p->workplace.machine, &p->plans[i]));
    LS_TRY(ls_durations_write(p->request->out, &p->predictor.durations));
    ls_log_line(&p->request->log, LS_LOG_NORMAL, "durations of %zu operations: %s",
                p->predictor.durations.count, p->request->out);
    return LS_OK;
}

static ls_status predict_all(prediction *p)
{
    for (size_t i = 0; i < p->request->case_count && !ls_interrupted(); i++)
        LS_TRY(predict_case(p, i));
    if (p->request->prediction.validate && p->validations.count == p->known && !p->code &&
        !ls_interrupted())
        return ls_fail(LS_CODE_MISSING, "option", "--validate",
                       "no measured row of these cases in %s; measure them first: run --link",
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
    for (size_t i = 0; p->plans && i < p->request->case_count; i++)
        ls_plan_close(&p->plans[i]);
    free(p->plans);
    free(p->configs);
    ls_predictor_close(&p->predictor);
    ls_workplace_close(&p->workplace);
}

ls_status ls_command_predict(ls_request *request, int *exit_status)
{
    prediction p = {.request = request};
    ls_interrupt_install();
    ls_status refused = open_command(&p), lost = LS_OK;
    if (!refused)
        ls_request_tell(request);
    if (!refused)
        lost = request->prediction.calibrate ? calibrate(&p) : predict_all(&p);
    if (p.writer) {
        lost = ls_status_first(lost, ls_writer_flush(p.writer));
        lost = ls_status_first(lost, ls_writer_close(p.writer));
    }
    close_command(&p);
    if (refused || lost)
        return ls_status_first(refused, lost);
    *exit_status = ls_interrupted() ? LS_CODE_INTERRUPTED : p.code;
    return LS_OK;
}
