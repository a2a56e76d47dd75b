/* SPDX-License-Identifier: MIT */
/*
 * `results diff A B`: the keys in which two rows differ, and the ratio of their median step times,
 * B over A, with its interval as for independent measurements. If the steps of one are not alike,
 * times per sample are compared. People get the keys that matter, rounded, unless --all asks for
 * the rest. If they are not of one case, or not of one machine (bench/output/row_same.h), a line
 * below says in what.
 */
#include "bench/output/document.h"
#include "bench/results/results_verbs.h"
#include "template_diff.h"

#include <string.h>

ls_status ls_results_diff(ls_results_task *task)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("key", "key", 43, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("A", "a", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("B", "b", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("ratio", "ratio", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("ci95", "ci95", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0)};
    const char *name = task->form ? task->form->name : "table";
    const bool people = strcmp(name, "table") == 0 || strcmp(name, "md") == 0;
    const ls_columns columns = {.column = column, .count = people ? 3 : 5, .alone = true};
    json_auto_t *a = NULL, *b = NULL;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &a));
    LS_TRY(ls_results_find(task->results, task->set->operands[2], &b));
    json_auto_t *values = json_pack("{s:O,s:O,s:s,s:i,s:i,s:i}", "a", json_object_get(a, "number"),
                                    "b", json_object_get(b, "number"), "format", name, "people",
                                    people, "all", ls_option_set_yes(task->set, "all"), "show", 0);
    return ls_answer_write(task->results, ls_template_diff, values, &columns, ls_output());
}

ls_status ls_results_fields(ls_results *results, const json_t *number)
{
    json_auto_t *values =
        json_pack("{s:O,s:i,s:i,s:i}", "a", number, "people", 0, "all", 1, "show", 1);
    return ls_answer_write(results, ls_template_diff, values, NULL, ls_output());
}
