/* SPDX-License-Identifier: MIT */
/* What the templates of a report's files show; see page.h. */
#include "bench/report/page.h"

#include "bench/report/template.h"
#include "bench/report/text.h"

#include "template_citation.h"
#include "template_data.h"
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

ls_status ls_page_csv(FILE *stream, void *figure)
{
    ls_template_fill(stream, ls_template_data, figure, LS_ESCAPE_CSV);
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
