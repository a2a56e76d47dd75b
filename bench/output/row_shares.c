/* SPDX-License-Identifier: MIT */
/* What shares save and cost; see row_shares.h. */
#include "bench/output/row_shares.h"

#include "bench/output/format_parts.h"
#include "bench/output/row_same.h"
#include "bench/output/table_parts.h"
#include "bench/output/value_order.h"

#include <string.h>

/* 0: not known, as of `verify`, which measures nothing. */
static double held_by(const json_t *row)
{
    json_auto_t *peak = ls_row_value(row, "memory.devices.peak");
    return json_number_value(peak);
}

/* Not of split replicas, whose split saves and costs, too. */
bool ls_row_has_shares(const json_t *row)
{
    const json_t *its = json_object_get(row, "case");
    return json_object_get(its, "zero_stage") && !json_object_get(its, "hybrid_outer") &&
           held_by(row) > 0;
}

/* The row's case without what may differ, as a row. */
static json_t *bare(const json_t *row)
{
    static const char *const free_to_differ[] = {"strategy", "allreduce", "bucket_bytes",
                                                 "overlap"};
    json_t *group = json_copy(json_object_get(row, "case"));
    for (size_t i = 0; i < sizeof free_to_differ / sizeof *free_to_differ; i++)
        json_object_del(group, free_to_differ[i]);
    return json_pack("{s:o}", "case", group);
}

bool ls_row_is_beside(const json_t *row, const json_t *whole)
{
    if (!ls_row_has_shares(row) || strcmp(ls_row_text(whole, "case", "strategy"), "mirrored") != 0)
        return false;
    json_auto_t *mine = bare(row), *its = bare(whole);
    return ls_row_same_case(mine, its, LS_BUT_REPEATS, true) && !ls_row_is_bad(whole) &&
           held_by(whole) > 0 && ls_row_is_predicted(row) == ls_row_is_predicted(whole) &&
           !ls_row_other_machine(row, whole, LS_OF_CLASS | LS_OF_SHARE | LS_OF_HOST);
}

static const json_t *buckets_of(const json_t *row)
{
    return json_object_get(json_object_get(row, "case"), "bucket_bytes");
}

const json_t *ls_row_beside(const json_t *row, const json_t *rows)
{
    const json_t *best = NULL;
    bool same = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *one = json_array_get(rows, i);
        const bool as_well = ls_value_equal(buckets_of(row), buckets_of(one));
        if (as_well < same || !ls_row_is_beside(row, one))
            continue;
        best = one;
        same = as_well;
    }
    return best;
}

ls_saving ls_row_saving(const json_t *row, const json_t *whole)
{
    ls_interval mine, its;
    const bool known = ls_row_pace(row, &mine), its_known = ls_row_pace(whole, &its);
    const double sent = ls_row_number(whole, "traffic.bytes_sent");
    ls_saving out = {.held = held_by(row), .whole_held = held_by(whole)};
    if (sent > 0)
        out.sent = ls_row_number(row, "traffic.bytes_sent") / sent;
    if (known && its_known)
        out.step = ls_statistics_ratio(mine, its);
    else if (its.value > 0)
        out.step.value = mine.value / its.value;
    return out;
}
