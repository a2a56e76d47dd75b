/* SPDX-License-Identifier: MIT */
/* Which rows may be compared, and by what; see ranking.h. */
#include "bench/output/table/ranking.h"

#include "bench/output/format.h"

#include <inttypes.h>
#include <stdlib.h>

const char *const ls_rank_environment[] = {"model", "model_digest", "data", "batch_global",
                                           "link",  "devices",      NULL};

/* The values that the rows of an environment share, as text; NULL: out of memory. */
static char *environment_of(const json_t *row)
{
    json_auto_t *values = json_pack("[b]", ls_row_is_predicted(row));
    for (size_t i = 0; ls_rank_environment[i]; i++) {
        json_t *value = json_object_get(ls_row_group(row, LS_G_case), ls_rank_environment[i]);
        json_array_append_new(values, value ? json_incref(value) : json_null());
    }
    return json_dumps(values, JSON_COMPACT);
}

static char *group_of(const json_t *row)
{
    char *text;
    return asprintf(&text, "%" PRId64, ls_row_integer(row, LS_F_time_group)) < 0 ? NULL : text;
}

/* The rows by what `name_of` (owned text) says of each: {name: [rows]}. */
static json_t *grouped(const json_t *rows, char *(*name_of)(const json_t *row))
{
    json_t *out = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *name = name_of(json_array_get(rows, i));
        if (name && !json_object_get(out, name))
            json_object_set_new_nocheck(out, name, json_array());
        if (name)
            json_array_append(json_object_get(out, name), json_array_get(rows, i));
        free(name);
    }
    return out;
}

/* Adds the rows of one environment: one pool if they took turns or each has a speed-up, else one
 * for each group. No speed-up compares rates of the mean, since its interval is not theirs. */
static void add_environment(json_t *pools, json_t *rows, bool mean)
{
    json_auto_t *timed = json_array();
    bool bridged = !mean;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        ls_interval unused;
        if (!ls_row_is_timed(row))
            continue;
        json_array_append(timed, row);
        bridged = bridged && ls_rank_rate(row, LS_RANK_SPEEDUP, &unused);
    }
    json_auto_t *of_timed = grouped(timed, group_of), *groups = grouped(rows, group_of);
    const bool several = json_object_size(of_timed) > 1, apart = several && !bridged;
    const ls_rank_by by = several && bridged ? LS_RANK_SPEEDUP
                          : mean             ? LS_RANK_MEAN
                                             : LS_RANK_MEDIAN;
    const char *name;
    json_t *some;
    json_object_foreach(groups, name, some)
    {
        json_array_append_new(pools, json_pack("{s:O,s:i,s:I,s:b}", "rows", apart ? some : rows,
                                               "by", (int)by, "group",
                                               apart ? (json_int_t)strtoll(name, NULL, 10) : 0,
                                               "apart", apart));
        if (!apart)
            return;
    }
}

json_t *ls_rank_pools(const json_t *rows)
{
    const bool mean = ls_rows_are_uneven(rows);
    json_auto_t *alike = grouped(rows, environment_of);
    json_t *pools = json_array(), *some;
    const char *key;
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
    *out = (ls_interval){ls_row_real(row, LS_F_time_speedup),
                         ls_row_real_at(row, LS_F_time_speedup_ci95, 0),
                         ls_row_real_at(row, LS_F_time_speedup_ci95, 1)};
    return out->low > 0;
}
