/* SPDX-License-Identifier: MIT */
/*
 * Values computed once per step: an optimizer's scalars and the argument block's next values; and
 * the optimizers' arithmetic for one element. One definition for the cpu and the cuda table, in
 * float32 without contraction, so that both give the same bits. Adam's w -= lr mhat / (sqrt(vhat) +
 * eps) is computed as rate m / (sqrt(v c) + eps) with rate = lr / (1 - b1^t) and c = 1 / (1 -
 * b2^t). Powers are computed by squaring: functions of their arguments only, however often they are
 * called.
 */
#pragma once

#include "common/base/device_fn.h"
#include "common/base/random/philox_inline.h"
#include "common/kernel/kernel.h"
#include "common/kernel/rate_inline.h"

#include <math.h>
#include <string.h>

/** Moves the argument block to the next step: finish_step without its record. */
LS_DEVICE_FN void ls_step_advance(ls_step_state *state, uint64_t batch,
                                  const ls_rate_schedule *schedule)
{
    state->step++;
    state->record++;
    state->position += batch;
    state->learning_rate = ls_rate_of_step(schedule, state->step);
}

/** The number of targets of a sample (set_targets). */
LS_DEVICE_FN int64_t ls_targets_of(ls_random random, uint64_t sample, int64_t whole)
{
    const int64_t least = whole < 8 ? 1 : whole / 4;
    return least + (int64_t)(ls_random_word(random, sample) % (uint64_t)(whole - least + 1));
}

/** What scales a loss: the step's scale, where there is one. */
LS_DEVICE_FN double ls_loss_scale(const double *scale_at, double scale)
{
    return scale_at ? *scale_at : scale;
}

/** How much of a moving average stays in this step. */
LS_DEVICE_FN double ls_moving_average_decay(const ls_moving_average_args *a)
{
    if (!a->state)
        return a->decay;
    const double t = (double)(a->state->step + 1), early = (1 + t) / (10 + t);
    return early < a->decay ? early : a->decay;
}

/** 1.5 * 2^52 * 2^-44: adding it, then taking it off, rounds to a multiple of 2^-44. */
#define LS_DECAY_ROUND 384.0

/** A weight's part of the loss: a multiple of 2^-44, so that parts add up to the same in any order,
 *  and wherever variables are cut, below 2^9. */
LS_DEVICE_FN double ls_decay_part(double decay, float weight)
{
    return ((double)weight * (double)weight * (decay / 2) + LS_DECAY_ROUND) - LS_DECAY_ROUND;
}

/** A batch's moments of one channel, from its sums over `count` pixels. */
LS_DEVICE_FN void ls_bn_moment(double sum, double squares, double count, double *mean,
                               double *variance)
{
    *mean = sum / count;
    *variance = squares / count - *mean * *mean;
    if (*variance < 0) /* rounding; NaN stays */
        *variance = 0;
}

/** 1 / standard deviation. */
LS_DEVICE_FN double ls_bn_rate(double variance, double epsilon)
{
    return 1 / sqrt(variance + epsilon);
}

/** Channel c's part of the moving statistics. */
LS_DEVICE_FN void ls_bn_share(const ls_bn_backward_sums_args *b, int64_t c, double *mean,
                              double *variance)
{
    const double count = (double)b->count;
    ls_bn_moment(b->batch[c], b->batch[b->channels + c], count, mean, variance);
    *mean = b->share * *mean;
    *variance = count > 1 ? b->share * (*variance * count / (count - 1)) : 0;
}

/** The norm, and the factor of the gradient, of a sum of squares (clip_factor). */
LS_DEVICE_FN ls_clip ls_clip_of(double squares, double most)
{
    ls_clip clip;
    clip.norm = sqrt(squares);
    clip.factor = most / (clip.norm + 1e-6);
    if (clip.factor > 1)
        clip.factor = 1;
    return clip;
}

/** The scalars of an optimizer's pass, rounded to float. */
typedef struct ls_update_scalars {
    double beta1, beta2;           /**< adam and adamw */
    double decay;                  /**< adamw */
    float shrink;                  /**< adamw: learning rate times decay; 0 if not in this range */
    float rate;                    /**< learning rate; adam: over 1 - beta1^t */
    float keep_first, add_first;   /**< momentum: mu, 1; adam: beta1, 1 - beta1 */
    float keep_second, add_second; /**< adam: beta2, 1 - beta2; rmsprop: rho, 1 - rho */
    float unbias_second;           /**< adam: 1 / (1 - beta2^t) */
    float epsilon;
    float clip; /**< the gradient is multiplied by it */
} ls_update_scalars;

/** Sets the scalars that do not change from step to step. */
static inline ls_update_scalars ls_update_scalars_make(const ls_optimizer_args *a)
{
    const bool adam = a->kind == LS_OPTIMIZER_ADAM || a->kind == LS_OPTIMIZER_ADAMW;
    const double keep = adam ? a->beta2 : a->rho;
    ls_update_scalars s;
    memset(&s, 0, sizeof s);
    s.beta1 = a->beta1;
    s.beta2 = a->beta2;
    s.decay = a->decay;
    s.keep_first = (float)(adam ? a->beta1 : a->mu);
    s.add_first = (float)(1 - a->beta1);
    s.keep_second = (float)keep;
    s.add_second = (float)(1 - keep);
    s.epsilon = (float)a->epsilon;
    return s;
}

/** Sets the current step's scalars; `clip` NULL if there is none. */
LS_DEVICE_FN void ls_update_scalars_set(ls_update_scalars *s, ls_optimizer_kind kind,
                                        const ls_step_state *state, const ls_clip *clip)
{
    double rate = state->learning_rate;
    s->clip = clip ? (float)clip->factor : 1;
    s->shrink = (float)(kind == LS_OPTIMIZER_ADAMW ? rate * s->decay : 0);
    if (kind == LS_OPTIMIZER_ADAM || kind == LS_OPTIMIZER_ADAMW) {
        rate /= 1 - ls_power(s->beta1, state->step + 1);
        s->unbias_second = (float)(1 / (1 - ls_power(s->beta2, state->step + 1)));
    }
    s->rate = (float)rate;
}

/* ---- One element: the new slot, then the new weight ----------------------------------------- */

LS_DEVICE_FN float ls_sgd_weight(const ls_update_scalars *s, float weight, float gradient)
{
    return weight - s->rate * gradient;
}

LS_DEVICE_FN float ls_momentum_slot(const ls_update_scalars *s, float slot, float gradient)
{
    return s->keep_first * slot + gradient;
}

LS_DEVICE_FN float ls_adam_first(const ls_update_scalars *s, float first, float gradient)
{
    return s->keep_first * first + s->add_first * gradient;
}

/** Adam's second slot, and RMSprop's only one. */
LS_DEVICE_FN float ls_square_slot(const ls_update_scalars *s, float slot, float gradient)
{
    return s->keep_second * slot + s->add_second * (gradient * gradient);
}

LS_DEVICE_FN float ls_adam_weight(const ls_update_scalars *s, float weight, float first,
                                  float second)
{
    return weight - s->rate * first / (sqrtf(second * s->unbias_second) + s->epsilon);
}

LS_DEVICE_FN float ls_adamw_weight(const ls_update_scalars *s, float weight, float first,
                                   float second)
{
    return ls_adam_weight(s, weight, first, second) - s->shrink * weight;
}

LS_DEVICE_FN float ls_rmsprop_weight(const ls_update_scalars *s, float weight, float gradient,
                                     float slot)
{
    return weight - s->rate * gradient / (sqrtf(slot) + s->epsilon);
}
