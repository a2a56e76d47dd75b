/* SPDX-License-Identifier: MIT */
/* Parts of the table: cells, options that differ, columns that fit, and the lines below. */
#pragma once

#include "bench/output/format.h"

enum { LS_CELL_SIZE = 160 }; /**< bytes of a cell */

/* ---- Cells (table_cell.c) ------------------------------------------------------------------- */

/** Writes the column's cell of a row, as a line of a terminal may have it (escape.h). */
void ls_cell_write(const ls_column *column, const json_t *row, char cell[LS_CELL_SIZE]);

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
 * each device, say), which are no options.
 */

/** Names of the fields that are options, the most telling ones first: a new array. */
json_t *ls_case_fields(const json_t *groups);

/** LS_SHOWN_..; options that strategies declare have no place of their own. */
unsigned ls_case_shown(const char *field);

/** Whether the option by default follows from others, so that rows differ in it for no reason of
 * their own. */
bool ls_case_follows(const char *field);

/**
 * Whether cases differ in an option: two have different values, or of two with the same model,
 * data, strategy and reduce only one has it. (That another strategy lacks it is no difference.)
 */
bool ls_case_differs(const json_t *groups, const char *field);

/** The field at the path as a column, as the table of fields has it; the title is in `title`. */
ls_column ls_column_of(const char *path, char title[64]);

/** The same for an option, with title and path in the caller's memory. */
ls_column ls_case_column(const char *field, char title[64], char path[80]);

/** The different groups `case` of rows, a new array. */
json_t *ls_case_groups(const json_t *rows);

/* ---- Layout (table_layout.c) ---------------------------------------------------------------- */

typedef struct ls_table_column {
    ls_column is;
    char title[64], path[80]; /**< where `is` does not have texts of its own */
    char **cell;              /**< [rows] */
    uint64_t *hash;           /**< [rows], of each cell: options that tell rows apart are sought */
    int width;                /**< of the widest, title included */
    bool option;
    bool swept; /**< an option that was given several values */
    bool shown;
} ls_table_column;

typedef struct ls_table {
    ls_table_column *column;
    size_t count, rows;
    const json_t *of; /**< [rows]; borrowed */
    json_t *shared;   /**< {warning: true} of those that no status repeats; may be NULL */
} ls_table;

/** What a table shows. */
typedef struct ls_table_plan {
    const ls_columns *columns;
    const json_t *options; /**< fields of `case` that get columns, unless `columns` are alone */
    const json_t *swept;   /**< {field: true} of those that were given several values; or NULL */
    bool label;            /**< begins with the label, where a row has one */
    bool mean;             /**< has samples per second of the mean, not of the median step */
} ls_table_plan;

/** Rows as a table. Empty columns are hidden, unless they are alone. NULL: out of memory. */
ls_table *ls_table_make(const ls_table_plan *plan, const json_t *rows);
void ls_table_free(ls_table *table);

/** Width of the shown columns, with a blank between them. */
int ls_table_width(const ls_table *table);

/** Takes the warnings that all rows have out of their status, into `shared`. */
void ls_table_share_warnings(ls_table *table);

/** Hides columns until the others fit: empty ones, those that another says, options that
 * distinguish no cases, those whose `drop` is above `kept`; with `all` the other options, too. */
void ls_table_leave_out(ls_table *table, int width, int kept, bool all);

/**
 * Makes it fit `width`, in this order: truncates texts to their columns' width, those of options to
 * a third of the line; drops empty columns, what another one says (LS_DROP_FIRST), then options
 * that distinguish no two cases beyond the others (not the model, the strategy, the devices, the
 * batch, and what was swept), the last first; drops columns by `drop`, down to the third; truncates
 * the last one's texts (the status); drops the other columns by `drop`; truncates other texts;
 * drops options, the last first, those named above after the others; finally truncates theirs.
 */
void ls_table_fit(ls_table *table, int width);

/* ---- Below the table (table_words.c) -------------------------------------------------------- */

/** For each pool of rows with a time that may be compared (ranking.h) a line that names the fastest
 * and its ratio to the next, or those within the noise: a new array of texts. */
json_t *ls_rank_lines(const json_t *rows);

/** What each row was compared with, of `verify`: a new array of texts. */
json_t *ls_compared_lines(const json_t *rows);

/** The text, then the members' names with commas between them; owned by the caller (free). */
char *ls_names_text(const char *before, const json_t *object);
