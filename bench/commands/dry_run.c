/* SPDX-License-Identifier: MIT */
/*
 * Dry run; see dry_run.h. The table has a column for each field of the cases that differs between
 * them, as far as 80 columns go, after model, strategy and devices; JSON has the whole case.
 */
#include "bench/commands/dry_run.h"

#include "bench/commands/forecast.h"
#include "bench/output/format_parts.h"
#include "bench/row/row_case.h"
#include "bench/train/interrupt.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, COLUMNS = 12, CELL = 40, ALWAYS = 3, FIGURES = 22 };

/* Fields that may tell cases apart; what follows from others is not among them. */
static const char *const fields[] = {
    "model",  "strategy", "devices",      "ranks",     "batch_global", "scaling",
    "steps",  "epochs",   "reduce",       "optimizer", "lr",           "allreduce",
    "data",   "seed",     "micro_shards", "memory",    "inject",       "link",
    "warmup", "ps_mode",  "comm",         "math",      "shuffle",      "target_loss",
};
enum { FIELDS = sizeof fields / sizeof *fields };

typedef struct listing {
    json_t *rows; /* [cases] {case, estimate} */
    const char *column[COLUMNS];
    int width[COLUMNS];
    size_t columns;
} listing;

/* As memory.devices.formula in a row. */
static json_t *devices_of(const ls_forecast_case *c)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < c->estimate.need.count; i++) {
        const ls_need_device *need = &c->estimate.need.devices[i];
        json_t *device = json_object();
        json_object_set_new(device, "device", json_string(need->name));
        for (ls_memory_use use = 0; use < LS_MEMORY_USES; use++)
            json_object_set_new(device, ls_memory_use_name(use),
                                json_integer((json_int_t)need->formula.bytes[use]));
        json_array_append_new(devices, device);
    }
    return devices;
}

static json_t *estimate_of(const ls_forecast_case *c)
{
    json_t *group = json_object();
    if (c->error) {
        json_object_set_new(group, "error", json_string(ls_status_text(c->error)));
        return group;
    }
    json_object_set_new(group, "seconds", json_real(c->estimate.seconds));
    json_object_set_new(group, "step_ms", json_real(c->estimate.step_s * 1e3));
    json_object_set_new(group, "memory_bytes", json_integer((json_int_t)c->estimate.memory));
    json_object_set_new(group, "memory_bytes_most",
                        json_integer((json_int_t)c->estimate.memory_most));
    json_object_set_new(group, "memory_devices", devices_of(c));
    return group;
}

static json_t *row_of(const ls_forecast *forecast, const ls_forecast_case *c)
{
    const ls_row_facts facts = {.place = &forecast->place, .plan = &c->plan};
    json_t *row = json_object();
    json_object_set_new(row, "case", ls_row_case(&facts));
    if (c->baseline)
        json_object_set_new(row, "baseline", json_true());
    json_object_set_new(row, "estimate", estimate_of(c));
    return row;
}

/* ---- Table ---------------------------------------------------------------------------------- */

/* "8 x cpu" where the names are many. */
static void write_devices(const json_t *devices, char cell[CELL])
{
    const size_t count = json_array_size(devices);
    *cell = 0;
    for (size_t i = 0; i < count && count <= 2; i++)
        snprintf(cell + strlen(cell), CELL - strlen(cell), "%s%s", i ? "+" : "",
                 json_string_value(json_array_get(devices, i)));
    if (count > 2)
        snprintf(cell, CELL, "%zu x %.3s", count, json_string_value(json_array_get(devices, 0)));
}

static void write_field(const json_t *row, const char *name, char cell[CELL])
{
    json_t *value = json_object_get(json_object_get(row, "case"), name);
    if (strcmp(name, "devices") == 0) {
        write_devices(value, cell);
        return;
    }
    char *text = ls_value_text(value);
    snprintf(cell, CELL, "%s", text && *text ? text : "-");
    free(text);
}

/* How wide the field's column is; 0: all cases have the same. */
static int width_of(const listing *list, const char *name, bool always)
{
    char first[CELL] = "", cell[CELL];
    int width = (int)strlen(name);
    bool differs = always;
    size_t index;
    json_t *row;
    json_array_foreach(list->rows, index, row)
    {
        write_field(row, name, cell);
        if (index == 0)
            memcpy(first, cell, sizeof first);
        differs |= strcmp(first, cell) != 0;
        width = (int)strlen(cell) > width ? (int)strlen(cell) : width;
    }
    return differs ? width : 0;
}

static void choose_columns(listing *list)
{
    int used = 4 + FIGURES;
    for (size_t i = 0; i < FIELDS && list->columns < COLUMNS; i++) {
        const int width = width_of(list, fields[i], i < ALWAYS);
        if (!width || used + width + 1 > WIDTH)
            continue;
        used += width + 1;
        list->width[list->columns] = width;
        list->column[list->columns++] = fields[i];
    }
}

static void print_figures(const json_t *row)
{
    const json_t *estimate = json_object_get(row, "estimate");
    char bytes[32];
    if (json_object_get(estimate, "error")) {
        printf("%10s %11s\n", "-", "-");
        return;
    }
    ls_format_bytes(json_number_value(json_object_get(estimate, "memory_bytes")), bytes);
    printf("%10.1f %11s\n", json_number_value(json_object_get(estimate, "seconds")), bytes);
}

static void print_table(listing *list)
{
    size_t index;
    json_t *row;
    choose_columns(list);
    printf("%4s", "case");
    for (size_t c = 0; c < list->columns; c++)
        printf(" %-*s", list->width[c],
               strcmp(list->column[c], "batch_global") == 0 ? "batch" : list->column[c]);
    printf("%10s %11s\n", "seconds", "memory");
    json_array_foreach(list->rows, index, row)
    {
        printf("%4zu", index + 1);
        for (size_t c = 0; c < list->columns; c++) {
            char cell[CELL];
            write_field(row, list->column[c], cell);
            printf(" %-*s", list->width[c], cell);
        }
        print_figures(row);
    }
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* What a case needs, in words: a line a group of devices. Owned by the caller. */
static char *memory_text(const ls_need *need)
{
    char *text = NULL;
    size_t size, i = 0;
    FILE *stream = open_memstream(&text, &size);
    while (stream && i < need->count) {
        i += ls_need_print(stream, need, i);
        putc('\n', stream);
    }
    if (stream)
        fclose(stream);
    return text;
}

/* Breaks lines at spaces; what follows a break stands four to the right. */
static void print_wrapped(const char *text, int indent)
{
    int at = indent;
    printf("%*s", at, "");
    for (const char *c = text; *c;) {
        const int word = (int)strcspn(c, " \n");
        if (at > indent && at + 1 + word > WIDTH) {
            at = indent + 4;
            printf("\n%*s", at, "");
        } else if (at > indent) {
            putchar(' ');
            at++;
        }
        printf("%.*s", word, c);
        at += word;
        c += word;
        if (*c == '\n') {
            at = indent;
            printf("\n%*s", c[1] ? at : 0, "");
        }
        c += *c != 0;
    }
}

/* By device and use; cases that need the same stand together. */
static void print_memory(const ls_forecast *forecast)
{
    bool headed = false;
    for (size_t i = 0, last; i < forecast->count; i = last + 1) {
        char *text = memory_text(&forecast->cases[i].estimate.need), *next = NULL;
        for (last = i; last + 1 < forecast->count; last++, free(next)) {
            next = memory_text(&forecast->cases[last + 1].estimate.need);
            if (!text || !next || strcmp(text, next) != 0)
                break;
        }
        if (last + 1 < forecast->count)
            free(next);
        if (text && *text) {
            fputs(headed ? "" : "\nmemory of each device, the largest use first\n", stdout);
            printf(last > i ? "cases %zu to %zu\n" : "case %zu\n", i + 1, last + 1);
            print_wrapped(text, 5);
            headed = true;
        }
        free(text);
    }
}

/* ---- The command ---------------------------------------------------------------------------- */

static ls_status print_rows(const ls_request *request, const ls_forecast *forecast, listing *list)
{
    const ls_format *format;
    ls_writer *writer;
    size_t index;
    json_t *row;
    if (strcmp(request->format, "table") == 0) {
        print_table(list);
        print_memory(forecast);
        return LS_OK;
    }
    LS_TRY(ls_format_find(request->format, &format));
    LS_TRY(ls_writer_open(format, stdout, &writer));
    ls_status status = LS_OK;
    json_array_foreach(list->rows, index, row)
    {
        if (!status)
            status = ls_writer_row(writer, row);
    }
    return ls_status_first(status, ls_writer_close(writer));
}

/* What no column has: why a case cannot be opened, and all of them together. */
static void tell(const ls_request *request, const ls_forecast *forecast, int *exit_status)
{
    size_t most = 0;
    for (size_t i = 0; i < forecast->count; i++) {
        const ls_forecast_case *c = &forecast->cases[i];
        most = c->estimate.memory > most ? c->estimate.memory : most;
        if (!c->error)
            continue;
        *exit_status = LS_CODE_MISSING;
        if (request->processes->rank == 0)
            fprintf(stderr, "lockstep: case %zu: %s\n", i + 1, ls_status_text(c->error));
    }
    char bytes[32];
    if (request->processes->rank == 0)
        ls_log_line(&request->log, LS_LOG_NORMAL,
                    "dry run: %zu cases, about %.0f s%s, %s at most at a time; nothing was trained",
                    forecast->count, ls_forecast_seconds(forecast),
                    request->precision > 0 ? " or more until they are precise" : "",
                    ls_format_bytes((double)most, bytes));
}

ls_status ls_dry_run(ls_request *request, int *exit_status)
{
    if (strcmp(request->format, "csv") == 0 || strcmp(request->format, "md") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--format",
                       "%s has the columns of results, and --dry-run has none; table, json and "
                       "jsonl work",
                       request->format);
    ls_forecast forecast;
    listing list = {.rows = json_array()};
    ls_interrupt_install();
    ls_status status = ls_forecast_make(request, false, &forecast);
    if (!status && request->budget_ns)
        status = ls_forecast_fit(&forecast, request, 0);
    for (size_t i = 0; i < forecast.count && !status; i++)
        json_array_append_new(list.rows, row_of(&forecast, &forecast.cases[i]));
    if (!status && request->processes->rank == 0)
        status = print_rows(request, &forecast, &list);
    fflush(stdout); /* what is said of it comes after it */
    if (!status)
        tell(request, &forecast, exit_status);
    json_decref(list.rows);
    ls_forecast_close(&forecast);
    return status;
}
