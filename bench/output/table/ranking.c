/* SPDX-License-Identifier: MIT */
/* Which rows may be compared, and by what; see ranking.h. */
#include "bench/output/table/ranking.h"

#include "bench/output/format_parts.h"

#include <stdlib.h>

const char *const ls_rank_environment[] = {"model", "model_digest", "data", "batch_global",
                                           "link",  "devices",      NULL};

static json_int_t group_of(const json_t *row)
{
    return json_integer_value(json_object_get(json_object_get(row, "time"), "group"));
}

/* The values that the rows of an environment share, as text; NULL: out of memory. */
static char *environment_of(const json_t *row)
{
    json_auto_t *values = json_array();
    for (size_t i = 0; ls_rank_environment[i]; i++) {
        json_t *value = json_object_get(json_object_get(row, "case"), ls_rank_environment[i]);
        json_array_append(values, value ? value : json_null());
    }
    json_array_append_new(values, json_boolean(ls_row_is_predicted(row)));
    return json_dumps(values, JSON_COMPACT);
}

static bool is_timed(const json_t *row)
{
    return !ls_row_is_bad(row) && ls_row_number(row, "time.samples_per_s") > 0;
}

/* Whether the rows with a time are of several groups; and, if so, whether each has a speed-up that
 * compares them: none is there where rates of the mean are compared, since its interval is not. */
static bool has_groups(const json_t *rows, bool mean, bool *bridged)
{
    json_int_t group = -1;
    bool several = false;
    *bridged = !mean;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ls_interval unused;
        if (!is_timed(row))
            continue;
        several |= group >= 0 && group != group_of(row);
        group = group_of(row);
        *bridged = *bridged && ls_rank_rate(row, LS_RANK_SPEEDUP, &unused);
    }
    return several;
}

static void add_pool(json_t *pools, json_t *rows, ls_rank_by by, json_int_t group, bool apart)
{
    json_array_append_new(pools, json_pack("{s:O,s:i,s:I,s:b}", "rows", rows, "by", (int)by,
                                           "group", group, "apart", apart));
}

/* The rows of one environment: one pool, or one for each group. */
static void add_environment(json_t *pools, json_t *rows, bool mean)
{
    const ls_rank_by by = mean ? LS_RANK_MEAN : LS_RANK_MEDIAN;
    bool bridged;
    if (!has_groups(rows, mean, &bridged) || bridged) {
        const bool several = has_groups(rows, mean, &bridged);
        add_pool(pools, rows, several ? LS_RANK_SPEEDUP : by, 0, false);
        return;
    }
    json_auto_t *groups = json_object();
    const char *name;
    json_t *some;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char number[24];
        json_t *row = json_array_get(rows, i);
        snprintf(number, sizeof number, "%lld", (long long)group_of(row));
        if (!json_object_get(groups, number))
            json_object_set_new(groups, number, json_array());
        json_array_append(json_object_get(groups, number), row);
    }
    json_object_foreach(groups, name, some)
    {
        add_pool(pools, some, by, strtoll(name, NULL, 10), true);
    }
}

json_t *ls_rank_pools(const json_t *rows)
{
    const bool mean = ls_rows_are_uneven(rows);
    json_auto_t *alike = json_object();
    json_t *pools = json_array(), *some;
    const char *key;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *name = environment_of(json_array_get(rows, i));
        if (name && !json_object_get(alike, name))
            json_object_set_new_nocheck(alike, name, json_array());
        if (name)
            json_array_append(json_object_get(alike, name), json_array_get(rows, i));
        free(name);
    }
    json_object_foreach(alike, key, some)
    {
        add_environment(pools, some, mean);
    }
    return pools;
}

bool ls_rank_rate(const json_t *row, ls_rank_by by, ls_interval *out)
{
    if (by != LS_RANK_SPEEDUP)
        return ls_row_rate(row, by == LS_RANK_MEAN, out);
    const json_t *time = json_object_get(row, "time");
    const json_t *ci95 = json_object_get(time, "speedup_ci95");
    *out = (ls_interval){json_number_value(json_object_get(time, "speedup")),
                         json_number_value(json_array_get(ci95, 0)),
                         json_number_value(json_array_get(ci95, 1))};
    return out->low > 0;
}

static int by_rate(const void *a, const void *b)
{
    const ls_ranked *one = a, *other = b;
    const double x = one->rate.value, y = other->rate.value;
    if (one->known != other->known)
        return other->known - one->known;
    return one->equal != other->equal ? other->equal - one->equal : (x < y) - (x > y);
}

size_t ls_rank_sort(ls_ranked *cases, size_t count, size_t *others)
{
    size_t known = 0, equal = 0;
    for (size_t i = 0; i < count; i++) {
        cases[i].equal = ls_row_is_candidate(cases[i].row);
        known += cases[i].known;
        equal += cases[i].known && cases[i].equal;
    }
    qsort(cases, count, sizeof *cases, by_rate);
    *others = equal ? known - equal : 0;
    return equal ? equal : known;
}

size_t ls_rank_near(const ls_ranked *cases, size_t ranked)
{
    size_t near = ranked > 0;
    while (near < ranked && cases[near].rate.high >= cases[0].rate.low)
        near++;
    return near;
}
