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

/** Whether two rows belong to one case. With `common` only the fields that both have count. */
bool ls_row_same_case(const json_t *a, const json_t *b, unsigned but, bool common);

/** Whether `other`, a row that is not bad, has the same case, except for repeats and the given
 * fields (NULL-terminated), on the same machine, and both are measured or both predicted. */
bool ls_row_same_but(const json_t *row, const json_t *other, const char *const *fields,
                     bool common);

/** The case and the given parts (or 0) as text, for looking up. Unknown fields equal only unknown
 * fields. Owned by the caller (free); NULL if memory is short. */
char *ls_row_identity(const json_t *row, unsigned but, unsigned of);

/** The first field ("provenance.cpu") of the given parts in which two rows differ; NULL if there is
 * none. */
const char *ls_row_other_machine(const json_t *a, const json_t *b, unsigned of);

/** The number of the row's machine among `known` (an array, empty at first), whose entry takes over
 * what only the row states; else a new entry is appended. */
size_t ls_row_machine(json_t *known, const json_t *row, unsigned of);
