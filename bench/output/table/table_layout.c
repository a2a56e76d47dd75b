/* SPDX-License-Identifier: MIT */
/* Which columns a table has, and which of them fit into a line; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "common/base/digest.h"

#include <stdlib.h>
#include <string.h>

/* The first FIGURES columns stay while texts can be truncated. */
enum { SHORTEST_TEXT = 8, FIGURES = 3 };

/* Fills the cells of all rows. False: out of memory. */
static bool fill(ls_table_column *column, const json_t *rows)
{
    char cell[LS_CELL_SIZE];
    column->cell = calloc(json_array_size(rows) + 1, sizeof *column->cell);
    column->width = ls_text_width(column->is.title);
    column->shown = false;
    bool numbers = column->option || column->is.cell == LS_CELL_VALUE;
    for (size_t r = 0; column->cell && r < json_array_size(rows); r++) {
        ls_cell_write(&column->is, json_array_get(rows, r), cell);
        if (!(column->cell[r] = strdup(cell)))
            return false;
        const int width = ls_text_width(cell);
        column->width = width > column->width ? width : column->width;
        column->shown |= width > 0;
        numbers = numbers && strspn(cell, "0123456789.e+-") == strlen(cell);
    }
    column->is.right |= numbers;
    return column->cell;
}

static bool is_given(const ls_columns *columns, const char *path)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->column[i].path, path) == 0)
            return true;
    return false;
}

ls_table *ls_table_make(const ls_columns *columns, const json_t *fields, const json_t *swept,
                        const json_t *rows)
{
    const size_t options = columns->alone ? 0 : json_array_size(fields);
    ls_table *table = calloc(1, sizeof *table);
    bool ok =
        table && (table->column = calloc(columns->count + options + 1, sizeof *table->column));
    for (size_t i = 0; ok && i <= columns->count; i++) {
        for (size_t o = 0; ok && i == columns->leading && o < options; o++) {
            ls_table_column *option = &table->column[table->count];
            const char *field = json_string_value(json_array_get(fields, o));
            option->is = ls_case_column(field, option->title, option->path);
            option->option = true;
            option->swept = json_object_get(swept, field);
            if (is_given(columns, option->path))
                continue;
            table->count++;
            ok = fill(option, rows);
        }
        if (ok && i < columns->count) {
            ls_table_column *given = &table->column[table->count++];
            given->is = columns->column[i];
            ok = fill(given, rows);
            given->shown |= columns->alone;
        }
    }
    if (table) {
        table->rows = json_array_size(rows);
        table->of = rows;
    }
    if (ok)
        return table;
    ls_table_free(table);
    return NULL;
}

void ls_table_free(ls_table *table)
{
    for (size_t c = 0; table && c < table->count; c++) {
        for (size_t r = 0; table->column[c].cell && r < table->rows; r++)
            free(table->column[c].cell[r]);
        free(table->column[c].cell);
    }
    if (table)
        free(table->column);
    free(table);
}

int ls_table_width(const ls_table *table)
{
    int width = -1;
    for (size_t c = 0; c < table->count; c++)
        if (table->column[c].shown)
            width += table->column[c].width + 1;
    return width;
}

static int compare_names(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How many rows the visible options distinguish, without that one. */
static size_t count_names(const ls_table *table, const ls_table_column *without)
{
    uint64_t *names = calloc(table->rows + 1, sizeof *names);
    size_t count = 0;
    for (size_t r = 0; names && r < table->rows; r++)
        for (size_t c = 0; c < table->count; c++) {
            const ls_table_column *column = &table->column[c];
            if (column->option && column->shown && column != without)
                names[r] = 31 * names[r] + ls_hash64(column->cell[r], strlen(column->cell[r]));
        }
    if (names)
        qsort(names, table->rows, sizeof *names, compare_names);
    for (size_t r = 0; names && r < table->rows; r++)
        count += r == 0 || names[r] != names[r - 1];
    free(names);
    return count;
}

static bool is_telling(const ls_table_column *column)
{
    const ls_field *field = ls_field_find(column->is.path);
    return column->swept || (field && field->shown & LS_SHOWN_KEPT);
}

static bool is_empty(const ls_table *table, const ls_table_column *column)
{
    for (size_t r = 0; r < table->rows; r++)
        if (*column->cell[r])
            return false;
    return true;
}

/* The column to hide next: an empty one, an option that distinguishes no rows (`all`: any option),
 * or one whose `drop` exceeds `kept`; NULL: none. */
static ls_table_column *least_telling(const ls_table *table, int kept, bool all)
{
    ls_table_column *least = NULL;
    for (size_t c = table->count; c-- > 0;)
        if (table->column[c].shown && table->column[c].is.drop != LS_DROP_NEVER &&
            is_empty(table, &table->column[c]))
            return &table->column[c];
    for (size_t c = table->count, names = 0; c-- > 0;) {
        ls_table_column *column = &table->column[c];
        if (!column->shown || !column->option || is_telling(column))
            continue;
        names = names ? names : count_names(table, NULL);
        if (count_names(table, column) == names)
            return column;
    }
    for (size_t c = 0; c < table->count; c++) {
        ls_table_column *column = &table->column[c];
        if (column->shown && !column->option && column->is.drop > (least ? least->is.drop : kept))
            least = column;
    }
    for (int telling_too = 0; telling_too < 2 && all; telling_too++)
        for (size_t c = table->count; c-- > 0 && !least;)
            if (table->column[c].shown && table->column[c].option &&
                (telling_too || !is_telling(&table->column[c])))
                least = &table->column[c];
    return least;
}

/* Takes the part ", TEXT" out of a list, if it is there. */
static void take_out(char *list, const char *text)
{
    const size_t length = strlen(text);
    for (char *at = list; (at = strstr(at, ", ")); at += 2) {
        char *end = at + 2 + length;
        if (strncmp(at + 2, text, length) == 0 && (!*end || *end == ',')) {
            memmove(at, end, strlen(end) + 1);
            return;
        }
    }
}

/* Takes it out of all cells of the column, which may get narrower. */
static void take_out_of_all(ls_table *table, ls_table_column *column, const char *warning)
{
    column->width = ls_text_width(column->is.title);
    for (size_t r = 0; r < table->rows; r++) {
        take_out(column->cell[r], warning);
        const int width = ls_text_width(column->cell[r]);
        column->width = width > column->width ? width : column->width;
    }
}

char *ls_table_share_warnings(ls_table *table)
{
    const json_t *first = json_object_get(json_array_get(table->of, 0), "result");
    const json_t *warnings = json_object_get(first, "warnings");
    ls_table_column *status = NULL;
    char *line = NULL;
    for (size_t c = 0; c < table->count; c++)
        status = table->column[c].is.cell == LS_CELL_STATUS ? &table->column[c] : status;
    for (size_t i = 0; status && i < json_array_size(warnings); i++) {
        const char *warning = json_string_value(json_array_get(warnings, i));
        char *longer;
        size_t r = 0;
        while (warning && r < table->rows && ls_row_warns(json_array_get(table->of, r), warning))
            r++;
        if (!warning || r < table->rows ||
            asprintf(&longer, "%s%s%s", line ? line : "each of these: ", line ? ", " : "",
                     warning) < 0)
            continue;
        free(line);
        line = longer;
        take_out_of_all(table, status, warning);
    }
    return line;
}

/* Truncates the texts of a column; figures stay whole. */
static void narrow(ls_table *table, ls_table_column *column, int width)
{
    const int title = ls_text_width(column->is.title);
    const int most = width > title ? width : title;
    if (column->width <= most || column->is.right)
        return;
    for (size_t r = 0; r < table->rows; r++)
        (column->option ? ls_text_squeeze : ls_text_shorten)(column->cell[r], most);
    column->width = most;
}

void ls_table_leave_out(ls_table *table, int width, int kept, bool all)
{
    while (ls_table_width(table) > width) {
        ls_table_column *least = least_telling(table, kept, all);
        if (!least)
            return;
        least->shown = false;
    }
}

/* Truncates texts from the last column back to `first`, until all fits; `options`: theirs, too. */
static void cut_texts(ls_table *table, int width, size_t first, bool options)
{
    for (size_t c = table->count; c-- > first;) {
        const int over = ls_table_width(table) - width;
        const int now = table->column[c].width - over;
        if (over > 0 && table->column[c].shown && (options || !table->column[c].option))
            narrow(table, &table->column[c], now > SHORTEST_TEXT ? now : SHORTEST_TEXT);
    }
}

void ls_table_fit(ls_table *table, int width)
{
    for (size_t c = 0; c < table->count; c++)
        if (!table->column[c].option)
            narrow(table, &table->column[c], table->column[c].is.width);
    for (size_t c = 0; c < table->count && ls_table_width(table) > width; c++)
        if (table->column[c].option)
            narrow(table, &table->column[c], width / 3);
    ls_table_leave_out(table, width, FIGURES, false);
    if (table->count)
        cut_texts(table, width, table->count - 1, false);
    ls_table_leave_out(table, width, 0, false);
    cut_texts(table, width, 0, false);
    ls_table_leave_out(table, width, 0, true);
    cut_texts(table, width, 0, true);
}
