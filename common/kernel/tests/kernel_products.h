/* SPDX-License-Identifier: MIT */
/*
 * Part of test_kernels.c: the products of the cpu table against the reference, in every layout,
 * with and without what is fused. The bound of an element is the reference's result for the
 * absolute values of the inputs, times the bound at the top of test_kernels.c.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

#define U 0x1p-24

/* rows, inputs, outputs */
static const int64_t shapes[][3] = {
    {0, 0, 0},     {0, 5, 3},     {5, 0, 3},     {5, 3, 0},      {1, 1, 1},      {1, 17, 13},
    {100, 3, 1},   {99, 3, 1},    {1, 3, 1},     {15, 3, 1},     {16, 3, 1},     {300, 3, 1},
    {7, 1, 1},     {33, 8, 8},    {37, 5, 7},    {37, 64, 1},    {129, 1, 64},   {13, 65, 1},
    {13, 1, 65},   {31, 37, 41},  {3, 784, 10},  {256, 128, 10}, {97, 101, 103}, {64, 784, 128},
    {2052, 12, 9}, {1024, 20, 7}, {600, 40, 33}, {30, 41, 320},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_gemm(fixture *f, const ls_gemm_args *like)
{
    int64_t m = like->m, n = like->n, k = like->k;
    float *a = randoms(m * k, 1), *b = randoms(k * n, 2);
    float *a1 = absolutes(a, m * k), *b1 = absolutes(b, k * n);
    float *got = randoms(m * n, 3), *want = randoms(m * n, 3), *limit = absolutes(want, m * n);
    ls_gemm_args args = *like;
    args.a = a, args.b = b, args.c = got;
    apply_gemm(f, f->cpu, &args);
    args.c = want;
    apply_gemm(f, f->reference, &args);
    args.a = a1, args.b = b1, args.c = limit;
    apply_gemm(f, f->reference, &args);
    compare("gemm", got, want, limit, (double)(k + 4) * U, m * n);
    free(a), free(b), free(a1), free(b1), free(got), free(want), free(limit);
}

static void test_gemm(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int way = 0; way < 8; way++)
            check_gemm(*state, &(ls_gemm_args){.transpose_a = way & 1,
                                               .transpose_b = way & 2,
                                               .accumulate = way & 4,
                                               .m = shapes[i][0],
                                               .k = shapes[i][1],
                                               .n = shapes[i][2]});
}

/* A row of the result does not depend on other rows, unless a GPU's kernel computes it that is
 * chosen for the product's shape. */
static void check_rows(fixture *f, const ls_dense_forward_args *like, const float *whole)
{
    if (like->rows < 3)
        return;
    ls_dense_forward_args args = *like;
    ls_op *op;
    args.rows = like->rows - 2;
    args.x = (const float *)like->x + args.inputs;
    args.y = randoms(args.rows * args.outputs, 9);
    must(f->cpu->table->dense_forward(f->cpu, &args, &op));
    bool promised = !strstr(op->name, "cublaslt") && !strstr(op->name, "tiles");
    run(f, op);
    if (promised)
        same_bits("dense_forward of a slice", args.y, whole + args.outputs,
                  (size_t)(args.rows * args.outputs) * sizeof(float));
    free(args.y);
}

static void check_forward(fixture *f, const int64_t shape[3], bool with_bias, ls_activation act,
                          bool turned)
{
    int64_t rows = shape[0], inputs = shape[1], outputs = shape[2];
    float *x = randoms(rows * inputs, 1), *w = randoms(inputs * outputs, 2);
    float *bias = randoms(outputs, 3), *got = randoms(rows * outputs, 4);
    float *x1 = absolutes(x, rows * inputs), *w1 = absolutes(w, inputs * outputs);
    float *bias1 = absolutes(bias, outputs);
    float *want = randoms(rows * outputs, 5), *limit = randoms(rows * outputs, 6);
    ls_dense_forward_args args = {rows, inputs, outputs, x, w, with_bias ? bias : NULL,
                                  got,  act,    turned};
    apply_dense_forward(f, f->cpu, &args);
    check_rows(f, &args, got);
    args.y = want;
    apply_dense_forward(f, f->reference, &args);
    args.x = x1, args.weight = w1, args.bias = with_bias ? bias1 : NULL, args.y = limit;
    apply_dense_forward(f, f->reference, &args);
    compare("dense_forward", got, want, limit, (double)(inputs + 5) * U, rows * outputs);
    free(x), free(w), free(bias), free(got), free(x1), free(w1), free(bias1), free(want);
    free(limit);
}

static void test_dense_forward(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int way = 0; way < 8; way++)
            check_forward(*state, shapes[i], way & 1,
                          way & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE, way & 4);
}

static void check_weights(fixture *f, const int64_t shape[3], bool with_bias, bool turned)
{
    int64_t rows = shape[0], inputs = shape[1], outputs = shape[2], count = inputs * outputs;
    float *x = randoms(rows * inputs, 1), *dy = randoms(rows * outputs, 2);
    float *x1 = absolutes(x, rows * inputs), *dy1 = absolutes(dy, rows * outputs);
    float *got = randoms(count, 3), *want = randoms(count, 4), *limit = randoms(count, 5);
    float *got_b = randoms(outputs, 6), *want_b = randoms(outputs, 7);
    float *limit_b = randoms(outputs, 8);
    ls_dense_backward_weights_args args = {
        rows, inputs, outputs, x, dy, got, with_bias ? got_b : NULL, turned};
    apply_dense_backward_weights(f, f->cpu, &args);
    args.dweight = want, args.dbias = want_b;
    apply_dense_backward_weights(f, f->reference, &args);
    args.x = x1, args.dy = dy1, args.dweight = limit, args.dbias = limit_b;
    apply_dense_backward_weights(f, f->reference, &args);
    compare("dweight", got, want, limit, (double)(rows + 4) * U, count);
    if (with_bias)
        compare("dbias", got_b, want_b, limit_b, (double)(rows + 4) * U, outputs);
    free(x), free(dy), free(x1), free(dy1), free(got), free(want), free(limit);
    free(got_b), free(want_b), free(limit_b);
}

static void test_dense_backward_weights(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int way = 0; way < 4; way++)
            check_weights(*state, shapes[i], way & 1, way & 2);
}

static void check_data(fixture *f, const int64_t shape[3], bool with_mask, bool turned)
{
    int64_t rows = shape[0], inputs = shape[1], outputs = shape[2], count = rows * inputs;
    float *dy = randoms(rows * outputs, 1), *w = randoms(inputs * outputs, 2);
    float *dy1 = absolutes(dy, rows * outputs), *w1 = absolutes(w, inputs * outputs);
    float *mask = randoms(count, 3), *got = randoms(count, 4), *want = randoms(count, 5);
    float *limit = randoms(count, 6);
    for (int64_t i = 0; i < count; i += 3)
        mask[i] = 0;
    ls_dense_backward_data_args args = {rows, inputs, outputs, dy, w, with_mask ? mask : NULL,
                                        got,  turned};
    apply_dense_backward_data(f, f->cpu, &args);
    args.dx = want;
    apply_dense_backward_data(f, f->reference, &args);
    args.dy = dy1, args.weight = w1, args.dx = limit;
    apply_dense_backward_data(f, f->reference, &args);
    compare("dx", got, want, limit, (double)(outputs + 4) * U, count);
    free(dy), free(w), free(dy1), free(w1), free(mask), free(got), free(want), free(limit);
}

static void test_dense_backward_data(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int way = 0; way < 4; way++)
            check_data(*state, shapes[i], way & 1, way & 2);
}

/* A backward pass as one operation: the bits of its two halves. */
static void check_backward(fixture *f, const int64_t shape[3], bool with_bias, bool with_mask,
                           bool turned)
{
    const int64_t rows = shape[0], inputs = shape[1], outputs = shape[2];
    float *x = randoms(rows * inputs, 1), *dy = randoms(rows * outputs, 2);
    float *w = randoms(inputs * outputs, 3), *dbias = randoms(outputs, 4);
    float *dweight = randoms(inputs * outputs, 5), *dx = randoms(rows * inputs, 6);
    float *want_b = randoms(outputs, 4), *want_w = randoms(inputs * outputs, 7);
    float *want_x = randoms(rows * inputs, 8);
    ls_dense_backward_args args = {
        {rows, inputs, outputs, x, dy, want_w, with_bias ? want_b : NULL, turned},
        {rows, inputs, outputs, dy, w, with_mask ? x : NULL, want_x, turned}};
    apply_dense_backward_weights(f, f->cpu, &args.weights);
    apply_dense_backward_data(f, f->cpu, &args.data);
    args.weights.dweight = dweight, args.data.dx = dx;
    args.weights.dbias = with_bias ? dbias : NULL;
    apply_dense_backward(f, f->cpu, &args);
    same_bits("dweight", dweight, want_w, (size_t)(inputs * outputs) * sizeof *dweight);
    same_bits("dbias", dbias, want_b, (size_t)outputs * sizeof *dbias);
    same_bits("dx", dx, want_x, (size_t)(rows * inputs) * sizeof *dx);
    free(x), free(dy), free(w), free(dbias), free(dweight), free(dx);
    free(want_b), free(want_w), free(want_x);
}

/* Tables may be without it. */
static void test_dense_backward(void **state)
{
    const fixture *f = *state;
    for (int i = 0; i < SHAPES && f->cpu->table->dense_backward; i++)
        for (int way = 0; way < 8; way++)
            check_backward(*state, shapes[i], way & 1, way & 2, way & 4);
}
