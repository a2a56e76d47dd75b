/* SPDX-License-Identifier: MIT */
/*
 * Which kernel computes a product: the models of their times against an H100. And our own kernel
 * (gpu_product.cu), emulated: random products within 2^-22 of the terms' absolute sum, wherever
 * matrices lie; in tf32 those of the rounded factors.
 */
#pragma once

#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/product/cuda_product_cost.h"
#include "common/kernel/tests/kernel_fixture.h"

/* The model of a product's time against an H100, whose kernels were timed in steps of `gpt` and of
 * `mlp` (CUPTI): within a seventh. */
static void test_cost(void **state)
{
    static const struct {
        ls_product_size size;
        ls_product_tile tile;
        double us;
    } measured[] = {
        {{4096, 2304, 768, 1}, {64, 64}, 344},     {{4096, 768, 768, 1}, {64, 64}, 118},
        {{4096, 3072, 768, 1}, {256, 128}, 408},   {{4096, 768, 3072, 1}, {256, 128}, 512},
        {{4096, 768, 50257, 1}, {256, 128}, 8877}, {{4096, 50257, 768, 1}, {128, 128}, 6215},
        {{50257, 768, 4096, 1}, {128, 64}, 6397},  {{768, 3072, 4096, 1}, {128, 256}, 644},
        {{3072, 768, 4096, 1}, {128, 64}, 580},    {{768, 768, 4096, 4}, {64, 64}, 133},
        {{4096, 768, 3072, 1}, {128, 128}, 497},   {{16384, 384, 384, 1}, {64, 128}, 113},
        {{384, 1536, 16384, 4}, {64, 32}, 551},    {{1536, 384, 16384, 4}, {64, 64}, 516},
        {{1536, 384, 16384, 8}, {64, 64}, 455},    {{384, 384, 16384, 32}, {64, 64}, 121},
        {{8192, 4096, 4096, 1}, {256, 128}, 5345}, {{4096, 4096, 8192, 1}, {256, 128}, 5070},
    };
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const double us = ls_product_cost(&measured[i].size, measured[i].tile, 132);
        if (fabs(us / measured[i].us - 1) > 1.0 / 7)
            fail_msg("product %zu: %g us, measured %g", i, us, measured[i].us);
    }
    assert_true(isinf(ls_product_cost(&measured[0].size, (ls_product_tile){96, 64}, 132)));
}

/* The model of our own kernel against the same GPU, which ran each product alone: within a tenth.
 */
static void test_tiles_cost(void **state)
{
    static const struct {
        ls_product_size size;
        bool a_by_terms, b_by_terms;
        double us;
    } measured[] = {
        {{8192, 4096, 4096, 1}, true, true, 2463},   {{8192, 4096, 4096, 1}, true, false, 2688},
        {{4096, 4096, 8192, 1}, false, false, 2932}, {{4096, 3072, 768, 1}, true, false, 215},
        {{4096, 3072, 768, 1}, true, true, 196},     {{16384, 384, 1152, 1}, true, true, 148},
        {{768, 3072, 4096, 1}, false, false, 360},   {{768, 2304, 4096, 1}, false, false, 181},
        {{16384, 1152, 384, 1}, true, false, 188},   {{8192, 4096, 784, 1}, true, true, 563},
        {{50257, 768, 4096, 1}, false, false, 3261},
    };
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const double us = ls_product_tiles_cost(&measured[i].size, measured[i].a_by_terms,
                                                measured[i].b_by_terms, 132);
        if (fabs(us / measured[i].us - 1) > 0.1)
            fail_msg("product %zu: %g us, measured %g", i, us, measured[i].us);
    }
}

/* ---- Our own kernel of products ----------------------------------------------------------------
 */

typedef struct tiles_case {
    int64_t m, n, k;
    int pieces;
    bool accumulate, bias, relu, mask;
} tiles_case;

/* Stored from `shift` elements after a multiple of 16 bytes on; returns c, or its pieces. */
static float *multiply_tiles(const tiles_case *t, int layout, int64_t shift, bool tf32)
{
    const int64_t counts[] = {t->m * t->k, t->k * t->n, t->m * t->n, t->n, t->m * t->n};
    float *at[5], *parts = t->pieces > 1 ? randoms(t->pieces * counts[2], 6) : NULL;
    for (int i = 0; i < 5; i++) {
        at[i] = randoms(counts[i] + shift, (uint32_t)i + 1);
        memmove(at[i] + shift, at[i], (size_t)counts[i] * sizeof(float));
    }
    const ls_gemm_args gemm = {.transpose_a = layout & 1,
                               .transpose_b = layout & 2,
                               .m = t->m,
                               .n = t->n,
                               .k = t->k,
                               .a = at[0] + shift,
                               .b = at[1] + shift};
    const ls_gpu_rest rest = {.parts = parts,
                              .pieces = t->pieces,
                              .rows = t->m,
                              .columns = t->n,
                              .accumulate = t->accumulate,
                              .bias = t->bias ? at[3] + shift : NULL,
                              .relu = t->relu,
                              .mask = t->mask ? at[4] + shift : NULL,
                              .c = at[2] + shift};
    assert_int_equal(ls_gpu_tile_product(NULL, &gemm, &rest, tf32), 0);
    memmove(at[2], at[2] + shift, (size_t)counts[2] * sizeof(float));
    for (int i = 0; i < 5; i++)
        if (i != 2)
            free(at[i]);
    free(parts ? at[2] : NULL);
    return parts ? parts : at[2];
}

static void round_tf32(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits + 0x1000u) & 0xFFFFE000u;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

static void check_tiles(const tiles_case *t, int layout, bool tf32)
{
    float *a = randoms(t->m * t->k, 1), *b = randoms(t->k * t->n, 2), *c = randoms(t->m * t->n, 3);
    float *bias = randoms(t->n, 4), *mask = randoms(t->m * t->n, 5);
    float *got = multiply_tiles(t, layout, layout == 1, tf32), *moved = NULL;
    round_tf32(a, tf32 ? t->m * t->k : 0);
    round_tf32(b, tf32 ? t->k * t->n : 0);
    if (layout == 0) {
        moved = multiply_tiles(t, layout, 1, tf32);
        same_bits("tiles", got, moved, (size_t)(t->pieces * t->m * t->n) * sizeof *got);
    }
    for (int64_t at = 0; at < t->m * t->n; at++) {
        const int64_t row = at / t->n, column = at % t->n;
        double sum = 0, limit = 0, found = 0;
        for (int64_t k = 0; k < t->k; k++) {
            const double term = (double)a[layout & 1 ? k * t->m + row : row * t->k + k] *
                                (double)b[layout & 2 ? column * t->k + k : k * t->n + column];
            sum += term, limit += fabs(term);
        }
        for (int p = 0; p < t->pieces; p++)
            found += (double)got[p * t->m * t->n + at];
        sum += t->accumulate ? (double)c[at] : 0;
        sum += t->bias ? (double)bias[column] : 0;
        sum = (t->relu && sum < 0) || (t->mask && mask[at] <= 0) ? 0 : sum;
        if (!(fabs(found - sum) <= 0x1p-22 * (limit + fabs(sum) + 1)))
            fail_msg("element %lld: %g, not %g", (long long)at, found, sum);
    }
    free(a), free(b), free(c), free(bias), free(mask), free(got), free(moved);
}

/* What is not finite reaches c. */
static void check_infinite(bool tf32)
{
    float a[4] = {1, INFINITY, NAN, 2}, b[2] = {1, 2}, c[4];
    const ls_gemm_args gemm = {.m = 4, .n = 1, .k = 1, .a = a, .b = b};
    const ls_gpu_rest rest = {.pieces = 1, .rows = 4, .columns = 1, .relu = true, .c = c};
    memcpy(&a[2], &(uint32_t){0x7fffffff}, sizeof *a); /* what GPUs compute as NaN */
    assert_int_equal(ls_gpu_tile_product(NULL, &gemm, &rest, tf32), 0);
    assert_true(c[0] == 1 && !isfinite(c[1]) && !isfinite(c[2]) && c[3] == 2);
}

/* Sizes on both sides of a tile, a slice and 16 bytes, more slices than there is room for twice, in
 * all layouts; what follows the product. */
static void test_tiles(void **state)
{
    static const tiles_case cases[] = {
        {1, 1, 1, 1, false, false, false, false},
        {130, 6, 33, 1, false, true, true, false},
        {20, 8, 300, 1, true, true, false, true},
        {5, 132, 20, 2, false, false, false, false},
    };
    (void)state;
    assert_int_equal(ls_gpu_load_tile_product(), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int layout = 0; layout < 4; layout++)
            check_tiles(&cases[i], layout, false), check_tiles(&cases[i], layout, true);
    check_infinite(false);
    check_infinite(true);
}
