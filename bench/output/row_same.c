/* SPDX-License-Identifier: MIT */
/* Same; see row_same.h. What identifies a case or a machine is said in bench/rows/fields.def. */
#include "bench/output/row_same.h"

#include "bench/output/format_parts.h"
#include "bench/output/value_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

/* ---- The case ------------------------------------------------------------------------------- */

static json_t *group_of(const json_t *row, bool *micro)
{
    json_t *group = json_object_get(row, "case");
    *micro = !group;
    return group ? group : json_object_get(row, "micro");
}

/* Of the group `micro`, what it was asked for; the rest was measured. */
static bool counts(const char *name, bool micro, unsigned but)
{
    char path[96];
    if (!micro)
        return !ls_case_leaves_out(name, but);
    snprintf(path, sizeof path, "micro.%s", name);
    const ls_field *field = ls_field_find(path);
    return field && field->identifies & LS_IS_CASE;
}

/* Borrowed; with LS_BUT_TRAINED the steps that were asked for are `steps`. */
static json_t *field_of(const json_t *group, const char *field, unsigned but)
{
    json_t *asked = json_object_get(group, "steps_asked");
    const bool other = but & LS_BUT_TRAINED && asked && strcmp(field, "steps") == 0;
    return other ? asked : json_object_get(group, field);
}

/* Whether each field of `a` is equal in `b`; `common`: fields that `b` lacks are passed over. */
static bool fields_agree(const json_t *a, const json_t *b, unsigned but, bool common)
{
    bool micro, other_micro;
    json_t *mine = group_of(a, &micro), *theirs = group_of(b, &other_micro), *value;
    const char *field;
    if (!mine || !theirs || micro != other_micro)
        return false;
    json_object_foreach(mine, field, value)
    {
        const json_t *other = field_of(theirs, field, but);
        if (counts(field, micro, but) && !(common && !other) &&
            !ls_value_equal(field_of(mine, field, but), other))
            return false;
    }
    return true;
}

bool ls_row_same_case(const json_t *a, const json_t *b, unsigned but, bool common)
{
    return strcmp(ls_row_text(a, "peer", "what"), ls_row_text(b, "peer", "what")) == 0 &&
           fields_agree(a, b, but, common) && fields_agree(b, a, but, common);
}

/* ---- Where, and with what ------------------------------------------------------------------- */

typedef struct known_fact {
    const char *path;
    unsigned of; /* LS_OF_.. */
} known_fact;

enum { FACTS_MOST = 64 };

/* Fields and groups that describe a machine: made once, and never changed. */
static known_fact known_facts[FACTS_MOST];
static size_t fact_count;
static once_flag facts_once = ONCE_FLAG_INIT;

static void add_fact(const char *path, unsigned of)
{
    if (of & LS_OF_ANY) {
        if (fact_count == FACTS_MOST)
            abort();
        known_facts[fact_count++] = (known_fact){path, of};
    }
}

static void find_facts(void)
{
    for (size_t i = 0; i < LS_FIELDS; i++)
        add_fact(ls_fields[i].path, ls_fields[i].identifies);
    for (size_t i = 0; i < ls_field_group_count; i++)
        add_fact(ls_field_groups[i].path, ls_field_groups[i].identifies);
}

bool ls_row_is_of(const char *path, unsigned of)
{
    const ls_field *field = ls_field_find(path);
    const ls_field_group *group = field ? NULL : ls_field_group_find(path);
    return (field ? field->identifies : group ? group->identifies : 0) & of & LS_OF_ANY;
}

/* {path: value} of what the row states, null where that is none. */
static json_t *facts_of(const json_t *row, unsigned of)
{
    json_t *facts = json_object();
    const bool peer = json_object_get(row, "peer");
    call_once(&facts_once, find_facts);
    for (size_t i = 0; i < fact_count; i++) {
        json_t *value = known_facts[i].of & of ? ls_row_find(row, known_facts[i].path) : NULL;
        if (!value && known_facts[i].of & of && known_facts[i].of & LS_OR_ABSENT && !peer)
            value = json_null();
        if (value)
            json_object_set_new_nocheck(facts, known_facts[i].path, value);
    }
    return facts;
}

/* The first fact that both know and that differs; NULL: none. */
static const char *other_fact(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < fact_count; i++) {
        const json_t *x = json_object_get(a, known_facts[i].path);
        const json_t *y = json_object_get(b, known_facts[i].path);
        if (x && y && !ls_value_equal(x, y))
            return known_facts[i].path;
    }
    return NULL;
}

const char *ls_row_other_machine(const json_t *a, const json_t *b, unsigned of)
{
    json_auto_t *mine = facts_of(a, of), *theirs = facts_of(b, of);
    return other_fact(mine, theirs);
}

size_t ls_row_machine(json_t *known, const json_t *row, unsigned of)
{
    json_auto_t *facts = facts_of(row, of);
    const size_t count = json_array_size(known);
    size_t i = 0;
    while (i < count && other_fact(json_array_get(known, i), facts))
        i++;
    if (i < count)
        json_object_update_missing(json_array_get(known, i), facts);
    else
        json_array_append(known, facts);
    return i;
}

void ls_rows_differ(const json_t *rows, unsigned but, unsigned of, json_t *out)
{
    bool micro, other_micro;
    json_t *first = json_array_get(rows, 0), *mine = group_of(first, &micro), *row, *value;
    json_auto_t *known = facts_of(first, of);
    const char *field;
    size_t index;
    json_array_foreach((json_t *)(size_t)rows, index, row)
    {
        json_t *theirs = group_of(row, &other_micro);
        json_auto_t *facts = facts_of(row, of), *all = json_copy(mine);
        if (strcmp(ls_row_text(first, "peer", "what"), ls_row_text(row, "peer", "what")) != 0)
            json_object_set_new(out, "peer.what", json_true());
        json_object_update_missing(all, theirs);
        json_object_foreach(all, field, value)
        {
            char path[96];
            snprintf(path, sizeof path, "%s.%s", micro ? "micro" : "case", field);
            if (counts(field, micro, but) &&
                !ls_value_equal(json_object_get(mine, field), json_object_get(theirs, field)))
                json_object_set_new(out, path, json_true());
        }
        for (size_t i = 0; i < fact_count; i++) {
            const json_t *x = json_object_get(known, known_facts[i].path);
            const json_t *y = json_object_get(facts, known_facts[i].path);
            if (x && y && !ls_value_equal(x, y))
                json_object_set_new(out, known_facts[i].path, json_true());
        }
        json_object_update_missing(known, facts);
    }
}

char *ls_paths_text(const json_t *paths)
{
    const char *path, *between = "";
    json_t *unused;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    json_object_foreach((json_t *)(size_t)paths, path, unused)
    {
        (void)unused;
        fprintf(stream, "%s%s", between, path);
        between = ", ";
    }
    fclose(stream);
    return text;
}

/* The row's case without these fields, as a row of the same program. */
static json_t *without(const json_t *row, const char *const *fields)
{
    json_t *group = json_copy(json_object_get(row, "case"));
    for (; *fields; fields++)
        json_object_del(group, *fields);
    return json_pack("{s:o,s:O*}", "case", group, "peer", json_object_get(row, "peer"));
}

bool ls_row_same_but(const json_t *row, const json_t *other, const char *const *fields, bool common)
{
    json_auto_t *mine = without(row, fields), *its = without(other, fields);
    return ls_row_same_case(mine, its, LS_BUT_REPEATS, common) && !ls_row_is_bad(other) &&
           ls_row_is_predicted(row) == ls_row_is_predicted(other) &&
           !ls_row_other_machine(row, other, LS_OF_MACHINE);
}

/* ---- As text -------------------------------------------------------------------------------- */

/* A copy in which equal numbers are written alike: a whole real as an integer. */
static json_t *write_alike(const json_t *value)
{
    json_t *out, *member;
    const char *name;
    size_t index;
    const double real = json_real_value(value);
    if (json_is_real(value) && real >= -0x1p63 && real < 0x1p63 && real == trunc(real))
        return json_integer((json_int_t)real);
    if (json_is_array(value)) {
        out = json_array();
        json_array_foreach(value, index, member) json_array_append_new(out, write_alike(member));
        return out;
    }
    if (!json_is_object(value))
        return json_incref((json_t *)(size_t)value);
    out = json_object();
    json_object_foreach((json_t *)(size_t)value, name, member)
    {
        json_object_set_new_nocheck(out, name, write_alike(member));
    }
    return out;
}

static json_t *case_of(const json_t *row, unsigned but)
{
    bool micro;
    json_t *group = group_of(row, &micro), *out = json_object(), *value;
    const char *field;
    json_object_foreach(group, field, value)
    {
        if (counts(field, micro, but))
            json_object_set(out, field, field_of(group, field, but));
    }
    if (micro)
        json_object_set_new(out, "micro", json_true());
    if (json_object_get(row, "peer"))
        json_object_set_new(out, "peer", json_string(ls_row_text(row, "peer", "what")));
    return out;
}

char *ls_row_identity(const json_t *row, unsigned but, unsigned of)
{
    json_auto_t *whole = json_pack("{s:o,s:o}", "case", case_of(row, but), "of", facts_of(row, of));
    json_auto_t *alike = write_alike(whole);
    return json_dumps(alike, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}
