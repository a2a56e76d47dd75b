/* SPDX-License-Identifier: MIT */
/* Parts of a step and their names; see waterfall.h. */
#include "bench/train/waterfall.h"

#include <stdio.h>

static const char *const names[LS_WATERFALL_PARTS] = {"compute", "comm_exposed", "wait",
                                                      "copy",    "optimizer",    "harness"};

void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS])
{
    static const int part[LS_TIME_USES] = {
        [LS_TIME_COMPUTE] = 0, [LS_TIME_BACKWARD] = 0,  [LS_TIME_COMMUNICATION] = 1,
        [LS_TIME_WAIT] = 2,    [LS_TIME_DELAY] = 2,     [LS_TIME_COPY] = 3,
        [LS_TIME_GATHER] = 3,  [LS_TIME_OPTIMIZER] = 4, [LS_TIME_IDLE] = 5,
        [LS_TIME_HARNESS] = 5,
    };
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        parts[p] = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        parts[part[use]] += ms[use];
}

json_t *ls_waterfall_group(const double ms[LS_TIME_USES])
{
    double parts[LS_WATERFALL_PARTS];
    char name[32];
    json_t *group = json_object();
    ls_waterfall_parts(ms, parts);
    for (int p = 0; p < LS_WATERFALL_PARTS; p++) {
        snprintf(name, sizeof name, "%s_ms", names[p]);
        if (parts[p] > 0)
            json_object_set_new(group, name, json_real(parts[p]));
    }
    return group;
}

json_t *ls_waterfall_gap(const double ms[LS_TIME_USES], const double ideal[LS_WATERFALL_PARTS])
{
    double parts[LS_WATERFALL_PARTS], step = 0;
    char name[32];
    json_t *group = json_object();
    ls_waterfall_parts(ms, parts);
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        step += ideal[p];
    json_object_set_new(group, "ideal_step_ms", json_real(step));
    for (int p = 0; p < LS_WATERFALL_PARTS; p++) {
        snprintf(name, sizeof name, "%s_gap_ms", names[p]);
        json_object_set_new(group, name, json_real(parts[p] - ideal[p]));
    }
    return group;
}
