/* SPDX-License-Identifier: MIT */
/*
 * `results show`: what limits a row's step, then the figures that tell most, 45 lines at most; with
 * --all then all fields, group by group, one per line; or in a format.
 */
#include "bench/output/table/table_parts.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"
#include "template_bound.h"
#include "template_show.h"
#include "template_tried.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 24, NAME = 10, WIDTH = 80, WRAPPED = 4, NOTES_MOST = 3 };

/* All fields, with a heading for each group. */
static ls_status print_all(ls_results *results, const json_t *row)
{
    json_auto_t *fields = json_array();
    char last[64] = "";
    json_t *one;
    size_t index;
    LS_TRY(ls_results_fields(results, row, NULL, fields));
    json_array_foreach(fields, index, one)
    {
        char *path = ls_text_shown(json_string_value(json_object_get(one, "key")), LS_ESCAPE_LINE);
        char *text = ls_value_text(json_object_get(one, "a")), *name = path ? path : "";
        const char *group = strchr(name, '.') ? strsep(&name, ".") : "";
        if (*group && strcmp(group, last) != 0)
            fprintf(ls_output(), "\n%s\n", group);
        snprintf(last, sizeof last, "%s", group);
        fprintf(ls_output(), "%s%-*s ", *group ? "  " : "", *group ? FIELD : FIELD + 2, name);
        ls_escape_put(ls_output(), text, SIZE_MAX, LS_ESCAPE_LINE);
        fputc('\n', ls_output());
        free(text);
        free(path);
    }
    return LS_OK;
}

/* ---- The figures that tell most -------------------------------------------------------------- */

/* Prints a line's text after its name, wrapped; nothing if there is no text. */
static void print_named(const char *name, const char *text)
{
    if (*text) {
        fprintf(ls_output(), "%-*s", NAME, name);
        ls_text_wrap(ls_output(), text, NAME, NAME, WIDTH);
    }
}

/* The lines of show.sql. */
static ls_status print_sheet(ls_results *results, int64_t number, const json_t *row)
{
    json_auto_t *lines = json_array();
    json_auto_t *values = json_pack("{s:I,s:O}", "number", (json_int_t)number, "row", row);
    json_t *line;
    size_t index;
    ls_cells_attach(results);
    LS_TRY(ls_results_query(results, ls_template_show, values, lines));
    json_array_foreach(lines, index, line)
    {
        print_named(json_string_value(json_object_get(line, "line")),
                    json_string_value(json_object_get(line, "text")));
    }
    return LS_OK;
}

/* Why it is not ok, and what is odd: noise comes before what is made of it. */
static void print_notes(const json_t *row)
{
    char *reason = ls_row_reason(row);
    print_named("reason", reason ? reason : "");
    free(reason);
    for (size_t i = 0; i < ls_row_count(row, LS_F_result_notes) && i < NOTES_MOST; i++)
        print_named(i ? "" : "note", ls_row_string_at(row, LS_F_result_notes, i));
}

/* ---- What limits the step -------------------------------------------------------------------- */

/* Does not suggest what rows show to be slower: of "Try --ps-servers 2: each has half" the last
 * row of the same case but with ps_servers 2. Then *out is what it says instead. */
static ls_status weigh(ls_results *results, int64_t number, const char *said, json_t **out)
{
    char option[48], value[48];
    const char *key;
    *out = NULL;
    if (sscanf(said, "Try --%47[a-z-] %47[^ :,]", option, value) != 2)
        return LS_OK;
    value[strlen(value) - (value[strlen(value) - 1] == '.')] = 0;
    ls_status status = ls_row_key_find("row", option, strlen(option), &key);
    if (status || strncmp(key, "case.", 5) != 0) { /* no row has such a field */
        ls_status_free(status);
        return LS_OK;
    }
    json_auto_t *found = json_array();
    json_auto_t *values = json_pack("{s:I,s:s,s:s,s:s%}", "number", (json_int_t)number, "path", key,
                                    "value", value, "said", said + 4, strcspn(said + 4, ":."));
    LS_TRY(ls_results_query(results, ls_template_tried, values, found));
    *out = json_incref(json_object_get(json_array_get(found, 0), "text"));
    return LS_OK;
}

/* Line by line, each wrapped below its first word. */
static ls_status print_bound(ls_results *results, int64_t number)
{
    static const char sql[] =
        "INSERT INTO wanted VALUES (:number);"
        "SELECT escaped(value, 'line') AS text FROM bounds, json_each(lines) WHERE value != ''";
    json_auto_t *lines = json_array(), *values = json_pack("{s:I}", "number", (json_int_t)number);
    LS_TRY(ls_results_execute(results, ls_template_bound));
    LS_TRY(ls_results_query(results, sql, values, lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_auto_t *other = NULL;
        const char *text = json_string_value(json_object_get(json_array_get(lines, i), "text"));
        LS_TRY(weigh(results, number, text, &other));
        text = other ? json_string_value(other) : text;
        fputc(*text, ls_output());
        ls_text_wrap(ls_output(), text + 1, 1, WRAPPED, WIDTH);
    }
    if (json_array_size(lines) > 0)
        fputc('\n', ls_output());
    return LS_OK;
}

static ls_status print_text(ls_results *results, const json_t *row, bool all)
{
    char *sql =
        sqlite3_mprintf("SELECT rowid FROM main.rows WHERE id = %Q", ls_row_string(row, LS_F_id));
    int64_t number;
    ls_status status = sql ? ls_results_ask(results, sql, &number) : ls_fail_memory("row", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    print_notes(row);
    LS_TRY(print_bound(results, number));
    if (all)
        return print_all(results, row);
    LS_TRY(print_sheet(results, number, row));
    fputs("--all shows every field.\n", ls_output());
    return LS_OK;
}

ls_status ls_results_show(ls_results_task *task)
{
    json_t *row;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &row));
    json_auto_t *rows = json_pack("[o]", row);
    if (task->form || task->chosen.columns.count > 0)
        return ls_rows_write(task->form, ls_results_columns(task, NULL), rows, ls_output());
    return print_text(task->results, row, ls_option_set_yes(task->set, "all"));
}
