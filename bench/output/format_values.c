/* SPDX-License-Identifier: MIT */
/*
 * Values of a row as text; see format.h. JSON is written here, since jansson's 17 digits show
 * 0.1 as 0.10000000000000001; the shortest of 15, 16 or 17 digits that reads back equal is as
 * exact. Assumes the locale "C", as in a program that does not call setlocale.
 */
#include "bench/output/format.h"

#include "common/nn/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As ls_row_value, of a row or of an element of a list. */
static json_t *find(const json_t *object, const char *path)
{
    const size_t length = strcspn(path, ".");
    if (json_is_array(object)) {
        json_t *found = json_array(), *element;
        size_t index;
        json_array_foreach(object, index, element)
        {
            json_array_append_new(found, find(element, path)); /* nothing of NULL */
        }
        if (json_array_size(found) > 0)
            return found;
        json_decref(found);
        return NULL;
    }
    json_t *member = json_object_getn(object, path, length);
    if (!member || json_is_null(member))
        return NULL;
    return path[length] ? find(member, path + length + 1) : json_incref(member);
}

json_t *ls_row_value(const json_t *row, const char *path)
{
    const char *group = ls_field_groups[LS_G_memory_devices].path;
    const size_t length = strlen(group);
    if (strncmp(path, group, length) == 0 && path[length] == '.')
        return find(ls_row_fullest(row), path + length + 1);
    return find(row, path);
}

char *ls_optimizer_shown(const char *text, char *out, size_t size)
{
    char name[32], plain[160], item[80];
    ls_optimizer optimizer;
    const size_t length = strcspn(text, ":");
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    ls_status status = ls_optimizer_parse(name, &optimizer);
    snprintf(out, size, "%s", status ? text : name);
    if (!status)
        ls_optimizer_text(&optimizer, plain, sizeof plain);
    for (const char *c = text + length; *c && !status; c += 1 + strcspn(c + 1, ",")) {
        snprintf(item, sizeof item, "%.*s", (int)strcspn(c + 1, ","), c + 1);
        const char *same = strstr(plain, item);
        const bool whole = same && (same[strlen(item)] == ',' || !same[strlen(item)]);
        const size_t used = strlen(out);
        if (!whole)
            snprintf(out + used, size - used, "%s%s", used == length ? ":" : ",", item);
    }
    ls_status_free(status);
    return out;
}

bool ls_row_is_bad(const json_t *row)
{
    const char *status = ls_row_string(row, LS_F_result_status);
    return *status && strcmp(status, "ok") != 0;
}

bool ls_row_is_timed(const json_t *row)
{
    return !ls_row_is_bad(row) && ls_row_real(row, LS_F_time_samples_per_s) > 0;
}

bool ls_row_has_warning(const json_t *row, const char *warning)
{
    for (size_t i = 0; i < ls_row_count(row, LS_F_result_warnings); i++)
        if (strcmp(ls_row_string_at(row, LS_F_result_warnings, i), warning) == 0)
            return true;
    return false;
}

bool ls_row_is_predicted(const json_t *row)
{
    return ls_row_has_warning(row, "predicted");
}

char *ls_real_text(double value, char text[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (!strpbrk(text, ".en")) /* a whole number: must still be a real when read back */
        strcat(text, ".0");
    return text;
}

/* `listed`: inside a list, which is joined by ',', and whose exponents have no '+': "1e20". */
static void print_value(FILE *stream, const json_t *value, bool listed)
{
    char text[32];
    const char *name, *before = "";
    json_t *member;
    size_t i;
    if (json_is_string(value))
        fputs(json_string_value(value), stream);
    else if (json_is_integer(value))
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", stream);
    for (const char *c = json_is_real(value) ? ls_real_text(json_real_value(value), text) : ""; *c;
         c++)
        if (!listed || *c != '+')
            fputc(*c, stream);
    json_array_foreach(value, i, member)
    {
        fputs(i == 0 ? "" : listed ? "," : "+", stream);
        print_value(stream, member, true);
    }
    json_object_foreach((json_t *)(size_t)value, name, member) /* a map is one field */
    {
        fprintf(stream, "%s%s=", before, name);
        print_value(stream, member, false);
        before = "+";
    }
}

/* A memory stream costs some microseconds: only used for values without a faster way. */
char *ls_value_text(const json_t *value)
{
    char *text = NULL, number[32];
    size_t size;
    if (!value || json_is_string(value))
        return strdup(value ? json_string_value(value) : "");
    if (json_is_real(value))
        return strdup(ls_real_text(json_real_value(value), number));
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    print_value(stream, value, false);
    fclose(stream);
    return text;
}

char *ls_option_text(const json_t *value)
{
    if (json_is_boolean(value))
        return strdup(json_is_true(value) ? "yes" : "no");
    return ls_value_text(value);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* What a terminal would obey is escaped, also where JSON does not ask for it. */
static void print_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_JSON);
    fputc('"', stream);
}

/* Members and objects begin a line each; an array of plain values stays on one line. */
static void print_json(FILE *stream, const json_t *value, int indent, int level)
{
    json_t *group = (json_t *)(size_t)value;
    void *member = json_object_iter(group); /* NULL if not an object, or empty */
    const bool object = json_is_object(value),
               lines = indent >= 0 && (object || json_is_object(json_array_get(value, 0)));
    const size_t count = object ? json_object_size(value) : json_array_size(value);
    if (json_is_null(value))
        fputs("null", stream);
    else if (json_is_string(value))
        print_string(stream, json_string_value(value));
    else if (!object && !json_is_array(value))
        print_value(stream, value, false);
    if (!object && !json_is_array(value))
        return;
    fputc(object ? '{' : '[', stream);
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "" : indent >= 0 && !lines ? ", " : ",", stream);
        if (lines)
            fprintf(stream, "\n%*s", indent * (level + 1), "");
        if (object) {
            print_string(stream, json_object_iter_key(member));
            fputs(indent >= 0 ? ": " : ":", stream);
        }
        print_json(stream, object ? json_object_iter_value(member) : json_array_get(value, i),
                   indent, level + 1);
        member = object ? json_object_iter_next(group, member) : NULL;
    }
    if (lines && count)
        fprintf(stream, "\n%*s", indent * level, "");
    fputc(object ? '}' : ']', stream);
}

void ls_json_print(FILE *stream, const json_t *value, int indent)
{
    print_json(stream, value, indent, 0);
}

/* ---- Equality ------------------------------------------------------------------------------- */

json_t *ls_value_alike(const json_t *value)
{
    const double real = json_real_value(value);
    json_t *out, *member;
    const char *name;
    size_t i;
    if (json_is_real(value) && real >= -0x1p63 && real < 0x1p63 && real == trunc(real))
        return json_integer((json_int_t)real);
    out = json_copy((json_t *)(size_t)value);
    json_array_foreach(value, i, member)
    {
        json_array_set_new(out, i, ls_value_alike(member));
    }
    json_object_foreach((json_t *)(size_t)value, name, member)
    {
        json_object_set_new_nocheck(out, name, ls_value_alike(member));
    }
    return out;
}

bool ls_value_equal(const json_t *a, const json_t *b)
{
    if (a == b || json_equal(a, b))
        return true;
    if (!a || !b)
        return false;
    json_auto_t *left = ls_value_alike(a), *right = ls_value_alike(b);
    return json_equal(left, right);
}
