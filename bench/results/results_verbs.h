/* SPDX-License-Identifier: MIT */
/* Verbs of `results`: what results_command.c dispatches to. Each prints to standard output. */
#pragma once

#include "bench/cli/option_set.h"
#include "bench/output/format.h"
#include "bench/output/row_keys.h"
#include "bench/output/selection.h"
#include "bench/output/standard_output.h"

typedef struct ls_results_task {
    const ls_option_set *set; /**< the options; its operands are the verb, and what follows it */
    const char *file;
    ls_results *results;   /**< open */
    const ls_format *form; /**< --format; NULL if not given */
    ls_selection selection;
    ls_chosen chosen;
    ls_status (*draw)(json_t *figure, const char *path); /**< see bench/report/pictures.h */
} ls_results_task;

ls_status ls_results_list(ls_results_task *task);
ls_status ls_results_show(ls_results_task *task);
ls_status ls_results_label(ls_results_task *task);
ls_status ls_results_diff(ls_results_task *task);
ls_status ls_results_trend(ls_results_task *task);
ls_status ls_results_export(ls_results_task *task);
ls_status ls_results_import(ls_results_task *task);
ls_status ls_results_prune(ls_results_task *task);

/** Refuse missing or wrong options of a verb, before the file is opened. */
ls_status ls_results_check_export(const ls_option_set *set);
ls_status ls_results_check_prune(const ls_option_set *set);

/** The columns that --columns names, or else `otherwise`. */
static inline const ls_columns *ls_results_columns(const ls_results_task *task,
                                                   const ls_columns *otherwise)
{
    return task->chosen.columns.count ? &task->chosen.columns : otherwise;
}

/** Writes the chosen rows (results_db.h) in the format of another program, by its name. */
ls_status ls_export(FILE *stream, ls_results *results, const char *form);
