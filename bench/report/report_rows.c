/* SPDX-License-Identifier: MIT */
/* The rows of a report as tables, names of their cases, and what its files show; see page.h and
 * reports/rows.sql. */
#include "bench/report/page.h"
#include "bench/report/pictures.h"
#include "bench/report/template.h"
#include "bench/rows/row.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/base/grow.h"

#include "template_bound.h"
#include "template_citation.h"
#include "template_data.h"
#include "template_markdown.h"
#include "template_page.h"
#include "template_plan.h"
#include "template_pools.h"
#include "template_queries.h"
#include "template_repeat.h"
#include "template_rows.h"
#include "template_table.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_page_run(const ls_page *page, const char *text, const char *section,
                      const json_t *values, json_t *out)
{
    char name[32];
    for (char *raw; (raw = ls_sql_section(&text, name));) {
        ls_auto char *own = raw;
        if (section && strcmp(name, section) != 0)
            continue;
        json_t *list = out ? json_array() : NULL;
        ls_auto char *sql = values ? ls_template_text(raw, values, LS_ESCAPE_GNUPLOT) : NULL;
        json_object_set_new(out, name, list);
        LS_TRY(sql || !values ? ls_results_query(page->results, sql ? sql : own, NULL, list)
                              : ls_fail_memory("report", strlen(text)));
    }
    return LS_OK;
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

ls_status ls_page_open(ls_page *page, json_t *names)
{
    json_auto_t *known = json_object();
    json_t *fields = json_array(), *unused;
    json_auto_t *values = json_pack("{s:o,s:s*,s:s*}", "fields", fields, "against",
                                    page->options->against, "names", names ? "yes" : NULL);
    const char *path;
    add_fields(ls_template_pools, known);
    add_fields(ls_template_rows, known);
    add_fields(ls_template_queries, known);
    add_fields(ls_template_repeat, known);
    ls_pictures_each_text(add_fields, known);
    json_object_foreach(known, path, unused)
    {
        (void)unused;
        json_array_append_new(fields, json_string(path));
    }
    LS_TRY(ls_page_run(page, ls_template_rows, NULL, values, names));
    return ls_results_execute(page->results, ls_template_pools);
}

const ls_page_template ls_page_templates[LS_PAGE_TEMPLATES] = {
    {"index.html", ls_template_page, LS_ESCAPE_MARKUP},
    {"report.md", ls_template_markdown, LS_ESCAPE_MARKDOWN},
    {"report.bib", ls_template_citation, LS_ESCAPE_BIBTEX},
    {"report.yaml", ls_template_plan, LS_ESCAPE_JSON},
    {"table.tex", ls_template_table, LS_ESCAPE_BIBTEX},
};

ls_status ls_page_csv(FILE *stream, void *figure)
{
    ls_template_fill(stream, ls_template_data, figure, LS_ESCAPE_CSV);
    return LS_OK;
}

ls_status ls_page_values(const ls_page *page, json_t *figures, json_t *out)
{
    uint64_t hash = 0;
    const json_t *row;
    size_t i;
    json_array_foreach(page->rows, i, row)
    {
        const char *id = ls_row_string(row, LS_F_id);
        hash = 31 * hash + ls_hash64(id, strlen(id));
    }
    json_object_update_new(out,
                           json_pack("{s:s*,s:s*,s:O,s:O,s:s,s:o}", "against",
                                     page->options->against, "url", page->options->url, "figures",
                                     figures, "left_out", page->left_out, "version", LS_VERSION,
                                     "hash", json_sprintf("%06x", (unsigned)(hash & 0xffffff))));
    LS_TRY(ls_results_execute(page->results, ls_template_bound));
    LS_TRY(ls_page_run(page, ls_template_queries, NULL, out, out));
    json_array_extend(page->left_out, json_object_get(out, "notes"));
    json_array_extend(page->left_out, json_object_get(out, "pair_notes"));
    if (json_array_size(figures) > 0)
        json_object_set_new(out, "pictures", json_true());
    json_object_set_new(out, "count", json_sprintf("%zu", json_array_size(page->rows)));
    return LS_OK;
}

ls_status ls_report_names(const json_t *rows, json_t **out)
{
    static const ls_report_options none;
    ls_page page = {.rows = rows, .options = &none};
    json_auto_t *found = json_object();
    ls_status status = ls_results_of_rows(rows, &page.results);
    if (!status)
        status = ls_page_open(&page, found);
    *out = NULL;
    json_unpack(found, "{s:O}", "names", out);
    ls_results_close(page.results);
    return status;
}
