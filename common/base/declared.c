/* SPDX-License-Identifier: MIT */
/* Declared options; see declared.h. */
#include "common/base/declared.h"

#include "common/base/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const no_yes[] = {"no", "yes", NULL};

static const char *const *words_of(const ls_declared_option *option)
{
    return option->type == LS_DECLARED_SWITCH ? no_yes : option->words;
}

bool ls_declared_read(const ls_declared_option *option, const char *text, int64_t *number)
{
    *number = 0;
    if (option->type == LS_DECLARED_NUMBER)
        return ls_parse_integer(text, option->low, option->high, number);
    if (option->type == LS_DECLARED_TEXT)
        return strlen(text) < (size_t)option->high;
    const char *const *words = words_of(option);
    while (words[*number] && strcmp(words[*number], text) != 0)
        ++*number;
    return words[*number];
}

char *ls_declared_valid(const ls_declared_option *option, char *valid, size_t size)
{
    size_t used = 0;
    if (option->type == LS_DECLARED_NUMBER)
        snprintf(valid, size, "a whole number from %" PRId64 " to %" PRId64, option->low,
                 option->high);
    else if (option->type == LS_DECLARED_TEXT)
        snprintf(valid, size, "a text of at most %" PRId64 " characters", option->high - 1);
    else
        for (const char *const *w = words_of(option); *w && used < size; w++)
            used += (size_t)snprintf(valid + used, size - used, "%s%s", used ? ", " : "", *w);
    return valid;
}

ls_status ls_declared_set(ls_declared_values *values, const ls_declared_option *option,
                          const char *text)
{
    ls_declared_value *items = values->items, value = {.option = option, .text = text};
    char valid[160];
    int i = 0;
    if (!ls_declared_read(option, text, &value.number))
        return ls_fail(LS_CODE_USAGE, "option", option->name, "'%.64s' is not valid; valid are: %s",
                       text, ls_declared_valid(option, valid, sizeof valid));
    while (i < LS_DECLARED_MOST && items[i].option && items[i].option != option)
        i++;
    if (i == LS_DECLARED_MOST)
        return ls_fail(LS_CODE_USAGE, "option", option->name,
                       "is one too many; a case has at most %d options of its own",
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
    const ls_declared_value *value = find(values, option);
    int64_t number = 0;
    if (value)
        return value->number;
    ls_declared_read(option, option->fallback, &number);
    return number;
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
