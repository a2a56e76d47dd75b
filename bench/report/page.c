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

enum { TEXT_MOST = 400, CASES_MOST = 20, POINTS_MOST = 160 };

static void print_paragraph(FILE *stream, const char *open, const char *text, const char *close)
{
    fputs(open, stream);
    ls_markup(stream, text, TEXT_MOST);
    fputs(close, stream);
}

static void print_number(FILE *stream, const char *format, double value)
{
    fputs("<td class=n>", stream);
    if (isfinite(value))
        fprintf(stream, format, value);
}

static void print_ratio(FILE *stream, ls_rate ratio, bool itself)
{
    fprintf(stream, "<td class=n>%.3g", ratio.rate);
    if (ratio.low > 0 && !itself)
        fprintf(stream, " (%.3g to %.3g)", ratio.low, ratio.high);
}

/* The heads are parted by '|'; the label is what the scrolling region is called. */
static void open_table(FILE *stream, const char *label, const char *heads)
{
    fprintf(stream, "<div class=scroll tabindex=0 role=region aria-label=\"%s\"><table><thead><tr>",
            label);
    while (*heads) {
        const size_t length = strcspn(heads, "|");
        fprintf(stream, "<th scope=col>%.*s", (int)length, heads);
        heads += length + (heads[length] == '|');
    }
    fputs("</thead><tbody>\n", stream);
}

static void close_table(FILE *stream)
{
    fputs("</tbody></table></div>\n", stream);
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

static void print_finding(FILE *stream, const ls_page *page)
{
    const json_t *finding = page->finding, *one, *fastest = json_object_get(finding, "fastest");
    size_t i;
    print_paragraph(stream, "<h1>", headline_of(page), "</h1>\n");
    if (!finding)
        return;
    print_paragraph(stream, "<p class=big>", ls_text_of(finding, "proof"), "</p>\n");
    print_paragraph(stream, "<p class=m>", ls_text_of(finding, "where"), "</p>\n");
    open_table(stream, "Speed-up",
               "case|samples/s|step ms|time over the fastest|speed-up|efficiency|equal");
    json_array_foreach(json_object_get(finding, "cases"), i, one)
    {
        const json_t *row = json_object_get(one, "row");
        char shown[48];
        if (i == CASES_MOST)
            break;
        print_paragraph(stream, row == fastest ? "<tr class=f><td>" : "<tr><td>",
                        ls_text_of(one, "label"), "<td class=n>");
        fputs(ls_figure_value(ls_report_rate(row).rate, "", shown), stream);
        print_number(stream, "%.4g", ls_report_number(row, "time.step_ms.median", NAN));
        print_ratio(stream, ls_report_ratio(fastest, row), row == fastest);
        print_number(stream, "%.2f", ls_report_number(row, "time.speedup", NAN));
        print_number(stream, "%.0f%%", 100 * ls_report_number(row, "time.efficiency", NAN));
        fprintf(stream, "<td>%s\n", ls_report_is_peer(row) ? "peer" : ls_gate_word(row));
    }
    close_table(stream);
    if (json_array_size(json_object_get(finding, "cases")) > CASES_MOST)
        fprintf(stream, "<p class=m>And %zu slower cases: among all rows below.</p>\n",
                json_array_size(json_object_get(finding, "cases")) - CASES_MOST);
}

static void print_data(FILE *stream, const json_t *figure)
{
    const json_t *one, *point, *names = json_object_get(figure, "categories");
    size_t s, p, count = 0;
    fputs("<details><summary>data</summary>", stream);
    open_table(stream, "Data", "series|at|value|low|high");
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        json_array_foreach(json_object_get(one, "points"), p, point)
        {
            if (count++ >= POINTS_MOST)
                continue;
            print_paragraph(stream, "<tr><td>", ls_text_of(one, "name"), "<td>");
            if (names)
                ls_markup(stream, json_string_value(json_array_get(names, p)), 80);
            else
                fprintf(stream, "%.6g", ls_figure_at(point, 0));
            for (size_t k = 1; k < 4; k++)
                print_number(stream, "%.6g", ls_figure_at(point, k));
        }
    }
    close_table(stream);
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
            fputs(svg, stream);
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

static const json_t *first_of(const json_t *one)
{
    return json_object_get(json_array_get(json_object_get(one, "values"), 0), "row");
}

static void print_ratios(FILE *stream, const ls_page *page)
{
    const json_t *one, *value;
    size_t i, k;
    if (!page->options->against)
        return;
    print_paragraph(stream, "<h2>Side by side: ", page->options->against, "</h2>\n");
    if (json_array_size(page->ratios) == 0)
        fputs("<p>No case has timed rows of two values.</p>\n", stream);
    json_array_foreach(page->ratios, i, one)
    {
        print_paragraph(stream, "<details open><summary>", ls_text_of(one, "case"), "</summary>");
        open_table(stream, "Side by side", "value|step ms|time over the first's");
        json_array_foreach(json_object_get(one, "values"), k, value)
        {
            const json_t *row = json_object_get(value, "row");
            print_paragraph(stream, "<tr><td>", ls_text_of(value, "value"), "");
            print_number(stream, "%.4g", ls_report_number(row, "time.step_ms.median", NAN));
            print_ratio(stream, ls_report_ratio(first_of(one), row), k == 0);
        }
        close_table(stream);
        fputs("</details>\n", stream);
    }
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
    print_finding(stream, page);
    print_ratios(stream, page);
    print_figures(stream, page->figures);
    ls_page_rows(stream, page);
    print_machines(stream, page);
    print_end(stream, page);
    fputs("</main><script>\n", stream);
    fputs(ls_page_script, stream);
    fputs("</script></body></html>\n", stream);
}

/* ---- Markdown ------------------------------------------------------------------------------- */

static void print_cell(FILE *stream, const char *text, size_t most)
{
    ls_text_put(stream, text, most, LS_ESCAPE_MARKDOWN);
}

void ls_page_markdown(FILE *stream, const ls_page *page)
{
    const json_t *one;
    size_t i;
    fputs("# ", stream);
    print_cell(stream, headline_of(page), TEXT_MOST);
    fputs("\n\n", stream);
    if (page->finding) {
        print_cell(stream, ls_text_of(page->finding, "proof"), TEXT_MOST);
        fputc(' ', stream);
        print_cell(stream, ls_text_of(page->finding, "where"), TEXT_MOST);
        fputs("\n\n| case | samples/s | step ms | time over the fastest | equal |\n"
              "|---|---|---|---|---|\n",
              stream);
    }
    json_array_foreach(json_object_get(page->finding, "cases"), i, one)
    {
        const json_t *row = json_object_get(one, "row");
        fputs("| ", stream);
        print_cell(stream, ls_text_of(one, "label"), 80);
        fprintf(stream, " | %.0f | %.4g | %.3g | %s |\n", ls_report_rate(row).rate,
                ls_report_number(row, "time.step_ms.median", 0),
                ls_report_ratio(json_object_get(page->finding, "fastest"), row).rate,
                ls_report_is_peer(row) ? "peer" : ls_gate_word(row));
    }
    json_array_foreach(page->figures, i, one)
    {
        const char *name = ls_text_of(one, "name");
        fputs("\n## ", stream);
        print_cell(stream, ls_text_of(one, "title"), TEXT_MOST);
        if (*ls_text_of(one, "svg")) {
            fputs("\n\n![", stream);
            print_cell(stream, ls_text_of(one, "alt"), TEXT_MOST);
            fprintf(stream, "](%s.svg)", name);
        }
        fputs("\n\n", stream);
        print_cell(stream, ls_text_of(one, "caption"), TEXT_MOST);
        fprintf(stream, " [Data](%s.csv)\n", name);
    }
    fputs("\n## Left out\n\n", stream);
    json_array_foreach(page->left_out, i, one)
    {
        fputs("- ", stream);
        print_cell(stream, json_string_value(one), TEXT_MOST);
        fputc('\n', stream);
    }
    fputs("\n[The plan that repeats the rows](report.yaml), [BibTeX](report.bib)\n", stream);
}
