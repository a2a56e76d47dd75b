/* SPDX-License-Identifier: MIT */
/*
 * Keys; see row_keys.h. All paths are visited once: the best fit counts. For an unknown name, the
 * candidates are listed: the paths that contain it or its last part, or begin as it does; without
 * any, some frequent keys.
 */
#include "bench/output/row_keys.h"

#include "bench/rows/fields.h"
#include "common/base/escape.h"
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

/* How well a name fits a path. */
typedef enum fit { NONE, NEAR, OF_LIST, OF_PROVENANCE, ENDING, WHOLE, HEADING, FITS } fit;

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Whether the name is a heading of the field, of "a|b". */
static bool has_heading(const char *path, const char *name)
{
    const ls_field *field = ls_field_find(path);
    const size_t wanted = strlen(name);
    const char *at = field ? field->heading : NULL;
    for (; at && (strcspn(at, "|") != wanted || strncmp(at, name, wanted) != 0); at++)
        if (!(at = strchr(at, '|')))
            return false;
    return at;
}

/* Whether the name is that of an option, which is a field of `case`. */
static bool is_option(const char *path, const char *name)
{
    char field[PATH_SIZE];
    return strncmp(path, "case.", 5) == 0 && strlen(name) < sizeof field &&
           strcmp(path + 5, ls_declared_field(name, field)) == 0;
}

/* An ending means a field of the row before one of what ran, and this before one of a list. */
static fit ending_of(const char *path)
{
    if (ls_field_group_of(path, LS_GROUP_EACH) && !ls_field_group_of(path, LS_GROUP_FULLEST))
        return OF_LIST;
    return strncmp(path, "provenance.", 11) == 0 ? OF_PROVENANCE : ENDING;
}

/* A near path has the name's last part, or begins like it. */
static fit fit_of(const char *path, const char *name)
{
    const char *wanted = last_part(name), *has = last_part(path);
    const ls_field *field = ls_field_find(path);
    const size_t length = strlen(path), end = strlen(name);
    size_t same = 0;
    if (has_heading(path, name))
        return HEADING;
    if (is_option(path, name) || strcmp(path, name) == 0)
        return WHOLE;
    if (end > 0 && length > end && path[length - end - 1] == '.' &&
        strcmp(path + length - end, name) == 0 && !(field && field->shown & LS_SHOWN_BY_PATH))
        return ending_of(path);
    while (wanted[same] && wanted[same] == has[same])
        same++;
    return *wanted && (strstr(path, wanted) || (same >= 3 && same + 3 >= strlen(wanted))) ? NEAR
                                                                                          : NONE;
}

ls_status ls_row_key_find(const char *option, const char *name, size_t length, const char **out)
{
    char text[PATH_SIZE], list[FITS][LIST_SIZE] = {""};
    size_t count[FITS] = {0};
    const char *found = NULL;
    fit best = NONE;
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    for (const char *const *path = ls_row_paths(); *path; path++) {
        const fit fits = fit_of(*path, text);
        const size_t listed = count[fits]++;
        if (listed < LISTED)
            ls_text_add(list[fits], LIST_SIZE, "%s%s", listed ? ", " : "", *path);
        else if (listed == LISTED)
            ls_text_add(list[fits], LIST_SIZE, ", ...");
        if (fits > best) {
            best = fits;
            found = *path;
        }
    }
    if (best >= WHOLE || (best >= OF_LIST && count[best] == 1)) {
        *out = found;
        return LS_OK;
    }
    if (best >= OF_LIST)
        return ls_fail(LS_CODE_USAGE, option, text,
                       "several keys end like this; write the whole key, one of %s", list[best]);
    return ls_fail(LS_CODE_USAGE, option, *text ? text : "''", "unknown key; %s%s",
                   best == NEAR ? "similar keys are: "
                                : "all keys are the columns of --format csv, such as ",
                   best == NEAR ? list[NEAR]
                                : "case.model, case.strategy, case.devices, time.step_ms.median, "
                                  "time.samples_per_s, result.status, label, provenance.commit");
}
