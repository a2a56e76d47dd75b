/* SPDX-License-Identifier: MIT */
/* Parts of the table: cells, options that differ, columns that fit, and the lines below. */
#pragma once

#include "bench/output/format.h"
#include "bench/output/results_db.h"

enum { LS_CELL_SIZE = 160, LS_TITLE_SIZE = 64 }; /**< bytes of a cell, and of its heading */

/* ---- Cells (table_cell.c) ------------------------------------------------------------------- */

/** The field at the path as a column, as the table of fields has it; the title is in `title`. */
ls_column ls_column_of(const char *path, char title[LS_TITLE_SIZE]);

/** Writes the column's cell of a row, as a line of a terminal may have it (escape.h). */
void ls_cell_write(const ls_column *column, const json_t *row, char cell[LS_CELL_SIZE]);

/** Writes the heading and the cell of an option, a field of `case`. */
void ls_option_write(const char *name, const json_t *row, char title[LS_TITLE_SIZE],
                     char cell[LS_CELL_SIZE]);

/** Writes the status and the warnings, without the members of `shared` (may be NULL). */
void ls_status_write(const json_t *row, const json_t *shared, char cell[LS_CELL_SIZE]);

/** Adds functions of SQL: cell(row, path), what a table has of the row (JSON) in the field's
 * column, and heading(path). */
void ls_cells_attach(ls_results *results);

/** Columns that a UTF-8 text takes on a terminal, each character as one. */
int ls_text_width(const char *text);

/** Cuts a text to `width` columns, with ".." at its end where there is room. */
void ls_text_shorten(char *text, int width);

/** Cuts a text to `width` columns, with ".." in its middle: values may differ at either end. */
void ls_text_squeeze(char *text, int width);

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

typedef struct ls_table_column {
    ls_column is;
    char title[LS_TITLE_SIZE], path[80]; /**< where `is` does not have separate texts */
    char **cell;                         /**< [rows] */
    int width;                           /**< of the widest, title included */
    bool option;
    bool follows; /**< an option that by default follows from others */
    bool telling; /**< an option dropped late: its field says so, or it was swept */
    bool empty;   /**< in all rows */
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

/** What a table shows. */
typedef struct ls_table_plan {
    const ls_columns *columns;
    const json_t *options; /**< of ls_options_of, that get columns, unless `columns` are alone */
    const json_t *swept;   /**< {field: true} of those that were given several values; or NULL */
    bool label;            /**< begins with the label, where a row has one */
    bool mean;             /**< has samples per second of the mean, not of the median step */
} ls_table_plan;

/** Rows as a table. Empty columns are hidden, unless they are alone. NULL if memory is short. */
ls_table *ls_table_make(const ls_table_plan *plan, const json_t *rows);
void ls_table_free(ls_table *table);

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
