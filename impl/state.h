/* SPDX-License-Identifier: MIT */
/*
 * State: all that a run has to keep from one step to the next: some arrays, each with one element
 * for each element of the model's variables, and the number of the next step. The position in the
 * data, the learning rate and every random number follow from that number. Which member owns which
 * elements: impl/step/plan/state_parts.h.
 */
#pragma once

#include "common/base/range.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** The arrays of a run's state. */
typedef enum ls_values {
    LS_VALUES, /**< the variables, batch statistics among them */
    LS_SLOT_0, /**< the optimizer's, as many as it has */
    LS_SLOT_1,
    LS_AVERAGES, /**< moving averages of the variables, if the model has them */
    LS_ARRAYS
} ls_values;

enum { LS_STATE_BLOCK = 1 << 20 }; /* elements that are in host memory at once */

/** Where values of a state are from: a random stream, files, memory. What follows is borrowed. */
typedef struct ls_state_source {
    /** Reads elements `range` of the model from an array into `out`. A source of parameters alone
     * is asked for no other array. */
    ls_status (*read)(const struct ls_state_source *source, ls_values array, ls_range range,
                      float *out);
    const void *from; /**< what `read` reads from */
} ls_state_source;

static inline ls_status ls_state_copy(const ls_state_source *source, ls_values array,
                                      ls_range range, float *out)
{
    (void)array;
    memcpy(out, (const float *)source->from + range.first, range.count * sizeof *out);
    return LS_OK;
}

/** Parameters in host memory: float32 [elements of the model]. */
static inline ls_state_source ls_state_held(const float *parameters)
{
    return (ls_state_source){.read = ls_state_copy, .from = parameters};
}

/** Sets *block to the next block of `elements` elements, from a zero-filled one on; false if there
 * are no more. */
static inline bool ls_state_next(size_t elements, ls_range *block)
{
    block->first += block->count;
    const size_t left = elements - block->first;
    block->count = left < LS_STATE_BLOCK ? left : LS_STATE_BLOCK;
    return left > 0;
}
