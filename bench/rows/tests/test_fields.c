/* SPDX-License-Identifier: MIT */
/*
 * The table of fields, and bench/row.schema.json, which is made from it:
 *   test_fields --write    writes the schema anew (after a change of the table)
 */
#include "bench/rows/fields.h"

#include "common/base/tests/must.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char schema_file[] = LS_SOURCE_DIR "/bench/row.schema.json";

/* ---- The schema ----------------------------------------------------------------------------- */

/* The words of `valid`, one by one: *at moves on. NULL after the last. */
static const char *next_word(const char **at, char word[64])
{
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, " ");
    assert_true(length < 64);
    memcpy(word, *at, length);
    word[length] = 0;
    *at += length;
    return length ? word : NULL;
}

static bool is_required(const char *valid)
{
    return valid && strncmp(valid, "req", 3) == 0;
}

static json_t *number_of(const char *text)
{
    return json_integer(strtoll(text, NULL, 10));
}

static void allow(json_t *part, const char *word)
{
    if (strncmp(word, ">=", 2) == 0)
        json_object_set_new(part, "minimum", number_of(word + 2));
    else if (strncmp(word, "<=", 2) == 0)
        json_object_set_new(part, "maximum", number_of(word + 2));
    else if (*word == '>')
        json_object_set_new(part, "exclusiveMinimum", number_of(word + 1));
    else if (*word == '=')
        json_object_set_new(part, "const", number_of(word + 1));
    else if (strcmp(word, "null") == 0)
        json_object_set_new(part, "type", json_pack("[s,s]", "number", "null"));
    else if (strcmp(word, "int") == 0)
        json_object_set_new(part, "type", json_pack("[s,s]", "integer", "string"));
    else if (strcmp(word, "some") == 0)
        json_object_set_new(part, "minLength", json_integer(1));
    else if (strncmp(word, "hex", 3) == 0)
        json_object_set_new(part, "pattern", json_sprintf("^[0-9a-f]{%s}$", word + 3));
    else if (strcmp(word, "time") == 0)
        json_object_set_new(
            part, "pattern",
            json_string("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"));
    else {
        json_t *values = json_array();
        for (const char *value = word; value; value = strchr(value, '|')) {
            value += *value == '|';
            json_array_append_new(values, json_stringn(value, strcspn(value, "|")));
        }
        json_object_set_new(part, "enum", values);
    }
}

static json_t *list_of(json_t *items)
{
    return json_pack("{s:s,s:o}", "type", "array", "items", items);
}

static json_t *schema_of(const ls_field *field)
{
    static const char *const types[] = {
        [LS_TYPE_TEXT] = "string",  [LS_TYPE_INT] = "integer",       [LS_TYPE_REAL] = "number",
        [LS_TYPE_BOOL] = "boolean", [LS_TYPE_TEXTS] = "string",      [LS_TYPE_INTS] = "integer",
        [LS_TYPE_REALS] = "number", [LS_TYPE_INT_LISTS] = "integer", [LS_TYPE_MAP] = "object",
    };
    json_t *part = json_pack("{s:s}", "type", types[field->type]), *whole = part;
    if (field->type == LS_TYPE_MAP)
        json_object_set_new(part, "additionalProperties", json_pack("{s:s}", "type", "string"));
    if (field->type == LS_TYPE_INT_LISTS)
        whole = list_of(whole);
    if (field->type >= LS_TYPE_TEXTS && field->type <= LS_TYPE_INT_LISTS)
        whole = list_of(whole);
    char word[64];
    for (const char *at = field->valid ? field->valid : ""; next_word(&at, word);) {
        if (strspn(word, "0123456789") == strlen(word)) {
            json_object_set_new(whole, "minItems", number_of(word));
            json_object_set_new(whole, "maxItems", number_of(word));
        } else if (strcmp(word, "req") != 0) {
            allow(part, word);
        }
    }
    if (field->doc)
        json_object_set_new(whole, "description", json_string(field->doc));
    return whole;
}

/* Adds the part to the schema's object of all names of the path but the last, which it makes. */
static void put(json_t *root, const char *path, const char *valid, json_t *part)
{
    char name[64];
    for (const char *end; (end = strchr(path, '.')); path = end + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(end - path), path);
        root = json_object_get(json_object_get(root, "properties"), name);
        json_t *items = json_object_get(root, "items");
        root = items ? items : root;
    }
    if (!root)
        fail_msg("%s: its group is no line of groups.def", path);
    if (is_required(valid)) {
        if (!json_object_get(root, "required"))
            json_object_set_new(root, "required", json_array());
        json_array_append_new(json_object_get(root, "required"), json_string(path));
    }
    json_object_set_new(json_object_get(root, "properties"), path, part);
}

static json_t *group_schema(const ls_field_group *group)
{
    json_t *object =
        json_pack("{s:s,s:b,s:{}}", "type", "object", "additionalProperties", false, "properties");
    if (group->flags & LS_GROUP_DECLARED)
        json_object_set_new(object, "additionalProperties",
                            json_pack("{s:[s,s,s]}", "type", "boolean", "number", "string"));
    json_t *whole = group->flags & LS_GROUP_EACH ? list_of(object) : object;
    if (group->doc)
        json_object_set_new(whole, "description", json_string(group->doc));
    return whole;
}

static json_t *make_schema(void)
{
    json_t *root = json_pack(
        "{s:s,s:s,s:s,s:s,s:b,s:{s:[s]},s:{s:{s:[s]}},s:{s:[s]},s:{}}", "$schema",
        "http://json-schema.org/draft-07/schema#", "title",
        "A row of lockstep, one line of --format jsonl", "description",
        "Units are in the name, or bytes. A field that does not apply is absent, never 0 or null. "
        "Made from bench/rows/fields.def.",
        "type", "object", "additionalProperties", false, "if", "required", "micro", "then", "not",
        "required", "case", "else", "required", "case", "properties");
    size_t group = 0;
    for (size_t i = 0; i < LS_FIELDS; i++) {
        const char *path = ls_fields[i].path;
        /* groups before the first of their fields, as in the table */
        for (; group < ls_field_group_count; group++) {
            const ls_field_group *next = &ls_field_groups[group];
            const size_t length = strlen(next->path);
            if (strncmp(path, next->path, length) != 0 || path[length] != '.')
                break;
            put(root, next->path, next->valid, group_schema(next));
        }
        put(root, path, ls_fields[i].valid, schema_of(&ls_fields[i]));
    }
    assert_int_equal(group, ls_field_group_count);
    return root;
}

static void schema_is_of_the_table(void **state)
{
    (void)state;
    json_error_t error;
    json_t *made = make_schema(), *committed = json_load_file(schema_file, 0, &error);
    if (!committed)
        fail_msg("%s: %s", schema_file, error.text);
    if (!json_equal(made, committed))
        fail_msg("bench/row.schema.json is not what bench/rows/fields.def says; write it anew: "
                 "build/test_fields --write");
    json_decref(made);
    json_decref(committed);
}

/* ---- Look-ups ------------------------------------------------------------------------------- */

static void all_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_FIELDS; i++)
        assert_ptr_equal(ls_field_find(ls_fields[i].path), &ls_fields[i]);
    assert_null(ls_field_find("time.step"));
    assert_null(ls_field_find(""));
}

/* A field of `case` that is forgotten would make one case of two. What is derived is hidden by
 * tables and `diff` alike. */
static void options_identify(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_FIELDS; i++) {
        if (ls_fields[i].shown & LS_SHOWN_DERIVED && ls_fields[i].shown & LS_SHOWN_DIFF)
            fail_msg("%s: is derived, and diff shows it", ls_fields[i].path);
        if (strncmp(ls_fields[i].path, "case.", 5) == 0 &&
            !(ls_fields[i].identifies & LS_IS_CASE) && !(ls_fields[i].shown & LS_SHOWN_DERIVED))
            fail_msg("%s: neither identifies a case nor is derived from what does",
                     ls_fields[i].path);
    }
}

/* An object of fields in lines of their own, anything else in one. */
static void print(FILE *stream, const json_t *part, int depth)
{
    const json_t *fields = json_object_get(part, "properties");
    const json_t *items = json_object_get(part, "items");
    const char *name, *before = "{";
    json_t *member;
    if (!json_is_object(part) || !(fields || json_object_get(items, "properties"))) {
        json_dumpf(part, stream, JSON_ENCODE_ANY);
        return;
    }
    json_object_foreach((json_t *)(size_t)part, name, member)
    {
        fprintf(stream, "%s\n%*s\"%s\": ", before, depth + 1, "", name);
        before = ",";
        if (member != fields) {
            print(stream, member, depth + 1);
            continue;
        }
        const char *field, *first = "{";
        json_t *its;
        json_object_foreach(member, field, its)
        {
            fprintf(stream, "%s\n%*s\"%s\": ", first, depth + 2, "", field);
            first = ",";
            print(stream, its, depth + 2);
        }
        fprintf(stream, "\n%*s}", depth + 1, "");
    }
    fprintf(stream, "\n%*s}", depth, "");
}

static int write_schema(void)
{
    json_t *made = make_schema();
    FILE *stream = fopen(schema_file, "w");
    if (!stream)
        return 1;
    print(stream, made, 0);
    fputc('\n', stream);
    json_decref(made);
    return fclose(stream) != 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write_schema();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_is_of_the_table),
        cmocka_unit_test(all_are_found),
        cmocka_unit_test(options_identify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
