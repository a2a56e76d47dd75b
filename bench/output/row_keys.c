/* SPDX-License-Identifier: MIT */
/* Keys; see row_keys.h. How names fit paths is said in functions.sql (key_found). */
#include "bench/output/row_keys.h"

#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "common/data/data.h"
#include "impl/strategy.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { PATH_SIZE = 96, PATHS_MOST = 511 };

/* All paths, and of declared options the option: created before the first lookup, and never
 * changed.
 */
static const char *paths[PATHS_MOST + 1];
static const ls_declared_option *declared[PATHS_MOST];
static size_t path_count;
static once_flag paths_made = ONCE_FLAG_INIT;

static void add_path(const char *path, const ls_declared_option *option)
{
    for (size_t i = 0; option && i < path_count; i++)
        if (strcmp(paths[i], path) == 0)
            return; /* several strategies may share an option */
    if (path_count == PATHS_MOST || !(paths[path_count] = strdup(path)))
        abort();
    declared[path_count++] = option;
}

/* Adds the options that are declared. */
static void add_declared(void)
{
    static const ls_registry *const owners[] = {&ls_strategies, &ls_model_families,
                                                &ls_data_sources};
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        for (const void *const *entry = owners[i]->entries; *entry; entry++) {
            const ls_declared_option *const *option = ((const ls_declared_owner *)*entry)->options;
            for (; option && *option; option++) {
                char path[PATH_SIZE], field[64];
                snprintf(path, sizeof path, "case.%s", ls_declared_field((*option)->name, field));
                add_path(path, *option);
            }
        }
}

static void make_paths(void)
{
    for (size_t i = 0; i < LS_FIELDS; i++) {
        add_path(ls_fields[i].path, NULL);
        if (ls_field_group_of(ls_fields[i].path, LS_GROUP_DECLARED) &&
            !ls_field_group_of(ls_fields[i + 1].path, LS_GROUP_DECLARED))
            add_declared();
    }
}

const char *const *ls_row_paths(void)
{
    call_once(&paths_made, make_paths);
    return paths;
}

const ls_declared_option *ls_row_declared(const char *path)
{
    for (size_t i = 0; ls_row_paths()[i]; i++)
        if (strcmp(paths[i], path) == 0)
            return declared[i];
    return NULL;
}

/* Whether all values, or elements of lists of objects, are numbers. */
static bool is_number(const ls_field *field, const ls_declared_option *option)
{
    return field ? field->type == LS_TYPE_INT || field->type == LS_TYPE_REAL
                 : option->type == LS_DECLARED_NUMBER || option->type == LS_DECLARED_REAL;
}

json_t *ls_row_fields(void)
{
    json_t *out = json_array();
    for (size_t i = 0; ls_row_paths()[i]; i++) {
        const ls_field *field = ls_field_find(paths[i]), none = {0};
        const ls_field *is = field ? field : &none;
        const ls_field_group *list = ls_field_group_of(paths[i], LS_GROUP_EACH);
        const bool follows = declared[i] && declared[i]->follows;
        json_array_append_new(
            out, json_pack("[s,I,o,s?,o,i,b,s?,b,i,b]", paths[i], (json_int_t)i,
                           field ? json_integer(field->type) : json_null(), is->heading,
                           field ? json_integer(field->identifies) : json_null(),
                           (int)(follows ? LS_SHOWN_LAST : is->shown), is->worse == LS_WORSE_LESS,
                           list ? list->path : NULL, list && list->flags & LS_GROUP_FULLEST,
                           is->join, is_number(field, declared[i])));
    }
    for (size_t i = 0; i < ls_field_group_count; i++)
        json_array_append_new(out, json_pack("[s,n,n,n,i,n,n,n,n,i]", ls_field_groups[i].path,
                                             (int)ls_field_groups[i].identifies,
                                             ls_field_groups[i].join));
    return out;
}

ls_status ls_row_key_find(const char *option, const char *name, size_t length, const char **out)
{
    enum { NEAR = 1, ENDING, WHOLE = 5 };
    char text[PATH_SIZE];
    int fit = 0, count = 0, nth = 0;
    const char *list = "";
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    json_auto_t *document = json_pack("[o]", ls_text_value(text)), *found = json_array();
    LS_TRY(ls_document_query("SELECT key_found(:document ->> 0) AS \"found:json\"", document, NULL,
                             found));
    json_unpack(found, "[{s:{s:i,s:i,s:i,s:s}}]", "found", "fit", &fit, "n", &count, "nth", &nth,
                "list", &list);
    *out = ls_row_paths()[nth];
    if (fit >= WHOLE || (fit >= ENDING && count == 1))
        return LS_OK;
    if (fit >= ENDING)
        return ls_fail(LS_CODE_USAGE, option, text,
                       "several keys end like this; write the whole key, one of %s", list);
    return ls_fail(LS_CODE_USAGE, option, *text ? text : "''", "unknown key; %s%s",
                   fit == NEAR ? "similar keys are: "
                               : "all keys are the columns of --format csv, such as ",
                   fit == NEAR ? list
                               : "case.model, case.strategy, case.devices, time.step_ms.median, "
                                 "time.samples_per_s, result.status, label, provenance.commit");
}
