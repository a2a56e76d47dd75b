/* SPDX-License-Identifier: MIT */
/* What collectives are to sum to, bit by bit, in one thread. Statics; for inclusion by tests. */
#pragma once

#include "common/comm/sum_order.h"

#include <stdlib.h>

/* The oracle's sum if all inputs are available: inputs[r] and out are [count]. */
static inline ls_status allreduce_sum_cut(const ls_allreduce *algorithm, const float *const *inputs,
                                          int ranks, ls_extent extent, float *out,
                                          const ls_layout *layout)
{
    const size_t count = extent.count;
    ls_sum_order order = {.sums = 1};
    ls_status status = algorithm->oracle(ranks, extent, layout, &order);
    if (!status)
        status = ls_sum_order_sort(&order);
    float *memory = calloc((size_t)order.sums * count + 1, sizeof *memory);
    float **sums = calloc((size_t)order.sums, sizeof *sums);
    if (!status && (!memory || !sums))
        status = ls_fail_memory("sum", (size_t)order.sums * count * sizeof *memory);
    for (int s = 0; s < order.sums && !status; s++)
        sums[s] = s ? memory + (size_t)s * count : out;
    for (size_t i = 0; i < order.count && !status; i++)
        ls_order_step_take(&order.steps[i],
                           order.steps[i].input >= 0 ? inputs[order.steps[i].input] : NULL, sums);
    free(memory);
    free(sums);
    ls_sum_order_close(&order);
    return status;
}

static inline ls_status allreduce_sum(const ls_allreduce *algorithm, const float *const *inputs,
                                      int ranks, size_t count, float *out, const ls_layout *layout)
{
    return allreduce_sum_cut(algorithm, inputs, ranks, ls_elements(count), out, layout);
}

/* The bits of block `block` of a reduce-scatter; inputs[r] and out are [count], of that block. */
static inline void reducescatter_sum(const float *const *inputs, int ranks, int block, size_t count,
                                     float *out)
{
    for (size_t i = 0; i < count; i++) {
        float sum = inputs[(block + 1) % ranks][i];
        for (int k = 2; k <= ranks; k++)
            sum = inputs[(block + k) % ranks][i] + sum;
        out[i] = sum;
    }
}
