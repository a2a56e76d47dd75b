/* SPDX-License-Identifier: MIT */
/*
 * What operations compute one by one, inline: the same text for processors and for GPUs, so that
 * what a test of a processor finds holds for both. Bits agree where division and square root are
 * rounded correctly and nothing is contracted, which both builds see to.
 */
#ifndef LS_COMMON_KERNEL_STEP_INLINE_H
#define LS_COMMON_KERNEL_STEP_INLINE_H

#include "common/base/inline.h"
#include "common/kernel/kernel.h"

#include <math.h>

/** factor^exponent by squaring: the same for the same arguments, however often it is asked. */
LS_INLINE double ls_step_power(double factor, uint64_t exponent)
{
    double result = 1;
    for (; exponent; exponent >>= 1, factor *= factor)
        if (exponent & 1)
            result *= factor;
    return result;
}

/** Ends a step at `now_ns`: finish_step of kernel.h. */
LS_INLINE void ls_step_end(const ls_finish_step_args *f, uint64_t now_ns)
{
    ls_step_state *state = f->state;
    const ls_rate_schedule *schedule = &f->schedule;
    uint64_t place = state->record % f->capacity;
    f->records[place].end_ns = now_ns;
    f->records[place].loss = f->loss ? *f->loss : 0;
    for (uint64_t i = 0; i < f->more; i++)
        f->more_losses[place * f->more + i] = f->loss[1 + i];
    state->step++;
    state->record++;
    state->position += f->batch;
    state->learning_rate = schedule->initial;
    if (schedule->period)
        state->learning_rate *= ls_step_power(schedule->factor, state->step / schedule->period);
}

/** The scalars of an optimizer's pass, rounded to float. */
typedef struct ls_update_scalars {
    float keep_first, add_first;   /**< momentum: mu; adam: b1, 1 - b1 */
    float keep_second, add_second; /**< adam: b2, 1 - b2; rmsprop: rho, 1 - rho */
    float epsilon;
    float rate;          /**< of this step; adam: over 1 - b1^t */
    float unbias_second; /**< adam: 1 / (1 - b2^t) */
} ls_update_scalars;

/** Those that are the same in every step; rate and unbias_second are left out. */
LS_INLINE void ls_update_fixed(const ls_optimizer_args *o, ls_update_scalars *out)
{
    const bool adam = o->kind == LS_OPTIMIZER_ADAM;
    const double keep = adam ? o->beta2 : o->rho;
    out->keep_first = (float)(adam ? o->beta1 : o->mu);
    out->add_first = (float)(1 - o->beta1);
    out->keep_second = (float)keep;
    out->add_second = (float)(1 - keep);
    out->epsilon = (float)o->epsilon;
}

/** Those of the step that the state is at. */
LS_INLINE void ls_update_begin(const ls_optimizer_args *o, ls_update_scalars *out)
{
    double rate = o->state->learning_rate, unbias = 1;
    ls_update_fixed(o, out);
    if (o->kind == LS_OPTIMIZER_ADAM) {
        /* Both powers at once, without branches: a short step waits for them. */
        double power1 = 1, power2 = 1, square1 = o->beta1, square2 = o->beta2;
        for (uint64_t t = o->state->step + 1; t; t >>= 1) {
            power1 *= t & 1 ? square1 : 1;
            power2 *= t & 1 ? square2 : 1;
            square1 *= square1;
            square2 *= square2;
        }
        rate /= 1 - power1;
        unbias = 1 / (1 - power2);
    }
    out->rate = (float)rate;
    out->unbias_second = (float)unbias;
}

/**
 * One element: `w` and, as the kind has them, its slots. Adam's w -= lr mhat / (sqrt(vhat) + eps)
 * is w -= rate m / (sqrt(v unbias) + eps).
 */
LS_INLINE void ls_update_element(ls_optimizer_kind kind, const ls_update_scalars *s, float g,
                                 float *w, float *first, float *second)
{
    switch (kind) {
    case LS_OPTIMIZER_SGD:
        *w -= s->rate * g;
        break;
    case LS_OPTIMIZER_MOMENTUM:
        *first = s->keep_first * *first + g;
        *w -= s->rate * *first;
        break;
    case LS_OPTIMIZER_ADAM:
        *first = s->keep_first * *first + s->add_first * g;
        *second = s->keep_second * *second + s->add_second * (g * g);
        *w -= s->rate * *first / (sqrtf(*second * s->unbias_second) + s->epsilon);
        break;
    case LS_OPTIMIZER_RMSPROP:
        *first = s->keep_second * *first + s->add_second * (g * g);
        *w -= s->rate * g / (sqrtf(*first) + s->epsilon);
        break;
    }
}

#endif
