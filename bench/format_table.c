/* SPDX-License-Identifier: MIT */
/*
 * Table and Markdown: a row in columns of fixed widths, so that it can be printed as it comes. A
 * header stands above the first row, and where rows of another kind begin. A text that is too long
 * ends in ".."; a number keeps its digits, and moves the row. Why a row is not ok follows it, in
 * full. Bytes are taken for characters: names are ASCII, a label may not be.
 */
#include "bench/format_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ls_column run_column[] = {
    {"model", "case.model", 20, false, LS_CELL_TEXT},
    {"strategy", "case.strategy", 14, false, LS_CELL_TEXT},
    {"devices", "case.devices", 11, false, LS_CELL_DEVICES},
    {"batch", "case.batch_global", 6, true, LS_CELL_TEXT},
    {"steps", "case.steps", 6, true, LS_CELL_TEXT},
    {"step ms", "time.step_ms.median", 9, true, LS_CELL_FIGURE},
    {"p90", "time.step_ms.p90", 9, true, LS_CELL_FIGURE},
    {"samples/s", "time.samples_per_s", 9, true, LS_CELL_FIGURE},
    {"mfu", "time.mfu", 6, true, LS_CELL_PERCENT},
    {"loss", "train.loss_last", 9, true, LS_CELL_FIGURE},
    {"accuracy", "train.accuracy", 8, true, LS_CELL_SHARE},
    {"gate", "equivalence", 7, false, LS_CELL_GATE},
    {"status", "result.status", 6, false, LS_CELL_TEXT},
};

static const ls_column micro_column[] = {
    {"op", "micro.op", 16, false, LS_CELL_TEXT},
    {"shape", "micro.shape", 26, false, LS_CELL_TEXT},
    {"size", "micro.size_bytes", 11, true, LS_CELL_TEXT},
    {"count", "micro.count", 11, true, LS_CELL_TEXT},
    {"type", "micro.type", 6, true, LS_CELL_TEXT},
    {"redop", "micro.redop", 5, true, LS_CELL_TEXT},
    {"ranks", "micro.ranks", 5, true, LS_CELL_TEXT},
    {"time us", "micro.time_us", 9, true, LS_CELL_FIGURE},
    {"algbw GB/s", "micro.algbw_gbs", 10, true, LS_CELL_FIGURE},
    {"busbw GB/s", "micro.busbw_gbs", 10, true, LS_CELL_FIGURE},
    {"GFLOP/s", "micro.gflops", 7, true, LS_CELL_FIGURE},
    {"roof", "micro.roof_share", 6, true, LS_CELL_PERCENT},
    {"host us", "micro.host_us", 7, true, LS_CELL_FIGURE},
    {"wrong", "micro.wrong", 5, true, LS_CELL_TEXT},
    {"kernel", "micro.kernel", 16, false, LS_CELL_TEXT},
};

static const ls_column verify_column[] = {
    {"model", "case.model", 20, false, LS_CELL_TEXT},
    {"strategy", "case.strategy", 14, false, LS_CELL_TEXT},
    {"devices", "case.devices", 11, false, LS_CELL_DEVICES},
    {"batch", "case.batch_global", 6, true, LS_CELL_TEXT},
    {"reduce", "case.reduce", 6, false, LS_CELL_TEXT},
    {"allreduce", "case.allreduce", 16, false, LS_CELL_TEXT},
    {"steps", "equivalence.steps", 6, true, LS_CELL_TEXT},
    {"gradient", "equivalence.gradient_rel", 9, true, LS_CELL_FIGURE},
    {"max rel", "equivalence.max_rel", 9, true, LS_CELL_FIGURE},
    {"max ulp", "equivalence.max_ulp", 10, true, LS_CELL_TEXT},
    {"gate", "equivalence", 7, false, LS_CELL_GATE},
    {"status", "result.status", 6, false, LS_CELL_TEXT},
};

static const ls_columns run_columns = {run_column, sizeof run_column / sizeof *run_column};
static const ls_columns micro_columns = {micro_column, sizeof micro_column / sizeof *micro_column};
const ls_columns ls_verify_columns = {verify_column, sizeof verify_column / sizeof *verify_column};

enum { CELL_SIZE = 96 };

/* Keeps control characters of a label from the terminal. */
static void clean(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

static void write_figure(double value, char cell[CELL_SIZE])
{
    if (fabs(value) >= 1000 && fabs(value) < 1e10)
        snprintf(cell, CELL_SIZE, "%.0f", value);
    else
        snprintf(cell, CELL_SIZE, "%#.4g", value);
}

static void write_text(const json_t *value, char cell[CELL_SIZE])
{
    char *text = ls_value_text(value);
    snprintf(cell, CELL_SIZE, "%s", text ? text : "");
    free(text);
    clean(cell);
}

/* "8 x cpu", or "8 devices" where their kinds differ. */
static void count_devices(const json_t *devices, char cell[CELL_SIZE])
{
    const char *first = json_string_value(json_array_get(devices, 0));
    size_t kind = first ? strcspn(first, ":") : 0;
    bool alike = kind > 0;
    for (size_t i = 1; i < json_array_size(devices); i++) {
        const char *name = json_string_value(json_array_get(devices, i));
        alike = alike && name && strcspn(name, ":") == kind && memcmp(name, first, kind) == 0;
    }
    snprintf(cell, CELL_SIZE, alike ? "%zu x %.*s" : "%zu devices", json_array_size(devices),
             (int)kind, first);
}

static void write_gate(const json_t *equivalence, char cell[CELL_SIZE])
{
    bool failed = json_is_false(json_object_get(equivalence, "pass"));
    const char *grade = json_string_value(json_object_get(equivalence, "grade"));
    snprintf(cell, CELL_SIZE, "%s", failed ? "failed" : grade ? grade : "");
}

static void write_cell(const ls_column *column, const json_t *row, char cell[CELL_SIZE])
{
    json_t *value = ls_row_find(row, column->path);
    bool number = json_is_number(value);
    cell[0] = 0;
    if (column->cell == LS_CELL_GATE)
        write_gate(value, cell);
    else if (column->cell == LS_CELL_FIGURE && number)
        write_figure(json_number_value(value), cell);
    else if (column->cell == LS_CELL_PERCENT && number)
        snprintf(cell, CELL_SIZE, "%.1f%%", 100.0 * json_number_value(value));
    else if (column->cell == LS_CELL_SHARE && number)
        snprintf(cell, CELL_SIZE, "%.4f", json_number_value(value));
    else
        write_text(value, cell);
    if (column->cell == LS_CELL_DEVICES && strlen(cell) > (size_t)column->width)
        count_devices(value, cell);
    json_decref(value);
}

static const ls_columns *columns_for(const ls_writer *writer, const json_t *row)
{
    if (writer->columns)
        return writer->columns;
    return json_object_get(row, "micro") ? &micro_columns : &run_columns;
}

/* Appends a cell; blanks before the next one are owed, so that no line ends in blanks. */
static size_t print_cell(FILE *stream, const ls_column *column, const char *cell, size_t owed)
{
    size_t width = (size_t)column->width, length = strlen(cell);
    char shortened[CELL_SIZE];
    if (length > width && !column->right) {
        snprintf(shortened, sizeof shortened, "%.*s..", (int)width - 2, cell);
        cell = shortened;
        length = width;
    }
    size_t blanks = length < width ? width - length : 0;
    if (length == 0)
        return owed + blanks + 1;
    fprintf(stream, "%*s%s", (int)(owed + (column->right ? blanks : 0)), "", cell);
    return 1 + (column->right ? 0 : blanks);
}

static void print_header(ls_writer *writer, const ls_columns *columns)
{
    size_t owed = 0;
    for (size_t i = 0; i < columns->count; i++)
        owed = print_cell(writer->stream, &columns->column[i], columns->column[i].title, owed);
    fputc('\n', writer->stream);
    writer->headed = columns;
}

/* The reason of a row that is not ok, owned by the caller (free); NULL where there is none. */
static char *reason_of(const json_t *row)
{
    const json_t *result = json_object_get(row, "result");
    const json_t *reason = json_object_get(result, "reason");
    char *text = reason ? ls_value_text(reason) : NULL;
    if (text)
        clean(text);
    return text;
}

void ls_table_row(ls_writer *writer, const json_t *row)
{
    const ls_columns *columns = columns_for(writer, row);
    char cell[CELL_SIZE];
    size_t owed = 0;
    if (writer->headed != columns)
        print_header(writer, columns);
    for (size_t i = 0; i < columns->count; i++) {
        write_cell(&columns->column[i], row, cell);
        owed = print_cell(writer->stream, &columns->column[i], cell, owed);
    }
    fputc('\n', writer->stream);
    char *reason = reason_of(row);
    if (reason)
        fprintf(writer->stream, "  %s\n", reason);
    free(reason);
}

static void print_escaped(FILE *stream, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '|' || *c == '\\')
            fputc('\\', stream);
        fputc(*c, stream);
    }
}

static void markdown_header(ls_writer *writer, const ls_columns *columns)
{
    if (writer->headed)
        fputc('\n', writer->stream);
    for (size_t i = 0; i < columns->count; i++)
        fprintf(writer->stream, "| %s ", columns->column[i].title);
    fputs("| reason |\n", writer->stream);
    for (size_t i = 0; i < columns->count; i++)
        fputs(columns->column[i].right ? "|---:" : "|---", writer->stream);
    fputs("|---|\n", writer->stream);
    writer->headed = columns;
}

void ls_markdown_row(ls_writer *writer, const json_t *row)
{
    const ls_columns *columns = columns_for(writer, row);
    char cell[CELL_SIZE];
    if (writer->headed != columns)
        markdown_header(writer, columns);
    for (size_t i = 0; i < columns->count; i++) {
        write_cell(&columns->column[i], row, cell);
        fputs("| ", writer->stream);
        print_escaped(writer->stream, cell);
        fputs(cell[0] ? " " : "", writer->stream);
    }
    char *reason = reason_of(row);
    fputs("| ", writer->stream);
    print_escaped(writer->stream, reason ? reason : "");
    fputs(reason ? " |\n" : "|\n", writer->stream);
    free(reason);
}
