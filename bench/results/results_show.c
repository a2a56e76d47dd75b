/* SPDX-License-Identifier: MIT */
/*
 * `results show`: one row, group by group, one field per line, then what limits its step; or in a
 * format. A nested group, and each of several devices, gets a heading.
 */
#include "bench/results/results_verbs.h"

#include "common/base/escape.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 24 };

static void print_members(const json_t *group, const char *before);

/* A name, which a foreign row may have any of, and its value. */
static void print_line(const char *before, int width, const char *name, const json_t *value)
{
    char shown[640], *text = ls_value_text(value);
    ls_escape_copy(shown, sizeof shown, name, LS_ESCAPE_LINE);
    fprintf(ls_output(), "%s%-*s ", before, width, shown);
    ls_escape_put(ls_output(), text, SIZE_MAX, LS_ESCAPE_LINE);
    fputc('\n', ls_output());
    free(text);
}

static void print_field(const char *before, const char *name, const json_t *value)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", before, name);
    if (json_is_object(value)) {
        strncat(path, ".", sizeof path - strlen(path) - 1);
        print_members(value, path);
        return;
    }
    if (json_is_object(json_array_get(value, 0))) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            char part[192];
            snprintf(part, sizeof part, "%s %zu: ", path, i);
            print_members(json_array_get(value, i), part);
        }
        return;
    }
    print_line("  ", FIELD, path, value);
}

static void print_members(const json_t *group, const char *before)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)group, name, value) print_field(before, name, value);
}

static void print_text(const json_t *row)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)row, name, value)
    {
        if (json_is_object(value)) {
            fputc('\n', ls_output());
            ls_escape_put(ls_output(), name, SIZE_MAX, LS_ESCAPE_LINE);
            fputc('\n', ls_output());
            print_members(value, "");
        } else if (json_is_object(json_array_get(value, 0))) {
            fputc('\n', ls_output());
            print_field("", name, value);
        } else {
            print_line("", FIELD + 2, name, value);
        }
    }
    char *bound = ls_results_bound(row);
    if (bound && *bound)
        fprintf(ls_output(), "\n%s", bound);
    free(bound);
}

ls_status ls_results_show(ls_results_task *task)
{
    json_t *row;
    LS_TRY(ls_selection_one(task->results, task->set->operands[1], &row));
    json_auto_t *rows = json_pack("[o]", row);
    if (task->form || task->chosen.columns.count > 0)
        return ls_rows_write(task->form, ls_results_columns(task, NULL), rows, ls_output());
    print_text(row);
    return LS_OK;
}
