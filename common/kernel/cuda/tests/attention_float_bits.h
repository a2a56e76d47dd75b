/* SPDX-License-Identifier: MIT */
/*
 * Attention of floats on tensor cores (gpu_attention_cores.cu) against the reference, which
 * computes in double, relative to the largest element. In float32 a product is off by up to 2^-21,
 * a sum of 32 terms by a few cuts of 2^-22; a lost part of 8 bits would be off by 2^-17. With
 * --math tf32 products are off by up to 2^-14, TF32's own by 2^-11. A head's bits do not depend on
 * where the arrays begin. The including file defines `inner_kernels`, whose `math` counts.
 */
#pragma once

#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/tests/kernel_fixture.h"

#define FLOAT_BOUND 3e-6
#define TF32_BOUND  2e-4

/* y and dqkv, [T,4C] of a sample, by a table; arrays begin `shift` floats after a multiple of 16
 * bytes. The caller frees them. */
static float *attend_floats(fixture *f, ls_kernels *kernels, ls_math math, ls_attention_shape s,
                            int shift)
{
    const int64_t count = s.rows * s.steps * s.width;
    const char *kind = s.width / s.heads > LS_GPU_ATTENTION_FLOATS ? ".cuda" : ".tiles";
    float *in = randoms(4 * count + shift, 1), *out = randoms(4 * count + shift, 2);
    float *sums = randoms(s.rows * s.steps * s.heads, 3);
    float *const qkv = in + shift, *const y = out + shift;
    ls_op *forward, *backward;
    memmove(qkv, in, (size_t)(4 * count) * sizeof *in);
    for (int64_t i = 0; i < 3 * count; i++)
        qkv[i] *= 3;
    const ls_attention_backward_args back = {s, qkv, y, qkv + 3 * count, sums, y + count, false};
    inner_kernels(f)->math = math;
    must(kernels->table->attention_forward(
        kernels, &(ls_attention_forward_args){s, qkv, y, sums, false}, &forward));
    must(kernels->table->attention_backward(kernels, &back, &backward));
    inner_kernels(f)->math = LS_MATH_FLOAT32;
    assert_true(kernels == f->reference ||
                (strstr(forward->name, kind) != NULL && strstr(backward->name, kind) != NULL));
    run(f, forward);
    run(f, backward);
    memmove(out, y, (size_t)(4 * count) * sizeof *out);
    free(in), free(sums);
    return out;
}

static void compare_floats(const char *what, const float *got, const float *want, double factor,
                           int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)want[i]));
    compare(what, got, want, NULL, factor * largest, count);
}

static void test_float_attention(void **state)
{
    /* one and several tiles of keys, more than parts of queries' gradients; widths that fill units,
     * and not; the widest head, and one too wide */
    static const ls_attention_shape shapes[] = {{0, 3, 1, 4},   {1, 1, 1, 1},    {2, 7, 3, 15},
                                                {1, 65, 2, 64}, {1, 150, 1, 64}, {2, 35, 2, 80},
                                                {1, 67, 1, 68}, {1, 330, 1, 12}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const ls_attention_shape s = shapes[i];
        const int64_t count = s.rows * s.steps * s.width;
        float *want = attend_floats(f, f->reference, LS_MATH_FLOAT32, s, 0);
        float *by_math[2];
        for (int math = LS_MATH_FLOAT32; math <= LS_MATH_TF32; math++) {
            float *got = attend_floats(f, f->cpu, math, s, 0);
            float *moved = attend_floats(f, f->cpu, math, s, 1);
            const double factor = math == LS_MATH_TF32 ? TF32_BOUND : FLOAT_BOUND;
            compare_floats("y", got, want, factor, count);
            compare_floats("dqkv", got + count, want + count, factor, 3 * count);
            same_bits("moved", moved, got, (size_t)(4 * count) * sizeof *got);
            free(moved);
            by_math[math] = got;
        }
        const bool cores = s.width / s.heads <= LS_GPU_ATTENTION_FLOATS;
        if (count > 100) /* --math tf32 has an effect where tensor cores multiply */
            assert_int_equal(cores,
                             memcmp(by_math[0], by_math[1], (size_t)count * sizeof *want) != 0);
        free(want), free(by_math[0]), free(by_math[1]);
    }
}

#define ATTENTION_FLOAT_TESTS cmocka_unit_test(test_float_attention)
