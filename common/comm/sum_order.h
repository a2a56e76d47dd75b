/* SPDX-License-Identifier: MIT */
/*
 * Order of a sum: what an all-reduce adds up, as steps of one thread that has one rank's input at a
 * time. So whoever judges needs room for a few sums on the way, and not for all inputs; where an
 * order goes around, as a ring's does, inputs come twice.
 *
 * Sum 0 is the result. x + y and y + x have the same bits, so which of two is added to which does
 * not matter; what is added to what does.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { LS_SUM_OTHER = -1, LS_SUM_ZEROS = -2 }; /**< in the place of an input */

typedef struct ls_order_step {
    size_t visit;        /**< steps of one visit come together, visits in their order */
    int input;           /**< the rank whose is taken; LS_SUM_OTHER: sum `from`; LS_SUM_ZEROS */
    int from, into;      /**< sums */
    bool begins;         /**< into = it; else into = into + it */
    size_t first, count; /**< elements */
} ls_order_step;

/** All zero is one without steps. */
typedef struct ls_sum_order {
    ls_order_step *steps;
    size_t count;
    int sums; /**< how many there are */
} ls_sum_order;

/** Appends a step; one without elements is none. */
ls_status ls_sum_order_add(ls_sum_order *order, const ls_order_step *step);

/** Brings parts that were appended one after the other together, visit by visit. */
ls_status ls_sum_order_sort(ls_sum_order *order);

void ls_sum_order_close(ls_sum_order *order);

/** What a step does: sums[s] and input are as long as the order's last element. */
void ls_order_step_take(const ls_order_step *step, const float *input, float *const *sums);
