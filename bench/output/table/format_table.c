/* SPDX-License-Identifier: MIT */
/* Table and Markdown. Rows of cases are kept until the writer is flushed, since all of them decide
 * which options get a column: shared ones are printed above the table. A header is repeated only if
 * it changes. The reason why a row is not ok follows it, untruncated. Rows of `micro`:
 * table_micro.c. */
#include "bench/output/table/table_parts.h"

#include "common/base/escape.h"

#include <stdlib.h>
#include <string.h>

#define MEDIAN "time.step_ms.median"

static const ls_column run_column[] = {
    {"step ms", MEDIAN, 7, true, LS_CELL_FIGURE, 0},
    {"±", "time.step_ms", 5, true, LS_CELL_HALF, 2},
    {"samples/s", "time.samples_per_s", 9, true, LS_CELL_FIGURE, 5},
    {"speed-up", "time.speedup", 8, true, LS_CELL_RATIO, 1}, /* of those who asked for a baseline */
    {"eff", "time.efficiency", 4, true, LS_CELL_WHOLE, 3},
    {"group", "time.group", 5, true, LS_CELL_TEXT, 6}, /* the lines below say it */
    {"idle", "pipeline.bubble", 4, true, LS_CELL_WHOLE, 3},
    {"if equal", "pipeline.bubble_equal", 8, true, LS_CELL_WHOLE, 4},
    {"max lead", "lead.max", 8, true, LS_CELL_TEXT, 3},
    {"mean stale", "staleness.mean", 10, true, LS_CELL_FIGURE, 3},
    {"loss", "train.loss_last", 7, true, LS_CELL_FIGURE, 9},
    {"accuracy", "train.accuracy", 8, true, LS_CELL_SHARE, 8},
    {"gate", "equivalence", 7, false, LS_CELL_GATE, 7},
    {"status", "result", LS_WIDTH_ANY, false, LS_CELL_STATUS, 0},
};

static const ls_column verify_column[] = {
    {"compared", "equivalence.steps", 8, true, LS_CELL_TEXT, 3},
    {"gradient", "equivalence.gradient_rel", 9, true, LS_CELL_FIGURE, 4},
    {"drift", "equivalence.max_rel", 9, true, LS_CELL_FIGURE, 5},
    {"max ulp", "equivalence.max_ulp", 7, true, LS_CELL_TEXT, 6},
    {"gate", "equivalence", 7, false, LS_CELL_GATE, 0},
    {"status", "result", LS_WIDTH_ANY, false, LS_CELL_STATUS, 0},
};

static const ls_column micro_column[] = {
    {"op", "micro.op", 16, false, LS_CELL_TEXT, 0},
    {"shape", "micro.shape", 26, false, LS_CELL_TEXT, 0},
    {"size", "micro.size_bytes", 11, true, LS_CELL_TEXT, 0},
    {"count", "micro.count", 11, true, LS_CELL_TEXT, 0},
    {"type", "micro.type", 6, true, LS_CELL_TEXT, 0},
    {"redop", "micro.redop", 5, true, LS_CELL_TEXT, 0},
    {"ranks", "micro.ranks", 5, true, LS_CELL_TEXT, 0},
    {"time us", "micro.time_us", 9, true, LS_CELL_FIGURE, 0},
    {"algbw GB/s", "micro.algbw_gbs", 10, true, LS_CELL_FIGURE, 0},
    {"busbw GB/s", "micro.busbw_gbs", 10, true, LS_CELL_FIGURE, 0},
    {"GFLOP/s", "micro.gflops", 7, true, LS_CELL_FIGURE, 0},
    {"roof", "micro.roof_share", 6, true, LS_CELL_PERCENT, 0},
    {"host us", "micro.host_us", 7, true, LS_CELL_FIGURE, 0},
    {"wrong", "micro.wrong", 5, true, LS_CELL_TEXT, 0},
    {"kernel", "micro.kernel", 16, false, LS_CELL_TEXT, 0},
};

static const ls_column label_column = {"label", "label", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0};

static const ls_columns run_columns = {
    .column = run_column, .count = sizeof run_column / sizeof *run_column, .ranks = true};
static const ls_columns micro_columns = {
    .column = micro_column, .count = sizeof micro_column / sizeof *micro_column, .alone = true};
const ls_columns ls_verify_columns = {.column = verify_column,
                                      .count = sizeof verify_column / sizeof *verify_column,
                                      .compares = true};

static bool is_micro(const json_t *row)
{
    return json_object_get(row, "micro");
}

/* Where the steps of one case are not alike, all cases show the rate of all timed steps. */
static const ls_column mean_column = {
    "mean samples/s", "time.samples_per_s_mean", 9, true, LS_CELL_FIGURE, 5};

static const ls_columns *columns_of(const ls_writer *writer)
{
    return writer->columns ? writer->columns : &run_columns;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Prints a cell after `owed` blanks; returns the blanks owed before the next one, so that no line
 * ends in blanks. */
static int print_cell(FILE *stream, const ls_table_column *column, const char *cell, bool red,
                      int owed)
{
    const int length = ls_text_width(cell),
              blanks = length < column->width ? column->width - length : 0;
    if (length == 0)
        return owed + blanks + 1;
    for (int i = owed + (column->is.right ? blanks : 0); i > 0; i--)
        putc_unlocked(' ', stream);
    if (red)
        fputs("\033[31m", stream);
    fputs(cell, stream);
    if (red)
        fputs("\033[0m", stream);
    return 1 + (column->is.right ? 0 : blanks);
}

/* Keeps the part of a row that columns need. */
static void keep(ls_writer *writer, const json_t *row)
{
    if (!writer->kept)
        writer->kept = json_array();
    json_array_append(writer->kept, (json_t *)(size_t)row);
}

/* After printing rows, keeps only the groups needed by the lines below the table. */
static void end_kept(ls_writer *writer)
{
    static const char *const groups[] = {"case", "result", "time", "equivalence"};
    const bool said =
        columns_of(writer)->ranks || columns_of(writer)->compares || !writer->deferred;
    if (!writer->ended)
        writer->ended = json_array();
    for (size_t i = 0; said && i < json_array_size(writer->kept); i++) {
        json_t *slim = json_object();
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            json_t *group = json_object_get(json_array_get(writer->kept, i), groups[g]);
            if (group)
                json_object_set(slim, groups[g], group);
        }
        json_array_append_new(writer->ended, slim);
    }
    json_array_clear(writer->kept);
}

static bool is_uneven(const ls_writer *writer)
{
    for (size_t i = 0; i < json_array_size(writer->cases); i++)
        if (ls_case_is_uneven(json_array_get(writer->cases, i)))
            return true;
    return ls_rows_are_uneven(writer->ended) || ls_rows_are_uneven(writer->kept);
}

/* The same columns, in `room` [their count], with the rate that all rows have. */
static ls_columns choose_rate(const ls_writer *writer, const ls_columns *columns, ls_column *room)
{
    ls_columns out = *columns;
    if (!room || !columns->ranks || !is_uneven(writer))
        return out;
    for (size_t i = 0; i < columns->count; i++)
        room[i] = strcmp(columns->column[i].path, "time.samples_per_s") == 0 ? mean_column
                                                                             : columns->column[i];
    out.column = room;
    return out;
}

/* Partitions options by whether the cases differ in them: new arrays of their fields. */
static void part_options(const ls_writer *writer, json_t **differ, json_t **shared)
{
    json_t *before = ls_case_groups(writer->ended), *now = ls_case_groups(writer->kept);
    json_t *all = json_array(), *fields;
    json_array_extend(before, now);
    json_array_extend(all, before);
    json_array_extend(all, writer->cases);
    fields = ls_case_fields(all);
    *differ = json_array();
    *shared = json_array();
    for (size_t i = 0; i < json_array_size(fields); i++) {
        json_t *field = json_array_get(fields, i);
        const char *name = json_string_value(field);
        const bool differs = ls_case_differs(before, name) || ls_case_differs(writer->cases, name);
        json_array_append(differs ? *differ : *shared, field);
    }
    json_decref(fields);
    json_decref(all);
    json_decref(before);
    json_decref(now);
}

/* ---- Table ---------------------------------------------------------------------------------- */

enum { SHARED_LINES = 2 };

/* The option as in the first row that has it, "batch 256"; false if none has. */
static bool shared_text(const json_t *rows, const char *field, char text[LS_CELL_SIZE + 64])
{
    char title[64], path[80], cell[LS_CELL_SIZE] = "";
    const ls_column column = ls_case_column(field, title, path);
    for (size_t i = 0; i < json_array_size(rows) && !*cell; i++)
        if (json_object_get(json_object_get(json_array_get(rows, i), "case"), field))
            ls_cell_write(&column, json_array_get(rows, i), cell);
    snprintf(text, LS_CELL_SIZE + 64, "%s %s", title, cell);
    return *cell;
}

/* Prints options that all rows share, in at most SHARED_LINES lines; the rest is dropped. */
static void print_shared(const ls_writer *writer, const json_t *shared, FILE *stream)
{
    int at = 0, lines = 1;
    for (size_t i = 0; i < json_array_size(shared); i++) {
        char text[LS_CELL_SIZE + 64];
        if (!shared_text(writer->kept, json_string_value(json_array_get(shared, i)), text))
            continue;
        const int width = ls_text_width(text);
        const bool begins = at && at + 2 + width + 1 > writer->width; /* including both commas */
        if (width + 1 > writer->width || (begins && lines == SHARED_LINES))
            continue;
        fprintf(stream, "%s%s", at == 0 ? "" : begins ? ",\n" : ", ", text);
        at = (at == 0 || begins ? 0 : at + 2) + width;
        lines += begins;
    }
    if (at)
        fputc('\n', stream);
}

/* Columns keep the width that they had below the same header. */
static void keep_widths(ls_writer *writer, ls_table *table)
{
    const size_t most = sizeof writer->widths / sizeof *writer->widths;
    for (size_t c = 0; c < table->count && c < most; c++) {
        ls_table_column *column = &table->column[c];
        const int now = column->width, room = writer->width - ls_table_width(table);
        const int least = column->is.right ? column->is.width : 0;
        int wanted = writer->widths[c] > now ? writer->widths[c] : now;
        wanted = wanted > least || column->option ? wanted : least;
        if (column->shown && wanted - now <= room)
            column->width = wanted;
    }
}

static void note_widths(ls_writer *writer, const ls_table *table)
{
    const size_t most = sizeof writer->widths / sizeof *writer->widths;
    for (size_t c = 0; c < table->count && c < most; c++)
        writer->widths[c] = table->column[c].shown ? table->column[c].width : 0;
}

void ls_table_head_print(const ls_table *table, FILE *stream)
{
    int owed = 0;
    for (size_t c = 0; c < table->count; c++) {
        const ls_table_column *column = &table->column[c];
        if (column->shown)
            owed = print_cell(stream, column, column->is.title, false, owed);
    }
    fputc('\n', stream);
}

/* Whether `head` differs from the last one printed above rows; takes ownership. */
static bool is_new_head(ls_writer *writer, char *head)
{
    const bool new = !writer->head || strcmp(head, writer->head) != 0;
    free(writer->head);
    writer->head = head;
    return new;
}

static void print_head(ls_writer *writer, ls_table *table, const json_t *shared)
{
    char *head = NULL;
    size_t size;
    FILE *stream = open_memstream(&head, &size);
    if (!stream)
        return;
    keep_widths(writer, table);
    print_shared(writer, shared, stream);
    ls_table_head_print(table, stream);
    if (fclose(stream) == 0 && is_new_head(writer, head))
        fprintf(writer->stream, "%s%s", writer->rows > json_array_size(writer->kept) ? "\n" : "",
                head);
    note_widths(writer, table);
}

void ls_table_row_print(ls_writer *writer, const ls_table *table, size_t number)
{
    const json_t *row = json_array_get(table->of, number);
    int owed = 0;
    for (size_t c = 0; c < table->count; c++) {
        const ls_table_column *column = &table->column[c];
        const char *cell = column->cell[number];
        const bool bad = (column->is.cell == LS_CELL_STATUS && ls_row_is_bad(row)) ||
                         (column->is.cell == LS_CELL_GATE && strcmp(cell, "failed") == 0);
        if (column->shown)
            owed = print_cell(writer->stream, column, cell, bad && writer->colour, owed);
    }
    fputc('\n', writer->stream);
    char *reason = ls_row_reason(row);
    if (reason)
        ls_text_wrap(writer->stream, reason, 0, 2, writer->width);
    free(reason);
}

static void note_dropped(ls_writer *writer, const ls_table *table)
{
    for (size_t c = 0; c < table->count; c++) {
        const ls_table_column *column = &table->column[c];
        bool empty = true;
        for (size_t r = 0; r < table->rows && empty; r++)
            empty = !*column->cell[r];
        if (column->shown || empty)
            continue;
        if (!writer->dropped)
            writer->dropped = json_object();
        json_object_set_new(writer->dropped, column->is.title, json_true());
    }
}

/* Names the columns that found no room. */
static void print_dropped(const ls_writer *writer)
{
    char *text = NULL;
    const char *title;
    json_t *value;
    size_t size, count = 0;
    FILE *stream = json_object_size(writer->dropped) > 0 ? open_memstream(&text, &size) : NULL;
    if (!stream)
        return;
    json_object_foreach(writer->dropped, title, value)
    {
        fprintf(stream, "%s%s", count++ ? ", " : "no room for: ", title);
    }
    if (fclose(stream) == 0)
        ls_text_wrap(writer->stream, text, 0, 0, writer->width);
    free(text);
}

void ls_table_flush(ls_writer *writer)
{
    json_t *differ, *shared;
    if (json_array_size(writer->kept) == 0)
        return;
    part_options(writer, &differ, &shared);
    ls_column *room = calloc(columns_of(writer)->count, sizeof *room);
    const ls_columns columns = choose_rate(writer, columns_of(writer), room);
    ls_table *table = ls_table_make(&columns, differ, writer->swept, writer->kept);
    if (table) {
        char *warnings =
            ls_table_width(table) > writer->width ? ls_table_share_warnings(table) : NULL;
        ls_table_fit(table, writer->width);
        print_head(writer, table, shared);
        for (size_t i = 0; i < table->rows; i++)
            ls_table_row_print(writer, table, i);
        if (warnings)
            ls_text_wrap(writer->stream, warnings, 0, 0, writer->width);
        free(warnings);
        note_dropped(writer, table);
    }
    ls_table_free(table);
    free(room);
    json_decref(differ);
    json_decref(shared);
    end_kept(writer);
}

void ls_table_close(ls_writer *writer)
{
    ls_table_micro_close(writer);
    print_dropped(writer);
    if (columns_of(writer)->ranks)
        ls_table_rank(writer, writer->ended);
    if (columns_of(writer)->compares)
        ls_table_compare(writer, writer->ended);
}

void ls_table_row(ls_writer *writer, const json_t *row)
{
    if (!is_micro(row) || writer->columns) {
        writer->headed = NULL;
        keep(writer, row);
        return;
    }
    ls_table_flush(writer);
    free(writer->head);
    writer->head = NULL;
    ls_table_micro(writer, row);
}

/* ---- Markdown ------------------------------------------------------------------------------- */

static void print_escaped(FILE *stream, const char *text)
{
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_MARKDOWN);
}

static void markdown_header(ls_writer *writer, const ls_table *table)
{
    char *head = NULL;
    size_t size;
    FILE *stream = open_memstream(&head, &size);
    if (!stream)
        return;
    for (size_t c = 0; c < table->count; c++)
        if (table->column[c].shown) {
            fputs("| ", stream);
            print_escaped(stream, table->column[c].is.title);
            fputc(' ', stream);
        }
    fputs("| reason |\n", stream);
    for (size_t c = 0; c < table->count; c++)
        if (table->column[c].shown)
            fputs(table->column[c].is.right ? "|---:" : "|---", stream);
    fputs("|---|\n", stream);
    const bool first = !writer->head;
    if (fclose(stream) == 0 && is_new_head(writer, head))
        fprintf(writer->stream, "%s%s", first ? "" : "\n", head);
}

static void markdown_rows(ls_writer *writer, const ls_table *table)
{
    markdown_header(writer, table);
    for (size_t r = 0; r < table->rows; r++) {
        for (size_t c = 0; c < table->count; c++) {
            if (!table->column[c].shown)
                continue;
            fputs("| ", writer->stream);
            print_escaped(writer->stream, table->column[c].cell[r]);
            fputs(*table->column[c].cell[r] ? " " : "", writer->stream);
        }
        char *reason = ls_row_reason(json_array_get(writer->kept, r));
        fputs("| ", writer->stream);
        print_escaped(writer->stream, reason ? reason : "");
        fputs(reason ? " |\n" : "|\n", writer->stream);
        free(reason);
    }
}

/* Puts the rows' label before these columns, unless no row has one, the user chose the columns, or
 * it is among them; `room` [1 + their count]. */
static ls_columns add_label(const ls_writer *writer, const ls_columns *columns, ls_column *room)
{
    bool any = false, there = writer->columns && writer->columns->alone;
    for (size_t i = 0; i < json_array_size(writer->kept); i++)
        any |= json_object_get(json_array_get(writer->kept, i), label_column.path) != NULL;
    for (size_t i = 0; i < columns->count; i++)
        there |= strcmp(columns->column[i].path, label_column.path) == 0;
    if (!any || there)
        return *columns;
    ls_columns out = *columns;
    room[0] = label_column;
    memcpy(room + 1, columns->column, columns->count * sizeof *room);
    out.column = room;
    out.count++;
    out.leading++;
    return out;
}

/* A document has no lines above its table: even options that all rows share get columns. */
void ls_markdown_flush(ls_writer *writer)
{
    static const char *const telling[] = {"model", "strategy", "devices", "batch_global", "steps"};
    json_t *differ, *shared;
    if (json_array_size(writer->kept) == 0)
        return;
    json_auto_t *fields = json_array();
    part_options(writer, &differ, &shared);
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        json_array_append_new(fields, json_string(telling[i]));
    for (size_t i = 0; i < json_array_size(differ); i++) {
        bool there = false;
        for (size_t t = 0; t < sizeof telling / sizeof *telling; t++)
            there |= json_equal(json_array_get(fields, t), json_array_get(differ, i));
        if (!there)
            json_array_append(fields, json_array_get(differ, i));
    }
    const bool micro = is_micro(json_array_get(writer->kept, 0));
    const ls_columns *own = micro && !writer->columns ? &micro_columns : columns_of(writer);
    ls_column *room = calloc(2 * own->count + 1, sizeof *room);
    const ls_columns rated = choose_rate(writer, own, room);
    const ls_columns labelled = room ? add_label(writer, &rated, room + own->count) : rated;
    ls_table *table = room ? ls_table_make(&labelled, fields, NULL, writer->kept) : NULL;
    if (table)
        markdown_rows(writer, table);
    ls_table_free(table);
    free(room);
    json_decref(differ);
    json_decref(shared);
    end_kept(writer);
}

void ls_markdown_row(ls_writer *writer, const json_t *row)
{
    if (is_micro(row) != is_micro(json_array_get(writer->kept, 0)))
        ls_markdown_flush(writer);
    keep(writer, row);
    if (is_micro(row))
        ls_markdown_flush(writer);
}
