/* SPDX-License-Identifier: MIT */
/* Keys; see row_keys.h. How names fit paths is said in functions.sql (key_found). */
#include "bench/output/row_keys.h"

#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "common/data/data.h"
#include "impl/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { PATH_SIZE = 96, PATHS_MOST = 511 };

/* All paths, and of declared options the option: created before the first lookup, then kept. */
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

_Static_assert(LS_TYPE_TEXTS == 4 && LS_JOIN_CONCAT == 1 && LS_JOIN_MAX == 2 && LS_JOIN_SUM == 3,
               "functions.sql and join.sql have these numbers");
_Static_assert(LS_BUT_BLOCKS == 1 && LS_BUT_REPEATS == 4 && LS_IS_CASE == 8 && LS_OF_SHARE == 32 &&
                   LS_OF_MACHINE == 112 && (LS_OF_BUILD | LS_OF_SYSTEM) == 1536 &&
                   LS_OF_LABEL == 2048 && LS_SHOWN_LAST == 128 && LS_SHOWN_DIFF == 256 &&
                   LS_SHOWN_DERIVED == 512 && LS_SHOWN_KEPT == 1024 && LS_SHOWN_BY_PATH == 2048,
               "functions.sql and the SQL of `results` have these numbers");

int ls_row_fields(sqlite3 *db)
{
    static const ls_field none;
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, "INSERT INTO field_table VALUES (?,?,?,?,?,?,?,?,?,?,?)", -1,
                                  &statement, NULL);
    ls_row_paths();
    for (size_t i = 0; code == SQLITE_OK && i < path_count + ls_field_group_count; i++) {
        const ls_field_group *group = i < path_count ? NULL : &ls_field_groups[i - path_count];
        const char *path = group ? group->path : paths[i];
        const ls_declared_option *option = group ? NULL : declared[i];
        const ls_field *field = ls_field_find(path), *is = field ? field : &none;
        const ls_field_group *list = group ? NULL : ls_field_group_of(path, LS_GROUP_EACH);
        const int identifies = group ? (int)group->identifies : field ? (int)field->identifies : -1;
        const char *const texts[] = {path, is->heading, list ? list->path : NULL};
        const int numbers[] = {group ? -1 : (int)i,
                               field ? field->type : -1,
                               identifies,
                               option && option->follows ? LS_SHOWN_LAST : (int)is->shown,
                               is->worse == LS_WORSE_LESS,
                               list && list->flags & LS_GROUP_FULLEST,
                               group ? group->join : is->join,
                               option ? option->type == LS_DECLARED_NUMBER ||
                                            option->type == LS_DECLARED_REAL
                                      : is->type == LS_TYPE_INT || is->type == LS_TYPE_REAL};
        for (int t = 0; t < 3; t++)
            sqlite3_bind_text(statement, 1 + t, texts[t], -1, SQLITE_STATIC); /* NULL of NULL */
        for (int n = 0; n < 8; n++)
            (void)(numbers[n] < 0 ? sqlite3_bind_null(statement, 4 + n)
                                  : sqlite3_bind_int(statement, 4 + n, numbers[n]));
        sqlite3_step(statement);
        code = sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return code;
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
