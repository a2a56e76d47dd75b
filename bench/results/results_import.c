/* SPDX-License-Identifier: MIT */
/*
 * `results import`, `label` and `prune`, which change a results file. Each does all or nothing, in
 * one transaction. A file to import is JSON lines, as --format jsonl prints them, or another
 * results file, depending on its first bytes.
 */
#include "bench/results/results_verbs.h"
#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "common/base/whole_file.h"

#include <stdio.h>

ls_status ls_results_import(ls_results_task *task)
{
    const char *path = task->set->operands[1];
    size_t counts[2];
    if (ls_same_file(path, task->file))
        return ls_fail(LS_CODE_USAGE, "import", path,
                       "this is the file to import into; name another file to import from");
    LS_TRY(ls_results_load(task->results, "import", path, counts));
    fprintf(ls_output(), "%zu rows imported, %zu were there already\n", counts[0], counts[1]);
    return LS_OK;
}

/* ---- Label ---------------------------------------------------------------------------------- */

ls_status ls_results_label(ls_results_task *task)
{
    const size_t rows = task->set->operand_count - 2;
    const char *label = task->set->operands[rows + 1];
    LS_TRY(ls_results_begin(task->results));
    ls_status status = LS_OK;
    for (size_t i = 0; i < rows && !status; i++) {
        json_auto_t *found = NULL;
        status = ls_results_find(task->results, task->set->operands[1 + i], &found);
        json_object_set_new(found, "label", ls_text_value(label));
        if (!status)
            status = ls_results_do(task->results, "label", found, NULL);
    }
    status = ls_results_end(task->results, status);
    if (!status)
        fprintf(ls_output(), "%zu row%s labelled\n", rows, rows == 1 ? "" : "s");
    return status;
}

/* ---- Prune ---------------------------------------------------------------------------------- */

ls_status ls_results_check_prune(const ls_option_set *set)
{
    if (ls_option_set_has(set, "where"))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "results", "prune",
                   "no condition says which rows to remove; use --where KEY=VALUE,..");
}

ls_status ls_results_prune(ls_results_task *task)
{
    size_t rows = 0;
    const bool yes = ls_option_set_yes(task->set, "yes");
    /* Begins before the search: later, a number may belong to another row. */
    LS_TRY(yes ? ls_results_begin(task->results) : LS_OK);
    ls_status status = ls_selection_choose(&task->selection, task->results, &rows);
    if (!status && yes)
        status = ls_results_execute(
            task->results, "DELETE FROM main.rows WHERE rowid IN (SELECT number FROM chosen)");
    if (yes)
        status = ls_results_end(task->results, status);
    if (!status)
        fprintf(ls_output(), yes ? "%zu rows deleted\n" : "%zu rows fit; --yes deletes them\n",
                rows);
    return status;
}
