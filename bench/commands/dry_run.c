/* SPDX-License-Identifier: MIT */
/* Dry run; see command.h. Below the table is the use of memory; JSON has the whole case. */
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/commands/forecast.h"
#include "bench/output/cells.h"
#include "bench/output/standard_output.h"
#include "bench/row/row.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_column column[] = {
    LS_PATH_COLUMN("case", "number", 4, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("seconds", "estimate.seconds", 7, true, LS_CELL_RATIO, 0),
    LS_PATH_COLUMN("memory", "estimate.memory_bytes", 9, true, LS_CELL_BYTES, 0),
    LS_PATH_COLUMN("process", "estimate.process.peak", 9, true, LS_CELL_BYTES, 0),
};
static const ls_columns columns = {
    .column = column, .count = sizeof column / sizeof *column, .leading = 1};

/* Like memory.devices.formula in a row. */
static json_t *devices_of(const ls_forecast_case *c)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < c->estimate.need.count; i++) {
        const ls_need_device *need = &c->estimate.need.devices[i];
        json_t *device = json_object();
        json_object_set_new(device, "device", ls_text_value(need->name));
        for (ls_memory_use use = 0; use < LS_MEMORY_USES; use++)
            json_object_set_new(device, ls_memory_use_name(use),
                                json_integer((json_int_t)need->formula.bytes[use]));
        json_array_append_new(devices, device);
    }
    return devices;
}

static json_t *estimate_of(const ls_forecast *forecast, size_t index)
{
    const ls_forecast_case *c = &forecast->cases[index];
    json_t *process = ls_memory_group(&forecast->process, &forecast->memory[index]);
    if (c->error)
        return json_pack("{s:o,s:o}", "process", process, "error",
                         ls_text_value(ls_status_text(c->error)));
    return json_pack("{s:o,s:f,s:f,s:I,s:I,s:o}", "process", process, "seconds",
                     c->estimate.seconds, "step_ms", c->estimate.step_s * 1e3, "memory_bytes",
                     (json_int_t)c->estimate.memory, "memory_bytes_most",
                     (json_int_t)c->estimate.memory_most, "memory_devices", devices_of(c));
}

static json_t *row_of(const ls_forecast *forecast, size_t index)
{
    const ls_forecast_case *c = &forecast->cases[index];
    const ls_row_facts facts = {.workplace = &forecast->workplace, .plan = &c->plan};
    json_t *row = json_object();
    json_object_set_new(row, "number", json_integer((json_int_t)(index + 1)));
    ls_row_put_case(&facts, row);
    if (c->baseline)
        json_object_set_new(row, "baseline", json_true());
    json_object_set_new(row, "estimate", estimate_of(forecast, index));
    return row;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A case's memory in words: a line per group of devices, and the process's. Owned by the caller. */
static char *memory_text(const ls_forecast *forecast, size_t index)
{
    const ls_need *need = &forecast->cases[index].estimate.need;
    char *text = NULL, words[512];
    size_t size, i = 0;
    FILE *stream = open_memstream(&text, &size);
    while (stream && i < need->count) {
        i += ls_need_print(stream, need, i);
        putc('\n', stream);
    }
    ls_memory_words(&forecast->process, &forecast->memory[index], words, sizeof words);
    if (stream && need->count)
        fprintf(stream, "process: %s\n", words);
    if (stream)
        fclose(stream);
    return text;
}

/* "case 3: model mlp, strategy mirrored, devices 2 cpu"; of several cases, each name once. */
static void print_names(const ls_forecast *forecast, size_t first, size_t last, int width)
{
    static const char *const fields[] = {"model", "strategy", "devices"};
    json_auto_t *names = json_object();
    char line[1024], title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
    snprintf(line, sizeof line, last > first ? "cases %zu to %zu" : "case %zu", first + 1,
             last + 1);
    for (size_t i = first; i <= last; i++) {
        json_auto_t *row = row_of(forecast, i);
        char name[3 * (LS_CELL_SIZE + LS_TITLE_SIZE)] = "";
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            ls_option_write(fields[f], row, title, cell);
            ls_text_add(name, sizeof name, "%s%s %s", f ? ", " : " ", title, cell);
        }
        const size_t known = json_object_size(names);
        if (json_object_get(names, name))
            continue;
        json_object_set_new(names, name, json_true());
        ls_text_add(line, sizeof line, "%s%s", known ? ";" : ":", name);
    }
    ls_text_wrap(ls_output(), line, 0, 0, width);
}

/* By device and use; cases with the same needs share lines. */
static void print_memory(const ls_forecast *forecast, int width)
{
    bool headed = false;
    for (size_t i = 0, last; i < forecast->count; i = last + 1) {
        ls_auto char *text = memory_text(forecast, i);
        for (last = i; last + 1 < forecast->count; last++) {
            ls_auto char *next = memory_text(forecast, last + 1);
            if (!text || !next || strcmp(text, next) != 0)
                break;
        }
        if (!text || !*text)
            continue;
        fputs(headed ? "" : "\nmemory of each device, the largest use first\n", ls_output());
        print_names(forecast, i, last, width);
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) && rest;)
            ls_text_wrap(ls_output(), line, 0, 5, width);
        headed = true;
    }
}

/* ---- The command ---------------------------------------------------------------------------- */

static ls_status print_rows(const ls_request *request, const ls_forecast *forecast)
{
    const ls_format *format;
    ls_writer *writer;
    LS_TRY(ls_format_find(request->format, &format));
    LS_TRY(ls_writer_open(format, ls_output(), &writer));
    ls_writer_expect(writer, NULL, ls_request_swept(request));
    writer->columns = &columns;
    const int width = writer->width;
    ls_status status = LS_OK;
    for (size_t i = 0; i < forecast->count && !status; i++) {
        json_auto_t *row = row_of(forecast, i);
        status = ls_writer_row(writer, row);
    }
    status = ls_status_first(status, ls_writer_close(writer));
    if (!status && strcmp(request->format, "table") == 0)
        print_memory(forecast, width);
    return status;
}

/* "40 s", "20 min", "3.5 h" */
static const char *time_text(double seconds, char text[32])
{
    const double minutes = seconds / 60;
    snprintf(text, 32,
             seconds < 120   ? "%.0f s"
             : minutes < 120 ? "%.0f min"
                             : "%.1f h",
             seconds < 120   ? seconds
             : minutes < 120 ? minutes
                             : minutes / 60);
    return text;
}

/* Prints what no column has: why a case cannot be opened, and totals. */
static void tell(const ls_request *request, const ls_forecast *forecast, int *exit_status)
{
    size_t refused = 0;
    double seconds = forecast->data_s;
    for (size_t i = 0; i < forecast->count; i++) {
        const ls_forecast_case *c = &forecast->cases[i];
        seconds += c->estimate.seconds;
        if (!c->error)
            continue;
        *exit_status = LS_CODE_MISSING;
        refused++;
        if (request->processes->rank == 0)
            ls_log_stderr("case %zu: %s", i + 1, ls_status_text(c->error));
    }
    char bytes[32], time[32], some[80];
    snprintf(some, sizeof some, "cases: %zu", forecast->count);
    if (refused)
        snprintf(some, sizeof some, "%zu of %zu cases refused", refused, forecast->count);
    if (request->processes->rank == 0 && refused == forecast->count)
        ls_log_line(&request->log, LS_LOG_NORMAL, "dry run: %s; nothing was trained", some);
    else if (request->processes->rank == 0)
        ls_log_line(&request->log, LS_LOG_NORMAL,
                    "dry run: %s%s about %s%s, at most %s of memory at once; nothing was trained",
                    some, refused ? "; the others need" : ";", time_text(seconds, time),
                    request->precision > 0 && !request->budget_ns
                        ? " (longer, if --until-precision needs more steps)"
                        : "",
                    ls_format_bytes((double)forecast->process.peak, bytes));
}

ls_status ls_dry_run(ls_request *request, int *exit_status)
{
    if (strcmp(request->format, "csv") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--format",
                       "csv has the columns of results, but --dry-run makes no results; use "
                       "--format table, md, json or jsonl");
    ls_closing(ls_forecast_close) ls_forecast forecast = {0};
    LS_TRY(ls_forecast_make(request, false, &forecast));
    if (request->budget_ns)
        LS_TRY(ls_forecast_fit(&forecast, request, 0));
    if (request->processes->rank == 0)
        LS_TRY(print_rows(request, &forecast));
    ls_request_tell(request);
    fflush(ls_output()); /* messages about it follow */
    tell(request, &forecast, exit_status);
    return LS_OK;
}
