/* SPDX-License-Identifier: MIT */
/*
 * Idle share of a pipeline; see bubble.h. Copies count as work of the pass that they are next to:
 * as forward if no stage precedes this one, as backward if no stage follows it, otherwise half
 * each, as of all stages with chunks.
 */
#include "bench/train/trial/bubble.h"

#include "bench/statistics/statistics.h"
#include "common/base/grow.h"

#include <string.h>

/* Mean times of a stage's passes in a step. */
static ls_stage_time stage_time(const ls_schedule *s, const ls_time_profile *profile, int stage)
{
    const double m = s->microbatches, copies = (double)profile->ns[LS_TIME_COPY];
    const double forward = ls_schedule_chunks(s) > 1 ? 0.5
                           : stage == 0              ? 1
                           : stage + 1 == s->stages  ? 0
                                                     : 0.5;
    return (ls_stage_time){
        .forward = ((double)(profile->ns[LS_TIME_COMPUTE] + profile->ns[LS_TIME_GATHER]) +
                    forward * copies) /
                   m,
        .backward = ((double)profile->ns[LS_TIME_BACKWARD] + (1 - forward) * copies) / m,
        .weights = (double)profile->ns[LS_TIME_WEIGHTS] / m,
        .rest = (double)(profile->ns[LS_TIME_OPTIMIZER] + profile->ns[LS_TIME_COMMUNICATION] +
                         profile->ns[LS_TIME_HARNESS])};
}

ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out)
{
    const size_t count = (size_t)schedule->stages;
    double work = 0, longest = 0, most = 0;
    ls_schedule_times span = {0};
    ls_auto ls_stage_time *times = NULL;
    LS_TRY(ls_allocate("profile", &times, count, sizeof *times));
    for (size_t s = 0; s < count; s++) {
        double all = 0;
        for (int use = 0; use < LS_TIME_USES; use++)
            all += (double)stages[s].ns[use];
        longest = all > longest ? all : longest;
        const double busy = all - (double)(stages[s].ns[LS_TIME_IDLE] + stages[s].ns[LS_TIME_WAIT]);
        work += busy;
        most = busy > most ? busy : most;
        times[s] = stage_time(schedule, &stages[s], (int)s);
    }
    ls_status status = ls_schedule_span(schedule, times, &span);
    *out = (ls_bubble){.measured = 1 - work / ((double)count * longest),
                       .formula = 1 - work / ((double)count * span.step),
                       .slowest = work > 0 ? most * (double)count / work : 1,
                       .stage = span.idle};
    for (size_t s = 0; s < count; s++) {
        out->forward_ms += times[s].forward / (double)count * 1e-6;
        out->backward_ms += times[s].backward / (double)count * 1e-6;
        out->weights_ms += times[s].weights / (double)count * 1e-6;
    }
    return status;
}

ls_status ls_bubble_median(const ls_schedule *schedule, const ls_time_profile *profiles,
                           size_t steps, ls_bubble *out)
{
    ls_auto double *room = NULL;
    ls_auto ls_bubble *all = NULL;
    LS_TRY(ls_allocate("profile", &all, steps, sizeof *all));
    LS_TRY(ls_allocate("profile", &room, steps, sizeof *room));
    for (size_t k = 0; k < steps; k++)
        LS_TRY(ls_bubble_measure(schedule, profiles + k * (size_t)schedule->stages, &all[k]));
    for (size_t at = 0; at < sizeof *out; at += sizeof(double)) { /* each member, at its offset */
        for (size_t k = 0; k < steps; k++)
            memcpy(&room[k], (const char *)&all[k] + at, sizeof *room);
        const double median = ls_statistics_median(room, steps);
        memcpy((char *)out + at, &median, sizeof median);
    }
    return LS_OK;
}
