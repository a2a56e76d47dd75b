/* SPDX-License-Identifier: MIT */
/* Parts of a step and their names; see waterfall.h. */
#include "bench/train/waterfall.h"

#include "bench/rows/row.h"

void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS])
{
    static const int part[LS_TIME_USES] = {
        [LS_TIME_COMPUTE] = 0,       [LS_TIME_BACKWARD] = 0, [LS_TIME_WEIGHTS] = 0,
        [LS_TIME_COMMUNICATION] = 1, [LS_TIME_WAIT] = 2,     [LS_TIME_DELAY] = 2,
        [LS_TIME_COPY] = 3,          [LS_TIME_GATHER] = 3,   [LS_TIME_OPTIMIZER] = 4,
        [LS_TIME_IDLE] = 5,          [LS_TIME_HARNESS] = 5,
    };
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        parts[p] = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        parts[part[use]] += ms[use];
}

void ls_waterfall_put(json_t *row, const double ms[LS_TIME_USES])
{
    double parts[LS_WATERFALL_PARTS];
    ls_waterfall_parts(ms, parts);
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        if (parts[p] > 0)
            ls_row_put_real(row, (ls_field_number)(LS_F_waterfall_compute_ms + p), parts[p]);
}
