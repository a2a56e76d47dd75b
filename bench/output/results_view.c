/* SPDX-License-Identifier: MIT */
/*
 * The view `v` of a results file, for questions in SQL: a column for each field of a row, named by
 * its path, e.g. SELECT "case.strategy", "time.step_ms.median" FROM v. It is made from the table of
 * fields, with functions of SQLite alone (3.38 or newer), so that any SQLite program can use it.
 *   Numbers and texts are themselves, switches 'true' and 'false', lists and maps JSON texts; a
 * field that a row does not have is NULL. Of `memory.devices` a column has the value of the fullest
 * device; of another list of objects, the list of its elements' values. Elements that are not
 * objects, which a row made elsewhere may have, are left out: SQLite would end the whole query at
 * them.
 */
#include "bench/output/results_db_parts.h"
#include "bench/output/row_keys.h"
#include "bench/rows/fields.h"
#include "common/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of a JSON text as SQL has it. */
static void put_value(FILE *sql, const char *json, const char *path, const ls_field *field)
{
    const ls_field_type type =
        field ? field->type : LS_TYPE_BOOL; /* a declared option may be one */
    if (type >= LS_TYPE_TEXTS)
        fprintf(sql, "nullif(%s->'$.%s','null')", json, path);
    else if (type == LS_TYPE_BOOL)
        fprintf(sql,
                "CASE json_type(%s,'$.%s') WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
                "ELSE json_extract(%s,'$.%s') END",
                json, path, json, path);
    else
        fprintf(sql, "json_extract(%s,'$.%s')", json, path);
}

static void put_column(FILE *sql, const char *path)
{
    const ls_field *field = ls_field_find(path);
    const ls_field_group *list = ls_field_group_of(path, LS_GROUP_EACH);
    const char *inside = list ? path + strlen(list->path) + 1 : NULL;
    if (!list) {
        put_value(sql, "row", path, field);
    } else if (list->flags & LS_GROUP_FULLEST) {
        fputs("(SELECT ", sql);
        put_value(sql, "d.value", inside, field);
        fprintf(sql,
                " FROM json_each(row->'$.%s') AS d WHERE d.type='object'"
                " ORDER BY json_extract(d.value,'$.peak') DESC,d.key LIMIT 1)",
                list->path);
    } else {
        fprintf(sql,
                "(SELECT '['||group_concat(d.value->'$.%s')||']' FROM json_each(row->'$.%s') AS d"
                " WHERE d.type='object')",
                inside, list->path);
    }
    fprintf(sql, " AS \"%s\"", path);
}

char *ls_results_view_text(bool own)
{
    ls_auto char *derived = ls_results_part("derived");
    char *text = NULL;
    size_t size;
    FILE *sql = derived ? open_memstream(&text, &size) : NULL;
    if (!sql)
        return NULL;
    if (own)
        fprintf(sql, "CREATE TEMP VIEW v AS SELECT rowid AS number, row, %s", derived);
    else
        fputs(LS_RESULTS_VIEW_MARK "SELECT rowid AS number", sql);
    for (const char *const *path = ls_row_paths(); *path; path++) {
        fputs(",\n", sql);
        put_column(sql, *path);
    }
    fputs(own ? " FROM main.rows" : " FROM rows", sql);
    if (fclose(sql) == 0)
        return text;
    free(text);
    return NULL;
}
