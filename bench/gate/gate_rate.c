/* SPDX-License-Identifier: MIT */
/*
 * The learning rate that the candidate's devices are about to apply, against the schedule's formula
 * computed here once more, by the C library. Candidate and judges share one implementation: without
 * this check nobody would see a wrong formula there, or a schedule that advances once per replica
 * or piece.
 */
#include "bench/gate/gate.h"

#include <math.h>

/* Relative to the highest rate: more than two ways of rounding differ by. */
static const double bound = 1e-14;

static double rate_of_step(const ls_rate_schedule *s, double t)
{
    const double peak = s->initial, low = s->least, w = (double)s->warmup, n = (double)s->decay;
    if (t < w)
        return peak * (t + 1) / w;
    const double x = fmin(1, (t - w) / (n - w));
    switch (s->kind) {
    case LS_RATE_CONSTANT:
        return s->period ? peak * pow(s->factor, floor(t / (double)s->period)) : peak;
    case LS_RATE_LINEAR:
        return peak + (low - peak) * x;
    case LS_RATE_COSINE:
        return low + (peak - low) * (1 + cos(acos(-1) * x)) / 2;
    case LS_RATE_WSD:
        return peak + (low - peak) * fmin(1, fmax(0, (t - n + (double)s->down) / (double)s->down));
    }
    return NAN;
}

ls_status ls_gate_rate(const ls_session *candidate, uint64_t step, ls_gate *gate)
{
    const ls_rate_schedule *s = &candidate->job.update.schedule;
    const ls_run *run = candidate->run;
    const double right = rate_of_step(s, (double)step);
    double range[2];
    LS_TRY(run->functions->rates(run, range));
    /* none, where this process updates nothing, as with servers elsewhere */
    for (int i = 0; i < 2 && gate->pass && range[0] <= range[1]; i++)
        if (!(fabs(range[i] - right) <= bound * s->initial))
            ls_gate_wrong(
                gate,
                "step %llu: the learning rate is %.17g on a device, expected %.17g by the schedule",
                (unsigned long long)step, range[i], right);
    return LS_OK;
}
