/* SPDX-License-Identifier: MIT */
/* Declared options; see declared.h. */
#include "common/base/declared.h"

#include "common/base/numbers.h"

#include <stdio.h>
#include <string.h>

static const char *const no_yes[] = {"no", "yes", NULL};

static const char *const *words_of(const ls_declared_option *option)
{
    return option->type == LS_DECLARED_SWITCH ? no_yes : option->words;
}

static bool is_in_range(const ls_declared_option *option, double value)
{
    return (option->above ? value > option->low : value >= option->low) &&
           (option->below ? value < option->high : value <= option->high);
}

bool ls_declared_read(const ls_declared_option *option, const char *text, double *number)
{
    int64_t whole = 0;
    bool valid;
    *number = 0;
    if (option->type == LS_DECLARED_TEXT)
        return strlen(text) < (size_t)option->high;
    if (option->type == LS_DECLARED_REAL) {
        valid = ls_parse_real(text, number) && is_in_range(option, *number);
        *number += 0.0; /* -0 becomes 0 */
        return valid;
    }
    if (option->type == LS_DECLARED_NUMBER) {
        valid = ls_parse_integer(text, (int64_t)option->low, (int64_t)option->high, &whole);
    } else {
        const char *const *words = words_of(option);
        while (words[whole] && strcmp(words[whole], text) != 0)
            whole++;
        valid = words[whole];
    }
    *number = (double)whole;
    return valid;
}

char *ls_declared_valid(const ls_declared_option *option, char *valid, size_t size)
{
    const bool whole = option->type == LS_DECLARED_NUMBER;
    size_t used = 0;
    if (option->type == LS_DECLARED_TEXT)
        snprintf(valid, size, "a text of at most %.0f characters", option->high - 1);
    else if (option->above || option->below)
        snprintf(valid, size, "a number %s %.15g and %s %.15g",
                 option->above ? "above" : "of at least", option->low,
                 option->below ? "below" : "at most", option->high);
    else if (whole || option->type == LS_DECLARED_REAL)
        snprintf(valid, size, "a %snumber from %.15g to %.15g", whole ? "whole " : "", option->low,
                 option->high);
    else
        for (const char *const *w = words_of(option); *w && used < size; w++)
            used +=
                (size_t)snprintf(valid + used, size - used, "%s%s", used ? ", " : "one of ", *w);
    return valid;
}

ls_status ls_declared_set(ls_declared_values *values, const ls_declared_option *option,
                          const char *text)
{
    ls_declared_value *items = values->items, value = {.option = option, .text = text};
    char valid[160];
    int i = 0;
    if (!ls_declared_read(option, text, &value.number))
        return ls_fail(LS_CODE_USAGE, "option", option->name, "'%.64s' is not valid; use %s", text,
                       ls_declared_valid(option, valid, sizeof valid));
    while (i < LS_DECLARED_MOST && items[i].option && items[i].option != option)
        i++;
    if (i == LS_DECLARED_MOST)
        return ls_fail(LS_CODE_USAGE, "option", option->name,
                       "a run can have at most %d options of its strategy, model and data set in "
                       "total; remove this option or another one",
                       LS_DECLARED_MOST);
    items[i] = value;
    return LS_OK;
}

static const ls_declared_value *find(const ls_declared_values *values,
                                     const ls_declared_option *option)
{
    for (int i = 0; i < LS_DECLARED_MOST && values->items[i].option; i++)
        if (values->items[i].option == option)
            return &values->items[i];
    return NULL;
}

int64_t ls_declared_number(const ls_declared_values *values, const ls_declared_option *option)
{
    return (int64_t)ls_declared_real(values, option);
}

double ls_declared_real(const ls_declared_values *values, const ls_declared_option *option)
{
    const ls_declared_value *value = find(values, option);
    double number = 0;
    if (value)
        return value->number;
    ls_declared_read(option, option->fallback, &number);
    return number;
}

bool ls_declared_is_default(const ls_declared_values *values, const ls_declared_option *option)
{
    const ls_declared_value *value = find(values, option);
    double number = 0;
    if (!value || option->type == LS_DECLARED_TEXT)
        return !value;
    ls_declared_read(option, option->fallback, &number);
    return value->number <= number && value->number >= number;
}

const char *ls_declared_text(const ls_declared_values *values, const ls_declared_option *option)
{
    const ls_declared_value *value = find(values, option);
    const char *text = value ? value->text : option->fallback;
    return strcmp(text, "none") == 0 ? "" : text;
}

char *ls_declared_field(const char *option, char field[64])
{
    snprintf(field, 64, "%s", option);
    for (char *c = field; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return field;
}

bool ls_declared_has(const ls_declared_option *const *list, const ls_declared_option *option)
{
    while (list && *list && *list != option)
        list++;
    return list && *list;
}

void ls_declared_clear(ls_declared_values *values, const ls_declared_option *const *list)
{
    int kept = 0;
    for (int i = 0; i < LS_DECLARED_MOST; i++)
        if (!ls_declared_has(list, values->items[i].option))
            values->items[kept++] = values->items[i];
    while (kept < LS_DECLARED_MOST)
        values->items[kept++] = (ls_declared_value){0};
}
