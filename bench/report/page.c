/* SPDX-License-Identifier: MIT */
/* What the templates of a report's files show; see page.h. */
#include "bench/report/page.h"

#include "bench/report/text.h"

#include "template_citation.h"
#include "template_markdown.h"
#include "template_page.h"
#include "template_plan.h"
#include "template_queries.h"
#include "template_table.h"

const ls_page_template ls_page_templates[LS_PAGE_TEMPLATES] = {
    {"index.html", ls_template_page, LS_ESCAPE_MARKUP},
    {"report.md", ls_template_markdown, LS_ESCAPE_MARKDOWN},
    {"report.bib", ls_template_citation, LS_ESCAPE_BIBTEX},
    {"report.yaml", ls_template_plan, LS_ESCAPE_JSON},
    {"table.tex", ls_template_table, LS_ESCAPE_BIBTEX},
};

static void put_cell(FILE *stream, const char *text, const char *after)
{
    fputs("\"", stream);
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_CSV);
    fprintf(stream, "\"%s", after);
}

ls_status ls_page_csv(FILE *stream, void *figure)
{
    json_t *names = NULL, *heads, *series, *points, *one, *point;
    const char *caption = ls_text_of(figure, "caption");
    size_t i, p, k;
    if (json_unpack(figure, "{s?o,s:o,s:o}", "categories", &names, "heads", &heads, "series",
                    &series) != 0)
        return LS_OK;
    json_array_foreach(heads, i, one)
    {
        put_cell(stream, json_string_value(one), ",");
    }
    fputs("\"caption\"\n", stream);
    json_array_foreach(series, i, one)
    {
        if (json_unpack(one, "{s:o}", "points", &points) != 0)
            continue;
        json_array_foreach(points, p, point)
        {
            const double x = json_number_value(json_array_get(point, 0));
            put_cell(stream, ls_text_of(one, "name"), ",");
            if (names)
                put_cell(stream, json_string_value(json_array_get(names, (size_t)x)), ",");
            for (k = names ? 1 : 0; k < 4; k++)
                fprintf(stream, "%.17g,", json_number_value(json_array_get(point, k)));
            put_cell(stream, caption, "\n");
            caption = "";
        }
    }
    return LS_OK;
}

void ls_page_leave_out(const ls_page *page, json_t *found, const char *name)
{
    json_t *notes = NULL, *one;
    size_t i;
    json_unpack(found, "{s:o}", name, &notes);
    json_array_foreach(notes, i, one)
    {
        json_array_append_new(page->left_out, json_string(ls_text_of(one, "text")));
    }
}

ls_status ls_page_values(const ls_page *page, json_t *figures, json_t *out)
{
    if (page->options->against)
        json_object_set_new(out, "against", json_string(page->options->against));
    LS_TRY(ls_page_run(page, ls_template_queries, NULL, out, out));
    ls_page_leave_out(page, out, "notes");
    ls_page_leave_out(page, out, "pair_notes");
    json_object_set(out, "figures", figures);
    if (json_array_size(figures) > 0)
        json_object_set_new(out, "pictures", json_true());
    json_object_set_new(out, "count", json_sprintf("%zu", json_array_size(page->rows)));
    json_object_set(out, "left_out", page->left_out);
    if (page->options->url)
        json_object_set_new(out, "url", json_string(page->options->url));
    if (page->options->against)
        json_object_set_new(out, "against", json_pack("{s:s}", "key", page->options->against));
    return LS_OK;
}
