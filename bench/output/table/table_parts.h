/* SPDX-License-Identifier: MIT */
/* Parts of the table: options that differ, columns that fit, and the lines below. */
#pragma once

#include "bench/output/cells.h"

/* ---- Options (options.sql) ------------------------------------------------------------------
 *
 * A group `case` has the options of its case, and some fields that follow from them (the batch of
 * each device, say), which are not options. */

/** [{name, differs, follows, telling}] of the options of cases, {..: {case, among}}, the most
 * telling ones first: whether cases with an equal `among` differ in it; whether by default it
 * follows from others, so that rows differ in it for no reason of their own; and whether its column
 * is the last to be dropped. A new array. */
json_t *ls_options_of(const json_t *cases);

static inline const char *ls_option_name(const json_t *option)
{
    return json_string_value(json_object_get(option, "name"));
}

/* ---- Layout (table_layout.c) ---------------------------------------------------------------- */

/** The rank of a column that is empty in all rows. */
enum { LS_RANK_EMPTY = 1000 };

typedef struct ls_table_column {
    ls_column is;
    char title[LS_TITLE_SIZE], path[80]; /**< where `is` does not have separate texts */
    char **cell;                         /**< [rows]; see ls_table_cell */
    int width;                           /**< of the widest, title included */
    bool option;
    bool follows; /**< an option that by default follows from others */
    bool telling; /**< an option dropped late: its field says so, or it was swept */
    bool shown;
    int rank; /**< the highest goes first (table_layout.c) */
} ls_table_column;

typedef struct ls_table {
    ls_table_column *column;
    size_t count, rows;
    const json_t *of; /**< [rows]; borrowed */
    json_t *shared;   /**< {warning: true} of those that no status repeats; may be NULL */
    bool ranked;      /**< options have ranks */
} ls_table;

/** The kept rows as a table, to be freed; `options` (of ls_options_of) get columns, unless
 * `columns` are alone. `mean`: it has samples per second of the mean, not of the median step. Empty
 * columns are hidden, unless they are alone. */
void ls_table_make(const ls_writer *writer, const ls_columns *columns, const json_t *options,
                   bool mean, ls_table *out);
void ls_table_free(ls_table *table);

/** The text of a row; "" where memory is short. */
const char *ls_table_cell(const ls_table_column *column, size_t row);

/** Width of the shown columns, with a blank between them. */
int ls_table_width(const ls_table *table);

/** Takes the warnings that all rows have out of their status, into `shared`. */
void ls_table_share_warnings(ls_table *table);

/** Hides columns above the rank (0 means figures that have a `drop`), the highest first, while a
 * line is wider than `width`. */
void ls_table_hide(ls_table *table, int width, int above);

/** Hides columns and truncates texts until a line fits `width`: see table_layout.c. */
void ls_table_fit(ls_table *table, int width);

/* ---- Below the table (table_words.c) -------------------------------------------------------- */

/**
 * Prints the average bandwidth of `micro`'s collectives; what found no room; for each pool of rows
 * that may be compared (pools.sql) the fastest and its ratio to the next, or the ones within the
 * noise, if `columns` have `ranks`; what each row was compared with, if they have `compares`.
 */
void ls_table_print_below(const ls_writer *writer, const ls_columns *columns);
