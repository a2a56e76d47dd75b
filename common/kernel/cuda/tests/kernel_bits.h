/* SPDX-License-Identifier: MIT */
/*
 * What the cuda table promises beyond the bounds of test_kernels.c: gradients of the losses and
 * optimizers have the bits of the cpu table. The losses themselves are sums in double in another
 * order: 1e-13 of them.
 *
 * And what TF32 is off by: 2^-9 sum |terms|, as each factor is off by 2^-11 of itself.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

static ls_kernels *open_cpu(fixture *f)
{
    ls_kernels *cpu;
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &cpu));
    return cpu;
}

/* `scale`: of a step, and some rows have no label; or NULL. */
static void check_softmax_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t classes,
                               const double *scale)
{
    const int64_t count = rows * classes;
    float *z = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 3);
    int32_t *labels = calloc((size_t)rows + 1, sizeof *labels);
    double loss[2];
    ls_op *op;
    for (int64_t i = 0; i < count; i++)
        z[i] *= 20;
    for (int64_t i = 0; i < rows; i++)
        labels[i] = scale && i % 4 == 1 ? -1 : (int32_t)(i * 7 % classes);
    ls_softmax_cross_entropy_args args = {rows, classes, z, labels, 1.0 / 77, scale, got, &loss[0]};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    must(
        ls_queue_enqueue(f->queue, op)); /* a second time: what it leaves behind is what it found */
    run(f, op);
    args.dlogits = want, args.loss = &loss[1];
    apply_softmax_cross_entropy(f, cpu, &args);
    same_bits("dlogits", got, want, (size_t)count * sizeof *got);
    assert_true(fabs(loss[0] - loss[1]) <= 1e-13 * fabs(loss[1]));
    free(z), free(got), free(want), free(labels);
}

static void test_softmax_bits(void **state)
{
    static const int64_t classes[] = {1, 2, 10, 31, 32, 33, 100, 1000};
    static const int64_t rows[] = {1, 2, 15, 17, 64, 65, 300, 1025};
    static const double scale = 1.0 / 55;
    ls_kernels *cpu = open_cpu(*state);
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            check_softmax_bits(*state, cpu, rows[r], classes[c], r % 2 ? &scale : NULL);
    /* Rows that begin at each place in 16 bytes; the widest is more than a block keeps. */
    check_softmax_bits(*state, cpu, 5, 4097, NULL);
    check_softmax_bits(*state, cpu, 5, 4097, &scale);
    check_softmax_bits(*state, cpu, 3, 36871, NULL);
    cpu->table->close(cpu);
}

static void test_squared_error_bits(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f);
    static const int64_t rows[] = {1, 17, 256, 70001};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float *y = randoms(rows[i], 1), *t = randoms(rows[i], 2), *got = randoms(rows[i], 3);
        float *want = randoms(rows[i], 4);
        double loss[2];
        ls_op *op;
        ls_squared_error_args args = {rows[i], 1, y, t, 1.0 / 77, got, &loss[0]};
        must(f->cpu->table->squared_error(f->cpu, &args, &op));
        must(ls_queue_enqueue(f->queue, op));
        run(f, op);
        args.dy = want, args.loss = &loss[1];
        apply_squared_error(f, cpu, &args);
        same_bits("dy", got, want, (size_t)rows[i] * sizeof *got);
        assert_true(fabs(loss[0] - loss[1]) <= 1e-13 * loss[1]);
        free(y), free(t), free(got), free(want);
    }
    cpu->table->close(cpu);
}

/* Ranges that begin and end anywhere, at any alignment, three steps on. Some gradients are so small
 * that their squares are denormal: flushed on CPU devices, and so here. */
static void check_optimizer_bits(fixture *f, ls_kernels *cpu, int kind, int64_t first,
                                 int64_t count, int64_t shift)
{
    enum { ALL = 1100 };
    ls_kernels *const both[] = {f->cpu, cpu};
    float *data[2][4];
    for (int k = 0; k < 2; k++) {
        ls_step_state at = {.step = 41, .learning_rate = 0.01};
        for (int j = 0; j < 4; j++) {
            data[k][j] = randoms(ALL, (uint32_t)j);
            for (int i = 0; i < ALL && j == 3 - (kind == LS_OPTIMIZER_RMSPROP); i++)
                data[k][j][i] = fabsf(data[k][j][i]);
        }
        for (int i = 0; i < ALL; i += 3)
            data[k][1][i] *= 1e-20f;
        /* The elements are shifted in the cuda table's arrays, except the gradient. */
        const int64_t move = k ? 0 : shift;
        for (int j = 0; j < 4 && move; j++)
            if (j != 1)
                memmove(data[k][j] + move, data[k][j], (ALL - 8) * sizeof(float));
        ls_optimizer_args args = {.kind = (ls_optimizer_kind)kind, .count = count, .state = &at};
        args.weight = data[k][0] + first + move, args.gradient = data[k][1] + first;
        args.slot[0] = data[k][2] + first + move, args.slot[1] = data[k][3] + first + move;
        args.mu = 0.9, args.beta1 = 0.9, args.beta2 = 0.999, args.rho = 0.9, args.epsilon = 1e-7;
        ls_op *op;
        must(both[k]->table->optimizer(both[k], &args, &op));
        for (int i = 0; i < 3; i++, at.step++)
            must(ls_queue_enqueue(f->queue, op)), must(ls_queue_sync(f->queue));
        ls_op_free(op);
    }
    for (int j = 0; j < 4; j++) {
        same_bits("optimizer", data[0][j] + (j == 1 ? 0 : shift), data[1][j],
                  (ALL - 8) * sizeof(float));
        free(data[0][j]), free(data[1][j]);
    }
}

static void test_optimizer_bits(void **state)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 100, 1001};
    ls_kernels *cpu = open_cpu(*state);
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int64_t first = 0; first < 5; first++)
                for (int64_t shift = 0; shift < 4; shift++)
                    check_optimizer_bits(*state, cpu, kind, first, counts[c], shift);
    cpu->table->close(cpu);
}

/* Sums of squares have the bits of the cpu table, as has the gradient with weight decay. */
static void test_square_bits(void **state)
{
    static const ls_update_range ranges[] = {{0, 3, 0, 0, false},
                                             {3, 4000, 0.25, 0, true},
                                             {4003, 9, 0, 0.9, false},
                                             {4012, 1024, 0, 0, false}};
    enum { ALL = 5036, BLOCKS = 1 + 4 + 1 + 1 };
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f), *const both[] = {f->cpu, cpu};
    float *w = randoms(ALL, 1), *g[2];
    double sums[2][BLOCKS];
    for (int k = 0; k < 2; k++) {
        g[k] = randoms(ALL, 2);
        apply_square_sums(f, both[k], &(ls_square_sums_args){ALL, g[k], w, ranges, 4, sums[k]});
    }
    same_bits("sums", sums[0], sums[1], sizeof sums[0]);
    same_bits("gradient", g[0], g[1], ALL * sizeof(float));
    free(w), free(g[0]), free(g[1]);
    cpu->table->close(cpu);
}

/* ---- TF32 ----------------------------------------------------------------------------------- */

/* A square product by the fixture's table, with the arithmetic of `kernels`. */
static void multiply(fixture *f, ls_kernels *kernels, ls_math math, const float *a, const float *b,
                     int64_t n, float *c)
{
    ls_op *op;
    kernels->math = math;
    const ls_gemm_args args = {.m = n, .n = n, .k = n, .a = a, .b = b, .c = c};
    must(f->cpu->table->gemm(f->cpu, &args, &op));
    kernels->math = LS_MATH_FLOAT32;
    run(f, op);
}

/* Within the bound. Returns how many of the elements are float32's: all of them if the library has
 * chosen an algorithm without tensor cores, as it may for matrices that begin anywhere. */
static int64_t check_tf32(fixture *f, ls_kernels *kernels, int64_t n)
{
    const int64_t count = n * n;
    float *a = randoms(count, 1), *b = randoms(count, 2), *full = randoms(count, 3);
    float *a1 = absolutes(a, count), *b1 = absolutes(b, count), *limit = randoms(count, 4);
    float *rounded = randoms(count, 5);
    int64_t same = 0;
    multiply(f, kernels, LS_MATH_FLOAT32, a, b, n, full);
    multiply(f, kernels, LS_MATH_FLOAT32, a1, b1, n, limit);
    multiply(f, kernels, LS_MATH_TF32, a, b, n, rounded);
    compare("tf32", rounded, full, limit, 0x1p-9, count);
    for (int64_t i = 0; i < count; i++)
        same += rounded[i] == full[i];
    print_message("tf32: %lld of %lld elements are float32's\n", (long long)same, (long long)count);
    free(a), free(b), free(a1), free(b1), free(full), free(limit), free(rounded);
    return same;
}
