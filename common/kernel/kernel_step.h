/* SPDX-License-Identifier: MIT */
/* What operations read and record in each step, and arguments that several of them share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * The argument block of a step: device memory, read by operations, moved on by finish_step. One
 * per replica; identical on all replicas of a strategy.
 */
typedef struct ls_step_state {
    uint64_t step;        /**< updates done before this one: t - 1 of Adam's t */
    uint64_t position;    /**< samples taken before this step, from the endless sequence */
    uint64_t record;      /**< where the next ls_step_record goes */
    double learning_rate; /**< of this step */
} ls_step_state;

/** The record of a step, which the host reads many steps later. */
typedef struct ls_step_record {
    uint64_t end_ns; /**< ls_clock_ns, or the GPU's global timer, when the step ended */
    double loss;     /**< this replica's part of the mean over the global batch */
} ls_step_record;

/** Which curve the learning rate follows after its warm-up (rate_inline.h). */
typedef enum ls_rate_kind {
    LS_RATE_CONSTANT, /**< times `factor` every `period` steps; period 0 if never */
    LS_RATE_LINEAR,   /**< in a line from `initial` to `least` */
    LS_RATE_COSINE,   /**< in half a cosine's turn */
    LS_RATE_WSD       /**< `initial`, then linear to `least` in the last `down` steps */
} ls_rate_kind;

/** How the learning rate changes: a function of the step's number alone. */
typedef struct ls_rate_schedule {
    double initial;    /**< the highest learning rate */
    double factor;     /**< see LS_RATE_CONSTANT */
    uint64_t period;   /**< see LS_RATE_CONSTANT */
    ls_rate_kind kind; /**< see there */
    double least;      /**< the last learning rate */
    uint64_t warmup;   /**< first steps, over which it rises in a line to `initial` */
    uint64_t decay;    /**< first step with rate `least`; above warmup */
    uint64_t down;     /**< see LS_RATE_WSD; at least 1 */
    uint64_t updates;  /**< updates that count as one step; 0 means 1 */
} ls_rate_schedule;

/** A function that an operation applies to each of its outputs. */
typedef enum ls_activation { LS_ACTIVATION_NONE, LS_ACTIVATION_RELU } ls_activation;

/** What clip_factor finds: the gradient's norm, and what the gradient is multiplied by. */
typedef struct ls_clip {
    double norm;   /**< L2, of the whole gradient */
    double factor; /**< at most 1 */
} ls_clip;

/** Elements of a variable whose squares are summed together (square_sums): a block. */
enum { LS_SQUARE_BLOCK = 1024 };

/** Blocks of so many consecutive elements of a variable, the last one may be shorter. */
static inline int64_t ls_square_blocks(int64_t count)
{
    return (count + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
}

/**
 * Elements with the same rule of update. If `decay` is not 0, weight decay comes first: gradient +=
 * decay * weight. If `keep` is not 0 they are moving statistics, not trained by the optimizer:
 * weight += (1 - keep) (gradient - weight). If `shrinks`, adamw's own decay applies to them.
 */
typedef struct ls_update_range {
    int64_t first, count; /**< of the arrays of the operation that takes it */
    double decay, keep;   /**< see above */
    bool shrinks;         /**< see above */
} ls_update_range;
