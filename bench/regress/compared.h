/* SPDX-License-Identifier: MIT */
/* Cases of a comparison, for the files beside this one. */
#pragma once

#include "bench/output/format_parts.h"
#include "bench/regress/child.h"
#include "bench/regress/regress.h"

/** The case that a row of the side belongs to; NULL: none yet. */
ls_regress_case *ls_regress_find(const ls_regress *regress, const ls_regress_task *task, int side,
                                 const json_t *row);

/** Cases of one side alone become one where their common fields agree. */
void ls_regress_join(ls_regress *regress, const ls_regress_task *task);

/** Gives each case a name that tells it from the others. */
ls_status ls_regress_name(ls_regress *regress);

/** The median step in ms; 0: the row has none. */
double ls_regress_time(const json_t *row);

/** "ok", ...; "unknown" where the row does not say. */
const char *ls_regress_status(const json_t *row);

/** A row that is not well, or none (NULL), takes the place of one that was: the case is settled
 *  anew. */
void ls_regress_replace(const ls_regress_task *task, ls_regress_case *one, int side,
                        const json_t *row);

/** Adds the first `count` cases once more, counted slower. */
ls_status ls_regress_repeat(ls_regress *regress, size_t count, double slowed);

/** Refusals, and what is worse besides, of a case whose rows are there. */
void ls_regress_settle_case(const ls_regress_task *task, ls_regress_case *one);

/** Whether an option is one of those that were asked for; "--name=", with any value. */
bool ls_regress_is_given(const ls_regress_task *task, const char *option);

/** Runs BEFORE PROGRAM run OPTIONS --format=jsonl --results=none AFTER; the two lists end with
 *  NULL, and may be NULL. What of AFTER ("--name=value") was asked for otherwise is left out. */
ls_status ls_regress_run(const ls_regress_task *task, int side, const char *const *before,
                         const char *const *after, uint64_t limit_ns, ls_child *out);

ls_status ls_log_push(ls_log_list *list, double value);
