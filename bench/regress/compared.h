/* SPDX-License-Identifier: MIT */
/* Cases of a comparison, for the files in this folder. */
#pragma once

#include "bench/output/format_parts.h"
#include "bench/regress/child.h"
#include "bench/regress/regress.h"

/** The case that a row of the side belongs to; NULL: none yet. */
ls_regress_case *ls_regress_find(const ls_regress *regress, const ls_regress_task *task, int side,
                                 const json_t *row);

/** Joins two cases with one side each if their common fields agree. */
void ls_regress_join(ls_regress *regress, const ls_regress_task *task);

/** Gives each case a name that distinguishes it from the others. */
ls_status ls_regress_name(ls_regress *regress);

/** The median step in ms, or the mean one if steps are not alike (ls_row_pace); 0: the row has
 * none. */
double ls_regress_time(const json_t *row);

/** "ok", ...; "unknown" where the row does not say. */
const char *ls_regress_status(const json_t *row);

/** Replaces the row of a side by a bad one, or none (NULL), and judges the case again. */
void ls_regress_replace(const ls_regress_task *task, ls_regress_case *one, int side,
                        const json_t *row);

/** Adds copies of the first `count` cases, their times multiplied by 1 + `slowed`. */
ls_status ls_regress_repeat(ls_regress *regress, size_t count, double slowed);

/** Adds a row's figures other than the time to the figures of its side. */
void ls_regress_note(const ls_regress_task *task, ls_regress_case *one, int side,
                     const json_t *row);

/** Whether the gate, or another check, failed. */
bool ls_regress_failed(const json_t *row);

/** Finds why a case with both rows cannot be compared, or what is worse besides its time. */
void ls_regress_judge_case(const ls_regress_task *task, ls_regress_case *one);

/** Whether the task's options have this one: "--name=value", or "--name=" with any value. */
bool ls_regress_is_given(const ls_regress_task *task, const char *option);

/** Runs BEFORE PROGRAM run OPTIONS --format=jsonl --results=none AFTER; the two lists end with
 * NULL, and may be NULL. Options of AFTER ("--name=value") that OPTIONS has are omitted. */
ls_status ls_regress_run(const ls_regress_task *task, int side, const char *const *before,
                         const char *const *after, uint64_t limit_ns, ls_child *out);

ls_status ls_log_push(ls_log_list *list, double value);
