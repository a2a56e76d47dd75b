/* SPDX-License-Identifier: MIT */
/* Which columns a table has, and which of them fit into a line; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "common/base/digest.h"

#include <stdlib.h>
#include <string.h>

/* The first FIGURES columns stay while texts can be truncated. */
enum { SHORTEST_TEXT = 8, FIGURES = 3 };

/* ---- Columns -------------------------------------------------------------------------------- */

static void free_cells(ls_table_column *column, size_t rows)
{
    for (size_t r = 0; column->cell && r < rows; r++)
        free(column->cell[r]);
    free(column->cell);
    free(column->hash);
}

/* Fills the cells of all rows. False: out of memory. */
static bool fill(const ls_table *table, ls_table_column *column)
{
    char cell[LS_CELL_SIZE];
    column->cell = calloc(table->rows + 1, sizeof *column->cell);
    column->hash = calloc(table->rows + 1, sizeof *column->hash);
    column->width = ls_text_width(column->is.title);
    column->shown = false;
    bool numbers = column->option || column->is.cell == LS_CELL_VALUE;
    for (size_t r = 0; column->cell && column->hash && r < table->rows; r++) {
        const json_t *row = json_array_get(table->of, r);
        if (column->is.cell == LS_CELL_STATUS)
            ls_status_write(row, table->shared, cell);
        else
            ls_cell_write(&column->is, row, cell);
        if (!(column->cell[r] = strdup(cell)))
            return false;
        column->hash[r] = ls_hash64(cell, strlen(cell));
        const int width = ls_text_width(cell);
        column->width = width > column->width ? width : column->width;
        column->shown |= width > 0;
        numbers = numbers && strspn(cell, "0123456789.e+-") == strlen(cell);
    }
    column->is.right |= numbers;
    return column->cell && column->hash;
}

const char *ls_columns_path(const ls_columns *columns, size_t number)
{
    return number < columns->fields ? ls_fields[columns->field[number].of].path
                                    : columns->column[number - columns->fields].path;
}

static bool is_given(const ls_columns *columns, const char *path)
{
    for (size_t i = 0; i < columns->fields + columns->count; i++)
        if (strcmp(ls_columns_path(columns, i), path) == 0)
            return true;
    return false;
}

/* The plan's column with that number, its title in `title` if it has none of its own. */
static ls_column given_column(const ls_table_plan *plan, size_t number, char title[64])
{
    const ls_columns *all = plan->columns;
    if (number >= all->fields)
        return all->column[number - all->fields];
    const ls_field_column *given = &all->field[number];
    const ls_field_number of = plan->mean && given->of == LS_F_time_samples_per_s
                                   ? LS_F_time_samples_per_s_mean
                                   : given->of;
    ls_column column = ls_column_of(ls_fields[of].path, title);
    column.width = given->width;
    column.drop = given->drop;
    if (given->title)
        column.title = given->title;
    return column;
}

/* Adds the columns of options that the plan does not give. */
static bool add_options(ls_table *table, const ls_table_plan *plan)
{
    bool ok = true;
    for (size_t o = 0; ok && o < json_array_size(plan->options); o++) {
        ls_table_column *column = &table->column[table->count];
        const char *field = json_string_value(json_array_get(plan->options, o));
        column->is = ls_case_column(field, column->title, column->path);
        if (is_given(plan->columns, column->path))
            continue;
        column->option = true;
        column->swept = json_object_get(plan->swept, field);
        table->count++;
        ok = fill(table, column);
    }
    return ok;
}

ls_table *ls_table_make(const ls_table_plan *plan, const json_t *rows)
{
    const ls_columns *given = plan->columns;
    const char *label = ls_fields[LS_F_label].path;
    const size_t count = given->fields + given->count;
    ls_table *table = calloc(1, sizeof *table);
    bool ok = table;
    if (ok) {
        *table = (ls_table){.rows = json_array_size(rows), .of = rows};
        ok = (table->column =
                  calloc(count + json_array_size(plan->options) + 1, sizeof *table->column));
    }
    if (ok && plan->label && !given->alone && !is_given(given, label)) {
        table->column[0].is = ls_column_of(label, table->column[0].title);
        ok = fill(table, &table->column[table->count++]);
    }
    for (size_t i = 0; ok && i <= count; i++) {
        if (i == given->leading && !given->alone)
            ok = add_options(table, plan);
        if (!ok || i == count)
            continue;
        ls_table_column *column = &table->column[table->count++];
        column->is = given_column(plan, i, column->title);
        ok = fill(table, column);
        column->shown |= given->alone;
    }
    if (ok)
        return table;
    ls_table_free(table);
    return NULL;
}

void ls_table_free(ls_table *table)
{
    for (size_t c = 0; table && c < table->count; c++)
        free_cells(&table->column[c], table->rows);
    if (table) {
        free(table->column);
        json_decref(table->shared);
    }
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

void ls_table_share_warnings(ls_table *table)
{
    const json_t *warnings = ls_row_get(json_array_get(table->of, 0), LS_F_result_warnings);
    table->shared = json_object();
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        const char *warning = json_string_value(json_array_get(warnings, i));
        size_t r = 0;
        while (warning && r < table->rows && ls_row_warns(json_array_get(table->of, r), warning))
            r++;
        if (warning && r == table->rows)
            json_object_set_new(table->shared, warning, json_true());
    }
    for (size_t c = 0; json_object_size(table->shared) && c < table->count; c++)
        if (table->column[c].is.cell == LS_CELL_STATUS) {
            free_cells(&table->column[c], table->rows);
            fill(table, &table->column[c]);
        }
}

/* ---- What fits ------------------------------------------------------------------------------ */

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
    for (size_t c = 0; c < table->count; c++) {
        const ls_table_column *column = &table->column[c];
        for (size_t r = 0; names && r < table->rows; r++)
            if (column->option && column->shown && column != without)
                names[r] = 31 * names[r] + column->hash[r];
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

/* The column to hide next: an empty one, one that another says, an option that distinguishes no
 * rows (`all`: any option), or one whose `drop` exceeds `kept`; NULL: none. */
static ls_table_column *least_telling(const ls_table *table, int kept, bool all)
{
    ls_table_column *least = NULL, *telling = NULL, *option = NULL, *same = NULL;
    size_t names = 0;
    for (size_t c = 0; c < table->count; c++) { /* of equal ones the last */
        ls_table_column *column = &table->column[c];
        if (!column->shown)
            continue;
        if (column->is.drop != LS_DROP_NEVER && is_empty(table, column))
            return column;
        if (!column->option) {
            if (column->is.drop > (least ? least->is.drop : kept))
                least = column;
        } else if (is_telling(column)) {
            telling = column;
        } else {
            option = column;
            names = names ? names : count_names(table, NULL);
            same = count_names(table, column) == names ? column : same;
        }
    }
    if (same && !(least && least->is.drop >= LS_DROP_FIRST))
        return same;
    return least || !all ? least : option ? option : telling;
}

void ls_table_leave_out(ls_table *table, int width, int kept, bool all)
{
    ls_table_column *least;
    while (ls_table_width(table) > width && (least = least_telling(table, kept, all)))
        least->shown = false;
}

/* Truncates the texts of a column; figures stay whole. */
static void narrow(ls_table *table, ls_table_column *column, int width)
{
    const int title = ls_text_width(column->is.title);
    const int most = width > title ? width : title;
    if (column->width <= most || column->is.right)
        return;
    for (size_t r = 0; r < table->rows; r++) {
        (column->option ? ls_text_squeeze : ls_text_shorten)(column->cell[r], most);
        column->hash[r] = ls_hash64(column->cell[r], strlen(column->cell[r]));
    }
    column->width = most;
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
    cut_texts(table, width, table->count ? table->count - 1 : 0, false);
    ls_table_leave_out(table, width, 0, false);
    cut_texts(table, width, 0, false);
    ls_table_leave_out(table, width, 0, true);
    cut_texts(table, width, 0, true);
}
