/* SPDX-License-Identifier: MIT */
/* Cases of a comparison, for the files beside this one. */
#ifndef LS_BENCH_REGRESS_COMPARED_H
#define LS_BENCH_REGRESS_COMPARED_H

#include "bench/output/format_parts.h"
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

ls_status ls_log_push(ls_log_list *list, double value);

#endif
