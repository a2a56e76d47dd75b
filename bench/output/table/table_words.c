/* SPDX-License-Identifier: MIT */
/*
 * The lines below a table; see table_parts.h. Here it is found which rows may be compared, and how
 * their cases are named; who is fastest, and what is said of it, is a query (below.sql).
 */
#include "bench/output/document.h"
#include "bench/output/row_same.h"
#include "bench/output/table/ranking.h"
#include "bench/output/table/table_parts.h"

#include "template_below.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 1024 };

/* The rows that have a time to compare. A case that all groups have, since it is their baseline,
 * stands for itself once. */
static json_t *timed_of(const json_t *rows, ls_rank_by by)
{
    json_t *timed = json_array();
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        if (!ls_row_is_timed(row))
            continue;
        char *key = by == LS_RANK_SPEEDUP ? ls_row_identity(row, LS_BUT_TRAINED, 0) : NULL;
        if (!key || !json_object_get(seen, key))
            json_array_append(timed, row);
        if (key)
            json_object_set_new_nocheck(seen, key, json_true());
        free(key);
    }
    return timed;
}

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

/* Options in which these rows differ, without those that cases may differ in for no reason of
 * their own (`steps` that were trained where others were asked for, and what follows from other
 * options) where these distinguish no more cases than the options before. */
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

/* Names the environment of a pool by what differs between all, and its group if it is of one: " of
 * mlp, batch 256, 2 cpu, group 2 of 3". */
static void write_environment(const json_t *row, json_int_t group, const json_t *options,
                              char text[NAME_SIZE])
{
    const char *before = " of ";
    text[0] = 0;
    for (size_t i = 0; ls_rank_environment[i]; i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        if (!ls_options_differ(options, ls_rank_environment[i]))
            continue;
        ls_option_write(ls_rank_environment[i], row, title, cell);
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

/* A pool for the query: of each row its case's name, and the figure to compare by. */
static json_t *told(json_t *pool, const json_t *options)
{
    json_t *rows, *row, *cases = json_array();
    int by, apart;
    json_int_t group;
    char text[NAME_SIZE];
    size_t i;
    json_unpack(pool, "{s:o,s:i,s:I,s:b}", "rows", &rows, "by", &by, "group", &group, "apart",
                &apart);
    json_auto_t *timed = timed_of(rows, (ls_rank_by)by), *differ = differing(timed);
    json_array_foreach(timed, i, row)
    {
        ls_interval rate;
        const bool known = ls_rank_rate(row, (ls_rank_by)by, &rate);
        write_name(row, differ, text);
        json_array_append_new(
            cases, json_pack("{s:o,s:f,s:f,s:f,s:b,s:b,s:b}", "name", ls_text_value(text), "rate",
                             rate.value, "low", rate.low, "high", rate.high, "known", known,
                             "noisy", ls_row_is_noisy(row), "equal", ls_row_is_candidate(row)));
    }
    write_environment(json_array_get(rows, 0), group, options, text);
    return json_pack("{s:o,s:o,s:i,s:b}", "cases", cases, "environment", ls_text_value(text), "by",
                     by, "apart", apart);
}

void ls_table_print_below(const ls_writer *writer, const ls_columns *columns)
{
    const json_t *ended = columns->ranks ? writer->ended : NULL;
    json_auto_t *pools = ls_rank_pools(ended), *options = ls_options_of(ended);
    json_auto_t *document =
        json_pack("{s:[],s:[],s:[],s:[]}", "pools", "dropped", "micro", "verified");
    json_t *one;
    const char *name;
    size_t i, size;
    char *text = NULL;
    json_array_foreach(pools, i, one)
    {
        json_array_append_new(json_object_get(document, "pools"), told(one, options));
    }
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
    FILE *stream = open_memstream(&text, &size);
    if (stream)
        ls_status_free(ls_document_write(ls_template_below, document, "table", NULL, stream));
    if (!stream || fclose(stream) != 0)
        return;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        ls_text_wrap(writer->stream, line, 0, 0, writer->width);
    }
    free(text);
}
