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

/* Adds the row to those of that name. */
static void collect(json_t *groups, const char *name, json_t *row)
{
    if (!json_object_get(groups, name))
        json_object_set_new_nocheck(groups, name, json_array());
    json_array_append(json_object_get(groups, name), row);
}

/* Adds the rows of one environment: one pool if they took turns or each has a speed-up, else one
 * for each group. No speed-up compares rates of the mean, since its interval is not theirs. */
static void add_environment(json_t *pools, json_t *rows, bool mean)
{
    json_auto_t *timed = json_object(), *groups = json_object();
    json_t *row;
    bool bridged = !mean;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        ls_interval unused;
        char name[32];
        snprintf(name, sizeof name, "%" PRId64, ls_row_integer(row, LS_F_time_group));
        collect(groups, name, row);
        if (!ls_row_is_timed(row))
            continue;
        collect(timed, name, row);
        bridged = bridged && ls_rank_rate(row, LS_RANK_SPEEDUP, &unused);
    }
    const bool several = json_object_size(timed) > 1, apart = several && !bridged;
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
    json_auto_t *alike = json_object();
    json_t *pools = json_array(), *some;
    const char *key;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *environment = environment_of(json_array_get(rows, i));
        if (environment)
            collect(alike, environment, json_array_get(rows, i));
        free(environment);
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
    *out = (ls_interval){ls_row_real(row, LS_F_time_speedup),
                         ls_row_real_at(row, LS_F_time_speedup_ci95, 0),
                         ls_row_real_at(row, LS_F_time_speedup_ci95, 1)};
    return out->low > 0;
}
