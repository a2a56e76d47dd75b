/* SPDX-License-Identifier: MIT */
/* Same; see row_same.h. What identifies a case or a machine is said in bench/rows/fields.def. */
#include "bench/output/row_same.h"

#include "bench/output/format.h"

/* What of the row counts for a case, by path: of the group `micro`, what it was asked for, since
 * the rest was measured. With LS_BUT_TRAINED the steps that were asked for are `steps`. */
static json_t *case_of(const json_t *row, unsigned but)
{
    json_t *group = ls_row_group(row, LS_G_case), *out = json_object(), *value;
    json_t *asked = but & LS_BUT_TRAINED ? ls_row_get(row, LS_F_case_steps_asked) : NULL;
    const bool micro = !group;
    const char *name;
    char path[96];
    json_object_set_new(out, "peer.what", json_string(ls_row_string(row, LS_F_peer_what)));
    if (micro)
        group = ls_row_group(row, LS_G_micro);
    json_object_foreach(group, name, value)
    {
        snprintf(path, sizeof path, "%s.%s", micro ? "micro" : "case", name);
        const ls_field *field = ls_field_find(path);
        const unsigned is = field ? field->identifies : micro ? 0 : LS_IS_CASE;
        if (is & LS_IS_CASE && !(is & but))
            json_object_set(out, path,
                            asked && field == &ls_fields[LS_F_case_steps] ? asked : value);
    }
    return out;
}

/* The fields and groups of the given parts that the row states, by path; null for a field whose
 * absence means that there was none. */
static json_t *facts_of(const json_t *row, unsigned of)
{
    json_t *facts = json_object();
    const bool peer = ls_row_group(row, LS_G_peer);
    for (size_t i = 0; i < LS_FIELDS + ls_field_group_count; i++) {
        const ls_field_group *group = i < LS_FIELDS ? NULL : &ls_field_groups[i - LS_FIELDS];
        const char *path = group ? group->path : ls_fields[i].path;
        const unsigned is = group ? group->identifies : ls_fields[i].identifies;
        if (!(is & of & LS_OF_ANY))
            continue;
        json_t *value = ls_row_value(row, path);
        if (!value && is & LS_OR_ABSENT && !peer)
            value = json_null();
        if (value)
            json_object_set_new_nocheck(facts, path, value);
    }
    return facts;
}

/* The first value that both have and that differs; NULL if there is none. */
static const char *other_value(const json_t *a, const json_t *b)
{
    const char *path;
    json_t *value;
    json_object_foreach((json_t *)(size_t)a, path, value)
    {
        const json_t *other = json_object_get(b, path);
        if (other && !ls_value_equal(value, other))
            return path;
    }
    return NULL;
}

static bool is_same(const json_t *left, const json_t *right, bool common)
{
    return common ? !other_value(left, right) : ls_value_equal(left, right);
}

/* Whether both are rows of `case`, or both of `micro`. */
static bool is_comparable(const json_t *a, const json_t *b)
{
    /* few different cases agree in them, which makes the comparison of many rows fast */
    static const ls_field_number first[] = {LS_F_case_strategy, LS_F_case_model,
                                            LS_F_case_batch_global};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const json_t *left = ls_row_get(a, first[i]), *right = ls_row_get(b, first[i]);
        if (left && right && !ls_value_equal(left, right))
            return false;
    }
    const bool micro = !ls_row_group(a, LS_G_case);
    return micro == !ls_row_group(b, LS_G_case) &&
           (!micro || (ls_row_group(a, LS_G_micro) && ls_row_group(b, LS_G_micro)));
}

bool ls_row_same_case(const json_t *a, const json_t *b, unsigned but, bool common)
{
    if (!is_comparable(a, b))
        return false;
    json_auto_t *left = case_of(a, but), *right = case_of(b, but);
    return is_same(left, right, common);
}

bool ls_row_same_but(const json_t *row, const json_t *other, const char *const *fields, bool common)
{
    json_auto_t *left = case_of(row, LS_BUT_REPEATS), *right = case_of(other, LS_BUT_REPEATS);
    char path[96];
    for (; *fields; fields++) {
        snprintf(path, sizeof path, "case.%s", *fields);
        json_object_del(left, path);
        json_object_del(right, path);
    }
    return is_same(left, right, common) && !ls_row_is_bad(other) &&
           ls_row_is_predicted(row) == ls_row_is_predicted(other) &&
           !ls_row_other_machine(row, other, LS_OF_MACHINE);
}

const char *ls_row_other_machine(const json_t *a, const json_t *b, unsigned of)
{
    json_auto_t *left = facts_of(a, of), *right = facts_of(b, of);
    const char *path = other_value(left, right);
    const ls_field *field = path ? ls_field_find(path) : NULL; /* the text is freed with its
                                                                  object */
    return field ? field->path : path ? ls_field_group_find(path)->path : NULL;
}

size_t ls_row_machine(json_t *known, const json_t *row, unsigned of)
{
    json_auto_t *facts = facts_of(row, of);
    const size_t count = json_array_size(known);
    size_t i = 0;
    while (i < count && other_value(json_array_get(known, i), facts))
        i++;
    if (i < count)
        json_object_update_missing(json_array_get(known, i), facts);
    else
        json_array_append(known, facts);
    return i;
}

char *ls_row_identity(const json_t *row, unsigned but, unsigned of)
{
    json_auto_t *whole = json_pack("[o,o]", case_of(row, but), facts_of(row, of));
    json_auto_t *alike = ls_value_alike(whole);
    return json_dumps(alike, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}
