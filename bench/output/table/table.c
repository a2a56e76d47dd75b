/* SPDX-License-Identifier: MIT */
/*
 * Table and Markdown. Rows are kept until the writer is flushed, since all of them decide which
 * options get a column: shared ones are printed above the table. A header is repeated only if it
 * changes. The reason why a row is not ok follows it, untruncated.
 *   A row of `micro` is printed as it comes, and the first one decides which columns fit. The two
 * placements of a collective are two rows but one line, as in nccl-tests: the first one waits for
 * the second.
 */
#include "bench/output/table/table_parts.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const ls_column run_column[] = {
#define RUN(...) LS_COLUMN(__VA_ARGS__),
#include "bench/output/table/columns.def"
};

static const ls_column verify_column[] = {
#define VERIFY(...) LS_COLUMN(__VA_ARGS__),
#include "bench/output/table/columns.def"
};

static const ls_column micro_column[] = {
#define MICRO(...) LS_COLUMN(__VA_ARGS__),
#include "bench/output/table/columns.def"
};

static const ls_column placed_column[] = {
#define PLACED(...) __VA_ARGS__,
#include "bench/output/table/columns.def"
};
enum { FIRST_PLACED = 10 };

static const ls_columns run_columns = {run_column, COUNT(run_column), .ranks = true};
const ls_columns ls_verify_columns = {verify_column, COUNT(verify_column), .compares = true};
static const ls_columns micro_columns = {micro_column, COUNT(micro_column),
                                         .fixed = COUNT(micro_column)};
static const ls_columns placed_columns = {placed_column, COUNT(placed_column),
                                          .fixed = FIRST_PLACED};

/* Columns of Markdown, whose lines have no width: all of them, in each table. */
static const ls_columns micro_all = {micro_column, COUNT(micro_column), .alone = true};

static bool is_micro(const json_t *row)
{
    return ls_row_group(row, LS_G_micro);
}

static bool is_placed(const json_t *row, const char *place)
{
    return strcmp(ls_row_string(row, LS_F_micro_shape), place) == 0;
}

static const ls_columns *columns_of(const ls_writer *writer)
{
    const json_t *row = json_array_get(writer->kept, 0);
    if (writer->columns || !is_micro(row))
        return writer->columns ? writer->columns : &run_columns;
    if (writer->format->markdown)
        return &micro_all;
    return is_placed(row, "out of place") ? &placed_columns : &micro_columns;
}

/* Notes the text of a case without the options that are known to differ, and without fields that
 * follow from others. True if the text is new. The fields that options.sql compares stay. */
static bool note_text(ls_writer *writer, json_t *group, const char *among)
{
    json_auto_t *rest = json_copy(group);
    const char *name;
    json_t *unused;
    json_object_foreach(writer->unsaid, name, unused)
    {
        (void)unused;
        json_object_del(rest, name);
    }
    json_object_set_new(rest, "among", json_string(among));
    char *text = json_dumps(rest, JSON_COMPACT);
    const bool new = text && !json_object_get(writer->plain, text);
    if (new)
        json_object_set_new(writer->plain, text, json_true());
    free(text);
    return new;
}

static void find_options(ls_writer *writer)
{
    static const char *const compared[] = {"model", "data", "strategy", "reduce"};
    const char *name;
    json_t *one;
    size_t i;
    json_decref(writer->options);
    writer->options = ls_options_of(writer->cases);
    writer->cases_seen = json_object_size(writer->cases);
    json_array_foreach(writer->options, i, one)
    {
        if (json_integer_value(json_object_get(one, "differs")))
            json_object_set_new(writer->unsaid, ls_option_name(one), json_true());
    }
    for (i = 0; i < COUNT(compared); i++)
        json_object_del(writer->unsaid, compared[i]);
    json_object_clear(writer->plain);
    json_object_foreach(writer->cases, name, one)
    {
        note_text(writer, json_object_get(one, "case"),
                  json_string_value(json_object_get(one, "among")));
    }
}

/* Adds it unless it cannot change the options: what differs keeps differing. The options are found
 * from time to time, since the more differ the more cases change nothing. */
static void add_case(ls_writer *writer, json_t *group, const char *among)
{
    enum { FEW = 16 };
    char number[24];
    if (!writer->cases) {
        writer->cases = json_object();
        writer->plain = json_object();
        writer->unsaid = json_object();
        for (size_t i = 0; i < LS_FIELDS; i++)
            if (ls_fields[i].shown & LS_SHOWN_DERIVED &&
                strncmp(ls_fields[i].path, "case.", 5) == 0)
                json_object_set_new(writer->unsaid, ls_fields[i].path + 5, json_true());
    }
    if (!group || !note_text(writer, group, among))
        return;
    snprintf(number, sizeof number, "%zu", json_object_size(writer->cases));
    json_object_set_new(writer->cases, number,
                        json_pack("{s:O,s:s}", "case", group, "among", among));
    if (json_object_size(writer->cases) >= 2 * writer->cases_seen + FEW)
        find_options(writer);
}

void ls_writer_expect(ls_writer *writer, json_t *cases, json_t *swept)
{
    for (size_t i = 0; i < json_array_size(cases); i++) {
        add_case(writer, json_array_get(cases, i), "expected");
        writer->uneven |= ls_case_is_uneven(json_array_get(cases, i));
    }
    json_decref(cases);
    json_decref(writer->swept);
    writer->swept = swept;
}

/* Where the steps of one case are not alike, all cases show the rate of all timed steps, which
 * ranks them; otherwise only if a row has it, unlike older rows. */
static bool shows_mean(const ls_writer *writer)
{
    bool timed = false, known = false;
    for (size_t i = 0; i < json_array_size(writer->kept) && writer->uneven; i++) {
        timed |= ls_row_is_timed(json_array_get(writer->kept, i));
        known |= ls_row_has(json_array_get(writer->kept, i), LS_F_time_samples_per_s_mean);
    }
    return writer->uneven && (known || !timed || columns_of(writer)->ranks);
}

/* ---- Options that are shared ----------------------------------------------------------------- */

enum { SHARED_LINES = 2 };

/* Partitions options: some get columns, since cases differ in them, and the others all rows
 * share. A document has no lines above its table: there the most telling get columns, too. */
static void part_options(ls_writer *writer, json_t *columns, json_t *shared)
{
    json_t *one;
    size_t i;
    if (writer->cases_seen < json_object_size(writer->cases))
        find_options(writer);
    json_array_foreach(writer->options, i, one)
    {
        const char *name;
        int differs, telling;
        json_unpack(one, "{s:s,s:i,s:i}", "name", &name, "differs", &differs, "telling", &telling);
        telling |= strcmp(name, "steps") == 0;
        json_array_append(differs || (telling && writer->format->markdown) ? columns : shared, one);
    }
}

/* Prints options that all rows share, in at most SHARED_LINES lines; the rest is dropped. */
static void print_shared(const ls_writer *writer, const json_t *shared, FILE *stream)
{
    int at = 0, lines = 1;
    for (size_t i = 0; i < json_array_size(shared); i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE] = "";
        const char *name = ls_option_name(json_array_get(shared, i));
        for (size_t r = 0; r < json_array_size(writer->kept) && !*cell; r++)
            if (json_object_get(ls_row_group(json_array_get(writer->kept, r), LS_G_case), name))
                ls_option_write(name, json_array_get(writer->kept, r), title, cell);
        if (!*cell)
            continue;
        const int width = ls_text_width(title) + 1 + ls_text_width(cell);
        const bool begins = at && at + 2 + width + 1 > writer->width; /* including both commas */
        if (width + 1 > writer->width || (begins && lines == SHARED_LINES))
            continue;
        fprintf(stream, "%s%s %s", at == 0 ? "" : begins ? ",\n" : ", ", title, cell);
        at = (at == 0 || begins ? 0 : at + 2) + width;
        lines += begins;
    }
    if (at)
        fputc('\n', stream);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Prints a cell after `owed` blanks; returns the blanks owed before the next one, so that no line
 * ends in blanks. */
static int print_cell(FILE *stream, const ls_table_column *column, const char *cell, int owed)
{
    const int length = ls_text_width(cell),
              blanks = length < column->width ? column->width - length : 0;
    if (length == 0)
        return owed + blanks + 1;
    fprintf(stream, "%*s%s", owed + (column->is.right ? blanks : 0), "", cell);
    return 1 + (column->is.right ? 0 : blanks);
}

/* Why a row is not ok; NULL where nothing says so. */
static char *reason_of(const json_t *row)
{
    const json_t *reason = ls_row_get(row, LS_F_result_reason);
    char *text = reason ? ls_value_text(reason) : NULL;
    char *shown = text ? ls_text_shown(text, LS_ESCAPE_LINE) : NULL;
    free(text);
    return shown;
}

/* Prints a line of titles (`row` NULL), or the row with that number and its reason. */
static void print_line(const ls_writer *writer, const ls_table *table, const json_t *row,
                       size_t number, FILE *stream)
{
    const bool markdown = writer->format->markdown;
    char *reason = row ? reason_of(row) : NULL;
    int owed = 0;
    for (size_t c = 0; c < table->count; c++) {
        const ls_table_column *column = &table->column[c];
        const char *cell = row ? ls_table_cell(column, number) : column->is.title;
        if (column->shown && markdown) {
            fputs("| ", stream);
            ls_escape_put(stream, cell, SIZE_MAX, LS_ESCAPE_MARKDOWN);
            fputs(*cell ? " " : "", stream);
        } else if (column->shown) {
            owed = print_cell(stream, column, cell, owed);
        }
    }
    if (markdown) {
        fputs("| ", stream);
        ls_escape_put(stream, row ? reason : "reason", SIZE_MAX, LS_ESCAPE_MARKDOWN);
        fputs(row && !reason ? "|" : " |", stream);
    }
    fputc('\n', stream);
    if (reason && !markdown)
        ls_text_wrap(stream, reason, 0, 2, writer->width);
    free(reason);
}

/* Prints the header, unless it is the last one printed. */
static void print_head(ls_writer *writer, const ls_table *table, const json_t *shared)
{
    char *head = NULL;
    size_t size;
    FILE *stream = open_memstream(&head, &size);
    if (!stream)
        return;
    print_shared(writer, shared, stream);
    if (writer->headed == &placed_columns) {
        int width[2] = {-1, 0};
        for (size_t c = 0; c < table->count; c++)
            width[c >= FIRST_PLACED] += writer->widths[c] ? writer->widths[c] + 1 : 0;
        fprintf(stream, "%*s%*s\n", width[0], "out of place, GB/s", width[1],
                width[1] ? "in place, GB/s" : "");
    }
    print_line(writer, table, NULL, 0, stream);
    for (size_t c = 0; c < table->count && writer->format->markdown; c++)
        if (table->column[c].shown)
            fputs(table->column[c].is.right ? "|---:" : "|---", stream);
    fputs(writer->format->markdown ? "|---|\n" : "", stream);
    if (fclose(stream) == 0 && (!writer->head || strcmp(head, writer->head) != 0))
        fprintf(writer->stream, "%s%s", writer->head ? "\n" : "", head);
    free(writer->head);
    writer->head = head;
}

/* Prints the warnings that all rows have. */
static void print_shared_warnings(const ls_writer *writer, const ls_table *table)
{
    char text[256] = "";
    const char *name;
    json_t *unused;
    json_object_foreach(table->shared, name, unused)
    {
        const size_t used = strlen(text);
        (void)unused;
        snprintf(text + used, sizeof text - used, used ? ", %s" : "each of: %s", name);
    }
    if (*text)
        ls_text_wrap(writer->stream, text, 0, 0, writer->width);
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* Makes it fit the line. Columns keep the width that they had below the same header; columns of
 * `micro` are as wide as their list says, and the first row decides which are there. */
static void lay_out(ls_writer *writer, ls_table *table, const ls_columns *columns)
{
    const bool again = writer->headed == columns, fixed = columns->fixed;
    if (!again)
        memset(writer->widths, 0, sizeof writer->widths);
    writer->headed = columns;
    if (!fixed && ls_table_width(table) > writer->width)
        ls_table_share_warnings(table);
    for (size_t c = 0; fixed && c < table->count; c++) {
        ls_table_column *column = &table->column[c];
        column->width = column->is.width;
        column->shown = again ? writer->widths[c] : column->shown || c < columns->fixed;
        column->shown &= column->is.drop != LS_DROP_ALWAYS;
        char *cell = column->cell ? *column->cell : NULL;
        if (!cell)
            continue;
        if (!column->is.right)
            ls_text_cut(cell, column->width, false);
        else if (column->is.cell == LS_CELL_FIGURE) /* as a bandwidth of a busy machine */
            for (int digits = 3; digits > 0 && ls_text_width(cell) > column->width; digits--)
                snprintf(cell, strlen(cell) + 1, "%#.*g", digits, strtod(cell, NULL));
    }
    if (!fixed)
        ls_table_fit(table, writer->width);
    else if (!again)
        ls_table_hide(table, writer->width, 0);
    for (size_t c = 0; c < table->count && c < COUNT(writer->widths); c++) {
        ls_table_column *column = &table->column[c];
        const int now = column->width, room = writer->width - ls_table_width(table);
        const int least = column->is.right && !column->option ? column->is.width : 0;
        int wanted = writer->widths[c] > now ? writer->widths[c] : now;
        wanted = wanted > least ? wanted : least;
        if (column->shown && (wanted - now <= room || fixed))
            column->width = wanted;
        writer->widths[c] = column->shown ? column->width : 0;
    }
}

/* Printed rows are kept for the lines below the table, if there are any. */
static void end_kept(ls_writer *writer, const ls_columns *columns)
{
    if (!writer->ended)
        writer->ended = json_array();
    if (columns->ranks || columns->compares || columns->fixed || !writer->deferred)
        json_array_extend(writer->ended, writer->kept);
    json_array_clear(writer->kept);
}

void ls_table_flush(ls_writer *writer)
{
    if (json_array_size(writer->kept) == 0)
        return;
    const bool markdown = writer->format->markdown;
    const ls_columns *columns = columns_of(writer);
    json_auto_t *options = json_array(), *shared = json_array();
    for (size_t i = 0; i < json_array_size(writer->kept); i++) {
        const json_t *row = json_array_get(writer->kept, i);
        add_case(writer, ls_row_group(row, LS_G_case), "printed");
        writer->uneven |= ls_row_is_timed(row) && ls_row_is_uneven(row);
    }
    part_options(writer, options, shared);
    ls_table table;
    ls_table_make(writer, columns, options, shows_mean(writer), &table);
    if (!markdown)
        lay_out(writer, &table, columns);
    print_head(writer, &table, markdown ? NULL : shared);
    for (size_t i = 0; i < table.rows; i++)
        print_line(writer, &table, json_array_get(writer->kept, i), i, writer->stream);
    print_shared_warnings(writer, &table);
    if (!writer->dropped)
        writer->dropped = json_object();
    for (size_t c = 0; c < table.count && !markdown && !columns->fixed; c++)
        if (!table.column[c].shown && table.column[c].rank != LS_RANK_EMPTY)
            json_object_set_new(writer->dropped, table.column[c].is.title, json_true());
    ls_table_free(&table);
    end_kept(writer, columns);
}

/* Whether it is the other placement of the same case as `first`. */
static bool is_second(const json_t *first, const json_t *row)
{
    static const ls_field_number same[] = {LS_F_micro_op, LS_F_micro_kernel, LS_F_micro_size_bytes};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!ls_value_equal(ls_row_get(first, same[i]), ls_row_get(row, same[i])))
            return false;
    return is_placed(first, "out of place") && is_placed(row, "in place");
}

void ls_table_row(ls_writer *writer, const json_t *row)
{
    json_t *last = json_array_get(writer->kept, 0);
    const bool micro = is_micro(row) && !writer->columns, markdown = writer->format->markdown;
    if (!writer->kept)
        writer->kept = json_array();
    if (micro && last && !markdown && is_second(last, row)) {
        json_object_set(last, "placed", ls_row_group(row, LS_G_micro));
        if (ls_row_group(row, LS_G_result))
            json_object_set(last, "result", ls_row_group(row, LS_G_result));
        ls_table_flush(writer);
        json_array_append_new(writer->ended,
                              json_pack("{s:O}", "micro", ls_row_group(row, LS_G_micro)));
        return;
    }
    const bool apart = markdown && writer->columns && !writer->columns->alone &&
                       is_micro(row) != is_micro(last); /* a table for each kind */
    if (last && (apart || micro || (is_micro(last) && !writer->columns)))
        ls_table_flush(writer);
    if (micro)
        json_array_append_new(writer->kept, json_deep_copy(row));
    else
        json_array_append(writer->kept, (json_t *)(size_t)row);
    if (micro && (markdown || !is_placed(row, "out of place")))
        ls_table_flush(writer);
}

void ls_table_close(ls_writer *writer)
{
    const ls_columns *columns = writer->columns ? writer->columns : &run_columns;
    const json_t *first = json_array_get(writer->ended, 0);
    if (json_object_size(writer->dropped) || is_micro(first) || (first && columns->compares) ||
        json_array_size(writer->ended) > 1)
        ls_table_print_below(writer, columns);
}
