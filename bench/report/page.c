/* SPDX-License-Identifier: MIT */
/* The page: what was found, pictures, tables, rows, where they come from, what was left out. */
#include "bench/report/page.h"

#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 400, CASES_MOST = 20, POINTS_MOST = 120 };

static void print_paragraph(FILE *stream, const char *open, const char *text, const char *close)
{
    fputs(open, stream);
    ls_markup(stream, text, TEXT_MOST);
    fputs(close, stream);
}

/* ---- What page and report.md both have ------------------------------------------------------ */

typedef struct sheet {
    FILE *stream;
    bool markdown;
} sheet;

static void put_text(const sheet *to, const char *text)
{
    ls_text_put(to->stream, text, TEXT_MOST, to->markdown ? LS_ESCAPE_MARKDOWN : LS_ESCAPE_MARKUP);
}

/* A text between two tags, or between what stands for them. */
static void put_line(const sheet *to, const char *tags[2], const char *markdown, const char *text)
{
    fputs(to->markdown ? markdown : tags[0], to->stream);
    put_text(to, text);
    fputs(to->markdown ? "\n\n" : tags[1], to->stream);
}

/* The heads are parted by '|'; the label is what the scrolling region is called. */
static void open_table(const sheet *to, const char *label, const char *heads)
{
    size_t count = 0;
    if (!to->markdown)
        fprintf(to->stream,
                "<div class=scroll tabindex=0 role=region aria-label=\"%s\"><table><thead><tr>",
                label);
    for (; *heads; count++) {
        const size_t length = strcspn(heads, "|");
        fprintf(to->stream, to->markdown ? "| %.*s " : "<th scope=col>%.*s", (int)length, heads);
        heads += length + (heads[length] == '|');
    }
    fputs(to->markdown ? "|\n" : "</thead><tbody>\n", to->stream);
    for (size_t i = 0; to->markdown && i < count; i++)
        fputs(i + 1 < count ? "|---" : "|---|\n", to->stream);
}

static void close_table(const sheet *to)
{
    fputs(to->markdown ? "\n" : "</tbody></table></div>\n", to->stream);
}

static void open_row(const sheet *to, bool first)
{
    fputs(to->markdown ? "|" : first ? "<tr class=f>" : "<tr>", to->stream);
}

static void put_cell(const sheet *to, const char *text, bool number)
{
    fputs(to->markdown ? " " : number ? "<td class=n>" : "<td>", to->stream);
    put_text(to, text);
    fputs(to->markdown ? " |" : "", to->stream);
}

static void put_number(const sheet *to, const char *format, double value)
{
    char text[64] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    put_cell(to, text, true);
}

/* With an interval, where there is one. */
static void put_rate(const sheet *to, ls_rate rate)
{
    char value[48], text[160] = "";
    ls_text_add(text, sizeof text, "%s", ls_figure_value(rate.rate, "", value));
    if (rate.low > 0) {
        ls_text_add(text, sizeof text, " (%s", ls_figure_value(rate.low, "", value));
        ls_text_add(text, sizeof text, " to %s)", ls_figure_value(rate.high, "", value));
    }
    put_cell(to, text, true);
}

/* The first cells of a case: what it is called, of how many rows; gives the one that is shown. */
static const json_t *put_case(const sheet *to, const json_t *one, bool first, ls_rate *rate)
{
    open_row(to, first);
    put_cell(to, ls_text_of(one, "label"), false);
    put_number(to, "%.0f", (double)json_array_size(json_object_get(one, "rows")));
    return ls_case_row(one, rate);
}

static void put_time_over(const sheet *to, const json_t *first, const json_t *one)
{
    ls_rate a, b;
    ls_case_row(first, &a);
    ls_case_row(one, &b);
    put_rate(to, first == one ? (ls_rate){1, 0, 0} : ls_report_ratio(a, b));
}

/* What the rows say in one line. */
static const char *headline_of(const ls_page *page)
{
    for (size_t i = 0; i < json_array_size(page->rows) && !page->finding; i++)
        if (ls_report_is_ok(json_array_get(page->rows, i)))
            return "No row here has a time";
    return page->finding ? ls_text_of(page->finding, "headline")
                         : "All rows here failed a check, could not run or were interrupted";
}

static void put_finding(const sheet *to, const ls_page *page)
{
    const json_t *finding = page->finding, *one, *fastest = json_object_get(finding, "fastest");
    const json_t *cases = json_object_get(finding, "cases");
    size_t i;
    put_line(to, (const char *[]){"<h1>", "</h1>\n"}, "# ", headline_of(page));
    if (!finding)
        return;
    put_line(to, (const char *[]){"<p class=big>", "</p>\n"}, "", ls_text_of(finding, "proof"));
    put_line(to, (const char *[]){"<p class=m>", "</p>\n"}, "", ls_text_of(finding, "where"));
    open_table(to, "Speed-up",
               "case|rows|samples/s|step ms|time over the fastest|speed-up|efficiency|equal");
    json_array_foreach(cases, i, one)
    {
        ls_rate rate;
        if (i == CASES_MOST)
            break;
        const json_t *row = put_case(to, one, one == fastest, &rate);
        put_rate(to, rate);
        put_number(to, "%.4g", ls_report_number(row, "time.step_ms.median", NAN));
        put_time_over(to, fastest, one);
        put_number(to, "%.2f", ls_report_number(row, "time.speedup", NAN));
        put_number(to, "%.0f%%", 100 * ls_report_number(row, "time.efficiency", NAN));
        put_cell(to, ls_report_is_peer(row) ? "peer" : ls_gate_word(row), false);
        fputc('\n', to->stream);
    }
    close_table(to);
    if (json_array_size(cases) > CASES_MOST)
        fprintf(to->stream,
                to->markdown ? "And %zu slower cases.\n"
                             : "<p class=m>And %zu slower cases: among all rows below.</p>\n",
                json_array_size(cases) - CASES_MOST);
}

static void put_ratios(const sheet *to, const ls_page *page)
{
    const json_t *one, *value;
    char title[LS_KEY_SIZE] = "Side by side: ";
    size_t i, k;
    if (!page->options->against)
        return;
    ls_text_add(title, sizeof title, "%s", page->options->against);
    put_line(to, (const char *[]){"<h2>", "</h2>\n"}, "## ", title);
    if (json_array_size(page->ratios) == 0)
        put_line(to, (const char *[]){"<p>", "</p>\n"}, "",
                 "No case has timed rows of two values.");
    json_array_foreach(page->ratios, i, one)
    {
        const json_t *values = json_object_get(one, "values");
        put_line(to, (const char *[]){"<details open><summary>", "</summary>"}, "",
                 ls_text_of(one, "case"));
        open_table(to, "Side by side", "value|rows|step ms|time over the first's");
        json_array_foreach(values, k, value)
        {
            const json_t *row = put_case(to, value, false, NULL);
            put_number(to, "%.4g", ls_report_number(row, "time.step_ms.median", NAN));
            put_time_over(to, json_array_get(values, 0), value);
            fputc('\n', to->stream);
        }
        close_table(to);
        fputs(to->markdown ? "" : "</details>\n", to->stream);
    }
}

/* ---- The page ------------------------------------------------------------------------------- */

static void print_data(FILE *stream, const json_t *figure)
{
    const json_t *one, *point, *names = json_object_get(figure, "categories");
    const sheet to = {stream, false};
    size_t s, p, count = 0;
    fputs("<details><summary>data</summary>", stream);
    open_table(&to, "Data", "series|at|value|low|high");
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        json_array_foreach(json_object_get(one, "points"), p, point)
        {
            if (count++ >= POINTS_MOST)
                continue;
            open_row(&to, false);
            put_cell(&to, ls_text_of(one, "name"), false);
            if (names)
                put_cell(&to, json_string_value(json_array_get(names, p)), false);
            for (size_t k = names ? 1 : 0; k < 4; k++)
                put_number(&to, "%.6g", ls_figure_at(point, k));
        }
    }
    close_table(&to);
    if (count > POINTS_MOST)
        fprintf(stream, "<p>%zu more points are in the CSV.</p>", count - POINTS_MOST);
    fputs("</details>", stream);
}

static void print_figures(FILE *stream, const json_t *figures)
{
    const json_t *figure;
    size_t i;
    if (json_array_size(figures) > 0)
        fputs("<h2>Pictures</h2><div class=figs>\n", stream);
    json_array_foreach(figures, i, figure)
    {
        const char *name = ls_text_of(figure, "name"), *svg = ls_text_of(figure, "svg");
        fprintf(stream, "<figure id=\"%s\">", name);
        if (*svg)
            fprintf(stream, "<div class=scroll tabindex=0 role=region aria-label=\"%s\">%s</div>",
                    name, svg);
        else
            print_paragraph(stream, "<h3>", ls_text_of(figure, "title"), "</h3>");
        print_paragraph(stream, "<figcaption>", ls_text_of(figure, "caption"), "");
        fprintf(stream, " <a href=\"%s.csv\">CSV</a>", name);
        if (*svg)
            fprintf(stream,
                    ", <a href=\"%s.svg\">SVG</a>, <a href=\"%s.png\">PNG</a>, "
                    "<a href=\"%s.pdf\">PDF</a>",
                    name, name, name);
        fputs("</figcaption>", stream);
        print_data(stream, figure);
        fputs("</figure>\n", stream);
    }
    if (json_array_size(figures) > 0)
        fputs("</div>\n", stream);
}

static void print_machines(FILE *stream, const ls_page *page)
{
    const char *machine, *name;
    json_t *provenance, *value;
    size_t number = 0;
    fputs("<h2>Where the rows come from</h2>\n", stream);
    json_object_foreach((json_t *)(size_t)page->machines, machine, provenance)
    {
        number++;
        fprintf(stream, "<details id=m%zu open><summary>machine %zu: ", number, number);
        ls_markup(stream, *machine ? machine : "not named", TEXT_MOST);
        fputs("</summary><p class=m>", stream);
        json_object_foreach(provenance, name, value)
        {
            char *text =
                json_is_object(value) ? json_dumps(value, JSON_COMPACT) : ls_value_text(value);
            print_paragraph(stream, "<b>", name, "</b> ");
            ls_markup(stream, text, TEXT_MOST);
            fputs("; ", stream);
            free(text);
        }
        fputs("</p></details>\n", stream);
    }
}

static void print_end(FILE *stream, const ls_page *page)
{
    const json_t *text;
    size_t i;
    fputs("<h2>Left out</h2><ul class=m>\n", stream);
    json_array_foreach(page->left_out, i, text)
        print_paragraph(stream, "<li>", json_string_value(text), "\n");
    fputs("</ul><h2>Repeat and cite</h2><p>Each row has its command. <a href=\"report.yaml\">The "
          "plan "
          "that repeats them all</a>, <a href=\"report.bib\">BibTeX</a></p>\n",
          stream);
}

void ls_page_write(FILE *stream, const ls_page *page)
{
    fputs("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
          "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
          "<link rel=icon href=\"data:,\"><title>Lockstep: ",
          stream);
    ls_markup(stream, headline_of(page), 120);
    fputs("</title><style>\n", stream);
    fputs(ls_page_style, stream);
    ls_draw_dark_style(stream);
    fputs("</style></head><body><main>\n", stream);
    put_finding(&(sheet){stream, false}, page);
    put_ratios(&(sheet){stream, false}, page);
    print_figures(stream, page->figures);
    ls_page_rows(stream, page);
    print_machines(stream, page);
    print_end(stream, page);
    fputs("</main><script>\n", stream);
    fputs(ls_page_script, stream);
    fputs("</script></body></html>\n", stream);
}

/* ---- Markdown ------------------------------------------------------------------------------- */

void ls_page_markdown(FILE *stream, const ls_page *page)
{
    const sheet to = {stream, true};
    const json_t *one;
    size_t i;
    put_finding(&to, page);
    put_ratios(&to, page);
    json_array_foreach(page->figures, i, one)
    {
        const char *name = ls_text_of(one, "name");
        fputs("\n## ", stream);
        put_text(&to, ls_text_of(one, "title"));
        if (*ls_text_of(one, "svg")) {
            fputs("\n\n![", stream);
            put_text(&to, ls_text_of(one, "alt"));
            fprintf(stream, "](%s.svg)", name);
        }
        fputs("\n\n", stream);
        put_text(&to, ls_text_of(one, "caption"));
        fprintf(stream, " [Data](%s.csv)\n", name);
    }
    fputs("\n## Left out\n\n", stream);
    json_array_foreach(page->left_out, i, one)
    {
        fputs("- ", stream);
        put_text(&to, json_string_value(one));
        fputc('\n', stream);
    }
    fputs("\n[The plan that repeats the rows](report.yaml), [BibTeX](report.bib)\n", stream);
}
