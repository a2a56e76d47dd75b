/* SPDX-License-Identifier: MIT */
/* The page's table of all rows, and what each row opens to; see page.h. */
#include "bench/report/page.h"

#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMMANDS_MOST = 250000, COMMAND_MOST = 1500 }; /* bytes, of all and of one */

/* "all-reduce ring 4 KiB", "layers dense0 forward" */
static char *name_micro(const json_t *row, char out[LS_LABEL_SIZE])
{
    char size[64];
    const double bytes = ls_row_real(row, LS_F_micro_size_bytes);
    const bool talks = *ls_row_string(row, LS_F_micro_comm);
    *out = 0;
    return ls_text_add(out, LS_LABEL_SIZE, "%s %s%s%s", ls_row_string(row, LS_F_micro_op),
                       ls_row_string(row, talks ? LS_F_micro_kernel : LS_F_micro_shape),
                       bytes > 0 ? " " : "", bytes > 0 ? ls_format_bytes(bytes, size) : "");
}

/* Four digits, and without an exponent, so that the column can be sorted; nothing for 0. */
static void put_figure(json_t *line, const char *name, double value)
{
    if (value > 0)
        ls_page_number(line, name, value >= 1000 && value < 1e10 ? "%.0f" : "%.4g", value);
}

static void put_cells(json_t *line, const json_t *row, const json_t *differences)
{
    const bool micro = ls_row_group(row, LS_G_micro);
    const char *gate = micro ? "" : ls_gate_word(row);
    char label[LS_LABEL_SIZE], status[256] = "";
    ls_interval pace, rate = ls_report_rate(row);
    const bool known = ls_row_pace(row, &pace);
    ls_page_text(line, "label", "%s",
                 micro ? name_micro(row, label)
                       : ls_report_label(row, differences, false, NULL, label));
    ls_page_text(line, "model", "%s", ls_row_string(row, LS_F_case_model));
    if (ls_row_group(row, LS_G_case))
        ls_page_text(line, "devices", "%g", ls_report_devices(row));
    if (ls_row_has(row, LS_F_case_batch_global))
        ls_page_text(line, "batch", "%" PRId64, ls_row_integer(row, LS_F_case_batch_global));
    put_figure(line, "step", micro ? ls_row_real(row, LS_F_micro_time_us) / 1e3 : pace.value);
    if (known) {
        const double half = 50 * (pace.high - pace.low) / pace.value;
        ls_page_number(line, "half", half < 99.95 ? "%.1f%%" : "%.0f%%", half);
    }
    put_figure(line, "rate", rate.value);
    if (ls_row_has(row, LS_F_time_speedup))
        ls_page_number(line, "speedup", "%.2f", ls_row_real(row, LS_F_time_speedup));
    if (ls_row_has(row, LS_F_time_efficiency))
        ls_page_number(line, "efficiency", "%.0f%%", 100 * ls_row_real(row, LS_F_time_efficiency));
    ls_page_text(line, "gate", "%s", gate);
    if (strcmp(gate, "FAILED") == 0)
        json_object_set_new(line, "failed", json_true());
    ls_text_add(status, sizeof status, "%s", ls_row_string(row, LS_F_result_status));
    for (size_t i = 0; i < ls_row_count(row, LS_F_result_warnings); i++)
        ls_text_add(status, sizeof status, "%s%s",
                    i         ? ", "
                    : *status ? ": "
                              : "",
                    ls_row_string_at(row, LS_F_result_warnings, i));
    ls_page_text(line, "status", "%s", status);
    if (ls_row_is_bad(row))
        json_object_set_new(line, "bad", json_true());
    ls_page_text(line, "tag", "%s", ls_row_string(row, LS_F_label));
    ls_page_text(line, "day", "%.10s", ls_row_string(row, LS_F_timestamp));
}

/* The row's parts in words; and as a bar, unless that is NULL. */
static void put_parts(json_t *line, const char *name, const json_t *row, const ls_row_parts *parts,
                      json_t *bars)
{
    const double sum = ls_parts_sum(row, parts);
    char text[512] = "", shown[48];
    for (size_t p = 0; sum > 0 && parts->shown[p]; p++) {
        const double value = ls_part_value(row, parts, p, 0);
        if (value > 0)
            ls_text_add(text, sizeof text, "%s%s %s", *text ? ", " : "", parts->shown[p],
                        ls_figure_value(value, parts->unit, shown));
        if (value > 0.002 * sum)
            json_array_append_new(bars,
                                  json_pack("{s:o,s:o}", "class", json_sprintf("%zu", p), "share",
                                            json_sprintf("%.3g", 100 * value / sum)));
    }
    ls_page_text(line, name, "%s", text);
}

static void put_details(json_t *line, const json_t *row, const json_t *machines,
                        const ls_report_options *options, size_t most)
{
    char machine[LS_MACHINE_SIZE], commit[64], command[COMMAND_MOST + 4] = "";
    char *bound = options->explain ? options->explain(row) : NULL, *rest = bound;
    json_t *bars = json_array(), *said = json_array(), *unused;
    const char *name;
    size_t number = 0;
    put_parts(line, "steps", row, &ls_parts_of_step, bars);
    put_parts(line, "held", row, &ls_parts_of_memory, NULL);
    json_object_set_new(line, "bars", bars);
    for (char *text; bound && (text = strtok_r(rest, "\n", &rest));)
        json_array_append_new(said, json_string(text));
    json_object_set_new(line, "bound", said);
    free(bound);
    ls_page_text(line, "reason", "%s", ls_row_string(row, LS_F_result_reason));
    ls_report_machine(row, machine, sizeof machine);
    json_object_foreach((json_t *)(size_t)machines, name, unused)
    {
        (void)unused;
        number++;
        if (strcmp(name, machine) == 0)
            ls_page_text(line, "machine", "%zu", number);
    }
    ls_page_text(line, "commit", "%s", ls_report_commit(row, 12, commit));
    ls_page_text(line, "id", "%s", ls_row_string(row, LS_F_id));
    most = most < COMMAND_MOST ? most : COMMAND_MOST;
    ls_text_add(command, most, "%s", ls_row_string(row, LS_F_command));
    if (strlen(ls_row_string(row, LS_F_command)) >= most)
        ls_text_add(command, sizeof command, "\u2026");
    ls_page_text(line, "command", "%s", command);
}

json_t *ls_page_lines(const json_t *rows, const json_t *machines, const ls_report_options *options)
{
    json_auto_t *differences = ls_report_differences(rows, ls_fields[LS_F_case_model].path,
                                                     ls_fields[LS_F_case_batch_global].path);
    json_t *out = json_array();
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        json_t *line = json_object();
        put_cells(line, row, differences);
        put_details(line, row, machines, options, COMMANDS_MOST / json_array_size(rows));
        json_array_append_new(out, line);
    }
    return out;
}
