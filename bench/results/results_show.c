/* SPDX-License-Identifier: MIT */
/*
 * `results show`: what limits a row's step, then the figures that tell most, 45 lines at most; with
 * --all then all fields, group by group, one per line; or in a format.
 */
#include "bench/output/row_same.h"
#include "bench/output/row_shares.h"
#include "bench/output/table/table_parts.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"
#include "template_show.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 24, NAME = 10, WIDTH = 80, WRAPPED = 4, NOTES_MOST = 3 };

/* All fields, with a heading for each group. */
static ls_status print_all(ls_results *results, const json_t *row)
{
    json_auto_t *fields = json_array();
    const char *group = "";
    json_t *one;
    size_t index;
    LS_TRY(ls_results_fields(results, row, NULL, fields));
    json_array_foreach(fields, index, one)
    {
        const char *path = json_string_value(json_object_get(one, "key"));
        char name[160], shown[640], *text = ls_value_text(json_object_get(one, "a"));
        const size_t length = strcspn(path, "."), inside = path[length] == '.' ? length + 1 : 0;
        if (inside && strncmp(path, group, inside) != 0) {
            snprintf(name, sizeof name, "%.*s", (int)length, path);
            ls_escape_copy(shown, sizeof shown, name, LS_ESCAPE_LINE);
            fprintf(ls_output(), "\n%s\n", shown);
            group = path;
        }
        ls_escape_copy(shown, sizeof shown, path + inside, LS_ESCAPE_LINE);
        fprintf(ls_output(), "%s%-*s ", inside ? "  " : "", inside ? FIELD : FIELD + 2, shown);
        ls_escape_put(ls_output(), text, SIZE_MAX, LS_ESCAPE_LINE);
        fputc('\n', ls_output());
        free(text);
    }
    return LS_OK;
}

/* ---- The figures that tell most -------------------------------------------------------------- */

/* Prints a line's text after its name, wrapped; nothing where it has none. */
static void print_named(const char *name, const char *text)
{
    if (*text) {
        fprintf(ls_output(), "%-*s", NAME, name);
        ls_text_wrap(ls_output(), text, NAME, NAME, WIDTH);
    }
}

/* cell(path): the row's cell of a field, as in every table; cell(path, 'title'): its heading. */
static void cell(sqlite3_context *context, int count, sqlite3_value **value)
{
    char title[LS_TITLE_SIZE], text[LS_CELL_SIZE];
    const ls_column column = ls_column_of((const char *)sqlite3_value_text(*value), title);
    ls_cell_write(&column, sqlite3_user_data(context), text);
    sqlite3_result_text(context, count > 1 ? title : text, -1, SQLITE_TRANSIENT);
}

/* The lines of show.sql. */
static ls_status print_sheet(ls_results *results, int64_t number, const json_t *row)
{
    sqlite3_stmt *lines;
    bool more;
    for (int arguments = 1; arguments <= 2; arguments++)
        sqlite3_create_function(ls_results_handle(results), "cell", arguments, SQLITE_UTF8,
                                (void *)(size_t)row, cell, NULL, NULL);
    LS_TRY(ls_results_prepare(results, ls_template_show, &lines));
    sqlite3_bind_int64(lines, 1, number);
    ls_status status = ls_results_step(results, lines, &more);
    while (!status && more) {
        print_named(ls_results_text(lines, 0), ls_results_text(lines, 1));
        status = ls_results_step(results, lines, &more);
    }
    sqlite3_finalize(lines);
    return status;
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

/* ---- Shares ---------------------------------------------------------------------------------- */

static void print_beside(const json_t *row, const json_t *whole)
{
    char text[400] = "", held[32], its_held[32], id[64];
    const ls_saving its = ls_row_saving(row, whole);
    const double less = its.whole_held > 0 ? 1 - its.held / its.whole_held : 0;
    ls_escape_copy(id, sizeof id, ls_row_string(whole, LS_F_id), LS_ESCAPE_LINE);
    size_t used =
        (size_t)snprintf(text, sizeof text, "fullest device %s, of mirrored %s: %.0f%% %s",
                         ls_format_bytes(its.held, held), ls_format_bytes(its.whole_held, its_held),
                         100 * fabs(less), less < 0 ? "more" : "less");
    if (its.step.value > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "; its step %.2f times",
                                 its.step.value);
    if (its.step.low > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%.2f to %.2f)", its.step.low,
                                 its.step.high);
    if (its.sent > 0)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "; bytes sent %.2f times", its.sent);
    snprintf(text + used, sizeof text - used, "; row %s", id);
    print_named("shares", text);
}

/* What a row with shares saves and costs beside `mirrored`. */
static ls_status print_saving(ls_results *results, const json_t *row)
{
    json_auto_t *rows = json_array();
    char *sql =
        sqlite3_mprintf("DELETE FROM chosen; INSERT INTO chosen (number) SELECT number FROM v"
                        " WHERE \"case.strategy\" = %Q AND \"case.model\" = %Q"
                        " ORDER BY timestamp, number",
                        ls_whole_strategy()->name, ls_row_string(row, LS_F_case_model));
    ls_status status = sql ? ls_results_execute(results, sql) : ls_fail_memory("row", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    LS_TRY(ls_results_chosen(results, "row", ls_results_collect, rows));
    if (ls_row_beside(row, rows))
        print_beside(row, ls_row_beside(row, rows));
    else
        print_named("shares", "no row of mirrored beside it; --strategy mirrored,zero runs both");
    return LS_OK;
}

/* ---- What limits the step -------------------------------------------------------------------- */

/* An option that is tried next, and what rows that have its value say of it. */
typedef struct tried {
    const json_t *row;
    const char *field; /* of the case */
    double longer;     /* step per sample over the row's, of the latest row; 0: not slower */
    char id[64];
} tried;

static ls_status look_at_tried(void *context, int64_t number, const json_t *row)
{
    tried *t = context;
    ls_interval mine, its;
    const bool batch = strcmp(t->field, "batch_global") == 0;
    const char *const fields[] = {t->field, batch ? "batch_per_device" : NULL, NULL};
    (void)number;
    if (!ls_row_same_but(t->row, row, fields, false))
        return LS_OK;
    const bool known = ls_row_pace(t->row, &mine), its_known = ls_row_pace(row, &its);
    const double batches =
        ls_row_real(row, LS_F_case_batch_global) / ls_row_real(t->row, LS_F_case_batch_global);
    if (!(mine.value > 0 && its.value > 0 && batches > 0))
        return LS_OK;
    const ls_interval ratio = ls_statistics_ratio(its, mine);
    const bool slower = known && its_known ? ratio.low > batches : its.value / mine.value > batches;
    t->longer = slower ? its.value / mine.value / batches : 0;
    ls_escape_copy(t->id, sizeof t->id, ls_row_string(row, LS_F_id), LS_ESCAPE_LINE);
    return LS_OK;
}

/* Does not suggest what these rows show to be slower: of "Try --ps-servers 2: each has half" they
 * are those with ps-servers=2. */
static ls_status weigh(ls_results *results, const json_t *row, const char *said, char text[256])
{
    char option[48], value[48], where[100];
    const char *key;
    ls_selection selection;
    *text = 0;
    if (sscanf(said, "Try --%47[a-z-] %47[^ :,]", option, value) != 2)
        return LS_OK;
    value[strlen(value) - (value[strlen(value) - 1] == '.')] = 0;
    snprintf(where, sizeof where, "%s=%s", option, value);
    ls_status status = ls_row_key_find("row", option, strlen(option), &key);
    const bool of_case = !status && strncmp(key, "case.", 5) == 0;
    if (of_case)
        status = ls_selection_open(where, NULL, NULL, NULL, &selection);
    if (status || !of_case) { /* no row has such a field, or such a value of it */
        ls_status_free(status);
        return LS_OK;
    }
    tried t = {.row = row, .field = key + 5};
    status = ls_selection_each(&selection, results, look_at_tried, &t, NULL);
    ls_selection_close(&selection);
    if (t.longer > 0)
        snprintf(text, 256,
                 "Not %.*s, which was the next to try: it took %.2f times as long a "
                 "sample in row %s.",
                 (int)strcspn(said + 4, ":."), said + 4, t.longer, t.id);
    return status;
}

/* Line by line, each wrapped below its first word. */
static ls_status print_bound(ls_results *results, int64_t number, const json_t *row)
{
    char *bound = ls_results_bound(results, number), *rest = bound, *one, other[256];
    const bool any = bound && *bound;
    ls_status status = LS_OK;
    while (any && !status && (one = strtok_r(rest, "\n", &rest))) {
        status = weigh(results, row, one, other);
        one = *other ? other : one;
        fputc(*one, ls_output());
        ls_text_wrap(ls_output(), one + 1, 1, WRAPPED, WIDTH);
    }
    if (any)
        fputc('\n', ls_output());
    free(bound);
    return status;
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
    LS_TRY(print_bound(results, number, row));
    if (all)
        return print_all(results, row);
    LS_TRY(print_sheet(results, number, row));
    if (ls_row_has_shares(row))
        LS_TRY(print_saving(results, row));
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
