/* SPDX-License-Identifier: MIT */
/* What follows a product, element by element. */
#pragma once

#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

/* Finishes element `at` of c in this column, whose `sum` is known: bias, ReLU and mask. NaN stays,
 * so that a product of infinite factors shows in the loss. */
__device__ static inline float ls_gpu_finish(const ls_gpu_rest &r, int64_t at, int64_t column,
                                             float sum)
{
    if (r.bias)
        sum += r.bias[column];
    sum = r.relu && sum <= 0 ? 0 : sum;
    return r.mask ? ls_relu_mask(r.mask[at], sum) : sum;
}
