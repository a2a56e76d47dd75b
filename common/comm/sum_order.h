/* SPDX-License-Identifier: MIT */
/*
 * Order of a sum: an all-reduce's additions, as steps of one thread that has one rank's input at a
 * time. So the gate's oracle needs memory for a few partial sums, not for all inputs; a ring's
 * order visits an input twice. Sum 0 is the result. x + y and y + x have the same bits, so it does
 * not matter which of two is added to the other; what is added to what does.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { LS_SUM_OTHER = -1, LS_SUM_ZEROS = -2 }; /**< in the place of an input */

typedef struct ls_order_step {
    size_t visit;   /**< number of the visit to an input; steps come in this order */
    int input;      /**< rank whose input is used; LS_SUM_OTHER: sum `from`; LS_SUM_ZEROS: zeros */
    int from, into; /**< numbers of sums */
    bool begins;    /**< into = input; else into = into + input */
    bool rounds;    /**< input is rounded to bf16 before (comm_wire.h) */
    size_t first, count; /**< elements */
} ls_order_step;

/** All zero is one without steps. */
typedef struct ls_sum_order {
    ls_order_step *steps;
    size_t count;
    int sums; /**< how many there are */
} ls_sum_order;

/** Appends a step; ignores one without elements. */
ls_status ls_sum_order_add(ls_sum_order *order, const ls_order_step *step);

/** Sorts the steps by visit; steps of one visit stay in the order in which they were appended. */
ls_status ls_sum_order_sort(ls_sum_order *order);

void ls_sum_order_close(ls_sum_order *order);

/** The nearer one of the two numbers of bf16 around x; the even one, if both are as near. By that
 * definition, not by what a wire rounds with (bf16_inline.h), which it judges. */
float ls_nearest_bf16(float x);

/** Does a step. Each of `sums`, and `input`, reaches as far as the order's last element. */
void ls_order_step_take(const ls_order_step *step, const float *input, float *const *sums);
