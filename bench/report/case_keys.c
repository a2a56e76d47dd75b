/* SPDX-License-Identifier: MIT */
/* Case keys; see case_keys.h. */
#include "bench/report/case_keys.h"

#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/rows/row.h"
#include "bench/report/text.h"
#include "impl/strategy.h"
#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

char *ls_report_text(const json_t *row, const char *path, char *out, size_t size)
{
    if (strcmp(path, "provenance.commit") == 0 && size >= 64)
        return ls_report_commit(row, 7, out);
    json_t *value = ls_row_value(row, path);
    char *text = value ? ls_option_text(value) : NULL;
    *out = 0;
    ls_text_add(out, size, "%s", text ? text : "");
    free(text);
    json_decref(value);
    return out;
}

char *ls_report_machine(const json_t *row, char *out, size_t size)
{
    const char *isa = ls_row_string(row, LS_F_provenance_isa), *name;
    const char *loops = ls_row_string(row, LS_F_provenance_loops_isa);
    const char *library = ls_row_string(row, LS_F_provenance_library_isa);
    const char *gpu = ls_row_string(row, LS_F_provenance_gpu);
    const char *host = ls_row_string(row, LS_F_provenance_host);
    json_t *value;
    *out = 0;
    ls_text_add(out, size, "%s%s%s", ls_row_string(row, LS_F_provenance_cpu), *isa ? " (" : "",
                isa);
    if (*isa)
        ls_text_add(out, size, "%s%s%s%s)", *loops ? ", loops " : "", loops,
                    *library ? ", library " : "", library);
    ls_text_add(out, size, "%s%s%s%s", *gpu ? ", " : "", gpu, *host ? ", host " : "", host);
    json_object_foreach(ls_row_get(row, LS_F_provenance_environment), name, value)
    {
        const char *text = json_string_value(value);
        ls_text_add(out, size, ", %s=%s", name, text ? text : "");
    }
    return out;
}

char *ls_report_commit(const json_t *row, int width, char out[64])
{
    const char *commit = ls_row_string(row, LS_F_provenance_commit);
    const size_t most = 64 - sizeof "+changes", size = (size_t)width + 1;
    ls_escape_copy(out, size < most ? size : most, *commit ? commit : "unknown", LS_ESCAPE_LINE);
    return ls_text_add(out, 64, "%s", ls_row_true(row, LS_F_provenance_dirty) ? "+changes" : "");
}

double ls_report_devices(const json_t *row)
{
    double count = 0, sum = 0;
    for (size_t i = 0; i < ls_row_count(row, LS_F_case_batch_per_device); i++)
        count += ls_row_real_at(row, LS_F_case_batch_per_device, i) > 0;
    if (count == 0)
        count = (double)ls_row_count(row, LS_F_case_devices);
    for (size_t i = 0; i < ls_row_count(row, LS_F_provenance_cores_per_device); i++)
        sum += ls_row_real_at(row, LS_F_provenance_cores_per_device, i);
    return ls_report_is_peer(row) && sum > count ? sum : count; /* of which two threads use two */
}

/* What repeats are ordered by: greater is faster. */
static double pace_of(const json_t *row)
{
    const double us = ls_row_real(row, LS_F_micro_time_us);
    return us > 0 ? 1 / us : ls_report_rate(row).value;
}

const json_t *ls_report_median(const json_t *rows)
{
    const json_t *row = NULL;
    const size_t count = json_array_size(rows);
    double *pace = calloc(count + 1, sizeof *pace);
    for (size_t i = 0; i < count && pace; i++)
        pace[i] = pace_of(json_array_get(rows, i));
    for (size_t i = 0; i < count && pace && !row; i++) {
        size_t slower = 0;
        for (size_t k = 0; k < count; k++)
            slower += pace[k] < pace[i] || (k < i && pace[k] <= pace[i]);
        if (slower == (count - 1) / 2)
            row = json_array_get(rows, i);
    }
    free(pace);
    return row;
}

bool ls_report_is_peer(const json_t *row)
{
    return ls_row_group(row, LS_G_peer);
}

const char *ls_report_strategy(const json_t *row)
{
    return ls_row_string(row, ls_report_is_peer(row) ? LS_F_peer_what : LS_F_case_strategy);
}

bool ls_report_is_ok(const json_t *row, const void *unused)
{
    (void)unused;
    const char *status = ls_row_string(row, LS_F_result_status);
    return ls_row_real(row, LS_F_micro_wrong) <= 0 &&
           (strcmp(status, "ok") == 0 || (ls_row_group(row, LS_G_micro) && !*status));
}

double ls_report_shared_devices(const json_t *rows)
{
    const double count = ls_report_devices(json_array_get(rows, 0));
    for (size_t i = 1; i < json_array_size(rows); i++)
        if (fabs(ls_report_devices(json_array_get(rows, i)) - count) > 0)
            return 0;
    return count;
}

json_t *ls_report_those(const json_t *rows, bool (*holds)(const json_t *row, const void *context),
                        const void *context)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (holds(json_array_get(rows, i), context))
            json_array_append(out, json_array_get(rows, i));
    return out;
}

ls_interval ls_report_rate(const json_t *row)
{
    ls_interval rate;
    const bool known = ls_row_rate(row, ls_row_is_uneven(row), &rate);
    return known ? rate : (ls_interval){rate.value, 0, 0};
}

ls_interval ls_report_ratio(ls_interval a, ls_interval b)
{
    if (a.low > 0 && b.low > 0)
        return ls_statistics_ratio(a, b);
    return (ls_interval){a.value / b.value, 0, 0};
}

int ls_report_strategy_index(const json_t *row)
{
    const char *name = ls_row_string(row, LS_F_case_strategy);
    const size_t count = ls_registry_count(&ls_strategies);
    size_t index = 0;
    while (index < count && strcmp(ls_registry_name(&ls_strategies, index), name) != 0)
        index++;
    return (int)index;
}

void ls_report_collect(json_t *lists, const char *name, json_t *row)
{
    if (!json_object_get(lists, name))
        json_object_set_new(lists, name, json_array());
    json_array_append(json_object_get(lists, name), row);
}

json_t *ls_report_cases(const json_t *rows, const char *by, const json_t *differences, bool devices,
                        const char *against)
{
    json_t *out = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char label[LS_LABEL_SIZE];
        if (by)
            ls_report_text(row, by, label, sizeof label);
        else
            ls_report_label(row, differences, devices, against, label);
        ls_report_collect(out, label, row);
    }
    return out;
}

json_t *ls_report_sorted(const json_t *lists, int (*order)(const json_t *a, const json_t *b))
{
    json_t *out = json_array(), *rows;
    const char *label;
    json_object_foreach((json_t *)(size_t)lists, label, rows)
    {
        json_t *one = json_pack("{s:s,s:O}", "label", label, "rows", rows);
        size_t at = json_array_size(out);
        while (order && at > 0 && order(json_array_get(out, at - 1), one) > 0)
            at--;
        json_array_insert_new(out, at, one);
    }
    return out;
}

/* ---- Machines, and values as people read them ------------------------------------------------ */

enum { MACHINE = LS_OF_CLASS | LS_OF_HOST };

bool ls_report_machine_each(const json_t *rows, const char *against)
{
    json_auto_t *machines = json_object(), *known = json_array();
    bool one = against && ls_row_is_of(against, MACHINE | LS_OF_LABEL);
    for (size_t i = 0; i < json_array_size(rows) && one; i++) {
        char value[LS_KEY_SIZE];
        const json_t *row = json_array_get(rows, i);
        json_auto_t *machine = json_integer((json_int_t)ls_row_machine(known, row, MACHINE));
        ls_report_text(row, against, value, sizeof value);
        one = !json_object_get(machines, value) ||
              json_equal(json_object_get(machines, value), machine);
        json_object_set(machines, value, machine);
    }
    return one;
}

size_t ls_figure_machines(const json_t *rows)
{
    json_auto_t *known = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        ls_row_machine(known, json_array_get(rows, i), MACHINE);
    return json_array_size(known);
}

json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against)
{
    json_t *groups = json_object();
    json_auto_t *known = json_array();
    const bool together = ls_report_machine_each(rows, against);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char key[LS_KEY_SIZE] = "", part[256];
        if (!together)
            snprintf(key, sizeof key, "%zu", ls_row_machine(known, row, MACHINE));
        for (size_t p = 0; paths[p]; p++)
            ls_text_add(key, sizeof key, "|%s", ls_report_text(row, paths[p], part, sizeof part));
        ls_text_add(key, sizeof key, "|%s", /* a file's other text */
                    ls_row_string(row, LS_F_case_model_digest));
        ls_report_collect(groups, key, row);
    }
    return groups;
}

double ls_figure_at(const json_t *point, size_t index)
{
    return json_number_value(json_array_get(point, index));
}

static char *with_commas(double value, char out[48])
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.0f", value);
    const size_t length = strlen(digits);
    size_t used = 0;
    for (size_t i = 0; i < length && used < 46; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

char *ls_figure_value(double value, const char *unit, char out[48])
{
    const bool share = strcmp(unit, "%") == 0, bytes = strcmp(unit, "bytes") == 0;
    if (share)
        snprintf(out, 48, "%.0f%%", 100 * value);
    else if (bytes)
        ls_format_bytes(value, out);
    else if (fabs(value) >= 1000)
        with_commas(value, out);
    else /* omits "1 times" */
        snprintf(out, 48, strcmp(unit, "times") == 0 && value < 10 ? "%.2f" : "%.3g", value);
    if (*unit && !share && !bytes)
        ls_text_add(out, 48, " %s", unit);
    return out;
}
