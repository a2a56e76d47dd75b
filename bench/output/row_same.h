/* SPDX-License-Identifier: MIT */
/*
 * Same: what makes two rows rows of one case, and of one machine. The only definition: `results
 * trend` and `diff`, `--resume`, `regress` and `report` use it.
 *
 * - case: all of the group `case` (of micro rows the settings in `micro`), and the program that a
 *   peer's row names, less the fields of a short list (row_same.c), each with its reason
 * - machine: fields of `provenance`, in parts that a comparison chooses
 *
 * A part of the machine that a row does not state (one of an older program, or of a peer) is
 * unknown, and differs from nothing. Only a GPU and environment variables that a row of this
 * program does not state were not there.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** Fields of a case that a comparison may leave out. */
enum {
    LS_BUT_BLOCKS = 1,  /**< in how many turns the timed steps came */
    LS_BUT_STEPS = 2,   /**< how many were timed, where a time limit and not the user chose that */
    LS_BUT_REPEATS = 4, /**< these, and what else leaves a step's work as it is: the seed, .. */
    LS_BUT_TRAINED = 8, /**< how many steps were trained: those that were asked for count */
};

/** Parts of where and with what a row was measured. */
enum {
    LS_OF_CLASS = 1,   /**< processor, its instruction sets, GPU, environment variables */
    LS_OF_SHARE = 2,   /**< how much of it: cores allowed, cores of each device, hosts of ranks */
    LS_OF_HOST = 4,    /**< the computer's name */
    LS_OF_SETUP = 8,   /**< which cores, which GPUs, how much memory is allowed, the driver */
    LS_OF_COMMIT = 16, /**< with `dirty` */
    LS_OF_BUILD = 32,  /**< compiler, flags, kind of build, libraries */
    LS_OF_SYSTEM = 64, /**< kernel, driver, MPI, memory limit */
    LS_OF_LABEL = 128,
    LS_OF_MACHINE = LS_OF_CLASS | LS_OF_SHARE | LS_OF_HOST,
};

/** Whether the comparison leaves out this field of `case`. */
bool ls_case_leaves_out(const char *field, unsigned but);

/** Whether two rows are of one case; `common`: of the fields that both have. */
bool ls_row_same_case(const json_t *a, const json_t *b, unsigned but, bool common);

/** Whether `other`, a row that is not bad, is of the same case but for repeats and these fields of
 * it (NULL-terminated), on the same machine, and measured or predicted as the row is. */
bool ls_row_same_but(const json_t *row, const json_t *other, const char *const *fields,
                     bool common);

/** The case and these parts (0: none) as text, for looking up: what is unknown is the same only
 * where it is unknown, too. Owned by the caller (free); NULL: out of memory. */
char *ls_row_identity(const json_t *row, unsigned but, unsigned of);

/** Whether this path is a field of these parts. */
bool ls_row_is_of(const char *path, unsigned of);

/** The first field ("provenance.cpu") of these parts in which two rows differ; NULL: none. */
const char *ls_row_other_machine(const json_t *a, const json_t *b, unsigned of);

/** The number of the row's machine among `known` (an array, empty at first), whose entry takes
 * the row's facts that it lacks; else a new entry is appended. */
size_t ls_row_machine(json_t *known, const json_t *row, unsigned of);

/** Adds {path: true} of each field of the case, and of these parts, in which the rows differ. */
void ls_rows_differ(const json_t *rows, unsigned but, unsigned of, json_t *out);

/** These fields in words, "case.lr, provenance.host"; owned by the caller (free), NULL: no memory.
 */
char *ls_paths_text(const json_t *paths);
