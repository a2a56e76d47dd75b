/* SPDX-License-Identifier: MIT */
/*
 * Idle share of a pipeline; see bubble.h. Copies count as work of the pass before them: as forward
 * if no stage precedes this one, as backward if no stage follows it, otherwise half each.
 */
#include "bench/train/bubble.h"

#include <stdlib.h>

/* Mean times of a stage's passes, in units of a round. */
static ls_stage_time stage_time(const ls_schedule *s, const ls_time_profile *profile, int stage)
{
    const double m = s->microbatches, copies = (double)profile->ns[LS_TIME_COPY];
    const double forward = stage == 0 ? 1 : stage + 1 == s->stages ? 0 : 0.5;
    return (ls_stage_time){
        .forward = ((double)(profile->ns[LS_TIME_COMPUTE] + profile->ns[LS_TIME_GATHER]) +
                    forward * copies) /
                   m,
        .backward = ((double)profile->ns[LS_TIME_BACKWARD] + (1 - forward) * copies) / m,
        .rest = (double)(profile->ns[LS_TIME_OPTIMIZER] + profile->ns[LS_TIME_COMMUNICATION] +
                         profile->ns[LS_TIME_HARNESS])};
}

ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out)
{
    const size_t count = (size_t)schedule->stages;
    double work = 0, longest = 0, span;
    ls_stage_time *times = calloc(count, sizeof *times);
    if (!times)
        return ls_fail_memory("profile", count * sizeof *times);
    for (size_t s = 0; s < count; s++) {
        double all = 0;
        for (int use = 0; use < LS_TIME_USES; use++)
            all += (double)stages[s].ns[use];
        longest = all > longest ? all : longest;
        work += all - (double)(stages[s].ns[LS_TIME_IDLE] + stages[s].ns[LS_TIME_WAIT]);
        times[s] = stage_time(schedule, &stages[s], (int)s);
    }
    ls_status status = ls_schedule_span(schedule, times, &span);
    free(times);
    if (!status)
        *out = (ls_bubble){1 - work / ((double)count * longest), 1 - work / ((double)count * span)};
    return status;
}
