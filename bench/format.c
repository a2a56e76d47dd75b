/* SPDX-License-Identifier: MIT */
/*
 * Formats: the table of them, and a writer that notices when its stream fails. jsonl and json are
 * here; table and md in format_table.c, csv in format_csv.c.
 */
#include "bench/format_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void json_line(ls_writer *writer, const json_t *row)
{
    ls_json_print(writer->stream, row, -1);
    fputc('\n', writer->stream);
}

static void json_row(ls_writer *writer, const json_t *row)
{
    fputs(writer->rows ? ",\n" : "[\n", writer->stream);
    ls_json_print(writer->stream, row, -1);
}

static void json_close(ls_writer *writer)
{
    fputs(writer->rows ? "\n]\n" : "[]\n", writer->stream);
}

static const ls_format formats[] = {
    {.name = "table", .row = ls_table_row},
    {.name = "jsonl", .row = json_line},
    {.name = "json", .row = json_row, .close = json_close},
    {.name = "csv", .row = ls_csv_row, .close = ls_csv_close},
    {.name = "md", .row = ls_markdown_row},
};

ls_status ls_format_find(const char *name, const ls_format **out)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *out = &formats[i];
            return LS_OK;
        }
    }
    return ls_fail(LS_CODE_USAGE, "--format", name, "no such format; valid are: %s",
                   ls_format_names());
}

const char *ls_format_names(void)
{
    return "table, jsonl, json, csv, md";
}

ls_status ls_writer_open(const ls_format *format, FILE *stream, ls_writer **out)
{
    ls_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return ls_fail_memory("format", sizeof *writer);
    writer->format = format;
    writer->stream = stream;
    *out = writer;
    return LS_OK;
}

void ls_writer_set_columns(ls_writer *writer, const ls_columns *columns)
{
    writer->columns = columns;
}

static ls_status flush(FILE *stream)
{
    errno = 0;
    bool failed = fflush(stream) != 0 || ferror(stream);
    if (!failed)
        return LS_OK;
    const char *reason = errno ? strerror(errno) : "an earlier write failed";
    const char *name = fileno(stream) == STDOUT_FILENO ? "standard output" : "output file";
    return ls_fail(LS_CODE_MISSING, "rows", name,
                   "cannot be written (%s); `lockstep results list` shows the rows that are kept",
                   reason);
}

ls_status ls_writer_row(ls_writer *writer, const json_t *row)
{
    writer->format->row(writer, row);
    writer->rows++;
    return flush(writer->stream);
}

ls_status ls_writer_close(ls_writer *writer)
{
    if (!writer)
        return LS_OK;
    if (writer->format->close)
        writer->format->close(writer);
    ls_status status = flush(writer->stream);
    free(writer);
    return status;
}
