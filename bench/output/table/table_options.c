/* SPDX-License-Identifier: MIT */
/* Which options cases share and in which they differ; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "bench/output/row_keys.h"
#include "bench/output/value_order.h"
#include "common/base/digest.h"
#include "common/base/escape.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKED_BACK = 64 };

/* LS_SHOWN_..; options that strategies declare have no place of their own. */
static unsigned shown(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "case.%s", name);
    const ls_field *field = ls_field_find(path);
    const ls_declared_option *option = field ? NULL : ls_row_declared(name);
    return field ? field->shown : option && option->follows ? LS_SHOWN_LAST : 0;
}

bool ls_case_follows(const char *field)
{
    return shown(field) & LS_SHOWN_LAST;
}

typedef struct placed {
    const char *name;
    unsigned place; /* 1, .., then those without one, then the last ones */
    size_t number;  /* of equal places, as the rows have them */
} placed;

static int compare_places(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place)
                                : (x->number > y->number) - (x->number < y->number);
}

json_t *ls_case_fields(const json_t *groups)
{
    json_t *list = json_array(), *value;
    json_auto_t *all = json_object();
    const char *name;
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(groups); i++)
        json_object_update_missing(all, json_array_get(groups, i));
    placed *options = calloc(json_object_size(all) + 1, sizeof *options);
    json_object_foreach(all, name, value)
    {
        const unsigned its = shown(name), place = its & LS_SHOWN_AT;
        if (options && !(its & LS_SHOWN_DERIVED)) {
            options[count] = (placed){name, place ? place : LS_SHOWN_LAST - 1, count};
            count++;
        }
    }
    if (options)
        qsort(options, count, sizeof *options, compare_places);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(options[i].name));
    free(options);
    return list;
}

/* Whether one of two groups with the same key has the field and the other does not. */
static bool is_left_out(const json_t *groups, const char *field)
{
    static const char *const keys[] = {"model", "data", "strategy", "reduce"};
    enum { HAS = 1, LACKS = 2 };
    json_auto_t *seen = json_object();
    bool found = false;
    for (size_t i = 0; i < json_array_size(groups) && !found; i++) {
        const json_t *group = json_array_get(groups, i);
        uint64_t hash = 0;
        char key[24];
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const char *text = json_string_value(json_object_get(group, keys[k]));
            hash = 31 * hash + (text ? ls_hash64(text, strlen(text)) : 0);
        }
        snprintf(key, sizeof key, "%llx", (unsigned long long)hash);
        const json_int_t now = json_object_get(group, field) ? HAS : LACKS,
                         was = json_integer_value(json_object_get(seen, key));
        found = was && was != now;
        if (!was)
            json_object_set_new_nocheck(seen, key, json_integer(now));
    }
    return found;
}

/* Whether two groups have one path of a model's file, and two texts. */
static bool has_other_text(const json_t *groups)
{
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        const char *model = json_string_value(json_object_get(group, "model"));
        json_t *now = json_object_get(group, "model_digest"), *was;
        if (!model || !now)
            continue;
        was = json_object_get(seen, model);
        if (was && !ls_value_equal(was, now))
            return true;
        json_object_set_nocheck(seen, model, now);
    }
    return false;
}

bool ls_case_differs(const json_t *groups, const char *field)
{
    if (strcmp(field, "model_digest") == 0)
        return has_other_text(groups);
    const json_t *value = NULL;
    size_t having = 0;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *here = json_object_get(json_array_get(groups, i), field);
        if (!here)
            continue;
        if (value && !ls_value_equal(value, here))
            return true;
        value = here;
        having++;
    }
    return having && having < json_array_size(groups) && is_left_out(groups, field);
}

/* "batch" of batch_global, "ps-mode" of ps_mode. */
static const char *write_title(const char *field, char text[64])
{
    ls_escape_copy(text, 64, strcmp(field, "batch_global") == 0 ? "batch" : field, LS_ESCAPE_LINE);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    return text;
}

ls_column ls_case_column(const char *field, char title[64], char path[80])
{
    snprintf(path, 80, "case.%s", field);
    const ls_field *known = ls_field_find(path);
    const ls_cell cell = known ? known->cell : LS_CELL_TEXT;
    return (ls_column){.title = write_title(field, title),
                       .path = path,
                       .width = cell == LS_CELL_DEVICES ? 20 : LS_WIDTH_ANY,
                       .cell = cell};
}

/* Whether it equals one of the last: lists have many rows of few cases, which share groups. */
static bool is_known(const json_t *groups, const json_t *group)
{
    const size_t count = json_array_size(groups);
    for (size_t i = count > LOOKED_BACK ? count - LOOKED_BACK : 0; i < count; i++)
        if (json_array_get(groups, i) == group)
            return true;
    return false;
}

json_t *ls_case_groups(const json_t *rows)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *group = json_object_get(json_array_get(rows, i), "case");
        if (group && !is_known(groups, group))
            json_array_append(groups, group);
    }
    return groups;
}
