/* SPDX-License-Identifier: MIT */
/* `results label`: gives rows another label, all of them or none. */
#include "bench/results/results_verbs.h"

#include <stdio.h>
#include <string.h>

static ls_status relabel(ls_results_task *task, const char *name, const char *label)
{
    json_t *row;
    LS_TRY(ls_selection_one(task->results, name, &row));
    const char *id = json_string_value(json_object_get(row, "id"));
    ls_status status = ls_results_relabel(task->results, id ? id : "", label);
    json_decref(row);
    return status;
}

ls_status ls_results_label(ls_results_task *task)
{
    const size_t rows = task->set->operand_count - 2;
    const char *label = task->set->operands[rows + 1];
    ls_status status = ls_results_begin(task->results);
    if (status)
        return status;
    for (size_t i = 0; i < rows && !status; i++)
        status = relabel(task, task->set->operands[1 + i], label);
    status = ls_results_end(task->results, status);
    if (!status)
        fprintf(ls_output(), "%zu row%s labelled\n", rows, rows == 1 ? "" : "s");
    return status;
}
