/* SPDX-License-Identifier: MIT */
/* What a paper takes from a report: an entry for BibTeX, and the first table for LaTeX. */
#include "bench/output/format_parts.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/base/escape.h"

#include <math.h>
#include <string.h>

enum { CASES_MOST = 20 };

static void put(FILE *stream, const char *text)
{
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_BIBTEX);
}

/* The rows' day, of a foreign row perhaps nothing, and a number of their own: "2026-11-20-3f90da".
 */
static void write_key(const ls_page *page, char day[11], char key[32])
{
    const size_t count = json_array_size(page->rows);
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        const char *id = ls_text_of(json_array_get(page->rows, i), "id");
        hash = 31 * hash + ls_hash64(id, strlen(id));
    }
    ls_report_text(json_array_get(page->rows, count - 1), "timestamp", day, 11);
    day[strspn(day, "0123456789-")] = 0;
    snprintf(key, 32, "%s-%06x", day, (unsigned)(hash & 0xffffff));
}

ls_status ls_page_bibliography(FILE *stream, void *of)
{
    const ls_page *page = of;
    const json_t *row = json_array_get(page->rows, json_array_size(page->rows) - 1);
    char day[11], key[32], commit[64], machine[LS_MACHINE_SIZE];
    write_key(page, day, key);
    fprintf(stream, "@misc{lockstep-%s,\n  title = {Training speed of ", key);
    put(stream, ls_row_text(row, "case", "model"));
    fprintf(stream, ", %s},\n  author = {{The Lockstep authors}},\n  year = {%.4s},\n", day, day);
    if (page->options->url)
        fprintf(stream, "  url = {%s},\n", page->options->url);
    fprintf(stream, "  note = {Report of %zu rows by Lockstep " LS_VERSION ", commit ",
            json_array_size(page->rows));
    put(stream, ls_report_commit(row, 40, commit));
    fputs(", on ", stream);
    put(stream, ls_report_machine(row, machine, sizeof machine));
    fputs("}\n}\n", stream);
    return LS_OK;
}

/* A cell; empty where the row has no such number. */
static void put_figure(FILE *stream, const char *format, double value)
{
    fputs(" & ", stream);
    if (isfinite(value))
        fprintf(stream, format, value);
}

static void put_case(FILE *stream, const json_t *one)
{
    ls_interval rate;
    const json_t *row = ls_case_row(one, &rate);
    char value[48];
    put(stream, ls_text_of(one, "label"));
    fprintf(stream, " & %s", ls_figure_value(rate.value, "", value));
    put_figure(stream, "%.4g", ls_case_figure(one, "time.step_ms.median"));
    put_figure(stream, "%.2f", ls_case_figure(one, "time.speedup"));
    put_figure(stream, "%.0f\\%%", 100 * ls_case_figure(one, "time.efficiency"));
    fprintf(stream, " & %s \\\\\n", ls_report_is_peer(row) ? "peer" : ls_gate_word(row));
}

ls_status ls_page_latex(FILE *stream, void *of)
{
    const ls_page *page = of;
    const json_t *cases = json_object_get(page->finding, "cases");
    fputs("% \\usepackage{booktabs}\n% ", stream);
    put(stream, json_string_value(json_object_get(page->finding, "where")));
    fputs("\n\\begin{tabular}{lrrrrl}\n\\toprule\n"
          "case & samples/s & step ms & speed-up & efficiency & equal \\\\\n\\midrule\n",
          stream);
    for (size_t i = 0; i < json_array_size(cases) && i < CASES_MOST; i++)
        put_case(stream, json_array_get(cases, i));
    fputs("\\bottomrule\n\\end{tabular}\n", stream);
    return LS_OK;
}
