/* SPDX-License-Identifier: MIT */
/* Parts of the table: cells, options that differ, columns that fit, and the lines below. */
#pragma once

#include "bench/output/format_parts.h"

enum { LS_CELL_SIZE = 160 }; /**< bytes of a cell */

/* ---- Cells (table_cell.c) ------------------------------------------------------------------- */

/** Writes the column's cell of a row, as a line of a terminal may have it (escape.h). */
void ls_cell_write(const ls_column *column, const json_t *row, char cell[LS_CELL_SIZE]);

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

/** Whether the option by default follows from others, so that rows differ in it for no reason of
 * their own. */
bool ls_case_follows(const char *field);

/**
 * Whether cases differ in an option: two have different values, or of two with the same model,
 * data, strategy and reduce only one has it. (That another strategy lacks it is no difference.)
 */
bool ls_case_differs(const json_t *groups, const char *field);

/** The option as a column with path and title in the caller's memory. */
ls_column ls_case_column(const char *field, char title[64], char path[80]);

/** The groups `case` of rows, a new array; equal ones may be in it once. */
json_t *ls_case_groups(const json_t *rows);

/* ---- Layout (table_layout.c) ---------------------------------------------------------------- */

typedef struct ls_table_column {
    ls_column is;
    char title[64], path[80]; /**< of an option */
    char **cell;              /**< [rows] */
    int width;                /**< of the widest, title included */
    bool option;
    bool swept; /**< an option that was given several values */
    bool shown;
} ls_table_column;

typedef struct ls_table {
    ls_table_column *column;
    size_t count, rows;
    const json_t *of; /**< [rows]; borrowed */
} ls_table;

/**
 * A table of `rows` with the given columns. Unless these are `alone`, columns of the options in
 * `fields` follow the leading ones, and empty columns are hidden; `swept`: {field: true} of those
 * that were given several values. NULL: out of memory.
 */
ls_table *ls_table_make(const ls_columns *columns, const json_t *fields, const json_t *swept,
                        const json_t *rows);
void ls_table_free(ls_table *table);

/** Width of the shown columns, with a blank between them. */
int ls_table_width(const ls_table *table);

/** Takes the warnings that all rows have out of their status. A line that says them: "each of
 * these: noisy, short", owned by the caller (free); NULL: there are none. */
char *ls_table_share_warnings(ls_table *table);

/** Hides columns until the others fit: empty ones, options that distinguish no cases, those whose
 * `drop` is above `kept`; with `all` the other options, too. */
void ls_table_leave_out(ls_table *table, int width, int kept, bool all);

/**
 * Makes it fit `width`, in this order: truncates texts to their columns' width, those of options to
 * a third of the line; drops empty columns, then options that distinguish no two cases beyond the
 * others (not the model, the strategy, the devices, the batch, and what was swept), the last first;
 * drops columns by `drop`, down to the third; truncates the last one's texts (the status); drops
 * the other columns by `drop`; truncates other texts; drops options, the last first, those named
 * above after the others; finally truncates theirs.
 */
void ls_table_fit(ls_table *table, int width);

/** Print the titles; and a row by its number, with the reason if it is not ok (format_table.c). */
void ls_table_head_print(const ls_table *table, FILE *stream);
void ls_table_row_print(ls_writer *writer, const ls_table *table, size_t number);

/* ---- Rows of `micro` (table_micro.c) -------------------------------------------------------- */

void ls_table_micro(ls_writer *writer, const json_t *row);
void ls_table_micro_close(ls_writer *writer); /**< after the last */

/* ---- Below the table (table_words.c) -------------------------------------------------------- */

/** For each pool of rows with a time that may be compared (ranking.h) a line that names the fastest
 * and its ratio to the next, or those within the noise: a new array of texts. */
json_t *ls_rank_lines(const json_t *rows);

/** Prints these lines. */
void ls_table_rank(ls_writer *writer, const json_t *rows);

/** Prints what each row was compared with. */
void ls_table_compare(ls_writer *writer, const json_t *rows);
