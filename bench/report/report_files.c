/* SPDX-License-Identifier: MIT */
/* Report; see report.h: creates the folder, draws the figures, and writes the files. */
#include "bench/output/results_db.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"
#include "bench/report/draw.h"
#include "bench/report/pictures.h"
#include "bench/report/page.h"
#include "bench/report/template.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the pictures and data of an earlier report in the folder: files that its page lists, if
 * reports give such names. */
static void clear_folder(const char *folder)
{
    static const char *const endings[] = {"svg", "png", "pdf", "csv"};
    static const char before[] = "<figure id=\"";
    ls_auto char *index = NULL;
    size_t bytes;
    ls_auto char *page =
        asprintf(&index, "%s/index.html", folder) < 0 ? NULL : ls_draw_read(index, &bytes);
    for (const char *at = page; at && (at = strstr(at, before));) {
        at += strlen(before);
        const int length = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz-0123456789");
        for (size_t i = 0; at[length] == '"' && i < sizeof endings / sizeof *endings; i++) {
            ls_auto char *path = NULL;
            if (asprintf(&path, "%s/%.*s.%s", folder, length, at, endings[i]) >= 0)
                unlink(path);
        }
    }
}

/* A file of a template. */
typedef struct filled {
    const ls_page_template *template;
    const json_t *values;
} filled;

static ls_status fill(FILE *stream, void *context)
{
    const filled *file = context;
    ls_template_fill(stream, file->template->text, file->values, file->template->escape);
    return LS_OK;
}

/* Writes a file into the folder. */
static ls_status put(const char *folder, const char *name, const char *ending,
                     ls_status (*write)(FILE *stream, void *of), const void *of)
{
    ls_auto char *path = NULL;
    if (asprintf(&path, "%s/%s%s", folder, name, ending) < 0)
        return ls_fail_memory("--out", strlen(name));
    return ls_whole_file("--out", path, write, (void *)(size_t)of);
}

static ls_status put_texts(const json_t *rows, const json_t *values, const json_t *figures,
                           const char *folder)
{
    for (size_t i = 0; i < LS_PAGE_TEMPLATES; i++)
        LS_TRY(put(folder, ls_page_templates[i].name, "", fill,
                   &(filled){&ls_page_templates[i], values}));
    LS_TRY(put(folder, LS_ROWS_NAME, "", ls_page_rows, rows));
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *figure = json_array_get(figures, i);
        LS_TRY(put(folder, ls_text_of(figure, "name"), ".csv", ls_page_csv, figure));
    }
    return LS_OK;
}

ls_status ls_report_write(ls_results *results, const json_t *rows, const ls_report_options *options)
{
    LS_TRY(ls_folder_make("--out", options->out));
    clear_folder(options->out);
    json_auto_t *left_out = json_array();
    json_auto_t *figures = NULL, *values = json_object();
    ls_page page = {results, rows, left_out, options};
    LS_TRY(ls_page_open(&page, NULL));
    LS_TRY(ls_pictures(&page, &figures));
    ls_status drawn = ls_draw(figures, options->out, LS_PICTURE_SVG);
    if (drawn)
        json_array_append_new(left_out,
                              json_pack("{s:s+}", "text", "all pictures: ", ls_status_text(drawn)));
    for (size_t i = 0; i < json_array_size(figures) && !drawn; i++)
        drawn = ls_draw_embed(json_array_get(figures, i), options->out);
    ls_status status = ls_page_values(&page, figures, values);
    if (!status)
        status = ls_report_plan(&page, values);
    if (!status)
        status = put_texts(rows, values, figures, options->out);
    if (!status && !drawn)
        drawn = ls_draw(figures, options->out, LS_PICTURE_PNG);
    for (size_t i = 0; i < json_array_size(figures); i++)
        json_object_update_new(
            json_array_get(figures, i),
            json_pack("{s:b,s:f}", "bare", (int)options->bare, "letters", options->letters));
    if (!status && !drawn)
        drawn = ls_draw(figures, options->out, LS_PICTURE_PDF);
    if (status || ls_status_code(drawn) != LS_CODE_MISSING)
        return ls_status_first(status, drawn);
    status = ls_fail(LS_CODE_MISSING, NULL, NULL, "%s (page, tables and data are written)",
                     ls_status_text(drawn));
    ls_status_free(drawn);
    return status;
}
