/* SPDX-License-Identifier: MIT */
/* The page: findings, pictures, tables, rows, their origin, and what was left out. */
#include "bench/report/page.h"

#include "bench/output/table/table_parts.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/sheet.h"
#include "bench/report/text.h"
#include "bench/statistics/verdict.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CASE_MOST = 44, COMMANDS_MOST = 250000 }; /* bytes */
enum { CASES_MOST = 20, POINTS_MOST = 120 };

static void put_data(ls_sheet *to, const json_t *figure)
{
    const json_t *names = json_object_get(figure, "categories"), *all;
    const bool csv = to->kind == LS_SHEET_CSV;
    size_t count = 0;
    char heads[256] = "";
    ls_text_add(heads, sizeof heads, "series|%s|%s%s|low|high%s",
                names ? "case" : ls_text_of(figure, "x"), ls_text_of(figure, names ? "x" : "y"),
                strcmp(ls_text_of(figure, "unit"), "bytes") == 0 ? ", bytes" : "",
                csv ? "|caption" : "");
    to->data = true;
    ls_sheet_table(to, "Data", heads);
    all = json_object_get(figure, "series");
    for (size_t s = 0; s < json_array_size(all); s++) {
        const json_t *one = json_array_get(all, s), *points = json_object_get(one, "points");
        for (size_t p = 0; p < json_array_size(points); p++) {
            if (count++ >= POINTS_MOST && !csv)
                continue;
            ls_sheet_row(to, "");
            ls_sheet_cell(to, ls_text_of(one, "name"), "");
            if (names)
                ls_sheet_cell(to, json_string_value(json_array_get(names, p)), "");
            for (size_t k = names ? 1 : 0; k < 4; k++)
                ls_sheet_number(to, csv ? "%.17g" : "%.6g",
                                ls_figure_at(json_array_get(points, p), k));
            if (csv)
                ls_sheet_cell(to, s + p == 0 ? ls_text_of(figure, "caption") : "", "");
            ls_sheet_row_end(to);
        }
    }
    ls_sheet_table_end(to);
    to->data = false;
    if (count > POINTS_MOST && !csv)
        fprintf(to->stream, "<p>%zu more points are in the CSV.</p>", count - POINTS_MOST);
}

ls_status ls_page_csv(FILE *stream, void *figure)
{
    put_data(&(ls_sheet){stream, .kind = LS_SHEET_CSV}, figure);
    return LS_OK;
}

/* With its interval if it has one. */
static void put_rate(ls_sheet *to, ls_interval rate)
{
    const char *blank = to->kind == LS_SHEET_HTML ? "\xc2\xa0" : " "; /* no line break there */
    char value[48], text[160] = "";
    if (isfinite(rate.value))
        ls_text_add(text, sizeof text, "%s", ls_figure_value(rate.value, "", value));
    if (rate.low > 0) {
        ls_text_add(text, sizeof text, " (%s", ls_figure_value(rate.low, "", value));
        ls_text_add(text, sizeof text, "%sto%s%s)", blank, blank,
                    ls_figure_value(rate.high, "", value));
    }
    ls_sheet_cell(to, text, "n");
}

/* ---- What was found ------------------------------------------------------------------------- */

/* A case's name, and its number of rows. */
static void put_case(ls_sheet *to, const json_t *one)
{
    ls_sheet_cell(to, ls_text_of(one, "label"), "");
    ls_sheet_number(to, "%.0f", (double)json_array_size(json_object_get(one, "rows")));
}

/* One line that summarizes the rows. */
static const char *headline_of(const ls_page *page)
{
    for (size_t i = 0; i < json_array_size(page->rows) && !page->finding; i++)
        if (ls_report_is_ok(json_array_get(page->rows, i), NULL))
            return "No row here has a time";
    return page->finding ? ls_text_of(page->finding, "headline")
                         : "All rows here failed a check, could not run or were interrupted";
}

static const char found_heads[] =
    "case|rows|samples/s|step ms|time over the fastest|speed-up|efficiency|equal";

static void put_finding(ls_sheet *to, const ls_page *page)
{
    const json_t *finding = page->finding, *cases = json_object_get(finding, "cases");
    const json_t *lines = json_object_get(finding, "lines");
    char more[64];
    ls_sheet_line(to, "h1", to->kind == LS_SHEET_HTML ? "" : "# ", headline_of(page));
    if (!finding)
        return;
    ls_sheet_line(to, "p class=big", "", ls_text_of(finding, "proof"));
    ls_sheet_line(to, "p class=m", "", ls_text_of(finding, "where"));
    for (size_t i = 0; i < json_array_size(lines); i++)
        ls_sheet_line(to, "p", "", json_string_value(json_array_get(lines, i)));
    to->stacked = found_heads;
    ls_sheet_table(to, "Speed-up", found_heads);
    for (size_t i = 0; i < json_array_size(cases) && i < CASES_MOST; i++) {
        const json_t *one = json_array_get(cases, i);
        ls_interval rate;
        const json_t *row = ls_case_row(one, &rate);
        const json_t *over = json_object_get(one, "over");
        ls_sheet_row(to, i == 0 ? "f" : "");
        put_case(to, one);
        put_rate(to, rate);
        ls_sheet_number(to, "%.4g", ls_case_figure(one, "time.step_ms.median"));
        put_rate(to, over ? (ls_interval){ls_figure_at(over, 0), ls_figure_at(over, 1),
                                          ls_figure_at(over, 2)}
                          : (ls_interval){NAN, 0, 0});
        ls_sheet_number(to, "%.2f", ls_case_figure(one, "time.speedup"));
        ls_sheet_number(to, "%.0f%%", 100 * ls_case_figure(one, "time.efficiency"));
        ls_sheet_cell(to, ls_report_is_peer(row) ? "peer" : ls_gate_word(row), "");
        ls_sheet_row_end(to);
    }
    ls_sheet_table_end(to);
    to->stacked = NULL;
    snprintf(more, sizeof more, "And %zu slower cases.", json_array_size(cases) - CASES_MOST);
    ls_sheet_line(to, "p class=m", "", json_array_size(cases) > CASES_MOST ? more : NULL);
}

static void put_ratios(ls_sheet *to, const ls_page *page)
{
    char title[LS_KEY_SIZE] = "Side by side: ";
    if (!page->options->against)
        return;
    ls_text_add(title, sizeof title, "%s", page->options->against);
    ls_sheet_line(to, "h2", to->kind == LS_SHEET_HTML ? "" : "## ", title);
    if (json_array_size(page->ratios) == 0)
        ls_sheet_line(to, "p", "", "No case has timed rows of two values.");
    else
        ls_sheet_table(to, "Side by side", "case|value|rows|step ms|time over the first's|verdict");
    for (size_t i = 0; i < json_array_size(page->ratios); i++) {
        const json_t *one = json_array_get(page->ratios, i);
        const json_t *values = json_object_get(one, "values");
        for (size_t k = 0; k < json_array_size(values); k++) {
            const json_t *value = json_array_get(values, k);
            ls_interval a, b, ratio;
            ls_case_rates(json_array_get(values, 0), value, &a, &b);
            ls_sheet_row(to, "");
            ls_sheet_cell(to, k ? "" : ls_text_of(one, "case"), "");
            put_case(to, value);
            ratio = k ? ls_report_ratio(a, b) : (ls_interval){1, 0, 0};
            ls_sheet_number(to, "%.4g", ls_case_figure(value, "time.step_ms.median"));
            put_rate(to, ratio);
            ls_sheet_cell(to, k ? ls_verdict_name(ls_verdict_of_pair(ratio)) : "", "");
            ls_sheet_row_end(to);
        }
    }
    if (json_array_size(page->ratios) == 0)
        return;
    ls_sheet_table_end(to);
    ls_sheet_line(
        to, "p", "",
        "slower, faster: 1 is outside of the ratio's interval; same: the interval is within 5% "
        "of 1; else it cannot be told (lockstep results diff says the same). An interval covers "
        "the time of its run, not how the machine drifts between two runs, often by 1%; lockstep "
        "regress counts that.");
}

static void put_figure(ls_sheet *to, const json_t *figure)
{
    const char *name = ls_text_of(figure, "name"), *svg = ls_text_of(figure, "svg");
    FILE *stream = to->stream;
    if (to->kind == LS_SHEET_MARKDOWN) {
        ls_sheet_line(to, "", "## ", ls_text_of(figure, "title"));
        fputs(*svg ? "![" : "", stream);
        ls_sheet_text(to, *svg ? ls_text_of(figure, "alt") : "");
        fprintf(stream, *svg ? "](%s.svg)\n\n" : "%.0s", name);
        ls_sheet_text(to, ls_text_of(figure, "caption"));
        fprintf(stream, " [Data](%s.csv)\n\n", name);
        return;
    }
    fprintf(stream, "<figure id=\"%s\">", name);
    if (*svg)
        fprintf(stream, "<div class=scroll tabindex=0 role=region aria-label=\"%s\">%s</div>", name,
                svg);
    else
        ls_sheet_line(to, "h3", "", ls_text_of(figure, "title"));
    fputs("<figcaption>", stream);
    ls_sheet_text(to, ls_text_of(figure, "caption"));
    fprintf(stream, " <a href=\"%s.csv\">CSV</a>", name);
    if (*svg)
        fprintf(stream,
                ", <a href=\"%s.svg\">SVG</a>, <a href=\"%s.png\">PNG</a>, "
                "<a href=\"%s.pdf\">PDF</a>",
                name, name, name);
    fputs("</figcaption><details><summary>data</summary>", stream);
    put_data(to, figure);
    fputs("</details></figure>\n", stream);
}

/* ---- All rows: each is a body of two lines, so that both are sorted and filtered together; the
 * second one opens to what the row holds. ------------------------------------------------------ */

enum { CASE, DEVICES = 2, STEP = 4, GATE = 9, STATUS = 10, COLUMNS = 13 };
static const ls_column columns[COLUMNS] = {
    {.title = "case"},
    {.title = "model", .path = "case.model"},
    {.title = "devices"},
    {.title = "batch", .path = "case.batch_global"},
    {.title = "step ms", .path = "time.step_ms.median", .cell = LS_CELL_FIGURE},
    {.title = "\xc2\xb1", .path = "time.step_ms", .cell = LS_CELL_HALF},
    {.title = "samples/s", .path = "time.samples_per_s", .cell = LS_CELL_FIGURE},
    {.title = "speed-up", .path = "time.speedup", .cell = LS_CELL_RATIO},
    {.title = "eff", .path = "time.efficiency", .cell = LS_CELL_WHOLE},
    {.title = "gate"},
    {.title = "status", .path = "result", .cell = LS_CELL_STATUS},
    {.title = "label", .path = "label"},
    {.title = "day", .path = "timestamp"},
};

/* "all-reduce ring 4 KiB", "layers dense0 forward" */
static void name_micro(const json_t *row, char *text, size_t size)
{
    char more[64];
    const double bytes = ls_report_number(row, "micro.size_bytes", 0);
    const bool talks = *ls_row_text(row, "micro", "comm");
    ls_text_add(text, size, "%s ", ls_row_text(row, "micro", "op"));
    ls_text_add(text, size, "%s", ls_row_text(row, "micro", talks ? "kernel" : "shape"));
    if (bytes > 0)
        ls_text_add(text, size, " %s", ls_format_bytes(bytes, more));
}

static void put_row_cell(ls_sheet *to, const json_t *row, size_t k, const json_t *differences)
{
    char text[LS_LABEL_SIZE] = "", cell[LS_CELL_SIZE];
    const bool micro = json_object_get(row, "micro");
    if (k == CASE && micro)
        name_micro(row, text, sizeof text);
    else if (k == CASE)
        ls_report_label(row, differences, false, NULL, text);
    else if (k == DEVICES && json_object_get(row, "case"))
        ls_text_add(text, sizeof text, "%g", ls_report_devices(row));
    else if (k == STEP && micro)
        ls_text_add(text, sizeof text, "%.4g", ls_report_number(row, "micro.time_us", 0) / 1e3);
    else if (k == GATE && !micro)
        ls_text_add(text, sizeof text, "%s", ls_gate_word(row));
    else if (columns[k].cell == LS_CELL_TEXT && columns[k].path)
        ls_report_text(row, columns[k].path, text, k + 1 == COLUMNS ? 11 : sizeof text);
    else if (columns[k].path) {
        ls_cell_write(&columns[k], row, cell);
        ls_text_add(text, LS_CELL_SIZE - 8, "%s", cell); /* a multi-byte character may be cut */
    }
    const bool bad =
        (k == GATE && strcmp(text, "FAILED") == 0) || (k == STATUS && ls_row_is_bad(row));
    fputs(bad ? "<td class=bad>" : "<td>", to->stream);
    ls_markup(to->stream, text, k == CASE ? CASE_MOST : 80);
}

/* The row's parts as figures, and as a bar if requested. */
static void put_parts(const ls_sheet *to, const json_t *row, const ls_row_parts *parts, bool bar)
{
    const double sum = ls_parts_sum(row, parts);
    char shown[48], text[512] = "";
    if (sum <= 0)
        return;
    fputs(bar ? "<div class=w>" : "", to->stream);
    for (size_t p = 0; parts->shown[p]; p++) {
        const double value = ls_part_value(row, parts, p, 0);
        if (bar && value > 0.002 * sum)
            fprintf(to->stream, "<i class=p%zu style=flex:%.3g></i>", p, 100 * value / sum);
        if (value > 0)
            ls_text_add(text, sizeof text, "%s%s %s", *text ? ", " : ": ", parts->shown[p],
                        ls_figure_value(value, parts->unit, shown));
    }
    fputs(bar ? "</div>" : "", to->stream);
    ls_sheet_line(to, "p", parts->title, text);
}

static void put_details(const ls_sheet *to, const ls_page *page, const json_t *row)
{
    const size_t most = COMMANDS_MOST / json_array_size(page->rows);
    char machine[LS_MACHINE_SIZE], commit[64], reason[1024];
    const char *name;
    json_t *unused;
    size_t number = 0;
    put_parts(to, row, &ls_parts_of_step, true);
    put_parts(to, row, &ls_parts_of_memory, false);
    char *bound = page->options->explain ? page->options->explain(row) : NULL;
    for (char *line = bound, *rest = bound; line && (line = strtok_r(rest, "\n", &rest));)
        ls_sheet_line(to, "p", "", line);
    free(bound);
    ls_sheet_line(to, "p", "Reason: ", ls_report_text(row, "result.reason", reason, sizeof reason));
    fputs("<p>Provenance: ", to->stream);
    ls_report_machine(row, machine, sizeof machine);
    json_object_foreach((json_t *)(size_t)page->machines, name, unused)
    {
        (void)unused;
        number++;
        if (strcmp(name, machine) == 0)
            fprintf(to->stream, "<a href=\"#m%zu\">machine %zu</a>, ", number, number);
    }
    fputs("commit ", to->stream);
    ls_sheet_text(to, ls_report_commit(row, 12, commit));
    fputs(", row ", to->stream);
    ls_markup(to->stream, ls_text_of(row, "id"), 80);
    fputs("</p><pre>", to->stream);
    ls_markup(to->stream, ls_text_of(row, "command"), most < 1500 ? most : 1500);
    fputs("</pre>", to->stream);
}

static void put_rows(ls_sheet *to, const ls_page *page)
{
    json_t *differences = ls_report_differences(page->rows, "case.model", "case.batch_global");
    FILE *stream = to->stream;
    fprintf(stream,
            "<h2 id=rows>All rows: %zu</h2><p id=tools hidden><label>Only rows with "
            "<input id=filter type=search></label> <span id=shown aria-live=polite></span></p>"
            "<p class=m>A row's bar is its step:",
            json_array_size(page->rows));
    for (size_t p = 0; ls_parts_of_step.shown[p]; p++)
        fprintf(stream, "<i class=\"k p%zu\"></i>%s", p, ls_parts_of_step.shown[p]);
    fputs("</p><div class=scroll tabindex=0 role=region aria-label=\"All rows\"><table id=t>"
          "<thead><tr>",
          stream);
    for (size_t k = 0; k < COLUMNS; k++)
        fprintf(stream, "<th scope=col>%s", columns[k].title);
    fputs("</thead>\n", stream);
    for (size_t i = 0; i < json_array_size(page->rows); i++) {
        const json_t *row = json_array_get(page->rows, i);
        fputs("<tbody><tr>", stream);
        for (size_t k = 0; k < COLUMNS; k++)
            put_row_cell(to, row, k, differences);
        fprintf(stream, "<tr class=o><td colspan=%d><details><summary>more</summary>", COLUMNS);
        put_details(to, page, row);
        fputs("</details></tbody>\n", stream);
    }
    fputs("</table></div>\n", stream);
    json_decref(differences);
}

/* ---- The rest ------------------------------------------------------------------------------- */

static void put_machines(const ls_sheet *to, const ls_page *page)
{
    const char *machine, *name;
    json_t *provenance, *value;
    size_t number = 0;
    fputs("<h2>Where the rows come from</h2>\n", to->stream);
    json_object_foreach((json_t *)(size_t)page->machines, machine, provenance)
    {
        number++;
        fprintf(to->stream, "<details id=m%zu open><summary>machine %zu: ", number, number);
        ls_sheet_text(to, *machine ? machine : "not named");
        fputs("</summary><p class=m>", to->stream);
        json_object_foreach(provenance, name, value)
        {
            char *text = ls_value_text(value);
            ls_sheet_line(to, "b", "", name);
            ls_sheet_text(to, text);
            fputs("; ", to->stream);
            free(text);
        }
        fputs("</p></details>\n", to->stream);
    }
}

void ls_page_lines(FILE *stream, const char *text, const char *before)
{
    while (*text) {
        const int length = (int)strcspn(text, "\n");
        fprintf(stream, "%s%.*s\n", before, length, text);
        text += length + (text[length] == '\n');
    }
}

static void put_all(ls_sheet *to, const ls_page *page)
{
    const bool html = to->kind == LS_SHEET_HTML, pictures = json_array_size(page->figures) > 0;
    put_finding(to, page);
    put_ratios(to, page);
    json_auto_t *predicted = ls_page_predicted(page->rows);
    ls_sheet_line(to, "h2", html ? "" : "## ", predicted ? "What is predicted" : NULL);
    ls_sheet_line(to, "p", "", json_string_value(predicted));
    ls_sheet_plain(to, pictures ? "<h2>Pictures</h2><div class=figs>\n" : "", "");
    for (size_t i = 0; i < json_array_size(page->figures); i++)
        put_figure(to, json_array_get(page->figures, i));
    ls_sheet_plain(to, pictures ? "</div>\n" : "", "");
    if (html) {
        put_rows(to, page);
        put_machines(to, page);
        ls_page_models(to->stream, page->rows);
    }
    ls_sheet_plain(to, "<details class=m id=left><summary>Left out</summary><ul>\n",
                   "## Left out\n\n");
    for (size_t i = 0; i < json_array_size(page->left_out); i++)
        ls_sheet_line(to, "li", html ? "" : "- ",
                      json_string_value(json_array_get(page->left_out, i)));
    ls_sheet_plain(to,
                   "</ul></details><h2>Repeat and cite</h2><p>Each row has its command. <a "
                   "href=\"report.yaml\">The plan that repeats them all</a>, <a "
                   "href=\"rows.jsonl\">the rows</a>, <a href=\"report.bib\">BibTeX</a>.",
                   "\n## Repeat and cite\n\n[The plan that repeats the rows](report.yaml), [the "
                   "rows](rows.jsonl), [BibTeX](report.bib).");
    if (!page->commands) {
        ls_sheet_plain(to, "</p>\n", "\n");
        return;
    }
    ls_sheet_plain(to, " In this folder, to run it again and compare both:</p><pre>",
                   " In this folder, to run it again and compare both:\n\n");
    ls_page_lines(to->stream, page->commands, html ? "" : "    ");
    ls_sheet_plain(to, "</pre>\n", "");
}

ls_status ls_page_html(FILE *stream, void *page)
{
    fputs("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
          "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
          "<link rel=icon href=\"data:,\"><title>Lockstep: ",
          stream);
    ls_markup(stream, headline_of(page), 120);
    fprintf(stream, "</title><style>\n%s", ls_page_style);
    ls_draw_dark_style(stream);
    fputs("</style></head><body><main>\n", stream);
    put_all(&(ls_sheet){stream, .kind = LS_SHEET_HTML}, page);
    fprintf(stream, "</main><script>\n%s</script></body></html>\n", ls_page_script);
    return LS_OK;
}

ls_status ls_page_markdown(FILE *stream, void *page)
{
    put_all(&(ls_sheet){stream, .kind = LS_SHEET_MARKDOWN}, page);
    return LS_OK;
}
