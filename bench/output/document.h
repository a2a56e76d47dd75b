/* SPDX-License-Identifier: MIT */
/*
 * Document: the texts that a command prints, made by an embedded query of SQL from the JSON
 * document that it prints with --format json.
 */
#pragma once

#include "bench/output/format.h"
#include "bench/output/results_db.h"

/**
 * Appends the result of a query, which may use the functions of results_db.h, and in which
 * :document is the JSON text and :format is a text (NULL if there is none), as ls_results_query
 * does.
 */
ls_status ls_document_query(const char *sql, const json_t *document, const char *format,
                            json_t *out);

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
