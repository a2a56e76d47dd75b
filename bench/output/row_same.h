/* SPDX-License-Identifier: MIT */
/*
 * Same: what makes two rows rows of one case, and of one machine. The only definition: `results
 * trend` and `diff`, `--resume`, `regress` and `report` use it.
 *
 * - case: all of the group `case` (of micro rows the settings in `micro`), and the program that a
 *   peer's row names, less the fields that the comparison leaves out (LS_BUT_..)
 * - machine: fields of `provenance`, in parts that a comparison chooses (LS_OF_..)
 *
 * A part of the machine that a row does not state (one of an older program, or of a peer) is
 * unknown, and differs from nothing. Only a GPU and environment variables that a row of this
 * program does not state were not there.
 */
#pragma once

#include "bench/rows/fields.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** Whether two rows are of one case; `common`: of the fields that both have. */
bool ls_row_same_case(const json_t *a, const json_t *b, unsigned but, bool common);

/** Whether `other`, a row that is not bad, is of the same case but for repeats and these fields of
 * it (NULL-terminated), on the same machine, and measured or predicted as the row is. */
bool ls_row_same_but(const json_t *row, const json_t *other, const char *const *fields,
                     bool common);

/** The case and these parts (0 if there is none) as text, for looking up: what is unknown is the
 * same only where it is unknown, too. Owned by the caller (free); NULL if memory is short. */
char *ls_row_identity(const json_t *row, unsigned but, unsigned of);

/** Whether this path is a field of these parts. */
bool ls_row_is_of(const char *path, unsigned of);

/** The first field ("provenance.cpu") of these parts in which two rows differ; NULL if there is
 * none. */
const char *ls_row_other_machine(const json_t *a, const json_t *b, unsigned of);

/** The number of the row's machine among `known` (an array, empty at first), whose entry takes
 * the row's facts that it lacks; else a new entry is appended. */
size_t ls_row_machine(json_t *known, const json_t *row, unsigned of);

/** Adds {path: true} of each field of the case, and of these parts, in which the rows differ. */
void ls_rows_differ(const json_t *rows, unsigned but, unsigned of, json_t *out);
