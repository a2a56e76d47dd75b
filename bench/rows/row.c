/* SPDX-License-Identifier: MIT */
/*
 * Values of a row by field; see row.h. Each path is cut into its names once; for a field in a list
 * of objects, into the names after the list.
 */
#include "bench/rows/row.h"

#include "common/base/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { NAMES_MOST = 4, NAME_SIZE = 40 };

/* The names of a path. */
typedef struct path_names {
    size_t count;
    char name[NAMES_MOST][NAME_SIZE];
} path_names;

static path_names of_field[LS_FIELDS], of_group[LS_FIELD_GROUPS];
static once_flag cut_once = ONCE_FLAG_INIT;

static void cut(const char *path, path_names *out)
{
    const ls_field_group *list = ls_field_group_of(path, LS_GROUP_EACH);
    for (const char *part = list ? path + strlen(list->path) + 1 : path; part;
         part = strchr(part, '.')) {
        part += *part == '.';
        const size_t length = strcspn(part, ".");
        if (out->count == NAMES_MOST || length >= NAME_SIZE)
            abort(); /* the table of fields outgrew this */
        memcpy(out->name[out->count++], part, length);
    }
}

static void cut_all(void)
{
    for (size_t i = 0; i < LS_FIELDS; i++)
        cut(ls_fields[i].path, &of_field[i]);
    for (size_t i = 0; i < LS_FIELD_GROUPS; i++)
        cut(ls_field_groups[i].path, &of_group[i]);
}

static const path_names *names_of(ls_field_number field)
{
    call_once(&cut_once, cut_all);
    return &of_field[field];
}

/* ---- Values --------------------------------------------------------------------------------- */

static json_t *get(const json_t *row, const path_names *names, size_t count)
{
    json_t *value = (json_t *)(size_t)row;
    for (size_t i = 0; i < count && value; i++)
        value = json_object_get(value, names->name[i]);
    return json_is_null(value) ? NULL : value;
}

json_t *ls_row_get(const json_t *row, ls_field_number field)
{
    const path_names *names = names_of(field);
    return get(row, names, names->count);
}

json_t *ls_row_group(const json_t *row, ls_group_number group)
{
    call_once(&cut_once, cut_all);
    return get(row, &of_group[group], of_group[group].count);
}

json_t *ls_row_fullest(const json_t *row)
{
    json_t *devices = ls_row_group(row, LS_G_memory_devices), *device, *fullest = NULL;
    size_t index;
    json_array_foreach(devices, index, device)
    {
        if (!fullest || ls_row_integer(device, LS_F_memory_devices_peak) >
                            ls_row_integer(fullest, LS_F_memory_devices_peak))
            fullest = device;
    }
    return fullest;
}

bool ls_row_has(const json_t *row, ls_field_number field)
{
    return ls_row_get(row, field);
}

double ls_row_real(const json_t *row, ls_field_number field)
{
    return json_number_value(ls_row_get(row, field));
}

int64_t ls_row_integer(const json_t *row, ls_field_number field)
{
    return json_integer_value(ls_row_get(row, field));
}

bool ls_row_true(const json_t *row, ls_field_number field)
{
    return json_is_true(ls_row_get(row, field));
}

const char *ls_row_string(const json_t *row, ls_field_number field)
{
    const char *text = json_string_value(ls_row_get(row, field));
    return text ? text : "";
}

size_t ls_row_count(const json_t *row, ls_field_number field)
{
    return json_array_size(ls_row_get(row, field));
}

double ls_row_real_at(const json_t *row, ls_field_number field, size_t index)
{
    return json_number_value(json_array_get(ls_row_get(row, field), index));
}

const char *ls_row_string_at(const json_t *row, ls_field_number field, size_t index)
{
    const char *text = json_string_value(json_array_get(ls_row_get(row, field), index));
    return text ? text : "";
}

/* ---- Setting -------------------------------------------------------------------------------- */

/* The object of the first names, made where it is missing. */
static json_t *make(json_t *row, const path_names *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *inside = json_object_get(row, names->name[i]);
        if (!inside) {
            inside = json_object();
            json_object_set_new_nocheck(row, names->name[i], inside);
        }
        row = inside;
    }
    return row;
}

void ls_row_put_value(json_t *row, ls_field_number field, json_t *value)
{
    const path_names *names = names_of(field);
    if (value)
        json_object_set_new_nocheck(make(row, names, names->count - 1),
                                    names->name[names->count - 1], value);
}

json_t *ls_text_value(const char *text)
{
    json_t *value = json_string(text); /* NULL of NULL */
    char *shown = value || !text ? NULL : ls_text_shown(text, LS_ESCAPE_LINE);
    value = value ? value : json_string(shown);
    free(shown);
    return value;
}

void ls_row_put_text(json_t *row, ls_field_number field, const char *value)
{
    ls_row_put_value(row, field, ls_text_value(value));
}

void ls_row_put_int(json_t *row, ls_field_number field, int64_t value)
{
    ls_row_put_value(row, field, json_integer(value));
}

void ls_row_put_real(json_t *row, ls_field_number field, double value)
{
    ls_row_put_value(row, field, json_real(value)); /* NULL if it is not finite */
}

void ls_row_put_bool(json_t *row, ls_field_number field, bool value)
{
    ls_row_put_value(row, field, json_boolean(value));
}

json_t *ls_reals(const double *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, isfinite(values[i]) ? json_real(values[i]) : json_null());
    return list;
}

json_t *ls_interval_value(double low, double high)
{
    return isfinite(low) ? ls_reals((double[]){low, high}, 2) : NULL;
}

void ls_row_append(json_t *row, ls_field_number field, json_t *element)
{
    if (!ls_row_get(row, field))
        ls_row_put_value(row, field, json_array());
    json_array_append_new(ls_row_get(row, field), element);
}

void ls_row_drop(json_t *row, ls_field_number field)
{
    const path_names *names = names_of(field);
    json_object_del(get(row, names, names->count - 1), names->name[names->count - 1]);
}

json_t *ls_row_make(json_t *row, ls_group_number group)
{
    call_once(&cut_once, cut_all);
    const path_names *names = &of_group[group];
    if (!(ls_field_groups[group].flags & LS_GROUP_EACH))
        return make(row, names, names->count);
    json_t *around = make(row, names, names->count - 1), *element = json_object();
    const char *name = names->name[names->count - 1];
    if (!json_object_get(around, name))
        json_object_set_new_nocheck(around, name, json_array());
    json_array_append_new(json_object_get(around, name), element);
    return element;
}
