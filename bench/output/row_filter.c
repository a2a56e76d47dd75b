/* SPDX-License-Identifier: MIT */
/* Filter; see row_filter.h. */
#include "bench/output/row_filter.h"

#include "bench/output/format_parts.h"
#include "bench/output/value_order.h"
#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* How a field's value may compare with the given one; CONTAINS: as text. */
enum { LESS = 1, SAME = 2, MORE = 4, CONTAINS = 8 };

static const struct {
    const char *text;
    int kind;
} operators[] = {{"!=", LESS | MORE}, {">=", SAME | MORE}, {"<=", LESS | SAME}, {"=", SAME},
                 {">", MORE},         {"<", LESS},         {"~", CONTAINS}};

typedef struct condition {
    ls_row_key key;
    int kind;
    char *value;
    json_t *number; /* the value, if it is one */
} condition;

struct ls_row_filter {
    condition *conditions;
    size_t count;
};

/* ---- Conditions ----------------------------------------------------------------------------- */

static ls_status refuse(const char *part, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "--where", *part ? part : "''",
                   "%s; KEY=VALUE, or with != > < >= <= ~ in place of =; separate conditions with "
                   "commas, and write \\, for a comma in a value",
                   why);
}

static bool is_equality(int kind)
{
    return kind == SAME || kind == (LESS | MORE);
}

/* Whether the field has a number, in each row that has it. */
static bool is_number(const char *path)
{
    const ls_field *field = ls_field_find(path);
    if (field) /* of a list of objects the value is the list of all elements' values */
        return (field->type == LS_TYPE_INT || field->type == LS_TYPE_REAL) &&
               (!ls_field_group_of(field, LS_GROUP_EACH) ||
                ls_field_group_of(field, LS_GROUP_FULLEST));
    const ls_declared_option *option = ls_row_declared(path + strlen("case."));
    return option && (option->type == LS_DECLARED_NUMBER || option->type == LS_DECLARED_REAL);
}

static ls_status read_condition(const char *part, condition *out)
{
    const size_t length = strcspn(part, "!=<>~");
    const char *rest = part + length;
    if (length == 0)
        return refuse(part, "a key is missing");
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const size_t size = strlen(operators[i].text);
        if (strncmp(rest, operators[i].text, size) != 0)
            continue;
        LS_TRY(ls_row_key_find("--where", part, length, &out->key));
        out->kind = operators[i].kind;
        out->value = strdup(rest + size);
        if (!out->value)
            return ls_fail_memory("--where", strlen(rest));
        if (!*out->value && !is_equality(out->kind))
            return refuse(part, "a value is missing");
        out->number = ls_number_read(out->value);
        if (*out->value && !out->number && out->kind != CONTAINS && is_number(out->key.path))
            return ls_fail(LS_CODE_USAGE, "--where", out->key.path,
                           "is a number, and '%s' is not; give a number", out->value);
        return LS_OK;
    }
    return refuse(part, "is not a condition");
}

ls_status ls_row_filter_open(const char *text, ls_row_filter **out)
{
    ls_row_filter *filter = calloc(1, sizeof *filter);
    char *copy = strdup(text);
    if (filter)
        filter->conditions = calloc(strlen(text) / 2 + 1, sizeof *filter->conditions);
    ls_status status = LS_OK;
    if (!filter || !filter->conditions || !copy)
        status = ls_fail_memory("--where", strlen(text));
    for (char *part = copy, *next; part && !status; part = next) {
        next = ls_list_cut(part, NULL);
        status = read_condition(part, &filter->conditions[filter->count]);
        filter->count++;
    }
    free(copy);
    if (status)
        ls_row_filter_close(filter);
    else
        *out = filter;
    return status;
}

void ls_row_filter_close(ls_row_filter *filter)
{
    for (size_t i = 0; filter && i < filter->count; i++) {
        free(filter->conditions[i].value);
        json_decref(filter->conditions[i].number);
    }
    if (filter)
        free(filter->conditions);
    free(filter);
}

const char *ls_row_filter_path(const ls_row_filter *filter, size_t index)
{
    return filter && index < filter->count ? filter->conditions[index].key.path : NULL;
}

bool ls_row_filter_mixes(const ls_row_filter *filter, const json_t *row)
{
    bool asked = !ls_row_is_predicted(row);
    const char *path;
    for (size_t i = 0; !asked && (path = ls_row_filter_path(filter, i)); i++)
        asked = strncmp(path, "prediction", 10) == 0 || strcmp(path, "result.warnings") == 0;
    return asked;
}

static bool in_order(int kind, int order)
{
    return kind & (order < 0 ? LESS : order > 0 ? MORE : SAME);
}

static ls_status holds_text(const condition *one, const json_t *value, bool *out)
{
    const bool equality = is_equality(one->kind);
    if (!value && !equality) {
        *out = false;
        return LS_OK;
    }
    char *text = ls_value_text(value);
    if (!text)
        return ls_fail_memory("--where", 0);
    char shown[160] = "";
    if (json_is_boolean(value)) /* as options are given, too */
        snprintf(shown, sizeof shown, "%s", json_is_true(value) ? "yes" : "no");
    if (strcmp(one->key.path, "case.optimizer") == 0) /* as tables show it, too */
        ls_optimizer_shown(text, shown, sizeof shown);
    if (one->kind == CONTAINS)
        *out = strstr(text, one->value) != NULL;
    else if (*shown && strcmp(shown, one->value) == 0)
        *out = one->kind & SAME;
    else
        *out = (equality || !one->number) && in_order(one->kind, strcmp(text, one->value));
    free(text);
    return LS_OK;
}

static ls_status holds(const condition *one, const json_t *value, bool *out)
{
    if (!json_is_number(value) || one->kind == CONTAINS)
        return holds_text(one, value, out);
    /* between a number and a text there is no order; the number is another value */
    *out = one->number ? in_order(one->kind, ls_number_order(value, one->number))
                       : one->kind == (LESS | MORE);
    return LS_OK;
}

ls_status ls_row_filter_holds(const ls_row_filter *filter, const json_t *row, bool *out)
{
    bool all = true;
    for (size_t i = 0; filter && i < filter->count && all; i++) {
        json_t *value = ls_row_value(row, filter->conditions[i].key.path);
        ls_status status = holds(&filter->conditions[i], value, &all);
        json_decref(value);
        LS_TRY(status);
    }
    *out = all;
    return LS_OK;
}

/* ---- Since ---------------------------------------------------------------------------------- */

static const struct {
    const char *unit;
    int64_t seconds;
} units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}};

/* "2d" in seconds; false if the text is not an age. */
static bool read_age(const char *text, int64_t *out)
{
    char number[16];
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)digits, text);
    int64_t count;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(text + digits, units[i].unit) == 0 &&
            ls_parse_integer(number, 0, 1000000000, &count)) {
            *out = count * units[i].seconds;
            return true;
        }
    return false;
}

/* A date and time; the day must exist. */
static const char stamp_form[] = "%Y-%m-%dT%H:%M:%SZ";

static bool is_stamp(const char stamp[21])
{
    struct tm day = {0};
    char same[21];
    const char *end = strptime(stamp, stamp_form, &day);
    timegm(&day); /* normalises it to an existing day */
    return end && strftime(same, sizeof same, stamp_form, &day) && strcmp(same, stamp) == 0;
}

ls_status ls_since_read(const char *text, time_t now, char stamp[21])
{
    static const char midnight[] = "2000-01-01T00:00:00Z";
    int64_t age;
    const size_t length = strlen(text);
    if (read_age(text, &age)) {
        struct tm utc;
        const time_t then = now > age ? now - age : 0;
        gmtime_r(&then, &utc);
        strftime(stamp, 21, stamp_form, &utc);
        return LS_OK;
    }
    if (length == 10 || length == 16 || length == 19 || length == 20) {
        snprintf(stamp, 21, "%s%s", text, midnight + length);
        if (is_stamp(stamp))
            return LS_OK;
    }
    return ls_fail(LS_CODE_USAGE, "--since", text,
                   "is neither an age (30min, 12h, 2d, 1w) nor a day (2026-11-20, or with a time: "
                   "2026-11-20T14:30)");
}
