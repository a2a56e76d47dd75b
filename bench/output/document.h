/* SPDX-License-Identifier: MIT */
/*
 * Document: the texts that a command prints, made by an embedded query of SQL from the JSON
 * document that it prints with --format json.
 */
#pragma once

#include "bench/output/format.h"

/**
 * Writes the result of a query, which may use the functions of results_db.h, and in which :document
 * is the JSON text and :format is a text. A row of the result has a text, which is written as it
 * is; or NULL and a JSON object, which is a row of a table. Such rows, one after the other, are
 * printed in `columns` (NULL: the query has none) and in the form `format`. LS_CODE_MISSING where
 * the stream cannot be written.
 */
ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream);

/** Sorts the rows of a query's result, a number and a JSON object each, into two arrays: those with
 * the number 0 are appended to the first, others to the second. */
ls_status ls_document_sort(const char *sql, const json_t *document, json_t *first, json_t *second);
