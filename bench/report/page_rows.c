/* SPDX-License-Identifier: MIT */
/* The page's table of rows. Each row is a body of two lines, so that both are sorted and filtered
 * together; the second one opens to what the row holds. */
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL_MOST = 120, COMMAND_MOST = 1500 };

static const char *const titles[] = {"strategy",   "model",     "devices",  "batch", "step ms",
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
    if (value < 0) {
        fputs("<td>", stream);
        return;
    }
    fputs("<td class=n>", stream);
    fprintf(stream, format, value);
}

static double half_width(const json_t *row)
{
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const json_t *ci95 = json_object_get(step, "ci95");
    const double median = json_number_value(json_object_get(step, "median"));
    if (!ci95 || median <= 0)
        return -1;
    return 50 *
           (json_number_value(json_array_get(ci95, 1)) -
            json_number_value(json_array_get(ci95, 0))) /
           median;
}

static void print_cells(FILE *stream, const json_t *row)
{
    char text[256], stamp[11];
    const char *gate = ls_gate_word(row);
    const json_t *result = json_object_get(row, "result"), *warning;
    size_t i;
    fputs("<tr>", stream);
    if (json_object_get(row, "micro")) {
        ls_report_text(row, "micro.op", text, 128);
        const size_t used = strlen(text);
        char kernel[64];
        snprintf(text + used, sizeof text - used, " %s",
                 ls_report_text(row, "micro.kernel", kernel, sizeof kernel));
        gate = "";
    } else {
        snprintf(text, sizeof text, "%s", ls_report_strategy(row));
    }
    cell_text(stream, text, "");
    cell_text(stream, ls_report_text(row, "case.model", text, sizeof text), "");
    cell_number(stream, json_object_get(row, "case") ? ls_report_devices(row) : -1, "%.0f");
    cell_number(stream, ls_report_number(row, "case.batch_global", -1), "%.0f");
    cell_number(stream, ls_report_number(row, "time.step_ms.median", -1), "%.4g");
    cell_number(stream, half_width(row), "%.1f");
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
    cell_text(stream, stamp, "d");
}

static void print_waterfall(FILE *stream, const json_t *row)
{
    static const char *const parts[] = {"compute", "optimizer", "comm_exposed",
                                        "wait",    "copy",      "harness"};
    char path[64];
    double values[6], sum = 0;
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "waterfall.%s_ms", parts[i]);
        values[i] = ls_report_number(row, path, 0);
        sum += values[i];
    }
    if (sum <= 0)
        return;
    fputs("<div class=w>", stream);
    for (size_t i = 0; i < 6; i++)
        if (values[i] > 0.002 * sum)
            fprintf(stream, "<i class=p%zu style=\"flex:%.3g\"></i>", i, 100 * values[i] / sum);
    fputs("</div><p>Waterfall, ms:", stream);
    for (size_t i = 0; i < 6; i++)
        if (values[i] > 0)
            fprintf(stream, " %s %.3g%s", parts[i], values[i], i < 5 ? "," : "");
    fputs("</p>", stream);
}

static void print_memory(FILE *stream, const json_t *row)
{
    static const char *const parts[] = {"parameters",    "gradients", "optimizer", "activations",
                                        "communication", "workspace", "peak"};
    char path[64], shown[48];
    bool any = false;
    for (size_t i = 0; i < 7; i++) {
        snprintf(path, sizeof path, "memory.devices.%s", parts[i]);
        const double value = ls_report_number(row, path, -1);
        if (value < 0)
            continue;
        fprintf(stream, "%s %s %s", any ? "," : "<p>Memory of the fullest device:", parts[i],
                ls_figure_value(value, "bytes", shown));
        any = true;
    }
    if (any)
        fputs("</p>", stream);
}

static void print_details(FILE *stream, const ls_page *page, const json_t *row)
{
    char machine[256], commit[48], id[96], reason[256];
    const char *name, *command = json_string_value(json_object_get(row, "command"));
    json_t *unused;
    size_t number = 0;
    print_waterfall(stream, row);
    print_memory(stream, row);
    char *bound = page->options->explain ? page->options->explain(row) : NULL;
    if (bound && *bound) {
        fputs("<p>", stream);
        ls_markup(stream, bound, 600);
        fputs("</p>", stream);
    }
    free(bound);
    if (*ls_report_text(row, "result.reason", reason, sizeof reason)) {
        fputs("<p>Reason: ", stream);
        ls_markup(stream, reason, 256);
        fputs("</p>", stream);
    }
    fputs("<p>Provenance: ", stream);
    ls_report_machine(row, machine, sizeof machine);
    json_object_foreach((json_t *)(size_t)page->machines, name, unused)
    {
        (void)unused;
        number++;
        if (strcmp(name, machine) == 0)
            fprintf(stream, "<a href=\"#m%zu\">machine %zu</a>, ", number, number);
    }
    ls_report_text(row, "provenance.commit", commit, sizeof commit);
    fprintf(stream, "commit %.12s%s, row ", *commit ? commit : "not known",
            ls_report_number(row, "provenance.dirty", 0) > 0 ? " (dirty)" : "");
    ls_markup(stream, ls_report_text(row, "id", id, sizeof id), 80);
    fputs("</p>", stream);
    if (command) {
        fputs("<pre>", stream);
        ls_markup(stream, command, COMMAND_MOST);
        fputs("</pre>", stream);
    }
}

void ls_page_rows(FILE *stream, const ls_page *page)
{
    const json_t *row;
    size_t i;
    fprintf(
        stream,
        "<h2 id=rows>All rows: %zu</h2><p id=tools hidden><label>Only rows with "
        "<input id=filter type=search></label> <span id=shown aria-live=polite></span></p>"
        "<div class=scroll tabindex=0 role=region aria-label=\"All rows\"><table id=t><thead><tr>",
        json_array_size(page->rows));
    for (size_t k = 0; k < TITLES; k++)
        fprintf(stream, "<th scope=col>%s", titles[k]);
    fputs("</thead>\n", stream);
    json_array_foreach(page->rows, i, row)
    {
        fputs("<tbody>", stream);
        print_cells(stream, row);
        fprintf(stream, "<tr class=o><td colspan=%d><details><summary>more</summary>", TITLES);
        print_details(stream, page, row);
        fputs("</details></tbody>\n", stream);
    }
    fputs("</table></div>\n", stream);
}
