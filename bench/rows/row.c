/* SPDX-License-Identifier: MIT */
/* Values of a row by field; see row.h. */
#include "bench/rows/row.h"

#include "common/base/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Paths ---------------------------------------------------------------------------------- */

/* The path from an element of the list that it goes through; all of it where there is no list. */
static const char *inside(const char *path)
{
    const ls_field_group *list = ls_field_group_of(path, LS_GROUP_EACH);
    return list ? path + strlen(list->path) + 1 : path;
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The value at the first `length` bytes of a path. With `make`, missing objects on the way are
 * made. */
static json_t *walk(const json_t *row, const char *path, size_t length, bool make)
{
    json_t *at = (json_t *)(size_t)row;
    for (size_t begin = 0, size; at && begin < length; begin += size + 1) {
        size = strcspn(path + begin, ".");
        if (make && !json_object_getn(at, path + begin, size))
            json_object_setn_new_nocheck(at, path + begin, size, json_object());
        at = json_object_getn(at, path + begin, size);
    }
    return at;
}

/* ---- Values --------------------------------------------------------------------------------- */

json_t *ls_row_get(const json_t *row, ls_field_number field)
{
    const char *path = inside(ls_fields[field].path);
    json_t *value = walk(row, path, strlen(path), false);
    return json_is_null(value) ? NULL : value;
}

json_t *ls_row_group(const json_t *row, ls_group_number group)
{
    const char *path = inside(ls_field_groups[group].path);
    json_t *value = walk(row, path, strlen(path), false);
    return json_is_null(value) ? NULL : value;
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

void ls_row_put_path(json_t *row, const char *path, json_t *value)
{
    const char *name = last_name(path);
    if (value)
        json_object_set_new_nocheck(walk(row, path, (size_t)(name - path), true), name, value);
}

void ls_row_put_value(json_t *row, ls_field_number field, json_t *value)
{
    ls_row_put_path(row, inside(ls_fields[field].path), value);
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
    const char *path = inside(ls_fields[field].path), *name = last_name(path);
    json_object_del(walk(row, path, (size_t)(name - path), false), name);
}

json_t *ls_row_make(json_t *row, ls_group_number group)
{
    const char *path = inside(ls_field_groups[group].path), *name = last_name(path);
    if (!(ls_field_groups[group].flags & LS_GROUP_EACH))
        return walk(row, path, strlen(path), true);
    json_t *around = walk(row, path, (size_t)(name - path), true), *element = json_object();
    if (!json_object_get(around, name))
        json_object_set_new_nocheck(around, name, json_array());
    json_array_append_new(json_object_get(around, name), element);
    return element;
}
