/* SPDX-License-Identifier: MIT */
/* Report; see report.h: creates the folder, draws the figures, and writes the files. */
#include "bench/output/rows_file.h"
#include "common/base/whole_file.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the pictures and data of an earlier report in the folder: those that its page lists, if
 * their names are ones that reports give. */
static void clear_folder(const char *folder)
{
    static const char *const endings[] = {"svg", "png", "pdf", "csv"};
    static const char before[] = "<figure id=\"";
    char *path, *page = NULL;
    if (asprintf(&path, "%s/index.html", folder) >= 0) {
        page = ls_draw_read(path);
        free(path);
    }
    for (const char *at = page; at && (at = strstr(at, before));) {
        at += strlen(before);
        const int length = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz-0123456789");
        for (size_t i = 0; at[length] == '"' && i < sizeof endings / sizeof *endings; i++) {
            if (asprintf(&path, "%s/%.*s.%s", folder, length, at, endings[i]) < 0)
                continue;
            unlink(path);
            free(path);
        }
    }
    free(page);
}

/* Writes a text into the folder; `ending` NULL: the name has it. */
static ls_status put(const ls_page *page, const char *name, const char *ending,
                     ls_status (*write)(FILE *stream, void *of), const void *of)
{
    char *path;
    if (asprintf(&path, "%s/%s%s%s", page->options->out, name, ending ? "." : "",
                 ending ? ending : "") < 0)
        return ls_fail_memory("--out", strlen(name));
    ls_status status = ls_whole_file("--out", path, write, (void *)(size_t)of);
    free(path);
    return status;
}

static json_t *machines_of(const json_t *rows)
{
    json_t *out = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char machine[LS_MACHINE_SIZE];
        const json_t *row = json_array_get(rows, i);
        json_t *provenance = json_object_get(row, "provenance");
        if (provenance)
            json_object_set(out, ls_report_machine(row, machine, sizeof machine), provenance);
    }
    return out;
}

static ls_status put_texts(const ls_page *page)
{
    LS_TRY(put(page, "index", "html", ls_page_html, page));
    LS_TRY(put(page, "report", "md", ls_page_markdown, page));
    LS_TRY(put(page, "report", "bib", ls_page_bibliography, page));
    LS_TRY(put(page, "report", "yaml", ls_page_plan, page));
    LS_TRY(put(page, LS_ROWS_NAME, NULL, ls_page_rows, page));
    LS_TRY(put(page, "table", "tex", ls_page_latex, page));
    for (size_t i = 0; i < json_array_size(page->figures); i++) {
        const json_t *figure = json_array_get(page->figures, i);
        LS_TRY(put(page, ls_text_of(figure, "name"), "csv", ls_page_csv, figure));
    }
    return LS_OK;
}

ls_status ls_report_write(const json_t *rows, const ls_report_options *options)
{
    LS_TRY(ls_folder_make("--out", options->out));
    clear_folder(options->out);
    json_t *left_out = json_copy((json_t *)(size_t)options->notes);
    json_t *figures = ls_report_figures(rows, options->against, left_out);
    json_t *machines = machines_of(rows), *finding = ls_finding(rows, options->against, left_out);
    json_t *ratios = options->against ? ls_ratios(rows, options->against, left_out) : NULL;
    char *commands = ls_report_commands(rows);
    const ls_page page = {rows, figures, left_out, finding, ratios, machines, options, commands};
    ls_status drawn = ls_draw(figures, options->out, LS_PICTURE_SVG);
    if (drawn)
        json_array_append_new(left_out, json_sprintf("all pictures: %s", ls_status_text(drawn)));
    for (size_t i = 0; i < json_array_size(figures) && !drawn; i++)
        drawn = ls_draw_dress(json_array_get(figures, i), options->out);
    ls_status status = put_texts(&page);
    if (!status && !drawn)
        drawn = ls_draw(figures, options->out, LS_PICTURE_PNG);
    for (size_t i = 0; i < json_array_size(figures); i++)
        json_object_update_new(
            json_array_get(figures, i),
            json_pack("{s:b,s:f}", "bare", (int)options->bare, "letters", options->letters));
    if (!status && !drawn)
        drawn = ls_draw(figures, options->out, LS_PICTURE_PDF);
    free(commands);
    json_decref(ratios);
    json_decref(finding);
    json_decref(machines);
    json_decref(figures);
    json_decref(left_out);
    return ls_status_first(status, drawn);
}
