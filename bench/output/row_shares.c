/* SPDX-License-Identifier: MIT */
/* What shares save and cost; see row_shares.h. */
#include "bench/output/row_shares.h"

#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/rows/row.h"

/* 0: not known, as of `verify`, which measures nothing. */
static double held_by(const json_t *row)
{
    return ls_row_real(ls_row_fullest(row), LS_F_memory_devices_peak);
}

/* Not of split replicas, whose split saves and costs, too. */
bool ls_row_has_shares(const json_t *row)
{
    const json_t *its = ls_row_group(row, LS_G_case);
    return json_object_get(its, "zero_stage") && !json_object_get(its, "hybrid_outer") &&
           held_by(row) > 0;
}

const ls_strategy *ls_whole_strategy(void)
{
    for (const void *const *entry = ls_strategies.entries; *entry; entry++) {
        const ls_strategy *one = *entry;
        if (!ls_strategy_alone(one) && ls_strategy_replicates(one) && ls_strategy_reduces(one) &&
            !ls_strategy_shares(one) && !one->inner)
            return one;
    }
    return NULL;
}

bool ls_row_is_beside(const json_t *row, const json_t *whole)
{
    static const char *const free_to_differ[] = {"strategy", "allreduce", "bucket_bytes", "overlap",
                                                 NULL};
    const ls_strategy *its = ls_row_strategy(whole);
    return its && its == ls_whole_strategy() && ls_row_has_shares(row) && held_by(whole) > 0 &&
           ls_row_same_but(row, whole, free_to_differ, true);
}

const json_t *ls_row_beside(const json_t *row, const json_t *rows)
{
    const json_t *best = NULL;
    int most = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *one = json_array_get(rows, i);
        ls_interval step;
        ls_row_pace(one, &step);
        const int fit =
            2 * (step.value > 0) + ls_value_equal(ls_row_get(row, LS_F_case_bucket_bytes),
                                                  ls_row_get(one, LS_F_case_bucket_bytes));
        if (fit < most || !ls_row_is_beside(row, one))
            continue;
        best = one;
        most = fit;
    }
    return best;
}

ls_saving ls_row_saving(const json_t *row, const json_t *whole)
{
    ls_interval mine, its;
    const bool known = ls_row_pace(row, &mine), its_known = ls_row_pace(whole, &its);
    const double sent = ls_row_real(whole, LS_F_traffic_bytes_sent);
    ls_saving out = {.held = held_by(row), .whole_held = held_by(whole)};
    if (sent > 0)
        out.sent = ls_row_real(row, LS_F_traffic_bytes_sent) / sent;
    if (known && its_known)
        out.step = ls_statistics_ratio(mine, its);
    else if (its.value > 0)
        out.step.value = mine.value / its.value;
    return out;
}
