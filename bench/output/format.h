/* SPDX-License-Identifier: MIT */
/*
 * Formats: rows of figures as a table, JSON lines, JSON, CSV or Markdown, on one stream.
 *
 * A row is a JSON object (jansson) with the groups and fields of the row's schema; a format reads
 * only that object, so rows from a run and rows from a results file look the same.
 */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <stdio.h>

typedef struct ls_format ls_format; /**< an entry of the table of formats */
typedef struct ls_writer ls_writer; /**< a format at work on a stream */

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_format_find(const char *name, const ls_format **out);

/** "table, jsonl, json, csv, md" */
const char *ls_format_names(void);

/** Borrows the stream. */
ls_status ls_writer_open(const ls_format *format, FILE *stream, ls_writer **out);

/** Sets the groups `case` (an array, or NULL: not known) of all rows to come, so that a table has
 * the same columns for all; and the fields of it that were asked to differ, {field: true}, whose
 * columns a table drops last. Takes ownership of both. Before the first row. */
void ls_writer_expect(ls_writer *writer, json_t *cases, json_t *swept);

/** The rows are also in this results file (borrowed): said if the stream cannot be written. */
void ls_writer_kept_in(ls_writer *writer, const char *results);

/** Writes one row and flushes the stream; table and md keep a case's row until the next
 * ls_writer_flush, since its columns depend on the other rows. The row must not change afterwards.
 * LS_CODE_MISSING if the stream cannot be written. */
ls_status ls_writer_row(ls_writer *writer, const json_t *row);

/** Writes the rows that were kept. */
ls_status ls_writer_flush(ls_writer *writer);

/** Flushes, and ends the output (closes a JSON array, names the fastest). Takes NULL.
 */
ls_status ls_writer_close(ls_writer *writer);
