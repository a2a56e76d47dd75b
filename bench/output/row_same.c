/* SPDX-License-Identifier: MIT */
/* Same; see row_same.h. Two tables: fields of `case` that a comparison may leave out, and fields
 * that describe the machine. */
#include "bench/output/row_same.h"

#include "bench/output/format_parts.h"
#include "bench/output/value_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The case ------------------------------------------------------------------------------- */

enum { ALWAYS = 1 << 16 }; /* beside LS_BUT_.. */

static const struct {
    const char *field;
    unsigned but;
} exceptions[] = {
    {"devices_asked", ALWAYS}, /* `devices` has what was used instead */
    {"variable_device_asked", ALWAYS},
    {"parameters", ALWAYS}, /* follow from the model */
    {"period", ALWAYS},     /* follows from an option of the strategy; older rows lack it */
    {"model_text", ALWAYS}, /* model_digest is its hash */
    /* A step is the same in however many turns and after however many others. */
    {"blocks", LS_BUT_BLOCKS | LS_BUT_REPEATS},
    {"until_precision", LS_BUT_BLOCKS | LS_BUT_REPEATS},
    {"steps_asked", ALWAYS}, /* LS_BUT_TRAINED takes it for `steps` */
    {"steps", LS_BUT_STEPS | LS_BUT_REPEATS},
    {"warmup", LS_BUT_REPEATS},
    {"epochs", LS_BUT_REPEATS},
    {"eval_samples", LS_BUT_REPEATS}, /* of accuracies, what compares them asks train.evaluated */
    /* Which numbers are multiplied does not change how many: losses differ, as repeats do. */
    {"seed", LS_BUT_REPEATS},
    {"shuffle", LS_BUT_REPEATS},
};

/* What `micro` was asked for; the rest of the group was measured. */
static const char *const settings[] = {"op",    "shape", "size_bytes", "count", "type", "comm",
                                       "redop", "ranks", "kernel",     "link",  NULL};

bool ls_case_leaves_out(const char *field, unsigned but)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (strcmp(exceptions[i].field, field) == 0)
            return exceptions[i].but & (but | ALWAYS);
    return false;
}

static json_t *group_of(const json_t *row, bool *micro)
{
    json_t *group = json_object_get(row, "case");
    *micro = !group;
    return group ? group : json_object_get(row, "micro");
}

static bool counts(const char *field, bool micro, unsigned but)
{
    return micro ? ls_name_is_among(field, settings) : !ls_case_leaves_out(field, but);
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

static const struct {
    const char *path;
    unsigned of;
    bool optional; /* a row of this program without it says that there was none */
} known_facts[] = {
    {"provenance.cpu", LS_OF_CLASS, false},
    {"provenance.isa", LS_OF_CLASS, false},
    {"provenance.loops_isa", LS_OF_CLASS, false},   /* what our loops make of it, */
    {"provenance.library_isa", LS_OF_CLASS, false}, /* and the library */
    {"provenance.arch", LS_OF_CLASS, false},
    {"provenance.gpu", LS_OF_CLASS, true},
    {"provenance.environment", LS_OF_CLASS, true}, /* variables that change arithmetic or speed */
    {"provenance.cores_allowed", LS_OF_SHARE, false},
    {"provenance.cores_per_device", LS_OF_SHARE, false},
    {"provenance.ranks.host", LS_OF_SHARE, false},
    {"provenance.host", LS_OF_HOST, false},
    {"provenance.cores", LS_OF_SETUP, false},
    {"provenance.ranks.cores", LS_OF_SETUP, false},
    {"provenance.gpus", LS_OF_SETUP, false},
    {"provenance.memory_limit", LS_OF_SETUP | LS_OF_SYSTEM, false},
    {"provenance.driver", LS_OF_SETUP | LS_OF_SYSTEM, false},
    {"provenance.os", LS_OF_SYSTEM, false},
    {"provenance.mpi", LS_OF_SYSTEM, false},
    {"provenance.commit", LS_OF_COMMIT, false},
    {"provenance.dirty", LS_OF_COMMIT, false},
    {"provenance.build_type", LS_OF_BUILD, false},
    {"provenance.compiler", LS_OF_BUILD, false},
    {"provenance.compiler_flags", LS_OF_BUILD, false},
    {"provenance.libraries", LS_OF_BUILD, false},
    {"label", LS_OF_LABEL, true},
};

enum { FACTS = sizeof known_facts / sizeof *known_facts };

bool ls_row_is_of(const char *path, unsigned of)
{
    for (size_t i = 0; i < FACTS; i++)
        if (strcmp(known_facts[i].path, path) == 0)
            return known_facts[i].of & of;
    return false;
}

/* {path: value} of what the row states, null where that is none. */
static json_t *facts_of(const json_t *row, unsigned of)
{
    json_t *facts = json_object();
    const bool peer = json_object_get(row, "peer");
    for (size_t i = 0; i < FACTS; i++) {
        json_t *value = known_facts[i].of & of ? ls_row_find(row, known_facts[i].path) : NULL;
        if (!value && known_facts[i].of & of && known_facts[i].optional && !peer)
            value = json_null();
        if (value)
            json_object_set_new_nocheck(facts, known_facts[i].path, value);
    }
    return facts;
}

/* The first fact that both know and that differs; NULL: none. */
static const char *other_fact(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < FACTS; i++) {
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
        for (size_t i = 0; i < FACTS; i++) {
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
