/* SPDX-License-Identifier: MIT */
/*
 * Which columns a table has, and which of them fit into a line.
 *   A column has a rank: the highest goes first, the last of equal options. Empty columns go before
 * all; then what another column says (LS_DROP_FIRST), and options that follow from others or have
 * one value here. An option goes after the rate (`drop` 5) if another option distinguishes the same
 * cases, and after all figures if it alone distinguishes two cases; the model, the strategy, the
 * devices, the batch, and what was swept at last. In between, texts are truncated
 * (`steps`), and titles of options, before an option that distinguishes cases goes.
 */
#include "bench/output/table/table_parts.h"

#include "common/base/digest.h"

#include <stdlib.h>
#include <string.h>

enum { SHORTEST_TEXT = 8, SHORTEST_TITLE = 14 };

/* Ranks; a figure's rank is its `drop`. */
enum { STAYS = -9, TELLING = -2, OPTION = -1, TOLD_TWICE = 4, SAYS_NOTHING = 9 };

/* What is done in turn: columns above the rank go; then texts are truncated. */
static const struct {
    int rank;
    bool last_only, options; /* which texts: only the last column's; also options' texts */
} steps[] = {{3, true, false}, {0, false, false}, {STAYS, false, true}};

/* ---- Columns -------------------------------------------------------------------------------- */

/* Fills the cells of columns `first` to `end` - 1, row by row, since the values of a row are near
 * each other in memory. Without memory a cell is empty. */
static void fill(const ls_table *table, size_t first, size_t end)
{
    char cell[LS_CELL_SIZE];
    for (size_t r = 0; r < table->rows; r++)
        for (size_t c = first; c < end; c++) {
            ls_table_column *column = &table->column[c];
            const json_t *row = json_array_get(table->of, r);
            if (column->is.cell == LS_CELL_STATUS)
                ls_status_write(row, table->shared, cell);
            else
                ls_cell_write(&column->is, row, cell);
            if (column->cell) {
                free(column->cell[r]);
                column->cell[r] = strdup(cell);
            }
        }
    for (size_t c = first; c < end; c++) {
        ls_table_column *column = &table->column[c];
        bool numbers = column->option || column->is.cell == LS_CELL_VALUE, empty = true;
        column->width = ls_text_width(column->is.title);
        for (size_t r = 0; r < table->rows; r++) {
            const char *text = ls_table_cell(column, r);
            const int width = ls_text_width(text);
            column->width = width > column->width ? width : column->width;
            empty &= width == 0;
            numbers = numbers && strspn(text, "0123456789.e+-") == strlen(text);
        }
        column->is.right |= numbers;
        column->rank = empty && column->is.drop != LS_DROP_NEVER ? LS_RANK_EMPTY
                       : column->telling                         ? TELLING
                       : column->option                          ? OPTION
                       : column->is.drop > 0                     ? column->is.drop
                                                                 : STAYS;
        column->shown = column->rank != LS_RANK_EMPTY;
    }
}

/* Adds a column: that one, or of a field (its width, drop and title, if given, are that one's), or
 * of an option. */
static void add(ls_table *table, const ls_column *given, const char *path, const json_t *option,
                const json_t *swept)
{
    ls_table_column *column = &table->column[table->count++];
    const char *name = ls_option_name(option);
    int follows = 0, telling = 0;
    json_unpack((json_t *)(size_t)option, "{s:i,s:i}", "follows", &follows, "telling", &telling);
    snprintf(column->path, sizeof column->path, "%s%s", option ? "case." : "",
             option ? name : path);
    column->follows = follows;
    column->telling = telling || json_object_get(swept, name);
    column->is = given && given->path ? *given : ls_column_of(column->path, column->title);
    if (given && !given->path) {
        column->is.width = given->width;
        column->is.drop = given->drop;
        column->is.title = given->title ? given->title : column->title;
    }
    column->option = option;
    column->is.right &= !option; /* rows of other programs may have texts: the cells decide */
    column->cell = calloc(table->rows + 1, sizeof *column->cell);
}

static bool is_given(const ls_columns *columns, const char *group, const char *name)
{
    const size_t length = strlen(group);
    for (size_t i = 0; i < columns->count; i++) {
        const ls_column *column = &columns->column[i];
        const char *path = column->path ? column->path : ls_fields[column->of].path;
        if (strncmp(path, group, length) == 0 && strcmp(path + length, name) == 0)
            return true;
    }
    return false;
}

void ls_table_make(const ls_writer *writer, const ls_columns *given, const json_t *options,
                   bool mean, ls_table *out)
{
    const char *label = ls_fields[LS_F_label].path;
    const size_t most = given->count + json_array_size(options) + 1;
    *out = (ls_table){.column = calloc(most, sizeof *out->column),
                      .rows = json_array_size(writer->kept),
                      .of = writer->kept};
    if (!out->column)
        return;
    if (writer->format->markdown && !given->alone && !is_given(given, "", label))
        add(out, NULL, label, NULL, NULL);
    for (size_t i = 0; i <= given->count; i++) {
        const bool leads = i == given->leading && !given->alone && !given->fixed;
        for (size_t o = 0; leads && o < json_array_size(options); o++)
            if (!is_given(given, "case.", ls_option_name(json_array_get(options, o))))
                add(out, NULL, NULL, json_array_get(options, o), writer->swept);
        if (i == given->count)
            break;
        const ls_column *one = &given->column[i];
        const bool by_mean = mean && one->of == LS_F_time_samples_per_s;
        add(out, one, ls_fields[by_mean ? LS_F_time_samples_per_s_mean : one->of].path, NULL, NULL);
    }
    fill(out, 0, out->count);
    for (size_t c = 0; c < out->count; c++)
        out->column[c].shown |= given->alone;
}

void ls_table_free(ls_table *table)
{
    for (size_t c = 0; c < table->count; c++) {
        for (size_t r = 0; table->column[c].cell && r < table->rows; r++)
            free(table->column[c].cell[r]);
        free(table->column[c].cell);
    }
    free(table->column);
    json_decref(table->shared);
}

const char *ls_table_cell(const ls_table_column *column, size_t row)
{
    return column->cell && column->cell[row] ? column->cell[row] : "";
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
        while (warning && r < table->rows &&
               ls_row_has_warning(json_array_get(table->of, r), warning))
            r++;
        if (warning && r == table->rows)
            json_object_set_new(table->shared, warning, json_true());
    }
    for (size_t c = 0; json_object_size(table->shared) && c < table->count; c++)
        if (table->column[c].is.cell == LS_CELL_STATUS)
            fill(table, c, c + 1);
}

/* ---- What fits ------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How many rows the options that tell something distinguish. hashes: [count + 1, rows], of the
 * cells; the last ones are overwritten. */
static size_t count_names(const ls_table *table, uint64_t *hashes)
{
    uint64_t *names = hashes + table->count * table->rows;
    size_t count = 0;
    memset(names, 0, table->rows * sizeof *names);
    for (size_t c = 0; c < table->count; c++)
        for (size_t r = 0; table->column[c].option && table->column[c].rank < 0 && r < table->rows;
             r++)
            names[r] = 31 * names[r] + hashes[c * table->rows + r];
    qsort(names, table->rows, sizeof *names, compare_names);
    for (size_t r = 0; r < table->rows; r++)
        count += r == 0 || names[r] != names[r - 1];
    return count;
}

/* Whether all rows that have a value have the same. */
static bool has_one_value(const ls_table *table, const ls_table_column *column)
{
    const char *value = "";
    for (size_t r = 0; r < table->rows; r++) {
        const char *cell = ls_table_cell(column, r);
        if (*value && *cell && strcmp(cell, value) != 0)
            return false;
        value = *value ? value : cell;
    }
    return true;
}

/* Finds the options without which the others distinguish as many rows, from the last one on: first
 * among options that say nothing. */
static void rank_options(ls_table *table)
{
    uint64_t *hashes = calloc((table->count + 1) * table->rows + 1, sizeof *hashes);
    table->ranked = true;
    if (!hashes) /* a table that is wider than it could be */
        return;
    for (size_t c = 0; c < table->count; c++)
        for (size_t r = 0; table->column[c].option && r < table->rows; r++) {
            const char *cell = ls_table_cell(&table->column[c], r);
            hashes[c * table->rows + r] = ls_hash64(cell, strlen(cell));
        }
    const size_t names = count_names(table, hashes);
    for (int rank = SAYS_NOTHING; rank >= TOLD_TWICE; rank -= SAYS_NOTHING - TOLD_TWICE)
        for (size_t c = table->count; c-- > 0;) {
            ls_table_column *column = &table->column[c];
            if (column->rank != OPTION ||
                (rank == SAYS_NOTHING && !column->follows && !has_one_value(table, column)))
                continue;
            column->rank = rank;
            if (count_names(table, hashes) < names)
                column->rank = OPTION;
        }
    free(hashes);
}

void ls_table_hide(ls_table *table, int width, int above)
{
    while (ls_table_width(table) > width) {
        ls_table_column *highest = NULL;
        if (!table->ranked)
            rank_options(table);
        for (size_t c = 0; c < table->count; c++) {
            ls_table_column *column = &table->column[c];
            const int most = highest ? highest->rank : above;
            if (column->shown &&
                (column->rank > most || (highest && column->rank == most && column->option)))
                highest = column;
        }
        if (!highest)
            return;
        highest->shown = false;
    }
}

/* Truncates the texts of a column; figures stay whole. */
static void narrow(ls_table *table, ls_table_column *column, int width)
{
    const int title = ls_text_width(column->is.title);
    const int most = width > title ? width : title;
    if (column->width <= most || column->is.right)
        return;
    for (size_t r = 0; column->cell && r < table->rows; r++)
        if (column->cell[r])
            ls_text_cut(column->cell[r], most, column->option);
    column->width = most;
}

/* Truncates the title of an option with shorter values. */
static void narrow_title(const ls_table *table, ls_table_column *column, int width)
{
    int cells = width > SHORTEST_TITLE ? width : SHORTEST_TITLE;
    for (size_t r = 0; r < table->rows; r++) {
        const int cell = ls_text_width(ls_table_cell(column, r));
        cells = cell > cells ? cell : cells;
    }
    if (column->is.title != column->title || column->width <= cells)
        return;
    ls_text_cut(column->title, cells, true);
    column->width = cells;
}

/* Texts have the width of their column, texts of options at most a third of the line; then the
 * steps follow. In each the last texts are truncated first. */
void ls_table_fit(ls_table *table, int width)
{
    for (size_t c = 0; c < table->count; c++)
        if (!table->column[c].option)
            narrow(table, &table->column[c], table->column[c].is.width);
    for (size_t c = 0; c < table->count && ls_table_width(table) > width; c++)
        if (table->column[c].option)
            narrow(table, &table->column[c], width / 3);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        for (size_t c = table->count; c-- > 0 && steps[s].options;) {
            const int over = ls_table_width(table) - width;
            if (over > 0 && table->column[c].shown && table->column[c].option)
                narrow_title(table, &table->column[c], table->column[c].width - over);
        }
        ls_table_hide(table, width, steps[s].rank);
        for (size_t c = table->count; c-- > 0;) {
            const int over = ls_table_width(table) - width;
            const int now = table->column[c].width - over;
            if (over > 0 && table->column[c].shown &&
                (steps[s].options || !table->column[c].option))
                narrow(table, &table->column[c], now > SHORTEST_TEXT ? now : SHORTEST_TEXT);
            if (steps[s].last_only)
                break;
        }
    }
}
