/* SPDX-License-Identifier: MIT */
/*
 * Products of bfloat16, for test_kernels.c: against the reference, and a row's bits with other rows
 * before and behind it, in every number of rows. Bound: (terms + 5) u sum |terms|, and an ulp of
 * bfloat16 where c is rounded. Where the library has no such products, making one
 * is refused.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/tests/kernel_fixture.h"

static uint16_t *absolute_bf16(const uint16_t *x, int64_t count)
{
    uint16_t *y = calloc((size_t)count + 1, sizeof *y);
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] & 0x7fff;
    return y;
}

static bool bf16_refused(fixture *f)
{
    uint16_t data[4] = {0};
    ls_op *op;
    if (!f->cpu->table->bf16_product)
        return true;
    const ls_bf16_product_args args = {.m = 2, .n = 2, .k = 2, .a = data, .b = data, .c = data};
    ls_status status = f->cpu->table->bf16_product(f->cpu, &args, &op);
    assert_true(f->cpu->multiplies_bf16 == !status);
    if (status)
        assert_non_null(strstr(ls_status_text(status), "cannot multiply bfloat16"));
    else
        ls_op_free(op);
    ls_status_free(status);
    return !f->cpu->multiplies_bf16;
}

/* Rows [first, first + count) of `like` have the bits that they have among all. */
static void check_bf16_rows(fixture *f, const ls_bf16_product_args *like, int64_t first,
                            int64_t count)
{
    uint16_t *c = random_bf16(count * like->n, 9);
    ls_bf16_product_args args = *like;
    ls_op *op;
    args.m = count;
    args.a += first * like->k;
    args.mask = like->mask ? like->mask + first * like->n : NULL;
    args.c = c;
    must(f->cpu->table->bf16_product(f->cpu, &args, &op));
    const bool promised = !strstr(op->name, "cublaslt");
    run(f, op);
    if (promised)
        same_bits("bf16_product of a slice", c, (const uint16_t *)like->c + first * like->n,
                  (size_t)(count * like->n) * sizeof *c);
    free(c);
}

/* The second half of the terms of each sum takes the first half away, so that what is left of it is
 * the rounding errors, which show the order of the sum even in bfloat16. */
static void cancel_terms(const ls_bf16_product_args *p, uint16_t *a, uint16_t *b)
{
    const int64_t half = p->k / 2;
    for (int64_t k = half; k < 2 * half; k++) {
        for (int64_t i = 0; i < p->m; i++)
            a[i * p->k + k] = a[i * p->k + k - half];
        for (int64_t j = 0; j < p->n; j++)
            b[p->transpose_b ? j * p->k + k : k * p->n + j] =
                b[p->transpose_b ? j * p->k + k - half : (k - half) * p->n + j] ^ 0x8000;
    }
}

static void check_bf16(fixture *f, int64_t m, int64_t n, int64_t k, int way)
{
    const bool weights = way & 1;
    uint16_t *a = random_bf16(m * k, 1), *b = random_bf16(n * k, 2), *bias = random_bf16(n, 3);
    uint16_t *mask = random_bf16(m * n, 4);
    float *got = randoms(m * n, 5), *want = randoms(m * n, 6), *limit = randoms(m * n, 7);
    ls_bf16_product_args args = {.transpose_a = weights,
                                 .transpose_b = way & 2,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .b = b,
                                 .bias = !weights && way & 4 ? bias : NULL,
                                 .relu = !weights && way & 4,
                                 .mask = !weights && way & 8 ? mask : NULL,
                                 .c = got};
    static const uint16_t masks[] = {0x0000, 0x8000, 0x0080, 0x7f80, 0x7fc0, 0x8080, 0xff80};
    for (size_t i = 0; i < sizeof masks / sizeof *masks && (int64_t)i < m * n; i++)
        mask[i] = masks[i];
    if (!weights)
        cancel_terms(&args, a, b);
    uint16_t *sizes[] = {absolute_bf16(a, m * k), absolute_bf16(b, n * k), absolute_bf16(bias, n)};
    apply_bf16_product(f, f->cpu, &args);
    if (!weights)
        for (int64_t rows = 1; rows <= m; rows = rows * 3 / 2 + 1) {
            check_bf16_rows(f, &args, 0, rows);
            check_bf16_rows(f, &args, m - rows, rows);
        }
    args.c = want;
    apply_bf16_product(f, f->reference, &args);
    args.a = sizes[0], args.b = sizes[1], args.bias = args.bias ? sizes[2] : NULL;
    args.mask = NULL, args.c = limit;
    apply_bf16_product(f, f->reference, &args);
    if (weights) {
        compare("bf16_product", got, want, limit, (double)(k + 5) * U, m * n);
    } else {
        for (int64_t i = m * n; i-- > 0;) { /* from behind: both lie in the same memory */
            got[i] = ls_float_of_bf16(((uint16_t *)got)[i]);
            want[i] = ls_float_of_bf16(((uint16_t *)want)[i]);
            limit[i] = ls_float_of_bf16(((uint16_t *)limit)[i]);
        }
        for (int64_t i = 0; i < m * n; i++)
            limit[i] = (float)((double)(k + 5) * U * 1.01 * limit[i] + 0x1p-7 * fabsf(want[i]));
        compare("bf16_product", got, want, limit, 1, m * n);
    }
    free(a), free(b), free(bias), free(mask), free(sizes[0]), free(sizes[1]), free(sizes[2]);
    free(got), free(want), free(limit);
}

/* Of the shapes below, the smallest. */
#ifndef BF16_SHAPES
#define BF16_SHAPES 10
#endif

/* rows, columns, terms: whole and broken blocks; sums that the library cuts into pieces. */
static void test_bf16_product(void **state)
{
    static const int64_t bf16_shapes[][3] = {
        {0, 5, 3},     {1, 1, 1},     {3, 65, 65},    {63, 17, 129},   {64, 64, 64},
        {65, 100, 70}, {129, 48, 33}, {200, 10, 512}, {150, 33, 1536}, {257, 130, 400}};
    if (bf16_refused(*state))
        return;
    for (size_t i = 0; i < BF16_SHAPES; i++)
        for (int way = 0; way < 16; way++)
            check_bf16(*state, bf16_shapes[i][0], bf16_shapes[i][1], bf16_shapes[i][2], way);
    check_bf16(*state, 5, 7, 0, 1); /* sums over nothing */
}

static void test_bf16_column_sums(void **state)
{
    fixture *f = *state;
    if (bf16_refused(f))
        return;
    for (int64_t rows = 0; rows < 300; rows = rows * 3 + 1)
        for (int64_t columns = 1; columns < 700; columns = columns * 2 + 1) {
            uint16_t *x = random_bf16(rows * columns, 1);
            uint16_t *x1 = absolute_bf16(x, rows * columns);
            float *got = randoms(columns, 2), *want = randoms(columns, 3);
            float *limit = randoms(columns, 4);
            apply_bf16_column_sums(f, f->cpu, &(ls_bf16_column_sums_args){rows, columns, x, got});
            apply_bf16_column_sums(f, f->reference,
                                   &(ls_bf16_column_sums_args){rows, columns, x, want});
            apply_bf16_column_sums(f, f->reference,
                                   &(ls_bf16_column_sums_args){rows, columns, x1, limit});
            compare("bf16_column_sums", got, want, limit, (double)(rows + 4) * U, columns);
            free(x), free(x1), free(got), free(want), free(limit);
        }
}
