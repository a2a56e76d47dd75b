/* SPDX-License-Identifier: MIT */
/*
 * Formats: their table, a writer that detects when its stream fails, and all but table and md
 * (table/table.c).
 *   CSV: every row has the columns of bench/row.schema.json, with the groups' names
 * before the fields' ("time.step_ms.median"). '+' joins the elements of a list; `memory.devices` is
 * represented by the fullest device, the one with the largest peak. Quoted according to RFC 4180,
 * but lines end in a line feed only; control characters, which it does not allow, are escaped.
 * Texts read back the same: none gets an apostrophe before '=' or '+' as protection from
 * spreadsheets, which are to import columns of unknown origin as text.
 */
#include "bench/output/format.h"
#include "bench/output/row_keys.h"
#include "bench/output/standard_output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Prints the row, or what of it was chosen. */
static void json_line(ls_writer *writer, const json_t *row)
{
    const ls_columns *columns = writer->columns;
    json_auto_t *part = columns && columns->alone ? json_object() : NULL;
    for (size_t i = 0; part && i < columns->count; i++)
        ls_row_put_path(part, columns->column[i].path, ls_row_value(row, columns->column[i].path));
    ls_json_print(writer->stream, part ? part : row, -1);
    fputs(strcmp(writer->format->name, "jsonl") == 0 ? "\n" : "", writer->stream);
}

static void json_row(ls_writer *writer, const json_t *row)
{
    fputs(writer->rows ? ",\n" : "[\n", writer->stream);
    json_line(writer, row);
}

static void json_close(ls_writer *writer)
{
    fputs(writer->rows ? "\n]\n" : "[]\n", writer->stream);
}

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Prints the chosen columns, or all; without a row the header. */
static void csv_line(const ls_writer *writer, const json_t *row)
{
    const char *const *path = ls_row_paths();
    const bool alone = writer->columns && writer->columns->alone;
    const ls_column *chosen = alone ? writer->columns->column : NULL;
    for (size_t i = 0; chosen ? i < writer->columns->count : path[i] != NULL; i++) {
        const char *key = chosen ? chosen[i].path : path[i];
        if (!chosen && ls_field_group_of(key, LS_GROUP_FOREIGN))
            break; /* the last ones */
        json_auto_t *value = row ? ls_row_value(row, key) : json_string(key);
        char *text = value ? ls_value_text(value) : NULL;
        const char *quote = text && strpbrk(text, ",\"\n") ? "\"" : "";
        fprintf(writer->stream, "%s%s", i ? "," : "", quote);
        ls_escape_put(writer->stream, text, SIZE_MAX, LS_ESCAPE_CSV);
        fputs(quote, writer->stream);
        free(text);
    }
    fputc('\n', writer->stream);
}

static void csv_row(ls_writer *writer, const json_t *row)
{
    if (writer->rows == 0)
        csv_line(writer, NULL);
    csv_line(writer, row);
}

static void csv_close(ls_writer *writer)
{
    if (writer->rows == 0)
        csv_line(writer, NULL);
}

/* ---- Formats -------------------------------------------------------------------------------- */

static const ls_format formats[] = {
    {.name = "table", .row = ls_table_row, .flush = ls_table_flush, .close = ls_table_close},
    {.name = "jsonl", .row = json_line},
    {.name = "json", .row = json_row, .close = json_close},
    {.name = "csv", .row = csv_row, .close = csv_close},
    {.name = "md", .markdown = true, .row = ls_table_row, .flush = ls_table_flush},
};

ls_status ls_format_find(const char *name, const ls_format **out)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *out = &formats[i];
            return LS_OK;
        }
    }
    return ls_fail(LS_CODE_USAGE, "--format", name, "this is not a format; valid are: %s",
                   ls_format_names());
}

const char *ls_format_names(void)
{
    return "table, jsonl, json, csv, md";
}

/* COLUMNS, or the terminal's width; 80 if the stream is not a terminal. */
static int line_width(FILE *stream)
{
    const char *columns = getenv("COLUMNS");
    char *end;
    const long number = columns && *columns ? strtol(columns, &end, 10) : 0;
    struct winsize size;
    if (number > 0 && !*end)
        return number > 10000 ? 10000 : (int)number;
    if (fileno(stream) >= 0 && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

ls_status ls_writer_open(const ls_format *format, FILE *stream, ls_writer **out)
{
    ls_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return ls_fail_memory("format", sizeof *writer);
    writer->format = format;
    writer->stream = stream;
    writer->width = line_width(stream);
    *out = writer;
    return LS_OK;
}

/* If the reader of standard output has gone, a results file still takes the rows. */
static ls_status flush(const ls_writer *writer)
{
    ls_status status = ls_output_flush(writer->stream, writer->results);
    if (!writer->results || ls_status_code(status) != LS_CODE_UNREAD)
        return status;
    ls_status_free(status);
    return LS_OK;
}

ls_status ls_writer_row(ls_writer *writer, const json_t *row)
{
    writer->format->row(writer, row);
    writer->rows++;
    return writer->deferred ? LS_OK : flush(writer);
}

ls_status ls_writer_flush(ls_writer *writer)
{
    if (writer->format->flush)
        writer->format->flush(writer);
    return flush(writer);
}

ls_status ls_writer_close(ls_writer *writer)
{
    if (!writer)
        return LS_OK;
    ls_status status = ls_writer_flush(writer);
    if (writer->format->close)
        writer->format->close(writer);
    status = ls_status_first(status, flush(writer));
    json_decref(writer->cases);
    json_decref(writer->options);
    json_decref(writer->plain);
    json_decref(writer->unsaid);
    json_decref(writer->swept);
    json_decref(writer->kept);
    json_decref(writer->ended);
    json_decref(writer->dropped);
    free(writer->head);
    free(writer);
    return status;
}

ls_status ls_rows_write(const ls_format *format, const ls_columns *columns, const json_t *rows,
                        FILE *stream)
{
    ls_writer *writer;
    LS_TRY(ls_writer_open(format ? format : formats, stream, &writer));
    writer->deferred = true;
    writer->columns = columns;
    ls_status status = LS_OK;
    for (size_t i = 0; i < json_array_size(rows) && !status; i++)
        status = ls_writer_row(writer, json_array_get(rows, i));
    return ls_status_first(status, ls_writer_close(writer));
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* Writes the rows of a table, and removes them. */
static ls_status write_rows(const char *format, const ls_columns *columns, json_t *rows,
                            FILE *stream)
{
    const ls_format *form;
    LS_TRY(ls_format_find(format, &form));
    LS_TRY(ls_rows_write(form, columns, rows, stream));
    json_array_clear(rows);
    return LS_OK;
}

ls_status ls_answer_write(ls_results *results, const char *sql, const json_t *values,
                          const ls_columns *columns, FILE *stream)
{
    const char *format = NULL;
    json_auto_t *lines = json_array(), *rows = json_array();
    json_unpack((json_t *)(size_t)values, "{s?s}", "format", &format);
    LS_TRY(ls_results_query(results, sql, values, lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *text = NULL;
        json_t *row = NULL;
        json_unpack(json_array_get(lines, i), "{s?s,s?o}", "text", &text, "row", &row);
        if (text && json_array_size(rows) > 0)
            LS_TRY(write_rows(format, columns, rows, stream));
        if (row)
            json_array_append(rows, row);
        fputs(text ? text : "", stream);
    }
    /* A table without rows has a header in some formats. */
    return json_array_size(rows) > 0 || (columns && json_array_size(lines) == 0)
               ? write_rows(format, columns, rows, stream)
               : LS_OK;
}

ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream)
{
    ls_results *results;
    json_auto_t *values = json_pack("{s:O,s:s}", "document", document, "format", format);
    LS_TRY(ls_results_functions(&results));
    ls_status status = ls_answer_write(results, sql, values, columns, stream);
    ls_results_close(results);
    return status;
}
