/* SPDX-License-Identifier: MIT */
/*
 * Formats: rows of figures as a table, JSON lines, JSON, CSV or Markdown, on one stream; values of
 * a row as text, for the formats and for callers with other columns.
 *
 * A row is a JSON object (jansson) with the groups and fields of the row's schema; a format reads
 * only that object, so rows from a run and rows from a results file look the same.
 */
#pragma once

#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "common/base/escape.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- Values (format_values.c) --------------------------------------------------------------- */

/**
 * The value at a path that is not known before a user names it ("time.step_ms.median"), a new
 * reference; NULL if it is absent or null. A path through `memory.devices` gives the value of the
 * fullest device (by peak), through another list of objects the list of its elements' values.
 */
json_t *ls_row_value(const json_t *row, const char *path);

bool ls_row_is_bad(const json_t *row);   /**< its status is neither ok nor absent */
bool ls_row_is_timed(const json_t *row); /**< it is not bad, and has a rate */
bool ls_row_has_warning(const json_t *row, const char *warning);
bool ls_row_is_predicted(const json_t *row); /**< not measured */

/** The row's median step with ci95, in ms. False where there is no time, or no interval: then the
 * value alone is set, 0 without time. */
bool ls_row_step(const json_t *row, ls_interval *out);

/** Whether the row's steps are not alike, so that its rate is compared by the mean (ls_sample_ms).
 * Also in rows of versions that did not say so in time.samples_per_s_of. */
bool ls_row_is_uneven(const json_t *row);

/** As above, from the group `case` of a row that is not made yet. */
bool ls_case_is_uneven(const json_t *group);

/** Samples per second of the median step, or of all samples over the time, with the interval;
 * else as ls_row_step. Only two rates of the median step compare, or two over the time. */
bool ls_row_rate(const json_t *row, bool mean, ls_interval *out);

/** The median step or, if steps are not alike, the mean one, in ms; as ls_row_step. */
bool ls_row_pace(const json_t *row, ls_interval *out);

/** An optimizer's text without values that it has by default: "adam", "adam:beta1=0.8"; unchanged
 * if no optimizer has the name. */
char *ls_optimizer_shown(const char *text, char *out, size_t size);

/** The shortest decimal that reads back as the same double, always with a point or an exponent. */
char *ls_real_text(double value, char text[32]);

/**
 * A value without structure, owned by the caller (free); NULL without memory: numbers and true,
 * false as in JSON, text unchanged, nothing for NULL, null and an object. An array is joined by '+'
 * (exponents of reals have no '+'), arrays inside an array by ','.
 */
char *ls_value_text(const json_t *value);

/** As text in the form of an option: yes and no in place of true and false. */
char *ls_option_text(const json_t *value);

/** Whether two values are equal, lists and objects member by member; NULL equals only NULL. */
bool ls_value_equal(const json_t *a, const json_t *b);

/** The value, whole reals as integers, so that equal values have equal texts; a new reference. */
json_t *ls_value_alike(const json_t *value);

/** JSON, members in the order of the row; `indent` spaces a level, or on one line if it is
 * negative. */
void ls_json_print(FILE *stream, const json_t *value, int indent);

/** Prints a text, as a terminal may have it, in lines of `width`, broken at blanks. The first line
 * continues at column `at`; all lines that begin at column 0 are indented by `indent` blanks. */
void ls_text_wrap(FILE *stream, const char *text, int at, int indent, int width);

/* ---- Formats -------------------------------------------------------------------------------- */

typedef struct ls_format ls_format; /**< an entry of the table of formats */
typedef struct ls_writer ls_writer; /**< a format at work on a stream */

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_format_find(const char *name, const ls_format **out);

/** "table, jsonl, json, csv, md" */
const char *ls_format_names(void);

/** Borrows the stream. */
ls_status ls_writer_open(const ls_format *format, FILE *stream, ls_writer **out);

/** Sets the groups `case` (an array, or NULL if not known) of all rows to come, so that a table has
 * the same columns for all; and the fields of it that were asked to differ, {field: true}, whose
 * columns a table drops last. Takes ownership of both. Before the first row. */
void ls_writer_expect(ls_writer *writer, json_t *cases, json_t *swept);

/** Writes one row and flushes the stream; table and md keep a case's row until the next
 * ls_writer_flush, since its columns depend on the other rows. The row must not change afterwards.
 * LS_CODE_MISSING if the stream cannot be written. */
ls_status ls_writer_row(ls_writer *writer, const json_t *row);

/** Writes the rows that were kept. */
ls_status ls_writer_flush(ls_writer *writer);

/** Flushes, and ends the output (closes a JSON array, names the fastest). Takes NULL. */
ls_status ls_writer_close(ls_writer *writer);

/* ---- Columns and writers, inside ------------------------------------------------------------- */

/** For ls_column.drop; FIRST: another column says it, so it goes before any option; ALWAYS: only
 * documents have it. */
enum { LS_DROP_NEVER = -1, LS_DROP_FIRST = 10, LS_DROP_ALWAYS = 99 };

enum { LS_WIDTH_ANY = 160 }; /**< no limit for a text */

typedef struct ls_column {
    const char *title; /**< NULL means the field's heading */
    const char *path;  /**< NULL means a column of the field `of`, with its cell */
    int width;         /**< characters: fixed if rows are printed one by one, else the most */
    bool right;        /**< numbers stand to the right */
    ls_cell cell;
    int drop;           /**< order of dropping, highest first; 0 means only if empty */
    ls_field_number of; /**< where there is no path */
    const char *absent; /**< shown where a row has no value; NULL means nothing */
} ls_column;

/** The column of a field of fields.def. */
#define LS_COLUMN(field, most, order)                                                              \
    {                                                                                              \
        .of = LS_F_##field, .width = (most), .drop = (order)                                       \
    }

/** The column of a path, in rows that have no such field. */
#define LS_PATH_COLUMN(title, path, most, right, cell, order)                                      \
    {                                                                                              \
        title, path, most, right, cell, order, LS_F_schema, NULL                                   \
    }

typedef struct ls_columns {
    const ls_column *column;
    size_t count;   /**< of `column` */
    size_t leading; /**< how many stand before the options' columns */
    size_t fixed;   /**< not 0: widths are given, and so many stay although empty */
    bool alone;     /**< only these columns in every format, without options */
    bool ranks;     /**< the fastest case is named below the table */
    bool compares;  /**< prints below the table what was compared */
} ls_columns;

/** What `verify` prints: how close each case came. */
extern const ls_columns ls_verify_columns;

/* ---- Columns that a user names --------------------------------------------------------------- */

enum { LS_CHOSEN_MOST = 64 };

typedef struct ls_chosen {
    ls_columns columns; /**< none: --columns was not given */
    ls_column column[LS_CHOSEN_MOST];
    char title[LS_CHOSEN_MOST][96]; /**< the keys in the form in which they were given */
} ls_chosen;

/** Reads the keys of --columns, "strategy,time.step_ms.median" (NULL if not given). `out` points
 * into itself: do not move it. LS_CODE_USAGE as of ls_row_key_find. */
ls_status ls_chosen_read(const char *keys, ls_chosen *out);

/* ---- Writers, inside ------------------------------------------------------------------------- */

struct ls_format {
    const char *name;
    bool markdown;
    void (*row)(ls_writer *writer, const json_t *row);
    void (*flush)(ls_writer *writer); /**< prints rows that were kept; may be NULL */
    void (*close)(ls_writer *writer); /**< may be NULL */
};

struct ls_writer {
    const ls_format *format;
    FILE *stream;
    const char *results;       /**< file that has the rows, for messages; set by callers; or NULL */
    const ls_columns *columns; /**< for table and md (`alone`: all formats); NULL means the
                                    kind's own */
    bool deferred;             /**< rows are flushed at the end, not one by one */
    size_t rows;
    int width;                /**< characters of a line of the table */
    json_t *cases;            /**< {..: {case, among}}, of those that will come and those printed */
    size_t cases_seen;        /**< how many of these .. */
    json_t *options;          /**< .. have these options (ls_options_of) */
    json_t *plain;            /**< {text: true}: a case of such a text changes none of them */
    json_t *unsaid;           /**< {option: true}: what no such text has */
    bool uneven;              /**< the steps of one of them are not alike */
    json_t *swept;            /**< {field: true} of those asked to differ; NULL if not known */
    json_t *kept;             /**< rows to be printed at the next flush; NULL if none yet */
    json_t *ended;            /**< rows that have been printed, for the lines below them */
    json_t *dropped;          /**< {title: true} of columns that found no room; NULL if none */
    char *head;               /**< text that stood above the last rows; NULL if none yet */
    const ls_columns *headed; /**< the columns below `head` */
    int widths[64];           /**< and how wide they are; 0 if not shown */
};

/** Writes all rows (an array) in the given columns; without a format, as a table. */
ls_status ls_rows_write(const ls_format *format, const ls_columns *columns, const json_t *rows,
                        FILE *stream);

/**
 * Writes the result of a query. A row has a `text`, which is written unchanged, or a JSON object
 * "row:json", which is a row of a table. Such rows, one after the other, are printed in `columns`
 * (NULL if the query has no such rows) and in the form :format. LS_CODE_MISSING where the stream
 * cannot be written.
 */
ls_status ls_answer_write(ls_results *results, const char *sql, const json_t *values,
                          const ls_columns *columns, FILE *stream);

/** Writes the result of a query of a document, as ls_document_query has it. */
ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream);

void ls_table_row(ls_writer *writer, const json_t *row);
void ls_table_flush(ls_writer *writer);
void ls_table_close(ls_writer *writer);
