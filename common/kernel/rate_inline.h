/* SPDX-License-Identifier: MIT */
/*
 * The learning rate of a step: a function of the step's number alone, in double, by + - x / alone,
 * so that CPUs and GPUs compute the same bits. Updates round it (ls_update_scalars_set).
 */
#pragma once

#include "common/base/device_fn.h"
#include "common/kernel/kernel_step.h"

/** factor^exponent. */
LS_DEVICE_FN double ls_power(double factor, uint64_t exponent)
{
    double result = 1;
    for (; exponent; exponent >>= 1, factor *= factor)
        if (exponent & 1)
            result *= factor;
    return result;
}

/** (1 + cos(pi x)) / 2 for x from 0 to 1, within 1e-15: the sine of a quarter turn's half, squared.
 *  Taylor's series up to y^15; the next term is below 5e-17 there. */
LS_DEVICE_FN double ls_half_cosine(double x)
{
    const double y = 1.5707963267948966 * (x <= 0.5 ? x : 1 - x), square = y * y;
    double sine = 1;
    for (int k = 15; k > 1; k -= 2)
        sine = 1 - square * sine / (k * (k - 1));
    sine *= y;
    return x <= 0.5 ? 1 - sine * sine : sine * sine;
}

/** The learning rate of step number `step`, from 0. */
LS_DEVICE_FN double ls_rate_of_step(const ls_rate_schedule *s, uint64_t step)
{
    const uint64_t t = s->updates > 1 ? step / s->updates : step;
    if (t < s->warmup)
        return s->initial * (double)(t + 1) / (double)s->warmup;
    if (s->kind == LS_RATE_CONSTANT)
        return s->period ? s->initial * ls_power(s->factor, t / s->period) : s->initial;
    const double down = (double)s->down;
    double x = s->kind == LS_RATE_WSD ? ((double)t - (double)s->decay + down) / down
                                      : (double)(t - s->warmup) / (double)(s->decay - s->warmup);
    x = x < 0 ? 0 : x > 1 ? 1 : x;
    return s->kind == LS_RATE_COSINE ? s->least + (s->initial - s->least) * ls_half_cosine(x)
                                     : s->initial + (s->least - s->initial) * x;
}
