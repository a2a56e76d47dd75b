/* SPDX-License-Identifier: MIT */
/* Report; see report.h: makes the folder, has the figures drawn, and writes each file beside its
 * name before it is renamed. */
#include "bench/report/report.h"

#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status refuse(const char *path, int error)
{
    return ls_fail(LS_CODE_MISSING, "--out", path, "cannot be written: %s; name another folder",
                   strerror(error));
}

/* Makes the folder, and those above it. */
static ls_status make_folder(const char *path)
{
    char *copy = strdup(path), *end = copy;
    struct stat facts;
    while (end && *end) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        const char cut = *end;
        *end = 0;
        (void)mkdir(copy, 0777); /* what matters is whether the last one is there */
        *end = cut;
    }
    free(copy);
    if (stat(path, &facts) != 0)
        return refuse(path, errno);
    if (!S_ISDIR(facts.st_mode))
        return refuse(path, ENOTDIR);
    return access(path, W_OK | X_OK) == 0 ? LS_OK : refuse(path, errno);
}

/* Removes the pictures and data of the report that was in the folder before: what its page lists,
 * by names that reports give. */
static void clear_folder(const char *folder)
{
    static const char *const endings[] = {"svg", "png", "pdf", "csv"};
    static const char before[] = "<figure id=\"";
    char *path = NULL, *page = NULL;
    if (asprintf(&path, "%s/index.html", folder) >= 0)
        page = ls_draw_read(path);
    for (const char *at = page; at && (at = strstr(at, before));) {
        at += strlen(before);
        const int length = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz-0123456789");
        for (size_t i = 0; at[length] == '"' && i < sizeof endings / sizeof *endings; i++) {
            free(path);
            if (asprintf(&path, "%s/%.*s.%s", folder, length, at, endings[i]) >= 0)
                unlink(path);
            else
                path = NULL;
        }
    }
    free(page);
    free(path);
}

static void put_field(FILE *stream, const char *text, char end)
{
    fputc('"', stream);
    ls_text_put(stream, text, SIZE_MAX, LS_ESCAPE_CSV);
    fprintf(stream, "\"%c", end);
}

/* Columns are named as the axes are; the first line has the caption. */
static void write_csv(FILE *stream, const json_t *figure)
{
    const json_t *one, *point, *names = json_object_get(figure, "categories");
    char value[128];
    size_t s, p;
    fputs("series,", stream);
    put_field(stream, names ? "case" : ls_text_of(figure, "x"), ',');
    snprintf(value, sizeof value, "%s%s", ls_text_of(figure, names ? "x" : "y"),
             strcmp(ls_text_of(figure, "unit"), "bytes") == 0 ? ", bytes" : "");
    put_field(stream, value, ',');
    fputs("low,high,caption\n", stream);
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        json_array_foreach(json_object_get(one, "points"), p, point)
        {
            put_field(stream, ls_text_of(one, "name"), ',');
            if (names)
                put_field(stream, json_string_value(json_array_get(names, p)), ',');
            else
                fprintf(stream, "%.17g,", ls_figure_at(point, 0));
            for (size_t k = 1; k < 4; k++)
                fprintf(stream, "%.17g,", ls_figure_at(point, k));
            put_field(stream, s + p == 0 ? ls_text_of(figure, "caption") : "", '\n');
        }
    }
}

/* Writes what is of the page, or, with a figure, its data. */
static ls_status write_file(const ls_page *page, const char *name, const char *ending,
                            void (*write)(FILE *stream, const ls_page *page), const json_t *figure)
{
    char *path, *part;
    if (asprintf(&path, "%s/%s.%s", page->options->out, name, ending) < 0)
        return ls_fail_memory("--out", strlen(page->options->out));
    if (asprintf(&part, "%s.part-%ld", path, (long)getpid()) < 0) {
        free(path);
        return ls_fail_memory("--out", strlen(page->options->out));
    }
    ls_status status = LS_OK;
    FILE *stream = fopen(part, "wx");
    if (!stream) {
        status = refuse(path, errno);
    } else {
        if (figure)
            write_csv(stream, figure);
        else
            write(stream, page);
        errno = 0;
        bool failed = ferror(stream) != 0;
        failed |= fclose(stream) != 0;
        if (failed || rename(part, path) != 0) {
            status = refuse(path, errno ? errno : EIO);
            unlink(part);
        }
    }
    free(part);
    free(path);
    return status;
}

static bool is_ok(const json_t *row, const void *unused)
{
    (void)unused;
    return ls_report_is_ok(row);
}

/* Rows that may be in pictures; why others are not is told. */
static json_t *usable(const json_t *rows, json_t *left_out)
{
    json_t *out = ls_report_those(rows, is_ok, NULL);
    const size_t bad = json_array_size(rows) - json_array_size(out);
    if (bad > 0)
        json_array_append_new(left_out, json_sprintf("rows that failed a check, could not run or "
                                                     "were interrupted: %zu; they are in the table",
                                                     bad));
    return out;
}

static json_t *machines_of(const json_t *rows)
{
    json_t *out = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char machine[256];
        json_t *provenance = json_object_get(json_array_get(rows, i), "provenance");
        if (provenance)
            json_object_set(out,
                            ls_report_machine(json_array_get(rows, i), machine, sizeof machine),
                            provenance);
    }
    return out;
}

static ls_status write_texts(const ls_page *page)
{
    static const struct {
        const char *name, *ending;
        void (*write)(FILE *stream, const ls_page *page);
    } texts[] = {{"index", "html", ls_page_write},
                 {"report", "md", ls_page_markdown},
                 {"report", "bib", ls_page_bibliography},
                 {"report", "yaml", ls_page_plan}};
    json_t *figure;
    size_t i;
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        LS_TRY(write_file(page, texts[i].name, texts[i].ending, texts[i].write, NULL));
    json_array_foreach((json_t *)(size_t)page->figures, i, figure)
        LS_TRY(write_file(page, ls_text_of(figure, "name"), "csv", NULL, figure));
    return LS_OK;
}

ls_status ls_report_write(const json_t *rows, const ls_report_options *options)
{
    LS_TRY(make_folder(options->out));
    clear_folder(options->out);
    json_t *left_out = json_copy((json_t *)(size_t)options->notes);
    json_t *fit = usable(rows, left_out);
    json_t *figures = ls_report_figures(fit, options->against, left_out);
    json_t *machines = machines_of(rows), *finding = ls_finding(rows, options->against);
    json_t *ratios = options->against ? ls_ratios(rows, options->against) : NULL, *figure;
    const ls_page page = {rows, figures, left_out, finding, ratios, machines, options};
    size_t i;
    const bool pictures = json_array_size(figures) > 0;
    ls_status drawn = pictures ? ls_draw(figures, options->out, LS_PICTURE_SVG) : LS_OK;
    if (drawn)
        json_array_append_new(left_out, json_sprintf("all pictures: %s", ls_status_text(drawn)));
    json_array_foreach(figures, i, figure)
    {
        char *svg = drawn ? NULL : ls_draw_dress(figure, options->out);
        if (svg)
            json_object_set_new(figure, "svg", json_string(svg));
        free(svg);
    }
    ls_status status = write_texts(&page);
    for (int kind = LS_PICTURE_PNG; kind <= LS_PICTURE_PDF && pictures && !status && !drawn; kind++)
        drawn = ls_draw(figures, options->out, (ls_picture)kind);
    json_decref(ratios);
    json_decref(finding);
    json_decref(machines);
    json_decref(figures);
    json_decref(fit);
    json_decref(left_out);
    return ls_status_first(status, drawn);
}
