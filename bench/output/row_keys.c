/* SPDX-License-Identifier: MIT */
/*
 * Keys; see row_keys.h. All paths are visited once: an exact path matches; otherwise paths that end
 * in the name are counted and listed. For an unknown name, candidates are the paths that contain it
 * or its last part, or begin as it does; without any, some frequent keys.
 */
#include "bench/output/row_keys.h"

#include "bench/rows/fields.h"
#include "common/data/data.h"
#include "impl/strategy.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { LISTED = 8, LIST_SIZE = 512, PATH_SIZE = 96, PATHS_MOST = 511 };

/* ---- Paths ---------------------------------------------------------------------------------- */

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

/* ---- Keys ----------------------------------------------------------------------------------- */

static void list(char text[LIST_SIZE], size_t *count, const char *path)
{
    const size_t used = strlen(text);
    if (*count < LISTED)
        snprintf(text + used, LIST_SIZE - used, "%s%s", used ? ", " : "", path);
    if (*count == LISTED)
        snprintf(text + used, LIST_SIZE - used, ", ...");
    (*count)++;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Whether the field has that heading, of "a|b". */
static bool has_heading(const ls_field *field, const char *name)
{
    const size_t wanted = strlen(name);
    const char *at = field->heading;
    for (; at && (strcspn(at, "|") != wanted || strncmp(at, name, wanted) != 0); at++)
        if (!(at = strchr(at, '|')))
            return false;
    return at;
}

/* The name as a path: of a heading; of an option, which is a field of `case`; or unchanged. */
static void name_path(char name[PATH_SIZE])
{
    for (size_t i = 0; i < LS_FIELDS; i++)
        if (has_heading(&ls_fields[i], name)) {
            snprintf(name, PATH_SIZE, "%s", ls_fields[i].path);
            return;
        }
    char field[PATH_SIZE] = "case.";
    snprintf(field + 5, sizeof field - 5, "%.*s", PATH_SIZE - 6, name);
    for (char *c = field; *c; c++)
        *c = *c == '-' ? '_' : *c;
    for (const char *const *path = ls_row_paths(); *path; path++)
        if (strcmp(*path, field) == 0)
            snprintf(name, PATH_SIZE, "%s", field);
}

/* Whether the name's parts are the path's last ones. */
static bool ends_in(const char *path, const char *name)
{
    const size_t length = strlen(path), end = strlen(name);
    return end > 0 && length > end && path[length - end - 1] == '.' &&
           strcmp(path + length - end, name) == 0;
}

/* Whether an unknown name might mean this path: it has the name's last part, or begins like it. */
static bool is_near(const char *path, const char *name)
{
    const char *wanted = last_part(name), *has = last_part(path);
    size_t same = 0;
    while (wanted[same] && wanted[same] == has[same])
        same++;
    return *wanted && (strstr(path, wanted) || (same >= 3 && same + 3 >= strlen(wanted)));
}

ls_status ls_row_key_find(const char *option, const char *name, size_t length, const char **out)
{
    char text[PATH_SIZE], ending_list[LIST_SIZE] = "", near_list[LIST_SIZE] = "";
    size_t ending = 0, near_ones = 0;
    const char *found = NULL;
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    name_path(text);
    for (const char *const *path = ls_row_paths(); *path; path++) {
        const bool whole = strcmp(*path, text) == 0;
        if (whole || (ends_in(*path, text) && !ls_field_group_of(*path, LS_GROUP_BY_PATH))) {
            found = *path;
            ending = whole ? 0 : ending;
            list(ending_list, &ending, *path);
            if (whole)
                break;
        } else if (is_near(*path, text)) {
            list(near_list, &near_ones, *path);
        }
    }
    if (ending == 1) {
        *out = found;
        return LS_OK;
    }
    if (ending > 1)
        return ls_fail(LS_CODE_USAGE, option, text, "several keys end like this; give one of %s",
                       ending_list);
    return ls_fail(LS_CODE_USAGE, option, *text ? text : "''", "unknown key; %s%s",
                   near_ones ? "near are: " : "valid are the columns of --format csv, such as ",
                   near_ones ? near_list
                             : "case.model, case.strategy, case.devices, time.step_ms.median, "
                               "time.samples_per_s, result.status, label, provenance.commit");
}
