/* SPDX-License-Identifier: MIT */
/* Which options cases share and in which they differ; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "bench/output/row_keys.h"
#include "bench/output/value_order.h"
#include "common/base/escape.h"

#include <stdlib.h>
#include <string.h>

unsigned ls_case_shown(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "case.%s", name);
    const ls_field *field = ls_field_find(path);
    const ls_declared_option *option = field ? NULL : ls_row_declared(path);
    return field ? field->shown : option && option->follows ? LS_SHOWN_LAST : 0;
}

bool ls_case_follows(const char *field)
{
    return ls_case_shown(field) & LS_SHOWN_LAST;
}

/* 1, 2, ..; an option without a place comes before those that follow from others. */
static unsigned place_of(const char *name)
{
    const unsigned place = ls_case_shown(name) & LS_SHOWN_AT;
    return place ? place : LS_SHOWN_LAST - 1;
}

json_t *ls_case_fields(const json_t *groups)
{
    json_t *list = json_array(), *value;
    json_auto_t *all = json_object();
    const char *name;
    for (size_t i = 0; i < json_array_size(groups); i++)
        json_object_update_missing(all, json_array_get(groups, i));
    json_object_foreach(all, name, value)
    {
        size_t at = json_array_size(list);
        while (at > 0 && place_of(json_string_value(json_array_get(list, at - 1))) > place_of(name))
            at--;
        if (!(ls_case_shown(name) & LS_SHOWN_DERIVED))
            json_array_insert_new(list, at, json_string(name));
    }
    return list;
}

/* Whether two groups that are equal in the fields `key` (NULL-terminated) have different values;
 * `lacking`: or only one of them has a value. */
static bool differs_within(const json_t *groups, const char *field, const char *const *key,
                           bool lacking)
{
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        json_t *now = json_object_get(group, field);
        char text[512] = "";
        for (size_t k = 0; key[k]; k++) {
            const char *value = json_string_value(json_object_get(group, key[k]));
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s\n", value ? value : "");
        }
        json_t *was = json_object_get(seen, text);
        if (!was)
            json_object_set_new_nocheck(seen, text, now ? json_incref(now) : json_null());
        else if (json_is_null(was) != !now ? lacking : now && !ls_value_equal(was, now))
            return true;
        else if (json_is_null(was) && now)
            json_object_set_nocheck(seen, text, now);
    }
    return false;
}

bool ls_case_differs(const json_t *groups, const char *field)
{
    static const char *const model[] = {"model", NULL};
    static const char *const keys[] = {"model", "data", "strategy", "reduce", NULL};
    if (strcmp(field, "model_digest") == 0) /* only of one file two texts are a difference */
        return differs_within(groups, field, model, false);
    const json_t *first = NULL;
    bool lacks = false;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *value = json_object_get(json_array_get(groups, i), field);
        if (value && first && !ls_value_equal(first, value))
            return true;
        first = first ? first : value;
        lacks |= !value;
    }
    return first && lacks && differs_within(groups, field, keys, true);
}

/* "batch" of batch_global, "ps-mode" of ps_mode, "step ms" of time.step_ms.median. */
ls_column ls_column_of(const char *path, char title[64])
{
    const ls_field *field = ls_field_find(path);
    const ls_cell cell = field ? field->cell : LS_CELL_TEXT;
    const char *heading = field ? field->heading : NULL, *last = strrchr(path, '.');
    const size_t length = heading ? strcspn(heading, "|") : 63;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)length, heading ? heading : last ? last + 1 : path);
    ls_escape_copy(title, 64, text, LS_ESCAPE_LINE);
    for (char *c = title; *c && !heading; c++)
        if (*c == '_')
            *c = '-';
    return (ls_column){.title = title,
                       .path = path,
                       .width = cell == LS_CELL_DEVICES ? 20 : LS_WIDTH_ANY,
                       .right = field && (field->type == LS_TYPE_INT ||
                                          field->type == LS_TYPE_REAL || cell == LS_CELL_HALF),
                       .cell = cell};
}

ls_column ls_case_column(const char *field, char title[64], char path[80])
{
    snprintf(path, 80, "case.%s", field);
    ls_column column = ls_column_of(path, title);
    column.right = false; /* rows of other programs may have texts: the cells decide */
    return column;
}

json_t *ls_case_groups(const json_t *rows)
{
    json_t *groups = json_array();
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *group = ls_row_group(json_array_get(rows, i), LS_G_case);
        char *text = group ? json_dumps(group, JSON_COMPACT) : NULL;
        if (text && json_object_set_new_nocheck(seen, text, json_true()) == 0 &&
            json_object_size(seen) > json_array_size(groups))
            json_array_append(groups, group);
        free(text);
    }
    return groups;
}
