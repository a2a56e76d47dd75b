/* SPDX-License-Identifier: MIT */
/*
 * Rows of `micro` as a table: printed as they come, in columns of fixed widths; the first row
 * decides which columns fit the line. Columns that are empty in it are dropped first, then the
 * least important. A text that is too long ends in "..", a number shifts its row. A collective's
 * two placements are two rows but one line, as in nccl-tests: the first one waits for the second.
 * Below is their average bus bandwidth, by algorithm.
 */
#include "bench/output/table/table_parts.h"

#include "bench/output/value_order.h"
#include "common/base/escape.h"

#include <string.h>

static const ls_column single[] = {
    {"op", "micro.op", 9, false, LS_CELL_TEXT, 0},
    {"shape", "micro.shape", 24, false, LS_CELL_TEXT, 0},
    {"size", "micro.size_bytes", 10, true, LS_CELL_TEXT, 4},
    {"count", "micro.count", 10, true, LS_CELL_TEXT, 6},
    {"time us", "micro.time_us", 8, true, LS_CELL_FIGURE, 0},
    {"GB/s", "micro.algbw_gbs", 5, true, LS_CELL_FIGURE, 3},
    {"GFLOP/s", "micro.gflops", 7, true, LS_CELL_FIGURE, 0},
    {"roof", "micro.roof_share", 6, true, LS_CELL_PERCENT, 0},
    {"host us", "micro.host_us", 8, true, LS_CELL_FIGURE, 2},
    {"wrong", "micro.wrong", 5, true, LS_CELL_TEXT, 0},
    {"kernel", "micro.kernel", 16, false, LS_CELL_TEXT, 5},
};

enum { SECOND = 10 }; /* first column of the second placement */

/* For a collective; `placed`: of the second placement. */
static const ls_column paired[] = {
    {"size", "micro.size_bytes", 8, true, LS_CELL_TEXT, 0},
    {"count", "micro.count", 9, true, LS_CELL_TEXT, 4},
    {"type", "micro.type", 5, true, LS_CELL_TEXT, 6},
    {"redop", "micro.redop", 5, true, LS_CELL_TEXT, 5},
    {"ranks", "micro.ranks", 5, true, LS_CELL_TEXT, 7},
    {"kernel", "micro.kernel", 13, false, LS_CELL_TEXT, 1},
    {"time us", "micro.time_us", 8, true, LS_CELL_FIGURE, 0},
    {"algbw", "micro.algbw_gbs", 6, true, LS_CELL_FIGURE, 0},
    {"busbw", "micro.busbw_gbs", 6, true, LS_CELL_FIGURE, 0},
    {"wrong", "micro.wrong", 5, true, LS_CELL_TEXT, 0},
    {"time us", "placed.time_us", 8, true, LS_CELL_FIGURE, 0},
    {"algbw", "placed.algbw_gbs", 6, true, LS_CELL_FIGURE, 0},
    {"busbw", "placed.busbw_gbs", 6, true, LS_CELL_FIGURE, 0},
    {"wrong", "placed.wrong", 5, true, LS_CELL_TEXT, 0},
};

static const ls_columns single_columns = {.column = single,
                                          .count = sizeof single / sizeof *single};
static const ls_columns paired_columns = {.column = paired,
                                          .count = sizeof paired / sizeof *paired};

static bool is_placed(const json_t *row, const char *shape)
{
    return strcmp(ls_row_text(row, "micro", "shape"), shape) == 0;
}

/* ---- Columns -------------------------------------------------------------------------------- */

/* Lays the row out in the columns that fitted the first row, with their widths. */
static ls_table *lay_out(ls_writer *writer, const ls_columns *columns, const json_t *rows)
{
    const bool first = writer->headed != columns;
    ls_table *table = ls_table_make(columns, NULL, NULL, rows);
    for (size_t i = 0; table && i < table->count; i++) {
        ls_table_column *column = &table->column[i];
        const bool second = columns == &paired_columns && i >= SECOND;
        column->shown = first ? column->shown || !second : writer->widths[i] > 0;
        column->width = column->is.width;
        if (!column->is.right)
            ls_text_shorten(*column->cell, column->width);
    }
    if (table && first)
        ls_table_leave_out(table, writer->width, 0, false);
    for (size_t i = 0; table && i < table->count; i++)
        writer->widths[i] = table->column[i].shown ? table->column[i].width : 0;
    return table;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Prints the headings of a collective's groups of columns, above their last ones. */
static void print_places(ls_writer *writer)
{
    int width[2] = {-1, 0};
    for (size_t i = 0; i < paired_columns.count; i++)
        width[i >= SECOND] += writer->widths[i] ? writer->widths[i] + 1 : 0;
    fprintf(writer->stream, "%*s", width[0], "out of place, GB/s");
    fprintf(writer->stream, "%*s\n", width[1], width[1] ? "in place, GB/s" : "");
}

static void print_row(ls_writer *writer, const ls_columns *columns, const json_t *row)
{
    json_auto_t *rows = json_pack("[O]", row);
    ls_table *table = lay_out(writer, columns, rows);
    if (table && writer->headed != columns && columns == &paired_columns)
        print_places(writer);
    if (table && writer->headed != columns)
        ls_table_head_print(table, writer->stream);
    if (table)
        ls_table_row_print(writer, table, 0);
    writer->headed = columns;
    ls_table_free(table);
}

/* ---- Collectives ---------------------------------------------------------------------------- */

static void add_bandwidth(ls_writer *writer, const json_t *row)
{
    const json_t *busbw = json_object_get(json_object_get(row, "micro"), "busbw_gbs");
    const char *kernel = ls_row_text(row, "micro", "kernel");
    const char *name = *kernel ? kernel : ls_row_text(row, "micro", "op");
    if (!writer->averages)
        writer->averages = json_object();
    json_t *all = json_object_get(writer->averages, name);
    if (!all)
        json_object_set_new(writer->averages, name, all = json_array());
    json_array_append(all, (json_t *)(size_t)busbw);
}

/* Prints the row that waits for its second placement, alone or with that (`placed`). */
static void print_pair(ls_writer *writer, const json_t *placed)
{
    json_auto_t *line = json_copy(writer->first);
    json_t *group = json_object_get(placed, "micro");
    if (group)
        json_object_set(line, "placed", group);
    if (placed && json_object_get(placed, "result"))
        json_object_set(line, "result", json_object_get(placed, "result"));
    print_row(writer, &paired_columns, line);
    json_decref(writer->first);
    writer->first = NULL;
}

/* Whether it is the other placement of the same case as `first`. */
static bool is_second(const json_t *first, const json_t *row)
{
    static const char *const same[] = {"op", "kernel", "size_bytes"};
    const json_t *a = json_object_get(first, "micro"), *b = json_object_get(row, "micro");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const json_t *x = json_object_get(a, same[i]), *y = json_object_get(b, same[i]);
        if (!ls_value_equal(x, y))
            return false;
    }
    return is_placed(row, "in place");
}

void ls_table_micro(ls_writer *writer, const json_t *row)
{
    const bool first = is_placed(row, "out of place");
    if (first || is_placed(row, "in place"))
        add_bandwidth(writer, row);
    if (writer->first && is_second(writer->first, row)) {
        print_pair(writer, row);
        return;
    }
    if (writer->first)
        print_pair(writer, NULL);
    if (first)
        writer->first = json_deep_copy(row);
    else
        print_row(writer, &single_columns, row);
}

void ls_table_micro_close(ls_writer *writer)
{
    const char *name, *before = "average bus bandwidth, GB/s: ";
    json_t *all;
    if (writer->first)
        print_pair(writer, NULL);
    json_object_foreach(writer->averages, name, all)
    {
        double sum = 0;
        for (size_t i = 0; i < json_array_size(all); i++)
            sum += json_number_value(json_array_get(all, i));
        fputs(before, writer->stream);
        ls_escape_put(writer->stream, name, SIZE_MAX, LS_ESCAPE_LINE);
        fprintf(writer->stream, " %.4g", sum / (double)json_array_size(all));
        before = ", ";
    }
    if (writer->averages)
        fputc('\n', writer->stream);
}
