/* SPDX-License-Identifier: MIT */
/* Orders of sums; see sum_order.h. */
#include "common/comm/sum_order.h"

#include "common/base/grow.h"
#include "common/comm/comm_loops.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_sum_order_add(ls_sum_order *order, const ls_order_step *step)
{
    if (step->into >= order->sums)
        order->sums = step->into + 1;
    if (!step->count)
        return LS_OK;
    LS_TRY(ls_grow("sum", &order->steps, order->count, sizeof *step));
    order->steps[order->count++] = *step;
    return LS_OK;
}

/* Parts have disjoint elements, so only the order within a part matters: the order of visits, and
 * within one visit the order of appending, given by `from` and the ranges. */
typedef struct numbered {
    ls_order_step step;
    size_t number;
} numbered;

static int comes_before(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    if (x->step.visit != y->step.visit)
        return x->step.visit < y->step.visit ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

ls_status ls_sum_order_sort(ls_sum_order *order)
{
    numbered *all;
    LS_TRY(ls_allocate("sum", &all, order->count, sizeof *all));
    for (size_t i = 0; i < order->count; i++)
        all[i] = (numbered){order->steps[i], i};
    qsort(all, order->count, sizeof *all, comes_before);
    for (size_t i = 0; i < order->count; i++)
        order->steps[i] = all[i].step;
    free(all);
    return LS_OK;
}

void ls_sum_order_close(ls_sum_order *order)
{
    free(order->steps);
    *order = (ls_sum_order){0};
}

float ls_nearest_bf16(float x)
{
    enum { UPPER = 1 << 16, HALF = 1 << 15 };
    uint32_t bits;
    if (isnan(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rest = bits % UPPER, below = bits - rest, odd = bits / UPPER % 2;
    const uint32_t nearest = below + (rest > HALF || (rest == HALF && odd) ? UPPER : 0);
    memcpy(&x, &nearest, sizeof x);
    return x;
}

static void take_rounded(float *to, const float *from, size_t count, bool begins)
{
    for (size_t i = 0; i < count; i++) {
        const float sent = ls_nearest_bf16(from[i]);
        to[i] = begins ? sent : to[i] + sent;
    }
}

void ls_order_step_take(const ls_order_step *step, const float *input, float *const *sums)
{
    const size_t first = step->first, count = step->count;
    float *to = sums[step->into] + first;
    const float *from = step->input == LS_SUM_OTHER ? sums[step->from] : input;
    if (step->rounds && step->input != LS_SUM_ZEROS)
        take_rounded(to, from + first, count, step->begins);
    else if (step->input == LS_SUM_ZEROS && step->begins)
        memset(to, 0, count * sizeof *to);
    else if (step->input == LS_SUM_ZEROS)
        for (size_t i = 0; i < count; i++)
            to[i] += 0.0f; /* turns -0 into 0, like an added zero */
    else if (step->begins)
        memcpy(to, from + first, count * sizeof *to);
    else
        ls_loop_add(to, from + first, count);
}
