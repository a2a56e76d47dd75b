/* SPDX-License-Identifier: MIT */
/*
 * Regress: compares two sides case by case, for `lockstep regress`.
 *
 * A side is a results file or a program. A case has rows of both: fields other than the time are
 * compared in all rows (of programs, in the rows of the first block), the worst value of each side
 * with the other side's worst; the time by bench/statistics/ratio_test.h. Rows and cases are tables
 * in memory (cases.sql).
 */
#pragma once

#include "bench/output/format.h"
#include "bench/output/selection.h"
#include "bench/report/child.h"
#include "bench/statistics/ratio_test.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { LS_BASE, LS_NEW, LS_SIDES };

enum { LS_FAIL_ON_MOST = 32 };

/** A key of --fail-on. */
typedef struct ls_fail_key {
    const char *path;
    double tolerance; /**< 0.05: worse by up to 5% does not count */
} ls_fail_key;

/** The options of a comparison. Everything is borrowed. */
typedef struct ls_regress_task {
    const char *side[LS_SIDES]; /**< paths */
    double threshold;           /**< 0.03 */
    uint64_t max_ns;            /**< time for turns; 0 means a minute per case, at most ten */
    ls_selection where;
    ls_fail_key fail_on[LS_FAIL_ON_MOST];
    size_t fail_count;
    int64_t undecided; /**< how many undecided comparisons in a row fail; 0 if none do */
    bool instructions;
    char **options;              /**< of `run`, as --name=value; ends with NULL */
    size_t option_count;         /**< how many options */
    bool fixed_steps;            /**< the options set the length of a block */
    bool plan_gate, plan_blocks; /**< the plan has this key: the option would be refused */
    const char *results;         /**< file that rows of blocks are kept in; NULL if none */
    uint64_t seed;               /**< of the order */
    bool calibrates;             /**< each case is judged again with NEW's times made longer */
    bool quiet;                  /**< no progress */
} ls_regress_task;

/** A comparison. Zero-filled it is empty. */
typedef struct ls_regress {
    ls_results *results;  /**< in memory, with the tables of cases.sql */
    json_t *instructions; /**< {base, new, ratio}, or why not; NULL if not asked for */
    double seconds;
} ls_regress;

/** Compares; close `out` also on failure. Fails if nothing could be measured. */
ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out);
void ls_regress_close(ls_regress *regress);

/** Counts undecided cases on from the JSON report at `path` (none yet: from 0); the `most`th
 * time in a row is worse. LS_CODE_MISSING for a report that is damaged. */
ls_status ls_regress_count_undecided(const char *path, int64_t most, ls_regress *regress);

/** The comparison as one JSON document, owned by the caller, and its exit status: 0 not slower, 1
 * slower or worse, 4 cannot tell, 3 a case could not run. */
ls_status ls_regress_document(const ls_regress_task *task, const ls_regress *regress,
                              json_t **document, int *exit_status);

/** Says on stderr, in one line, which cases of the document cannot be compared; their reasons are
 * in it. */
void ls_regress_tell_error(const json_t *document);

/** LS_CODE_USAGE for a format other than "table", "json", "md", "junit", "github". */
ls_status ls_verdict_check(const char *format);

/** Writes the document in a format. */
ls_status ls_verdict_write(const char *format, const json_t *document, FILE *stream);

/** Columns of ls_regress_calibrate's rows. */
extern const ls_columns ls_calibration_columns;

/** --calibrate N: how often each verdict came out; an array owned by the caller. */
ls_status ls_regress_calibrate(const ls_regress_task *task, size_t n, json_t **rows);

/** Whether the path names a results file, by its ending. */
bool ls_regress_is_file(const char *path);

/* ---- Parts, for the files in this folder ---------------------------------------------------- */

/** Performs a section of steps.sql, as ls_results_section does. */
ls_status ls_regress_do(const ls_regress *regress, const char *step, const json_t *values,
                        json_t *out);

/** Adds rows (an array) of a side, as add.sql says; in turn 0 those that --where means. `but`: what
 * may differ in rows of one case (LS_BUT_..). */
ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side, int64_t turn,
                         unsigned but, const json_t *rows);

/** What may differ in rows of one case. */
unsigned ls_regress_but(const ls_regress_task *task);

/** Adds the rows of results files, and judges their times. */
ls_status ls_regress_read(const ls_regress_task *task, ls_regress *out);

/** Runs two programs alternately, and adds their rows, until all cases are decided or time is
 * up. */
ls_status ls_regress_turns(const ls_regress_task *task, ls_regress *out);

/** Makes the cases: joins those that have one side each and agree in the fields that both have,
 * names all, and finds what is worse besides the time. */
ls_status ls_regress_judge(const ls_regress_task *task, ls_regress *regress);

/** Finds why each `kase` of a query cannot be compared, or what is worse besides its time. */
ls_status ls_regress_judge_each(const ls_regress_task *task, ls_regress *regress, const char *sql);

/** Instructions of both programs, counted by callgrind. */
ls_status ls_regress_instructions(const ls_regress_task *task, json_t **out);

/** LS_CODE_MISSING: they are asked for, and what counts them is not here. To be asked before
 * anything runs. */
ls_status ls_regress_can_count(const ls_regress_task *task);

/** Whether the task's options have this one: "--name=value", or "--name=" with any value. */
bool ls_regress_is_given(const ls_regress_task *task, const char *option);

/** Runs BEFORE PROGRAM run OPTIONS --format=jsonl --results=none AFTER; the two lists end with
 * NULL, and may be NULL. Options of AFTER ("--name=value") that OPTIONS has are omitted. */
ls_status ls_regress_run(const ls_regress_task *task, int side, const char *const *before,
                         const char *const *after, uint64_t limit_ns, ls_child *out);
