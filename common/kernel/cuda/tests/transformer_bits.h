/* SPDX-License-Identifier: MIT */
/*
 * What the cuda table guarantees for transformers beyond the bounds of test_transformer_kernels.c:
 * all but attention has the bits of the cpu table, where one row stands for many and where many
 * tokens have no row; attention of a sample and head does not depend on the others.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

/* Compares `count` floats of both tables, and the one behind them, and frees them. */
static void same_floats(const char *what, float *got[2], int64_t count)
{
    same_bits(what, got[0], got[1], (size_t)(count + 1) * sizeof **got);
    free(got[0]), free(got[1]);
}

static void check_token_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t tokens, int64_t C)
{
    ls_kernels *const both[] = {f->cpu, cpu};
    float *x = token_rows(rows, tokens), *weight = randoms(tokens * C, 1);
    float *dy = randoms(rows * C, 4), *y[2], *dweight[2];
    for (int64_t r = 0; r < rows; r += 3)
        x[r] = (float)(tokens - 1); /* one with many rows */
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(rows * C, 2), dweight[k] = randoms(tokens * C, 3);
        apply_embedding_forward(
            f, both[k], &(ls_embedding_forward_args){rows, tokens, C, x, weight, y[k], 0, 0});
        ls_embedding_backward_args args = {rows, tokens, C, x, dy, dweight[k], 0};
        apply_embedding_backward(f, both[k], &args);
    }
    same_floats("embedding", y, rows * C);
    same_floats("embedding's gradient", dweight, tokens * C);
    free(x), free(weight), free(dy);
}

/* `scale`: of a step, and some rows have no label; or NULL. */
static void check_slice_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t C, int64_t slices,
                             const double *scale)
{
    ls_kernels *const both[] = {f->cpu, cpu};
    const int64_t shape[] = {rows, C, slices};
    float *z, *dz[2];
    int32_t *labels;
    double loss[2];
    sliced s[2];
    make_logits(shape, 20, &z, &labels);
    for (int64_t r = 1; scale && r < rows; r += 4)
        labels[r] = -1;
    for (int k = 0; k < 2; k++) {
        dz[k] = randoms(rows * C, 9);
        open_sliced(&s[k], shape, z, labels);
        s[k].scale_at = scale;
        make_parts(f, both[k], &s[k], false, true);
        loss[k] = make_whole(f, both[k], &s[k], 1.0 / 77, dz[k]);
    }
    same_bits("parts", s[0].parts, s[1].parts, (size_t)(3 * rows * slices) * sizeof *z);
    same_floats("gradient", dz, rows * C);
    assert_true(fabs(loss[0] - loss[1]) <= 1e-13 * fabs(loss[1]));
    close_sliced(&s[0]), close_sliced(&s[1]), free(z), free(labels);
}

static void check_position_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t count)
{
    ls_kernels *const both[] = {f->cpu, cpu};
    float *x = randoms(rows * count, 1), *weight = randoms(count, 2), *y[2], *dweight[2];
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(rows * count, 3), dweight[k] = randoms(count, 4);
        apply_positions_forward(f, both[k],
                                &(ls_positions_forward_args){rows, count, x, weight, y[k]});
        apply_positions_backward(f, both[k],
                                 &(ls_positions_backward_args){rows, count, x, dweight[k]});
    }
    same_floats("positions", y, rows * count);
    same_floats("positions' gradient", dweight, count);
    free(x), free(weight);
}

/* dx is overwritten, added to, and added to by what is rounded. */
static void check_norm_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t C)
{
    enum { WAYS = 3 };
    ls_kernels *const both[] = {f->cpu, cpu};
    float *x = randoms(rows * C, 1), *weight = randoms(C, 2), *bias = randoms(C, 3);
    float *dy = randoms(rows * C, 4), *y[2], *moments[2], *dx[2], *dweight[2], *dbias[2];
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(rows * C, 5), moments[k] = randoms(2 * rows, 6);
        dx[k] = randoms(WAYS * rows * C, 5), dweight[k] = randoms(C, 7), dbias[k] = randoms(C, 8);
        apply_layer_norm_forward(
            f, both[k],
            &(ls_layer_norm_forward_args){rows, C, 1e-5, x, weight, bias, y[k], moments[k]});
        for (int way = 0; way < WAYS; way++)
            apply_layer_norm_backward(
                f, both[k],
                &(ls_layer_norm_backward_args){rows, C, x, weight, moments[k], dy,
                                               dx[k] + way * rows * C, dweight[k], dbias[k],
                                               .adds = way > 0, .rounds = way > 1});
    }
    same_floats("layer_norm", y, rows * C);
    same_floats("moments", moments, 2 * rows);
    same_floats("dx", dx, WAYS * rows * C);
    same_floats("dweight", dweight, C);
    same_floats("dbias", dbias, C);
    free(x), free(weight), free(bias), free(dy);
}

static void check_gelu_bits(fixture *f, ls_kernels *cpu, int64_t count)
{
    ls_kernels *const both[] = {f->cpu, cpu};
    float *x = randoms(count, 1), *dy = randoms(count, 2), *y[2], *dx[2];
    for (int64_t i = 0; i < count; i++)
        x[i] *= i % 7 ? 6 : 100;
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(count, 3), dx[k] = randoms(count, 4);
        apply_gelu_forward(f, both[k], &(ls_gelu_forward_args){count, x, y[k]});
        apply_gelu_backward(f, both[k], &(ls_gelu_backward_args){count, x, dy, dx[k]});
    }
    same_floats("gelu", y, count);
    same_floats("gelu's gradient", dx, count);
    free(x), free(dy);
}

/* `begin`: elements of the sample before those that are here, and behind them. */
static void check_dropout_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t width,
                               int64_t begin)
{
    ls_kernels *const both[] = {f->cpu, cpu};
    const int64_t count = rows * width;
    const ls_step_state at = {.position = (uint64_t)rows * 1000003};
    float *x = randoms(count, 1), *y[2];
    uint64_t first[2];
    for (int k = 0; k < 2; k++) {
        y[k] = randoms(count, 3);
        apply_set_first(f, both[k], &(ls_set_first_args){&at, 5, &first[k]});
        apply_dropout(f, both[k],
                      &(ls_dropout_args){rows, width, width + 2 * begin, begin,
                                         ls_random_stream(3, "dropout/drop"), &first[k], 1u << 29,
                                         8.0f / 7, x, y[k]});
    }
    same_floats("dropout", y, count);
    free(x);
}

static void check_targets_bits(fixture *f, ls_kernels *cpu)
{
    enum { SAMPLES = 45, ROWS = 300, T = 9 };
    ls_kernels *const both[] = {f->cpu, cpu};
    const ls_step_state at = {.position = 1000003};
    int32_t labels[2][ROWS * T] = {0};
    double scale[2];
    for (int k = 0; k < 4; k++) {
        const ls_set_targets_args args = {{SAMPLES, 1, k > 1},
                                          &at,
                                          ls_random_stream(0, "lengths"),
                                          2 * T,
                                          1,
                                          2 * ROWS,
                                          5,
                                          ROWS,
                                          T,
                                          k > 1 ? T : 0,
                                          labels[k % 2],
                                          &scale[k % 2]};
        apply_set_targets(f, both[k % 2], &args);
        if (k % 2)
            same_bits("labels", labels[0], labels[1], sizeof labels[0]);
        if (k % 2)
            same_bits("scale", &scale[0], &scale[1], sizeof scale[0]);
    }
}

static void test_transformer_bits(void **state)
{
    static const double scale = 1.0 / 55;
    fixture *f = *state;
    ls_kernels *cpu;
    static const int64_t sizes[][3] = {{1, 1, 1}, {31, 3, 15}, {33, 300, 16}, {300, 40, 33}};
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &cpu));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_token_bits(f, cpu, sizes[i][0], sizes[i][1], sizes[i][2]);
        check_position_bits(f, cpu, sizes[i][0], sizes[i][2]);
        check_norm_bits(f, cpu, sizes[i][0], sizes[i][2]);
        check_gelu_bits(f, cpu, sizes[i][0] * sizes[i][2]);
        check_dropout_bits(f, cpu, sizes[i][0], sizes[i][2], 0);
        check_dropout_bits(f, cpu, sizes[i][0], sizes[i][2], 5);
    }
    check_targets_bits(f, cpu);
    for (int i = 1; i < SLICE_SHAPES; i++)
        for (int ragged = 0; ragged < 2; ragged++)
            check_slice_bits(f, cpu, slice_shapes[i][0], slice_shapes[i][1], slice_shapes[i][2],
                             ragged ? &scale : NULL);
    /* So many tokens that a warp has all of a token's channels; rows of so many channels that not
     * all stay in registers; so many rows that they are not all loaded at once. */
    check_token_bits(f, cpu, 37, 8200, 132);
    check_token_bits(f, cpu, 2100, 5, 4);
    check_norm_bits(f, cpu, 3, 805);
    check_norm_bits(f, cpu, 900, 20);
    cpu->table->close(cpu);
}

/* The last of `samples` samples of two heads: [T,4C], y and dqkv; the caller frees it. */
static float *attend_last(fixture *f, int64_t samples)
{
    enum { T = 67, C = 10, ROW = T * C };
    const ls_attention_shape s = {samples, T, 2, C};
    const int64_t count = samples * ROW;
    float *qkv = randoms(3 * count, 1), *dy = randoms(count, 2), *y = randoms(count, 3);
    float *sums = randoms(samples * 2 * T, 4), *dqkv = randoms(3 * count, 5);
    float *last = malloc(4 * ROW * sizeof *last);
    for (int64_t i = 0; i < 3 * ROW; i++)
        qkv[3 * (count - ROW) + i] = (float)(i % 89) / 40 - 1;
    for (int64_t i = 0; i < ROW; i++)
        dy[count - ROW + i] = (float)(i % 71) / 35 - 1;
    apply_attention_forward(f, f->cpu, &(ls_attention_forward_args){s, qkv, y, sums, false});
    apply_attention_backward(f, f->cpu,
                             &(ls_attention_backward_args){s, qkv, y, dy, sums, dqkv, false});
    memcpy(last, y + count - ROW, ROW * sizeof *last);
    memcpy(last + ROW, dqkv + 3 * (count - ROW), 3 * ROW * sizeof *last);
    free(qkv), free(dy), free(y), free(sums), free(dqkv);
    return last;
}

static void test_attention_apart(void **state)
{
    float *alone = attend_last(*state, 1), *among = attend_last(*state, 3);
    same_bits("a sample among others", among, alone, 4 * 670 * sizeof *alone);
    free(alone), free(among);
}

#define TRANSFORMER_BITS_TESTS                                                                     \
    cmocka_unit_test(test_transformer_bits), cmocka_unit_test(test_attention_apart)
