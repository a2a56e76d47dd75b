/* SPDX-License-Identifier: MIT */
/*
 * Products of bfloat16 (cuda_bf16.c): our own kernel, emulated, against the reference, wherever
 * matrices lie and with other rows before and behind; and the library's, of matrices that begin
 * anywhere. Sums are exact up to one rounding for every 16 terms.
 */
#pragma once

#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/tests/kernel_bf16.h"

enum { BF16_MATRICES = 5, BF16_C = 4 };

/* A product whose matrices begin `shift` elements after a multiple of 16 bytes. */
typedef struct bf16_case {
    ls_bf16_product_args args;
    float *parts;
    uint16_t *of[BF16_MATRICES]; /* a, b, bias, mask, c */
} bf16_case;

static bf16_case bf16_begin(const ls_bf16_product_args *like, int pieces, int64_t shift)
{
    bf16_case c = {.args = *like};
    const int64_t mn = like->m * like->n, wide = like->transpose_a ? 2 : 1;
    const int64_t counts[] = {like->m * like->k, like->k * like->n, like->n, mn, wide * mn};
    for (int i = 0; i < BF16_MATRICES; i++) {
        c.of[i] = random_bf16(counts[i] + shift, (uint32_t)i + 1);
        memmove(c.of[i] + shift, c.of[i], (size_t)counts[i] * sizeof **c.of);
    }
    c.args.a = c.of[0] + shift, c.args.b = c.of[1] + shift, c.args.c = c.of[BF16_C] + shift;
    c.args.bias = like->bias ? c.of[2] + shift : NULL;
    c.args.mask = like->mask ? c.of[3] + shift : NULL;
    c.parts = pieces > 1 ? randoms(pieces * mn, 6) : NULL;
    return c;
}

static void bf16_end(bf16_case *c)
{
    for (int i = 0; i < BF16_MATRICES; i++)
        free(c->of[i]);
    free(c->parts);
}

/* `got`, in one piece or more, against the reference. */
static void bf16_compare(fixture *f, bf16_case *c, int pieces)
{
    const ls_bf16_product_args *a = &c->args;
    const int64_t count = a->m * a->n;
    float *want = randoms(count, 8);
    ls_bf16_product_args args = *a;
    args.c = want;
    apply_bf16_product(f, f->reference, &args);
    for (int64_t i = 0; i < count; i++) {
        const bool rounded = !a->transpose_a;
        double got = 0, wanted = (double)want[i];
        for (int p = 0; p < pieces && !rounded; p++)
            got += (double)(c->parts ? c->parts : (float *)a->c)[p * count + i];
        if (rounded) {
            got = (double)ls_float_of_bf16(((uint16_t *)a->c)[i]);
            wanted = (double)ls_float_of_bf16(((uint16_t *)want)[i]);
        }
        const double limit = (double)a->k * U + (rounded ? 0x1p-8 * fabs(wanted) : 0);
        if (!(fabs(got - wanted) <= limit))
            fail_msg("element %lld of %lld x %lld x %lld: %g, not %g", (long long)i,
                     (long long)a->m, (long long)a->n, (long long)a->k, got, wanted);
    }
    free(want);
}

/* The last rows alone. */
static void bf16_check_rows(const bf16_case *whole, int64_t rows)
{
    const ls_bf16_product_args *w = &whole->args;
    const int64_t first = w->m - rows;
    uint16_t *c = random_bf16(rows * w->n, 9);
    ls_bf16_product_args args = *w;
    args.m = rows;
    args.a += first * w->k;
    args.mask = w->mask ? w->mask + first * w->n : NULL;
    args.c = c;
    assert_int_equal(ls_gpu_bf16_product(NULL, &args, NULL, 1), 0);
    same_bits("rows", c, (uint16_t *)w->c + first * w->n, (size_t)(rows * w->n) * sizeof *c);
    free(c);
}

static void bf16_check_tiles(fixture *f, const ls_bf16_product_args *like, int pieces)
{
    bf16_case at[2];
    const size_t element = like->transpose_a ? sizeof(float) : sizeof(uint16_t);
    const size_t bytes = (size_t)(like->m * like->n) * element;
    for (int shift = 0; shift < 2; shift++) { /* an even one for floats */
        at[shift] = bf16_begin(like, pieces, like->transpose_a ? 2 * shift : shift);
        const bf16_case *c = &at[shift];
        assert_int_equal(ls_gpu_bf16_product(NULL, &c->args, c->parts, pieces), 0);
    }
    bf16_compare(f, &at[0], pieces);
    if (at[0].parts)
        same_bits("moved", at[0].parts, at[1].parts, (size_t)pieces * bytes);
    else
        same_bits("moved", at[0].args.c, at[1].args.c, bytes);
    if (!like->transpose_a && like->m > 1)
        bf16_check_rows(&at[0], like->m / 3 + 1);
    bf16_end(&at[0]), bf16_end(&at[1]);
}

/* Sizes on both sides of a tile, a slice and 16 bytes, in all layouts; several pieces; no terms. */
static void test_bf16_tiles(void **state)
{
    static const struct {
        int64_t m, n, k;
        int pieces;
    } cases[] = {{1, 1, 1, 1}, {130, 7, 33, 1}, {24, 136, 72, 1}, {5, 8, 64, 2}, {3, 2, 0, 1}};
    const uint16_t some = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 4; way++) {
            const bool weights = way & 1, rest = !weights && i % 2;
            const ls_bf16_product_args like = {.transpose_a = weights,
                                               .transpose_b = way & 2,
                                               .m = cases[i].m,
                                               .n = cases[i].n,
                                               .k = cases[i].k,
                                               .bias = rest ? &some : NULL,
                                               .relu = rest,
                                               .mask = rest ? &some : NULL};
            if (weights || (cases[i].pieces == 1 && cases[i].k))
                bf16_check_tiles(*state, &like, cases[i].pieces);
        }
}

/* What is not finite reaches c. */
static void test_bf16_infinite(void **state)
{
    uint16_t a[3] = {0x3f80, 0x7f80, 0x7fc0}, b[1] = {0x3f80}, c[3];
    const ls_bf16_product_args args = {
        .m = 3, .n = 1, .k = 1, .a = a, .b = b, .relu = true, .c = c};
    (void)state;
    assert_int_equal(ls_gpu_bf16_product(NULL, &args, NULL, 1), 0);
    assert_true(c[0] == 0x3f80 && c[1] == 0x7f80 && (c[2] & 0x7fff) > 0x7f80);
}

/* The library's, which wants 16 bytes for these sizes: the same bits wherever the matrices lie; and
 * our own where it has none, or is left out. */
static void test_bf16_places(void **state)
{
    static const char *const names[] = {"bf16_product.cublaslt", "bf16_product.tiles"};
    fixture *f = *state;
    const uint16_t some = 0;
    for (int way = 0; way < 4; way++) {
        const bool weights = way & 1;
        const ls_bf16_product_args like = {.transpose_a = weights,
                                           .m = 24,
                                           .n = 16,
                                           .k = 400,
                                           .bias = weights ? NULL : &some,
                                           .relu = !weights,
                                           .mask = way & 2 || weights ? NULL : &some};
        bf16_case at[3];
        for (int i = 0; i < 3; i++) {
            ls_op *op;
            at[i] = bf16_begin(&like, 1, i % 2 ? 2 : 0);
            ((cuda_kernels *)f->cpu)->tiles_alone = i == 2 && way & 2;
            blas_failure =
                i == 2 && !(way & 2) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
            must(f->cpu->table->bf16_product(f->cpu, &at[i].args, &op));
            blas_failure = CUBLAS_STATUS_SUCCESS;
            ((cuda_kernels *)f->cpu)->tiles_alone = false;
            assert_string_equal(op->name, names[i / 2]);
            run(f, op);
            bf16_compare(f, &at[i], 1);
        }
        same_bits("moved", at[0].args.c, at[1].args.c,
                  (size_t)(like.m * like.n) * (weights ? sizeof(float) : sizeof(uint16_t)));
        for (int i = 0; i < 3; i++)
            bf16_end(&at[i]);
    }
}
