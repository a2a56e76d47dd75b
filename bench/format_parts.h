/* SPDX-License-Identifier: MIT */
/*
 * Parts of the formats: finding and writing a value of a row, and the formats themselves. For the
 * format_*.c files and whoever prints rows in columns of its own.
 */
#ifndef LS_BENCH_FORMAT_PARTS_H
#define LS_BENCH_FORMAT_PARTS_H

#include "bench/format.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- Values (format_values.c) --------------------------------------------------------------- */

/**
 * The value at "time.step_ms.median", a new reference; NULL where it is absent or null. A path
 * that leads through an array gives the array of what its elements hold.
 */
json_t *ls_row_find(const json_t *row, const char *path);

/** The shortest decimal that reads back as the same double, always with a point or an exponent. */
char *ls_real_text(double value, char text[32]);

/**
 * Writes a value without structure: numbers and true, false as in JSON, text as it is, nothing for
 * NULL, null and an object. An array is joined by '+' (its reals have none in their exponents),
 * arrays inside an array by ','.
 */
void ls_value_print(FILE *stream, const json_t *value);

/** The same as text owned by the caller (free); NULL without memory. */
char *ls_value_text(const json_t *value);

/** JSON, members in the order of the row; `indent` spaces a level, or negative: on one line. */
void ls_json_print(FILE *stream, const json_t *value, int indent);

/* ---- Formats -------------------------------------------------------------------------------- */

/** How a cell of a table is written. */
typedef enum ls_cell {
    LS_CELL_TEXT,
    LS_CELL_DEVICES, /**< joined by '+'; "8 x cpu" where that is too long */
    LS_CELL_FIGURE,  /**< four significant digits */
    LS_CELL_PERCENT, /**< of a share */
    LS_CELL_SHARE,   /**< four decimals */
    LS_CELL_GATE,    /**< the grade, or "failed" */
} ls_cell;

typedef struct ls_column {
    const char *title;
    const char *path;
    int width;
    bool right; /**< numbers stand to the right */
    ls_cell cell;
} ls_column;

typedef struct ls_columns {
    const ls_column *column;
    size_t count;
} ls_columns;

/** What `verify` prints: which case it was, and how close it came. */
extern const ls_columns ls_verify_columns;

struct ls_format {
    const char *name;
    void (*row)(ls_writer *writer, const json_t *row);
    void (*close)(ls_writer *writer); /**< may be NULL */
};

struct ls_writer {
    const ls_format *format;
    FILE *stream;
    const ls_columns *columns; /**< of table and md; NULL: those of the row's kind */
    const ls_columns *headed;  /**< columns of the last header; NULL: none yet */
    size_t rows;
};

/** Uses these columns (borrowed) in table and md. Before the first row. */
void ls_writer_set_columns(ls_writer *writer, const ls_columns *columns);

void ls_table_row(ls_writer *writer, const json_t *row);
void ls_markdown_row(ls_writer *writer, const json_t *row);
void ls_csv_row(ls_writer *writer, const json_t *row);
void ls_csv_close(ls_writer *writer);

#endif
