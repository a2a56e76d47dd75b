/* SPDX-License-Identifier: MIT */
/*
 * The lines below a table; see table_parts.h. Here cases are named; which
 * rows may be compared (pools.sql), who is fastest, and what is said of it (below.sql) are queries.
 */
#include "bench/output/results_db.h"
#include "bench/output/table/table_parts.h"

#include "template_below.h"
#include "template_pools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 1024 };

/* What cases must share to be compared (pools.sql): fields of `case`. */
static const char *const environment[] = {"model", "model_digest", "data", "batch_global",
                                          "link",  "devices",      NULL};

/* Writes the options that distinguish the case: "mirrored 2 cpu batch 512". */
static void write_name(const json_t *row, const json_t *options, char name[NAME_SIZE])
{
    name[0] = 0;
    for (size_t i = 0; i < json_array_size(options); i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        ls_option_write(json_string_value(json_array_get(options, i)), row, title, cell);
        const bool plain = strcmp(title, "strategy") == 0 || strcmp(title, "devices") == 0;
        const size_t used = strlen(name);
        if (*cell && strcmp(title, "model") != 0 && strcmp(title, "data") != 0)
            snprintf(name + used, NAME_SIZE - used, "%s%s%s%s", used ? " " : "", plain ? "" : title,
                     plain ? "" : " ", cell);
    }
}

static size_t count_names(const json_t *rows, const json_t *options)
{
    json_auto_t *names = json_object();
    char name[NAME_SIZE];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        write_name(json_array_get(rows, i), options, name);
        json_object_set_new_nocheck(names, name, json_true());
    }
    return json_object_size(names);
}

/* Options in which rows differ. An option in which cases differ only as a consequence (`steps` that
 * were trained where another number was asked for, or what follows from other options) counts only
 * if it distinguishes more cases than the options before. */
static json_t *differing(const json_t *rows)
{
    json_auto_t *options = ls_options_of(rows), *names = ls_options_names(options);
    json_t *differ = json_array();
    bool asked = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        asked |= ls_row_has(json_array_get(rows, i), LS_F_case_steps_asked);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!ls_options_differ(options, name))
            continue;
        const bool outcome = ls_option_follows(name) || (asked && strcmp(name, "steps") == 0);
        const size_t before = outcome ? count_names(rows, differ) : 0;
        json_array_append(differ, json_array_get(names, i));
        if (outcome && count_names(rows, differ) == before)
            json_array_remove(differ, json_array_size(differ) - 1);
    }
    return differ;
}

/* Names the environment of a pool by what differs between all, and its group if it has one: " of
 * mlp, batch 256, 2 cpu, group 2 of 3". */
static void write_environment(const json_t *row, json_int_t group, const json_t *options,
                              char text[NAME_SIZE])
{
    const char *before = " of ";
    text[0] = 0;
    for (size_t i = 0; environment[i]; i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        if (!ls_options_differ(options, environment[i]))
            continue;
        ls_option_write(environment[i], row, title, cell);
        const bool named = strcmp(title, "batch") == 0 || strcmp(title, "link") == 0;
        const size_t used = strlen(text);
        snprintf(text + used, NAME_SIZE - used, "%s%s%s%s", before, named ? title : "",
                 named ? " " : "", *cell ? cell : "none");
        before = ", ";
    }
    const size_t used = strlen(text);
    if (group)
        snprintf(text + used, NAME_SIZE - used, "%sgroup %lld of %" PRId64, before,
                 (long long)group, ls_row_integer(row, LS_F_time_groups));
}

/* A pool for the query, from its members (pools.sql): each gets its case's name. */
static json_t *told(const json_t *members, size_t begin, size_t end, const json_t *rows,
                    const json_t *options)
{
    json_t *cases = json_array();
    json_auto_t *timed = json_array();
    json_int_t place = 0, group = 0, way = 0, apart = 0;
    char text[NAME_SIZE];
    for (size_t i = begin; i < end; i++) {
        json_unpack(json_array_get(members, i), "{s:I,s:I,s:I,s:I}", "place", &place, "group",
                    &group, "way", &way, "apart", &apart);
        json_array_append(timed, json_array_get(rows, (size_t)place - 1));
    }
    json_auto_t *differ = differing(timed);
    for (size_t i = begin; i < end; i++) {
        json_t *member = json_array_get(members, i);
        write_name(json_array_get(timed, i - begin), differ, text);
        json_object_set_new(member, "name", ls_text_value(text));
        json_array_append(cases, member);
    }
    write_environment(json_array_get(timed, 0), group, options, text);
    return json_pack("{s:o,s:o,s:I,s:I}", "cases", cases, "environment", ls_text_value(text), "by",
                     way, "apart", apart);
}

/* Appends the pools of the rows, which are all that `results` has. */
static ls_status add_pools(ls_results *results, const json_t *rows, json_t *pools)
{
    json_auto_t *members = json_array(), *options = ls_options_of(rows);
    LS_TRY(ls_results_execute(results, "CREATE TEMP VIEW pooled AS SELECT * FROM s"));
    LS_TRY(ls_results_execute(results, ls_template_pools));
    LS_TRY(ls_results_query(results,
                            "SELECT * FROM pool_members WHERE timed AND nth = 1"
                            " ORDER BY pool, place",
                            NULL, members));
    for (size_t begin = 0, end; begin < json_array_size(members); begin = end) {
        const json_t *pool = json_object_get(json_array_get(members, begin), "pool");
        for (end = begin + 1;
             json_equal(json_object_get(json_array_get(members, end), "pool"), pool);)
            end++;
        json_array_append_new(pools, told(members, begin, end, rows, options));
    }
    return LS_OK;
}

static ls_status add_lines(const ls_writer *writer, const ls_columns *columns, json_t *lines)
{
    const json_t *ended = columns->ranks ? writer->ended : NULL;
    json_auto_t *document =
        json_pack("{s:[],s:[],s:[],s:[]}", "pools", "dropped", "micro", "verified");
    json_auto_t *values = json_pack("{s:O}", "document", document);
    ls_results *results = NULL;
    json_t *one;
    const char *name;
    size_t i;
    json_object_foreach(writer->dropped, name, one)
    {
        json_array_append_new(json_object_get(document, "dropped"), json_string(name));
    }
    json_array_foreach(writer->ended, i, one)
    {
        if (columns->compares || (!writer->columns && ls_row_group(one, LS_G_micro)))
            json_array_append(json_object_get(document, columns->compares ? "verified" : "micro"),
                              one);
    }
    ls_status status = ls_results_of_rows(ended, &results);
    if (!status && json_array_size(ended) > 0)
        status = add_pools(results, ended, json_object_get(document, "pools"));
    if (!status)
        status = ls_results_query(results, ls_template_below, values, lines);
    ls_results_close(results);
    return status;
}

void ls_table_print_below(const ls_writer *writer, const ls_columns *columns)
{
    json_auto_t *lines = json_array();
    json_t *one;
    size_t i;
    ls_status_free(add_lines(writer, columns, lines));
    json_array_foreach(lines, i, one)
    {
        ls_text_wrap(writer->stream, json_string_value(json_object_get(one, "text")), 0, 0,
                     writer->width);
    }
}
