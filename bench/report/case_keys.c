/* SPDX-License-Identifier: MIT */
/* Case keys; see case_keys.h. */
#include "bench/report/case_keys.h"

#include "bench/output/format_parts.h"

#include <stdlib.h>
#include <string.h>

double ls_report_number(const json_t *row, const char *path, double fallback)
{
    json_t *value = ls_row_value(row, path);
    const double number = json_is_number(value) ? json_number_value(value) : fallback;
    json_decref(value);
    return number;
}

char *ls_report_text(const json_t *row, const char *path, char *out, size_t size)
{
    json_t *value = ls_row_value(row, path);
    char *text = value ? ls_value_text(value) : NULL;
    snprintf(out, size, "%s", text ? text : "");
    free(text);
    json_decref(value);
    return out;
}

static const char *word(const json_t *row, const char *group, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, group), name));
    return text ? text : "";
}

char *ls_report_machine(const json_t *row, char *out, size_t size)
{
    const char *isa = word(row, "provenance", "isa"), *gpu = word(row, "provenance", "gpu");
    const char *host = word(row, "provenance", "host");
    snprintf(out, size, "%s%s%s%s%s%s%s%s", word(row, "provenance", "cpu"), *isa ? " (" : "", isa,
             *isa ? ")" : "", *gpu ? ", " : "", gpu, *host ? ", host " : "", host);
    return out;
}

double ls_report_devices(const json_t *row)
{
    const json_t *group = json_object_get(row, "case");
    const json_t *batches = json_object_get(group, "batch_per_device");
    double count = 0;
    for (size_t i = 0; i < json_array_size(batches); i++)
        count += json_number_value(json_array_get(batches, i)) > 0;
    if (count == 0)
        count = (double)json_array_size(json_object_get(group, "devices"));
    if (ls_report_is_peer(row)) { /* one device of two threads is two cores */
        const json_t *cores =
            json_object_get(json_object_get(row, "provenance"), "cores_per_device");
        double sum = 0;
        for (size_t i = 0; i < json_array_size(cores); i++)
            sum += json_number_value(json_array_get(cores, i));
        count = sum > count ? sum : count;
    }
    return count;
}

bool ls_report_is_peer(const json_t *row)
{
    return json_object_get(row, "peer") != NULL;
}

const char *ls_report_strategy(const json_t *row)
{
    return ls_report_is_peer(row) ? word(row, "peer", "what") : word(row, "case", "strategy");
}

bool ls_report_is_ok(const json_t *row)
{
    return json_object_get(row, "micro") || strcmp(word(row, "result", "status"), "ok") == 0;
}

static bool is_ignored(const char *name, const char *ignore)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, " %s ", name);
    return strstr(ignore, wanted) != NULL;
}

static void append(char *out, size_t size, const char *before, const char *text)
{
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", before, text);
}

char *ls_report_case(const json_t *row, const char *ignore, char *out, size_t size)
{
    const char *name;
    json_t *value;
    snprintf(out, size, "%s", ls_report_strategy(row));
    json_object_foreach(json_object_get(row, "case"), name, value)
    {
        char *text = is_ignored(name, ignore) ? NULL : ls_value_text(value);
        if (!text)
            continue;
        append(out, size, "|", name);
        append(out, size, "=", text);
        free(text);
    }
    return out;
}

/* Notes the members in which two rows differ. */
static void compare(const json_t *a, const json_t *b, const char *ignore, json_t *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)a, name, value)
    {
        if (!is_ignored(name, ignore) && !json_equal(value, json_object_get(b, name)))
            json_object_set_new(out, name, json_true());
    }
}

json_t *ls_report_differences(const json_t *rows, const char *ignore)
{
    json_t *out = json_object(), *first = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *strategy = ls_report_strategy(row);
        json_t *group = json_object_get(row, "case"), *known = json_object_get(first, strategy);
        if (!known) {
            json_object_set(first, strategy, group);
            json_object_set_new(out, strategy, json_object());
            continue;
        }
        compare(known, group, ignore, json_object_get(out, strategy));
        compare(group, known, ignore, json_object_get(out, strategy));
    }
    json_decref(first);
    return out;
}

/* What differs, first the words ("async" of ps_mode), then what needs its name. */
static void append_options(const json_t *row, const json_t *names, const char *strategy, bool words,
                           char *out, size_t size)
{
    const size_t length = strlen(strategy);
    const char *name;
    json_t *unused;
    json_object_foreach((json_t *)(size_t)names, name, unused)
    {
        char *text = ls_value_text(json_object_get(json_object_get(row, "case"), name));
        const bool own = strncmp(name, strategy, length) == 0 && name[length] == '_';
        const bool word = text && own && strspn(text, "0123456789.-") < strlen(text);
        (void)unused;
        if (text && *text && word == words && !(own && strcmp(text, "0") == 0)) {
            append(out, size, " ", word ? "" : own ? name + length + 1 : name);
            append(out, size, word ? "" : "=", text);
        }
        free(text);
    }
}

char *ls_report_label(const json_t *row, const json_t *differences, const char *against, char *out,
                      size_t size)
{
    const char *strategy = ls_report_strategy(row);
    const json_t *names = json_object_get(differences, strategy);
    snprintf(out, size, "%s", strategy);
    append_options(row, names, strategy, true, out, size);
    append_options(row, names, strategy, false, out, size);
    if (against) {
        char value[96];
        append(out, size, ", ", ls_report_text(row, against, value, sizeof value));
    }
    return out;
}
