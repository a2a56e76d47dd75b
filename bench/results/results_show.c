/* SPDX-License-Identifier: MIT */
/*
 * `results show`: what limits a row's step, then the figures that tell most, 45 lines at most
 * (show.sql); with --all then all fields, group by group, one per line (diff.sql); or in a format.
 */
#include "bench/output/document.h"
#include "bench/results/results_verbs.h"

#include "template_bound.h"
#include "template_show.h"

ls_status ls_results_show(ls_results_task *task)
{
    const int all = ls_option_set_yes(task->set, "all");
    json_auto_t *found = NULL;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &found));
    json_auto_t *rows = json_pack("[O]", json_object_get(found, "row"));
    if (task->form || task->chosen.columns.count > 0)
        return ls_rows_write(task->form, ls_results_columns(task, NULL), rows, ls_output());
    json_object_set_new(found, "all", json_integer(all));
    LS_TRY(ls_results_execute(task->results, ls_template_bound));
    LS_TRY(ls_answer_write(task->results, ls_template_show, found, NULL, ls_output()));
    return all ? ls_results_fields(task->results, json_object_get(found, "number")) : LS_OK;
}
