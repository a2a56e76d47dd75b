/* SPDX-License-Identifier: MIT */
/*
 * CSV: the same columns for every row, those of bench/row.schema.json, with the groups' names
 * before the fields' ("time.step_ms.median"). '+' joins the elements of a list; `memory.devices` is
 * represented by the fullest device, the one with the largest peak. Quoted according to RFC 4180,
 * but lines end in a line feed only; control characters, which it does not allow, are escaped.
 * Texts read back the same: none gets an apostrophe before '=' or '+' as protection from
 * spreadsheets, which are to import columns of unknown origin as text.
 */
#include "bench/output/format_parts.h"
#include "bench/output/row_keys.h"

#include "common/base/escape.h"

#include <stdlib.h>
#include <string.h>

static void print_field(FILE *stream, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_CSV);
        return;
    }
    fputc('"', stream);
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_CSV);
    fputc('"', stream);
}

/* Prints a cell, or a cell of the header if there is no row. */
static void print_cell(FILE *stream, const json_t *row, const char *path)
{
    json_auto_t *value = row ? ls_row_value(row, path) : json_string(path);
    char *text = ls_value_text(value);
    print_field(stream, text ? text : "");
    free(text);
}

static bool is_foreign(const char *path)
{
    const ls_field *field = ls_field_find(path);
    return field && ls_field_group_of(field, LS_GROUP_FOREIGN);
}

/* Prints the selected columns, or all. */
static void print_line(const ls_writer *writer, const json_t *row)
{
    const char *const *path = ls_row_paths();
    const bool alone = writer->columns && writer->columns->alone;
    const ls_column *chosen = alone ? writer->columns->column : NULL;
    for (size_t i = 0; chosen ? i < writer->columns->count : path[i] && !is_foreign(path[i]); i++) {
        if (i > 0)
            fputc(',', writer->stream);
        print_cell(writer->stream, row, chosen ? chosen[i].path : path[i]);
    }
    fputc('\n', writer->stream);
}

void ls_csv_row(ls_writer *writer, const json_t *row)
{
    if (writer->rows == 0)
        print_line(writer, NULL);
    print_line(writer, row);
}

void ls_csv_close(ls_writer *writer)
{
    if (writer->rows == 0)
        print_line(writer, NULL);
}
