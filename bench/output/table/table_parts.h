/* SPDX-License-Identifier: MIT */
/* Parts of the table: cells, options that differ, columns that fit, and the lines below. */
#pragma once

#include "bench/output/format.h"

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

/** Columns that a UTF-8 text takes on a terminal, each character as one. */
int ls_text_width(const char *text);

/** Cuts a text to `width` columns, with ".." at its end where there is room. */
void ls_text_shorten(char *text, int width);

/** Cuts a text to `width` columns, with ".." in its middle: values may differ at either end. */
void ls_text_squeeze(char *text, int width);

/* ---- Options (table_options.c) --------------------------------------------------------------
 *
 * A group `case` has the options of its case, and some fields that follow from them (the batch of
 * each device, say), which are not options. */

/** Options of cases, to be added: a new reference. */
json_t *ls_options_new(void);

/** Adds a row's options. Only rows added with an equal `among` are compared with it. */
void ls_options_add(json_t *options, const json_t *row, const char *among);

/** The options of rows. */
json_t *ls_options_of(const json_t *rows);

/** Names of the options, the most telling ones first: a new array. */
json_t *ls_options_names(const json_t *options);

/**
 * Whether cases differ in an option: two have different values, or two have the same model, data,
 * strategy and reduce, and only one has it. (An option that another strategy does not have makes no
 * difference.)
 */
bool ls_options_differ(const json_t *options, const char *name);

/** Whether the option by default follows from others, so that rows differ in it only as a
 * consequence. */
bool ls_option_follows(const char *name);

/** Whether its column is the last to be dropped. */
bool ls_option_is_telling(const char *name);

/* ---- Layout (table_layout.c) ---------------------------------------------------------------- */

typedef struct ls_table_column {
    ls_column is;
    char title[LS_TITLE_SIZE], path[80]; /**< where `is` does not have separate texts */
    char **cell;                         /**< [rows] */
    uint64_t *hash; /**< [rows], of each cell: to find the options that distinguish rows */
    int width;      /**< of the widest, title included */
    bool option;
    bool telling; /**< an option dropped late: its field says so, or it was swept */
    bool empty;   /**< in all rows */
    bool shown;
} ls_table_column;

typedef struct ls_table {
    ls_table_column *column;
    size_t count, rows;
    const json_t *of; /**< [rows]; borrowed */
    json_t *shared;   /**< {warning: true} if no status repeats the warning; may be NULL */
} ls_table;

/** What a table shows. */
typedef struct ls_table_plan {
    const ls_columns *columns;
    const json_t *options; /**< fields of `case` that get columns, unless `columns` are alone */
    const json_t *swept;   /**< {field: true} for options given several values; or NULL */
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

/** Hides columns above the rank (table_layout.c; 0 means figures that have a `drop`), the highest
 * first, while a line is wider than `width`. */
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
