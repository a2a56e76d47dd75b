/* SPDX-License-Identifier: MIT */
/*
 * Which options cases have, and in which they differ; see table_parts.h. For each option the first
 * value is kept, and how many cases of each kind have one: so a case is looked at once, however
 * many follow.
 */
#include "bench/output/table/table_parts.h"

#include "bench/output/row_keys.h"

#include <stdlib.h>
#include <string.h>

/* LS_SHOWN_..; an option without a place comes before options that follow from others. */
static unsigned shown_of(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "case.%s", name);
    const ls_field *field = ls_field_find(path);
    const ls_declared_option *option = field ? NULL : ls_row_declared(path);
    const unsigned shown = field ? field->shown : option && option->follows ? LS_SHOWN_LAST : 0;
    return shown & LS_SHOWN_AT ? shown : shown | (LS_SHOWN_LAST - 1);
}

bool ls_option_follows(const char *name)
{
    return shown_of(name) & LS_SHOWN_LAST;
}

bool ls_option_is_telling(const char *name)
{
    return shown_of(name) & LS_SHOWN_KEPT;
}

/* What `options` consists of, each an object: */
enum {
    CASES,    /* {kind: how many} */
    FIRST,    /* {option: {among: its first value}} */
    HAVING,   /* {option: {kind: how many have it}} */
    DIFFERING /* {option: true} */
};

static void count(json_t *counts, const char *kind)
{
    const json_int_t before = json_integer_value(json_object_get(counts, kind));
    json_object_set_new_nocheck(counts, kind, json_integer(before + 1));
}

/* The member of the part's object of that option, made if it is missing. */
static json_t *part_of(json_t *options, int part, const char *name)
{
    json_t *all = json_array_get(options, (size_t)part);
    if (!json_object_get(all, name))
        json_object_set_new_nocheck(all, name, json_object());
    return json_object_get(all, name);
}

json_t *ls_options_new(void)
{
    return json_pack("[{},{},{},{}]");
}

void ls_options_add(json_t *options, const json_t *row, const char *among)
{
    const char *model = ls_row_string(row, LS_F_case_model), *name;
    json_t *value;
    char file[512], kind[1024];
    snprintf(file, sizeof file, "%s\n%s", among, model);
    snprintf(kind, sizeof kind, "%s\n%s\n%s\n%s", file, ls_row_string(row, LS_F_case_data),
             ls_row_string(row, LS_F_case_strategy), ls_row_string(row, LS_F_case_reduce));
    count(json_array_get(options, CASES), kind);
    json_object_foreach(ls_row_group(row, LS_G_case), name, value)
    {
        /* only of one file two digests are a difference */
        const bool digest = strcmp(name, "model_digest") == 0;
        json_t *first = part_of(options, FIRST, name), *having = part_of(options, HAVING, name);
        const json_t *before = json_object_get(first, digest ? file : among);
        if (!before)
            json_object_set(first, digest ? file : among, value);
        else if (!ls_value_equal(before, value))
            part_of(options, DIFFERING, name);
        if (!digest)
            count(having, kind);
    }
}

json_t *ls_options_of(const json_t *rows)
{
    json_t *options = ls_options_new();
    for (size_t i = 0; i < json_array_size(rows); i++)
        ls_options_add(options, json_array_get(rows, i), "");
    return options;
}

bool ls_options_differ(const json_t *options, const char *name)
{
    const char *kind;
    json_t *having;
    if (json_object_get(json_array_get(options, DIFFERING), name))
        return true;
    json_object_foreach(json_object_get(json_array_get(options, HAVING), name), kind, having)
    {
        const json_t *all = json_object_get(json_array_get(options, CASES), kind);
        if (json_integer_value(having) < json_integer_value(all))
            return true;
    }
    return false;
}

json_t *ls_options_names(const json_t *options)
{
    json_t *names = json_array(), *unused;
    const char *name;
    json_object_foreach(json_array_get(options, HAVING), name, unused)
    {
        const unsigned shown = shown_of(name);
        size_t at = json_array_size(names);
        (void)unused;
        while (at > 0 && (shown_of(json_string_value(json_array_get(names, at - 1))) &
                          LS_SHOWN_AT) > (shown & LS_SHOWN_AT))
            at--;
        if (!(shown & LS_SHOWN_DERIVED))
            json_array_insert_new(names, at, json_string(name));
    }
    return names;
}
