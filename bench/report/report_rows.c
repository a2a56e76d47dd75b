/* SPDX-License-Identifier: MIT */
/* The rows of a report as tables, and names of their cases; see page.h and reports/rows.sql. */
#include "bench/report/page.h"
#include "bench/report/pictures.h"
#include "bench/report/template.h"
#include "bench/rows/row.h"

#include "template_queries.h"
#include "template_rows.h"

#include <stdlib.h>
#include <string.h>

/* Adds the rows of a statement as objects of texts; a column NAME[] is JSON. */
static ls_status add_result(ls_results *results, sqlite3_stmt *statement, const char *result,
                            json_t *out)
{
    json_t *list = json_array();
    bool more;
    json_object_set_new(out, result, list);
    LS_TRY(ls_results_step(results, statement, &more));
    while (more) {
        json_t *line = json_object();
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            char name[32];
            const char *text = ls_results_text(statement, i);
            snprintf(name, sizeof name, "%s", sqlite3_column_name(statement, i));
            char *const end = strstr(name, "[]");
            if (end)
                *end = 0;
            if (*text)
                json_object_set_new(line, name,
                                    end ? json_loads(text, 0, NULL) : json_string(text));
        }
        json_array_append_new(list, line);
        LS_TRY(ls_results_step(results, statement, &more));
    }
    return LS_OK;
}

static ls_status run_statements(ls_results *results, const char *sql, const char *name, json_t *out)
{
    sqlite3_stmt *statement;
    bool more;
    for (;; sql += strlen(sqlite3_sql(statement)), sqlite3_finalize(statement)) {
        LS_TRY(ls_results_prepare(results, sql, &statement));
        if (!statement)
            return LS_OK;
        ls_status status = LS_OK;
        if (sqlite3_column_count(statement) == 0)
            status = ls_results_step(results, statement, &more);
        else
            status = add_result(results, statement, name, out);
        if (status) {
            sqlite3_finalize(statement);
            return status;
        }
    }
}

ls_status ls_page_run(const ls_page *page, const char *text, const char *section,
                      const json_t *values, json_t *out)
{
    static const char begin[] = "\n\n-- ";
    ls_status status = LS_OK;
    const char *at = strstr(text, begin);
    while (at && !status) {
        const char *end = strstr(at += strlen(begin), begin);
        const size_t length = strcspn(at, ":\n");
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (!section || strcmp(name, section) == 0) {
            char *raw =
                strndup(strchr(at, '\n'), end ? (size_t)(end - strchr(at, '\n')) : SIZE_MAX);
            char *sql = raw && values ? ls_template_text(raw, values, LS_ESCAPE_GNUPLOT) : raw;
            status = sql ? run_statements(page->results, sql, name, out)
                         : ls_fail_memory("report", strlen(text));
            if (sql != raw)
                free(sql);
            free(raw);
        }
        at = end;
    }
    return status;
}

/* The paths that texts of queries name as "group.field", {path: path}. */
static void add_fields(const char *text, json_t *fields)
{
    for (const char *at = text; (at = strchr(at, '"'));) {
        char name[80];
        const size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyz0123456789_.");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (at[length] == '"' && strchr(name, '.'))
            json_object_set_new(fields, name, json_true());
        at += length + (at[length] == '"');
    }
}

/* Makes the tables; and, unless that is NULL, `names` for all rows. */
static ls_status open_page(ls_page *page, json_t *names)
{
    json_auto_t *known = json_object();
    json_t *fields = json_array(), *unused;
    json_auto_t *values = json_pack("{s:o,s:s*,s:s*}", "fields", fields, "against",
                                    page->options->against, "names", names ? "yes" : NULL);
    const char *path;
    add_fields(ls_template_rows, known);
    add_fields(ls_template_queries, known);
    ls_pictures_each_text(add_fields, known);
    json_object_foreach(known, path, unused)
    {
        (void)unused;
        json_array_append_new(fields, json_string(path));
    }
    page->machines = json_array();
    ls_page_add_functions(page, ls_results_handle(page->results));
    return ls_page_run(page, ls_template_rows, NULL, values, names);
}

ls_status ls_page_open(ls_page *page)
{
    return open_page(page, NULL);
}

void ls_page_close(ls_page *page)
{
    json_decref(page->machines);
    page->machines = NULL;
}

ls_status ls_report_names(const json_t *rows, json_t **out)
{
    static const ls_report_options none;
    ls_page page = {.rows = rows, .options = &none};
    json_auto_t *found = json_object();
    json_t *row;
    size_t i;
    LS_TRY(ls_results_memory(&page.results));
    ls_status status = LS_OK;
    json_array_foreach((json_t *)(size_t)rows, i, row)
    {
        json_auto_t *copy = json_copy(row); /* ids are unique in a file */
        char id[24];
        snprintf(id, sizeof id, "%zu", i);
        ls_row_put_text(copy, LS_F_id, id);
        if (!status)
            status = ls_results_put(page.results, copy, NULL);
    }
    if (!status)
        status = ls_results_execute(page.results,
                                    "INSERT INTO chosen SELECT rowid, rowid FROM main.rows");
    if (!status)
        status = open_page(&page, found);
    *out = NULL;
    json_unpack(found, "{s:O}", "names", out);
    ls_page_close(&page);
    ls_results_close(page.results);
    return status;
}
