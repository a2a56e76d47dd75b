/* SPDX-License-Identifier: MIT */
/* Row: the figures of a case as one JSON object, schema 1. A field that does not apply is absent.
 */
#pragma once

#include "bench/row/row_facts.h"
#include "bench/row/row_id.h"

#include <jansson.h>

enum { LS_ROW_SCHEMA = 1 };

/** The rate of each whole device in the tenth percentile of the steps, in the model's FLOPs per
 * second. 0 where an algorithm may do fewer operations than are counted (Winograd's, or a library's
 * choice), so that the rate says nothing about the roof. */
double ls_row_reached(const ls_row_facts *facts);

/** A new row, owned by the caller (json_decref). */
ls_status ls_row_build(const ls_row_facts *facts, json_t **out);

/** Sets result.notes, where there is something to say about the times; called by ls_row_build. */
void ls_row_note(const ls_row_facts *facts, json_t *row);

/** Adds the warnings that follow from the row's figures (see bench/row.schema.json). Call it after
 * the rows of several ranks have been joined. */
void ls_row_warn(json_t *row);

/** Makes a row an error row: status "error" with this reason, and no timing. */
void ls_row_mark_error(json_t *row, const char *reason);

/** The exit status that the row's status asks for: ok, failed a check, interrupted, or could not
 * run. */
ls_code ls_row_code(const json_t *row);

/**
 * Joins the rows that the ranks built for their own devices; all call it. Rank 0's row gets the
 * other ranks' devices after its own, in the order of ranks, with each rank's host and cores, and
 * whether any cores are shared.
 */
ls_status ls_row_join(const ls_processes *processes, json_t *row);
