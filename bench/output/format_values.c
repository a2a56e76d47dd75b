/* SPDX-License-Identifier: MIT */
/*
 * Values of a row as text; see format_parts.h. JSON is written here, since jansson's 17 digits show
 * 0.1 as 0.10000000000000001; the shortest of 15, 16 or 17 digits that reads back equal is as
 * exact. Assumes the locale "C", as in a program that does not call setlocale.
 */
#include "bench/output/format_parts.h"

#include "common/base/escape.h"
#include "common/nn/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *find_at(const json_t *value, const char *path);

/* The elements' values at the path, without elements that lack it. */
static json_t *find_in_elements(const json_t *array, const char *path)
{
    json_t *found = json_array();
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *value = find_at(json_array_get(array, i), path);
        if (value)
            json_array_append_new(found, value);
    }
    if (json_array_size(found) > 0)
        return found;
    json_decref(found);
    return NULL;
}

/* Copies the first name of a path; returns the rest, or NULL. */
static const char *cut_name(const char *path, char name[64])
{
    const size_t length = strcspn(path, "."), kept = length < 63 ? length : 63;
    memcpy(name, path, kept);
    name[kept] = 0;
    return path[length] ? path + length + 1 : NULL;
}

static json_t *find_at(const json_t *value, const char *path)
{
    char name[64];
    if (json_is_array(value))
        return find_in_elements(value, path);
    const char *rest = cut_name(path, name);
    json_t *member = json_object_get(value, name);
    if (!member || json_is_null(member))
        return NULL;
    return rest ? find_at(member, rest) : json_incref(member);
}

void ls_row_put(json_t *row, const char *path, json_t *value)
{
    char name[64];
    const char *rest = cut_name(path, name);
    if (!rest) {
        json_object_set_new_nocheck(row, name, value);
        return;
    }
    json_t *group = json_object_get(row, name);
    if (!group) {
        group = json_object();
        json_object_set_new_nocheck(row, name, group);
    }
    ls_row_put(group, rest, value);
}

json_t *ls_row_find(const json_t *row, const char *path)
{
    return find_at(row, path);
}

/* The first element of memory.devices with the largest peak; borrowed. */
static const json_t *fullest_device(const json_t *row)
{
    const json_t *devices = json_object_get(json_object_get(row, "memory"), "devices");
    const json_t *fullest = json_array_get(devices, 0);
    if (json_is_object(devices)) /* in a part of a row (ls_row_part) it is already the fullest */
        return devices;
    for (size_t i = 1; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        if (json_integer_value(json_object_get(device, "peak")) >
            json_integer_value(json_object_get(fullest, "peak")))
            fullest = device;
    }
    return fullest;
}

json_t *ls_row_value(const json_t *row, const char *path)
{
    static const char of_devices[] = "memory.devices.";
    if (strncmp(path, of_devices, sizeof of_devices - 1) == 0)
        return ls_row_find(fullest_device(row), path + sizeof of_devices - 1);
    return ls_row_find(row, path);
}

double ls_row_number(const json_t *row, const char *path)
{
    json_auto_t *value = find_at(row, path);
    return json_number_value(value);
}

const char *ls_row_text(const json_t *row, const char *group, const char *field)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, group), field));
    return text ? text : "";
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

char *ls_row_reason(const json_t *row)
{
    const json_t *reason = json_object_get(json_object_get(row, "result"), "reason");
    char *text = reason ? ls_value_text(reason) : NULL;
    char *shown = text ? ls_text_shown(text, LS_ESCAPE_LINE) : NULL;
    free(text);
    return shown;
}

bool ls_row_is_bad(const json_t *row)
{
    const char *status = ls_row_text(row, "result", "status");
    return *status && strcmp(status, "ok") != 0;
}

bool ls_row_is_timed(const json_t *row)
{
    return !ls_row_is_bad(row) && ls_row_real(row, LS_F_time_samples_per_s) > 0;
}

bool ls_row_warns(const json_t *row, const char *warning)
{
    const json_t *warnings = json_object_get(json_object_get(row, "result"), "warnings");
    bool found = false;
    for (size_t i = 0; i < json_array_size(warnings) && !found; i++) {
        const char *here = json_string_value(json_array_get(warnings, i));
        found = here && strcmp(here, warning) == 0;
    }
    return found;
}

bool ls_row_is_noisy(const json_t *row)
{
    return ls_row_warns(row, "noisy");
}

bool ls_row_is_predicted(const json_t *row)
{
    return ls_row_warns(row, "predicted");
}

const ls_strategy *ls_case_strategy(const json_t *group)
{
    const char *name = json_string_value(json_object_get(group, "strategy"));
    return name ? ls_registry_find(&ls_strategies, name, strlen(name)) : NULL;
}

const ls_strategy *ls_row_strategy(const json_t *row)
{
    return ls_case_strategy(json_object_get(row, "case"));
}

bool ls_row_is_candidate(const json_t *row)
{
    const ls_strategy *strategy = ls_row_strategy(row);
    return !json_object_get(row, "peer") && (!strategy || strategy->equivalent);
}

void ls_put_real(json_t *object, const char *name, double value)
{
    if (isfinite(value))
        json_object_set_new(object, name, json_real(value));
}

void ls_put_text(json_t *object, const char *name, const char *text)
{
    char *shown = NULL;
    json_t *value = text ? json_string(text) : NULL;
    if (text && !value && (shown = ls_text_shown(text, LS_ESCAPE_LINE))) /* it is not UTF-8 */
        value = json_string(shown);
    if (value)
        json_object_set_new(object, name, value);
    free(shown);
}

void ls_put_integer(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
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

static void print_number(FILE *stream, const json_t *value)
{
    char text[32];
    if (json_is_integer(value))
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        fputs(ls_real_text(json_real_value(value), text), stream);
}

/* In a list, where '+' separates elements, an exponent is written without it: "1e20". */
static void print_element(FILE *stream, const json_t *value)
{
    char text[32];
    if (!json_is_real(value)) {
        ls_value_print(stream, value);
        return;
    }
    for (const char *c = ls_real_text(json_real_value(value), text); *c; c++)
        if (*c != '+')
            fputc(*c, stream);
}

static void print_joined(FILE *stream, const json_t *array, char between)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *element = json_array_get(array, i);
        if (i > 0)
            fputc(between, stream);
        if (json_is_array(element))
            print_joined(stream, element, ',');
        else
            print_element(stream, element);
    }
}

/* A group whose members are not in the schema, so that it is one path: NAME=value+NAME=value. */
static void print_group(FILE *stream, const json_t *group)
{
    const char *name, *before = "";
    json_t *member;
    json_object_foreach((json_t *)(size_t)group, name, member)
    {
        fprintf(stream, "%s%s=", before, name);
        ls_value_print(stream, member);
        before = "+";
    }
}

void ls_value_print(FILE *stream, const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_ARRAY:
        print_joined(stream, value, '+');
        break;
    case JSON_STRING:
        fputs(json_string_value(value), stream);
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        print_number(stream, value);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        fputs(json_is_true(value) ? "true" : "false", stream);
        break;
    case JSON_OBJECT:
        print_group(stream, value);
        break;
    case JSON_NULL:
        break;
    }
}

/* The text of an array of strings, the most frequent kind; NULL for any other. */
static char *join_strings(const json_t *array)
{
    size_t size = 1;
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!json_is_string(json_array_get(array, i)))
            return NULL;
        size += json_string_length(json_array_get(array, i)) + 1;
    }
    char *text = malloc(size), *end = text;
    for (size_t i = 0; text && i < json_array_size(array); i++) {
        if (i > 0)
            *end++ = '+';
        end = stpcpy(end, json_string_value(json_array_get(array, i)));
    }
    if (end)
        *end = 0;
    return text;
}

/* A memory stream costs some microseconds: only used for values without a faster way. */
char *ls_value_text(const json_t *value)
{
    char *text = NULL, number[32];
    size_t size;
    if (json_is_string(value))
        return strdup(json_string_value(value));
    if (json_is_real(value))
        return strdup(ls_real_text(json_real_value(value), number));
    if (!value)
        return strdup("");
    if (json_is_array(value))
        text = join_strings(value);
    if (text)
        return text;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    ls_value_print(stream, value);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *ls_option_text(const json_t *value)
{
    if (json_is_boolean(value))
        return strdup(json_is_true(value) ? "yes" : "no");
    return ls_value_text(value);
}

static void new_line(FILE *stream, int indent, int level)
{
    if (indent >= 0)
        fprintf(stream, "\n%*s", indent * level, "");
}

static void print_json(FILE *stream, const json_t *value, int indent, int level);

/* What a terminal would obey is escaped, also where JSON does not ask for it. */
static void print_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_JSON);
    fputc('"', stream);
}

static void print_members(FILE *stream, const json_t *object, int indent, int level)
{
    const char *name;
    json_t *member;
    size_t count = 0;
    fputc('{', stream);
    json_object_foreach((json_t *)(size_t)object, name, member)
    {
        if (count++)
            fputc(',', stream);
        new_line(stream, indent, level + 1);
        print_string(stream, name);
        fputs(indent >= 0 ? ": " : ":", stream);
        print_json(stream, member, indent, level + 1);
    }
    if (count)
        new_line(stream, indent, level);
    fputc('}', stream);
}

/* An array of plain values stays on one line, which is easier to read. */
static void print_elements(FILE *stream, const json_t *array, int indent, int level)
{
    size_t count = json_array_size(array);
    bool nested = count && json_is_object(json_array_get(array, 0));
    fputc('[', stream);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            fputs(indent >= 0 && !nested ? ", " : ",", stream);
        if (nested)
            new_line(stream, indent, level + 1);
        print_json(stream, json_array_get(array, i), indent, level + 1);
    }
    if (nested)
        new_line(stream, indent, level);
    fputc(']', stream);
}

static void print_json(FILE *stream, const json_t *value, int indent, int level)
{
    if (json_is_object(value))
        print_members(stream, value, indent, level);
    else if (json_is_array(value))
        print_elements(stream, value, indent, level);
    else if (json_is_number(value))
        print_number(stream, value);
    else if (json_is_string(value))
        print_string(stream, json_string_value(value));
    else
        json_dumpf(value, stream, JSON_ENCODE_ANY);
}

void ls_json_print(FILE *stream, const json_t *value, int indent)
{
    print_json(stream, value, indent, 0);
}
