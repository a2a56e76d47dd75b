/* SPDX-License-Identifier: MIT */
/*
 * State: all that a run has to keep from one step to the next: some arrays, each with one element
 * for each element of the model's variables, and the number of the next step. The position in the
 * data, the learning rate and every random number follow from that number. Which member owns which
 * elements: impl/step/state_parts.h.
 */
#pragma once

#include <stdint.h>

/** The arrays of a run's state. */
typedef enum ls_values {
    LS_VALUES, /**< the variables, batch statistics among them */
    LS_SLOT_0, /**< the optimizer's, as many as it has */
    LS_SLOT_1,
    LS_AVERAGES, /**< moving averages of the variables, if the model has them */
    LS_ARRAYS
} ls_values;

/** A state in host memory; borrowed by the job that continues it. */
typedef struct ls_state_values {
    uint64_t step;              /**< number of the next step */
    const float *of[LS_ARRAYS]; /**< [elements of the model]; NULL if the job has no such array */
} ls_state_values;
