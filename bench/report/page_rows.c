/* SPDX-License-Identifier: MIT */
/* The page's table of rows. Each row is a body of two lines, so that both are sorted and filtered
 * together; the second one opens to what the row holds. */
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_MOST = 80, COMMANDS_MOST = 250000, PARAGRAPH_MOST = 600, CASE_MOST = 44 };

static const char *const titles[] = {"case",       "model",     "devices",  "batch", "step ms",
                                     "\xc2\xb1 %", "samples/s", "speed-up", "eff",   "gate",
                                     "status",     "label",     "day"};
enum { TITLES = sizeof titles / sizeof *titles };

static void cell_text(FILE *stream, const char *text, const char *class)
{
    fputs(*class ? "<td class=" : "<td>", stream);
    if (*class)
        fprintf(stream, "%s>", class);
    ls_markup(stream, text, LABEL_MOST);
}

static void cell_number(FILE *stream, double value, const char *format)
{
    fputs("<td>", stream);
    if (value >= 0)
        fprintf(stream, format, value);
}

static void print_cells(FILE *stream, const json_t *row, const json_t *differences)
{
    char text[LS_LABEL_SIZE], stamp[11];
    const ls_rate rate = ls_report_rate(row);
    const char *gate = ls_gate_word(row);
    const json_t *result = json_object_get(row, "result"), *warning;
    size_t i;
    fputs("<tr>", stream);
    if (json_object_get(row, "micro")) {
        char more[64];
        const char *path =
            *ls_report_text(row, "micro.comm", more, 2) ? "micro.kernel" : "micro.shape";
        ls_report_text(row, "micro.op", text, 128);
        ls_text_add(text, sizeof text, " %s", ls_report_text(row, path, more, sizeof more));
        if (ls_report_number(row, "micro.size_bytes", 0) > 0)
            ls_text_add(text, sizeof text, " %s",
                        ls_format_bytes(ls_report_number(row, "micro.size_bytes", 0), more));
        gate = "";
    } else {
        ls_report_label(row, differences, false, NULL, text);
    }
    fputs("<td>", stream);
    ls_markup(stream, text, CASE_MOST);
    cell_text(stream, ls_report_text(row, "case.model", text, sizeof text), "");
    cell_number(stream, json_object_get(row, "case") ? ls_report_devices(row) : -1, "%.0f");
    cell_number(stream, ls_report_number(row, "case.batch_global", -1), "%.0f");
    cell_number(stream,
                ls_report_number(row, "time.step_ms.median",
                                 ls_report_number(row, "micro.time_us", -1e3) / 1e3),
                "%.4g");
    cell_number(stream, rate.low > 0 ? 50 * (rate.rate / rate.low - rate.rate / rate.high) : -1,
                "%.1f");
    cell_number(stream, ls_report_number(row, "time.samples_per_s", -1), "%.0f");
    cell_number(stream, ls_report_number(row, "time.speedup", -1), "%.2f");
    cell_number(stream, ls_report_number(row, "time.efficiency", -1), "%.2f");
    cell_text(stream, gate, strcmp(gate, "FAILED") == 0 ? "bad" : "");
    const char *status = json_string_value(json_object_get(result, "status"));
    fputs(status && strcmp(status, "ok") != 0 ? "<td class=bad>" : "<td>", stream);
    ls_markup(stream, status, 40);
    json_array_foreach(json_object_get(result, "warnings"), i, warning)
    {
        fputc(' ', stream);
        ls_markup(stream, json_string_value(warning), 40);
    }
    cell_text(stream, ls_report_text(row, "label", text, sizeof text), "");
    ls_report_text(row, "timestamp", stamp, sizeof stamp);
    cell_text(stream, stamp, "");
}

/* What the row has of the parts, in figures, and, where asked for, as a bar. */
static void print_parts(FILE *stream, const json_t *row, const ls_row_parts *parts, bool bar)
{
    double sum = 0;
    char shown[48];
    const char *before = ": ";
    for (size_t p = 0; parts->shown[p]; p++)
        sum += ls_part_value(row, parts, p, 0);
    if (sum <= 0)
        return;
    fputs(bar ? "<div class=w>" : "", stream);
    for (size_t p = 0; bar && parts->shown[p]; p++)
        if (ls_part_value(row, parts, p, 0) > 0.002 * sum)
            fprintf(stream, "<i class=p%zu style=flex:%.3g></i>", p,
                    100 * ls_part_value(row, parts, p, 0) / sum);
    fprintf(stream, "%s<p>%s", bar ? "</div>" : "", parts->title);
    for (size_t p = 0; parts->shown[p]; p++) {
        if (ls_part_value(row, parts, p, 0) <= 0)
            continue;
        fprintf(stream, "%s%s %s", before, parts->shown[p],
                ls_figure_value(ls_part_value(row, parts, p, 0), parts->unit, shown));
        before = ", ";
    }
}

static void print_paragraph(FILE *stream, const char *before, const char *text)
{
    if (!text || !*text)
        return;
    fprintf(stream, "<p>%s", before);
    ls_markup(stream, text, PARAGRAPH_MOST);
}

static void print_details(FILE *stream, const ls_page *page, const json_t *row)
{
    char machine[256], commit[64], id[96], reason[256];
    const char *name, *command = json_string_value(json_object_get(row, "command"));
    json_t *unused;
    size_t number = 0, most = COMMANDS_MOST / json_array_size(page->rows);
    print_parts(stream, row, &ls_parts_of_step, true);
    print_parts(stream, row, &ls_parts_of_memory, false);
    char *bound = page->options->explain ? page->options->explain(row) : NULL;
    print_paragraph(stream, "", bound);
    free(bound);
    print_paragraph(stream,
                    "Reason: ", ls_report_text(row, "result.reason", reason, sizeof reason));
    fputs("<p>Provenance: ", stream);
    ls_report_machine(row, machine, sizeof machine);
    json_object_foreach((json_t *)(size_t)page->machines, name, unused)
    {
        (void)unused;
        number++;
        if (strcmp(name, machine) == 0)
            fprintf(stream, "<a href=\"#m%zu\">machine %zu</a>, ", number, number);
    }
    fputs("commit ", stream);
    ls_markup(stream, ls_report_commit(row, 12, commit), SIZE_MAX);
    fputs(", row ", stream);
    ls_markup(stream, ls_report_text(row, "id", id, sizeof id), 80);
    fputs("</p>", stream);
    if (command) {
        fputs("<pre>", stream);
        ls_markup(stream, command, most < 1500 ? most : 1500);
        fputs("</pre>", stream);
    }
}

void ls_page_rows(FILE *stream, const ls_page *page)
{
    const json_t *row;
    json_t *differences = ls_report_differences(page->rows, NULL, "case.batch_global");
    size_t i;
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
    for (size_t k = 0; k < TITLES; k++)
        fprintf(stream, "<th scope=col>%s", titles[k]);
    fputs("</thead>\n", stream);
    json_array_foreach(page->rows, i, row)
    {
        fputs("<tbody>", stream);
        print_cells(stream, row, differences);
        fprintf(stream, "<tr class=o><td colspan=%d><details><summary>more</summary>", TITLES);
        print_details(stream, page, row);
        fputs("</details></tbody>\n", stream);
    }
    fputs("</table></div>\n", stream);
    json_decref(differences);
}
