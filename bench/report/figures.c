/* SPDX-License-Identifier: MIT */
/* Figures; see figures.h. What all kinds of figures share; those of lines are in figure_lines.c. */
#include "bench/report/figures.h"

#include "bench/report/case_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char ls_report_plain[] =
    " strategy devices devices_asked ranks hosts batch_per_device seed steps warmup epochs blocks "
    "shuffle parameters data scaling model batch_global memory bucket_bytes gate_steps lr "
    "model_parallel_place capture ps_record allreduce augment ";

json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against)
{
    json_t *groups = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char key[LS_KEY_SIZE] = "", part[256];
        if (!against)
            ls_report_machine(row, key, sizeof key);
        for (size_t p = 0; paths[p]; p++) {
            const size_t used = strlen(key);
            snprintf(key + used, sizeof key - used, "|%s",
                     ls_report_text(row, paths[p], part, sizeof part));
        }
        if (!json_object_get(groups, key))
            json_object_set_new(groups, key, json_array());
        json_array_append(json_object_get(groups, key), row);
    }
    return groups;
}

json_t *ls_figure_largest(const json_t *groups, const char *name, json_t *left_out)
{
    json_t *all = json_array(), *out = json_array();
    const char *key;
    json_t *rows;
    size_t others = 0;
    json_object_foreach((json_t *)(size_t)groups, key, rows)
    {
        size_t at = 0;
        (void)key;
        while (at < json_array_size(all) &&
               json_array_size(json_array_get(all, at)) >= json_array_size(rows))
            at++;
        json_array_insert(all, at, rows);
    }
    for (size_t i = 0; i < json_array_size(all); i++) {
        if (i < LS_FIGURES_OF_A_KIND)
            json_array_append(out, json_array_get(all, i));
        else
            others += json_array_size(json_array_get(all, i));
    }
    if (others > 0)
        json_array_append_new(
            left_out, json_sprintf("%s: %zu rows of %zu smaller groups (model, batch, machine); "
                                   "--where chooses",
                                   name, others, json_array_size(all) - LS_FIGURES_OF_A_KIND));
    json_decref(all);
    return out;
}

json_t *ls_figure_add(json_t *figures, const char *name, const char *kind, const json_t *rows,
                      const char *about)
{
    char own[64], sub[512], foot[512], model[96], commit[64], stamp[32], machine[256], batch[32];
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    size_t same = 1;
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const char *other =
            json_string_value(json_object_get(json_array_get(figures, i), "kind_of"));
        same += other && strcmp(other, name) == 0;
    }
    snprintf(own, sizeof own, same > 1 ? "%s-%zu" : "%s", name, same);
    ls_report_text(row, "case.model", model, sizeof model);
    ls_report_text(row, "case.batch_global", batch, sizeof batch);
    ls_report_text(row, "provenance.commit", commit, 8);
    ls_report_text(row, "timestamp", stamp, 11);
    ls_report_machine(row, machine, sizeof machine);
    snprintf(sub, sizeof sub, "%s%s%s", model, *model && *about ? ", " : "", about);
    snprintf(foot, sizeof foot, "%s%scommit %s, %s, rows: %zu", machine, *machine ? ", " : "",
             *commit ? commit : "not known", stamp, json_array_size(rows));
    json_t *figure = json_pack("{s:s,s:s,s:s,s:s,s:s,s:[]}", "name", own, "kind_of", name, "kind",
                               kind, "sub", sub, "foot", foot, "series");
    json_array_append_new(figures, figure);
    return figure;
}

int ls_figure_style(const char *strategy)
{
    static const char *const names[] = {"single",      "towers", "mirrored",
                                        "independent", "ps",     "model-parallel",
                                        "pipeline",    "hybrid", "local-sgd"};
    enum { COUNT = sizeof names / sizeof *names };
    unsigned hash = 0;
    for (int i = 0; i < COUNT; i++)
        if (strcmp(names[i], strategy) == 0)
            return i;
    for (const char *c = strategy; *c; c++)
        hash = 31 * hash + (unsigned char)*c;
    return (int)(hash % COUNT);
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
    if (strcmp(unit, "%") == 0)
        snprintf(out, 48, "%.0f%%", 100 * value);
    else if (strcmp(unit, "bytes") == 0)
        snprintf(out, 48, value >= 1048576 ? "%.1f MiB" : "%.1f KiB",
                 value / (value >= 1048576 ? 1048576 : 1024));
    else if (fabs(value) >= 1000)
        with_commas(value, out);
    else
        snprintf(out, 48, "%.3g", value);
    if (*unit && strcmp(unit, "%") != 0 && strcmp(unit, "bytes") != 0) {
        const size_t used = strlen(out);
        snprintf(out + used, 48 - used, " %s", unit);
    }
    return out;
}
