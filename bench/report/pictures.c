/* SPDX-License-Identifier: MIT */
/* Pictures; see pictures.h: gives the statements of reports/pictures.sql what each picture's head
 * says. */
#include "bench/report/pictures.h"

#include "bench/report/template.h"

#include "template_pictures.h"
#include "template_pictures_sql.h"

#include <string.h>

static const struct {
    const char *name, *sql;
} pictures[] = {
#define PICTURE(name, sql) {name, sql},
    PICTURES
#undef PICTURE
};

void ls_pictures_each_text(void (*visit)(const char *text, json_t *out), json_t *out)
{
    visit(ls_template_pictures_sql, out);
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        visit(pictures[i].sql, out);
}

/* What the head says, {what: text}; and what follows from that. */
static json_t *read_head(const char *name, const char *sql, const char *against)
{
    json_t *head = json_pack("{s:s,s:s,s:s*}", "name", name, "query", sql, "against", against);
    char what[32], text[600];
    for (; sscanf(sql, "-- %31[a-z]: %599[^\n]", what, text) == 2; sql = strchr(sql, '\n') + 1)
        json_object_set_new(head, what, json_string(text));
    const char *template = ls_text_of(head, "template");
    const bool lines = strcmp(template, "lines") == 0;
    json_object_set_new(head, lines ? "lines" : "bars", json_true());
    if (!lines || *ls_text_of(head, "one"))
        json_object_set_new(head, "alone", json_true());
    if (against && strcmp(ls_text_of(head, "unit"), "samples/s") == 0)
        json_object_set_new(head, "no_ideal", json_true()); /* each value has its own */
    return head;
}

static ls_status make_all(const ls_page *page, json_t *head)
{
    const char *sql = ls_template_pictures_sql;
    LS_TRY(ls_page_run(page, sql, "groups", head, NULL));
    for (bool first = true;; first = false) {
        json_auto_t *out = json_object();
        json_int_t g = 0;
        LS_TRY(ls_page_run(page, sql, "next", head, out));
        if (json_unpack(out, "{s:[{s:I}]}", "next", "g", &g) != 0 || g == 0)
            return ls_page_run(page, sql, "end", head, NULL);
        json_object_set_new(head, "g", json_integer(g));
        if (first)
            LS_TRY(ls_page_run(page, sql, "cases", head, NULL));
        LS_TRY(ls_page_run(page, sql, "make", head, NULL));
    }
}

ls_status ls_pictures(const ls_page *page, json_t **out)
{
    json_auto_t *found = json_object();
    *out = NULL;
    LS_TRY(ls_page_run(page, ls_template_pictures_sql, "begin", NULL, NULL));
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        json_auto_t *head = read_head(pictures[i].name, pictures[i].sql, page->options->against);
        LS_TRY(make_all(page, head));
    }
    LS_TRY(ls_page_run(page, ls_template_pictures_sql, "figures", NULL, found));
    LS_TRY(ls_page_run(page, ls_template_pictures_sql, "left_out", NULL, found));
    json_array_extend(page->left_out, json_object_get(found, "left_out"));
    return json_unpack(found, "{s:O}", "figures", out) == 0 ? LS_OK : ls_fail_memory("report", 0);
}
