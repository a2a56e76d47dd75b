/* SPDX-License-Identifier: MIT */
/*
 * What the cuda table guarantees for residual networks beyond the tolerances of
 * test_residual_kernels.c: batch normalisation, forward and backward, has the bits of the cpu table
 * if sums are the same; sums over more pixels than one run are within 1e-13, with the same bits at
 * any alignment.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

static void check_bn_bits(fixture *f, ls_kernels *cpu, int64_t pixels, int64_t channels)
{
    const int64_t count = pixels * channels, C = channels;
    const int64_t shape[2] = {pixels, channels};
    ls_kernels *const both[] = {f->cpu, cpu};
    bn_data d = bn_numbers(f, shape);
    float *y[2], *dx[2];
    double *sums[2], *most = doubles(2 * C, 0);
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(count, 7), dx[k] = randoms(count, 7), sums[k] = doubles(2 * C, 0);
        apply_bn_sums(f, both[k], &(ls_bn_sums_args){pixels, C, d.x, sums[k], NULL, 0});
        apply_bn_forward(f, both[k],
                         &(ls_bn_forward_args){pixels, C, d.x, d.moments, d.weight, d.bias, d.z,
                                               y[k], LS_ACTIVATION_RELU});
        apply_bn_backward(f, both[k],
                          &(ls_bn_backward_args){pixels, C, pixels, d.x, d.moments, d.weight,
                                                 d.bias, LS_ACTIVATION_RELU, d.sums, d.dy, dx[k]});
    }
    for (int64_t i = 0; i < count; i++) {
        most[i % C] += fabs((double)d.x[i]);
        most[C + i % C] += (double)d.x[i] * (double)d.x[i];
    }
    compare_sums("bn_sums", sums[0], sums[1], most, 1e-13, 2 * C);
    same_bits("bn_forward", y[0], y[1], (size_t)count * sizeof **y);
    same_bits("bn_backward", dx[0], dx[1], (size_t)count * sizeof **dx);
    for (int k = 0; k < 2; k++)
        free(y[k]), free(dx[k]), free(sums[k]);
    free(most);
    bn_free(d);
}

static void test_bn_bits(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu;
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &cpu));
    static const int64_t sizes[][2] = {{1, 1},     {1537, 1}, {2300, 3},  {1100, 16},
                                       {1600, 40}, {1300, 8}, {33000, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_bn_bits(f, cpu, sizes[i][0], sizes[i][1]);
    cpu->table->close(cpu);
}

/* Images that begin on 16 bytes, and four bytes further on. */
static void test_bn_alignment(void **state)
{
    enum { PIXELS = 1100, C = 24, COUNT = PIXELS * C };
    fixture *f = *state;
    const int64_t shape[2] = {PIXELS, C};
    bn_data d = bn_numbers(f, shape);
    float *x[2] = {d.x, randoms(COUNT + 1, 1)}, *y[2] = {randoms(COUNT, 2), randoms(COUNT + 1, 2)};
    double *sums[2] = {doubles(2 * C, 0), doubles(2 * C, 0)};
    memcpy(++x[1], d.x, COUNT * sizeof *d.x);
    y[1]++;
    for (int k = 0; k < 2; k++) {
        apply_bn_sums(f, f->cpu, &(ls_bn_sums_args){PIXELS, C, x[k], sums[k], NULL, 0});
        apply_bn_forward(f, f->cpu,
                         &(ls_bn_forward_args){PIXELS, C, x[k], d.moments, d.weight, d.bias, NULL,
                                               y[k], LS_ACTIVATION_NONE});
    }
    same_bits("bn_sums", sums[0], sums[1], 2 * C * sizeof **sums);
    same_bits("bn_forward", y[0], y[1], COUNT * sizeof **y);
    free(x[1] - 1), free(y[0]), free(y[1] - 1), free(sums[0]), free(sums[1]);
    bn_free(d);
}

#define RESIDUAL_BITS_TESTS cmocka_unit_test(test_bn_bits), cmocka_unit_test(test_bn_alignment)
