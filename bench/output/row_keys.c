/* SPDX-License-Identifier: MIT */
/*
 * Keys; see row_keys.h. One pass over all paths: an exact path matches; otherwise paths that end in
 * the name are counted and listed. For an unknown name, candidates are the paths that
 * contain it or its last part, or begin as it does; without any, some frequent keys.
 */
#include "bench/output/row_keys.h"

#include "common/data/data.h"
#include "impl/strategy.h"
#include "row_schema.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { LISTED = 8, LIST_SIZE = 512, PATH_SIZE = 96, PATHS_MOST = 511 };

/* ---- Paths ---------------------------------------------------------------------------------- */

/* All paths: created before the first lookup, and never changed. */
static const char *paths[PATHS_MOST + 1];
static size_t path_count;
static once_flag paths_made = ONCE_FLAG_INIT;

static void add_path(const char *path)
{
    if (path_count == PATHS_MOST || !(paths[path_count++] = strdup(path)))
        abort();
}

/* Adds each once: several strategies may share one. */
static void add_declared(const ls_registry *owners)
{
    for (const void *const *entry = owners->entries; *entry; entry++) {
        const ls_declared_option *const *option = ((const ls_declared_owner *)*entry)->options;
        for (; option && *option; option++) {
            char path[80], field[64];
            size_t same = 0;
            snprintf(path, sizeof path, "case.%s", ls_declared_field((*option)->name, field));
            while (same < path_count && strcmp(paths[same], path) != 0)
                same++;
            if (same == path_count)
                add_path(path);
        }
    }
}

/* The names in a part of the schema; for a list, the names in its elements. */
static void add_fields(const json_t *schema, const json_t *part, const char *at)
{
    const char *definition = json_string_value(json_object_get(part, "$ref")), *name;
    json_t *member;
    if (definition)
        part =
            json_object_get(json_object_get(schema, "definitions"), strrchr(definition, '/') + 1);
    json_t *fields = json_object_get(part, "properties"), *items = json_object_get(part, "items");
    json_object_foreach(fields, name, member)
    {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s%s%s", at, *at ? "." : "", name);
        add_fields(schema, member, path);
    }
    if (items)
        add_fields(schema, items, at);
    else if (!fields)
        add_path(at);
    if (strcmp(at, "case") == 0) {
        add_declared(&ls_strategies);
        add_declared(&ls_model_families);
        add_declared(&ls_data_sources);
    }
}

static void make_paths(void)
{
    json_auto_t *schema = json_loads(ls_row_schema, 0, NULL);
    if (!schema)
        abort();
    add_fields(schema, schema, "");
}

const char *const *ls_row_paths(void)
{
    call_once(&paths_made, make_paths);
    return paths;
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

/* Length of the common prefix of two names. */
static size_t common_start(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Headings of tables that are not the end of their field's path. */
static const struct {
    const char *heading, *path;
} headings[] = {
    {"batch", "case.batch_global"},
    {"step ms", "time.step_ms.median"},
    {"samples/s", "time.samples_per_s"},
    {"mean samples/s", "time.samples_per_s_mean"},
    {"speed-up", "time.speedup"},
    {"eff", "time.efficiency"},
    {"loss", "train.loss_last"},
    {"gate", "equivalence.grade"},
    {"compared", "equivalence.steps"},
    {"gradient", "equivalence.gradient_rel"},
    {"\xc2\xb1", "time.step_ms.ci95"},
    {"drift", "equivalence.max_rel"},
    {"max ulp", "equivalence.max_ulp"},
    {"time us", "micro.time_us"},
    {"algbw GB/s", "micro.algbw_gbs"},
    {"busbw GB/s", "micro.busbw_gbs"},
    {"GFLOP/s", "micro.gflops"},
    {"roof", "micro.roof_share"},
    {"idle", "pipeline.bubble"},
    {"if equal", "pipeline.bubble_equal"},
    {"max lead", "lead.max"},
    {"mean stale", "staleness.mean"},
    {"host us", "micro.host_us"},
};

/* The name as a path: of a heading; of an option, which is a field of `case`; or as it is. */
static void name_path(char name[PATH_SIZE])
{
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        if (strcmp(name, headings[i].heading) == 0) {
            snprintf(name, PATH_SIZE, "%s", headings[i].path);
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

/* Whether an unknown name might mean this path. */
static bool is_near(const char *path, const char *name)
{
    const char *mine = last_part(name);
    const size_t start = common_start(last_part(path), mine);
    return *name && ((*mine && strstr(path, mine)) || (start >= 3 && start + 3 >= strlen(mine)));
}

ls_status ls_row_key_find(const char *option, const char *name, size_t length, ls_row_key *out)
{
    char text[PATH_SIZE], ending_list[LIST_SIZE] = "", near_list[LIST_SIZE] = "";
    size_t ending = 0, near_ones = 0;
    ls_row_key found = {NULL};
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    name_path(text);
    for (const char *const *path = ls_row_paths(); *path; path++) {
        const bool whole = strcmp(*path, text) == 0;
        if (whole || (ends_in(*path, text) && strncmp(*path, "train.target.", 13) != 0)) {
            found.path = *path;
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
        return ls_fail(LS_CODE_USAGE, option, text, "is the end of several keys; give one of %s",
                       ending_list);
    return ls_fail(LS_CODE_USAGE, option, *text ? text : "''", "unknown key; %s%s",
                   near_ones ? "near are: " : "valid are the columns of --format csv, such as ",
                   near_ones ? near_list
                             : "case.model, case.strategy, case.devices, time.step_ms.median, "
                               "time.samples_per_s, result.status, label, provenance.commit");
}
