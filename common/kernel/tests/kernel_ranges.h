/* SPDX-License-Identifier: MIT */
/* Part of test_kernels.c: updates and sums of squares over tables of ranges, and the norm. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

/* A pass over ranges is that over each: of what decays, when it has; of moving statistics the
 * moving average of gradients. Ranges begin and end anywhere. */
static void check_ranges(fixture *f, ls_optimizer_kind kind, const ls_update_range *ranges,
                         int64_t range_count, int64_t shift)
{
    const int64_t all = ranges[range_count - 1].first + ranges[range_count - 1].count;
    ls_step_state at = {.step = 3, .learning_rate = 0.01};
    float *data[2][4];
    for (int j = 0; j < 8; j++) {
        float *values = data[j / 4][j % 4] = randoms(all + shift, (uint32_t)j % 4);
        for (int64_t i = 0; i < all + shift; i++)
            values[i] = fabsf(values[i]);
    }
    ls_optimizer_args args = {.kind = kind, .count = all, .mu = 0.9, .beta1 = 0.9, .beta2 = 0.99};
    args.decay = 0.1;
    args.weight = data[0][0], args.gradient = data[0][1] + shift, args.slot[0] = data[0][2];
    args.slot[1] = data[0][3], args.rho = 0.9, args.epsilon = 1e-7, args.state = &at;
    args.ranges = ranges, args.range_count = range_count;
    ls_op *op;
    apply_optimizer(f, f->cpu, &args);
    for (int64_t r = 0; r < range_count; r++) {
        float *w = data[1][0] + ranges[r].first, *g = data[1][1] + shift + ranges[r].first;
        for (int64_t i = 0; i < ranges[r].count && ranges[r].decay != 0; i++)
            g[i] += (float)ranges[r].decay * w[i];
        const ls_update_range own = {0, ranges[r].count, 0, 0, true};
        args.ranges = &own, args.range_count = ranges[r].shrinks;
        args.count = ranges[r].count, args.weight = w, args.gradient = g;
        for (int j = 0; j < 2; j++)
            args.slot[j] = data[1][2 + j] + ranges[r].first;
        const ls_moving_average_args average = {ranges[r].count, ranges[r].keep, NULL, g, w};
        must(ranges[r].keep != 0 ? f->cpu->table->moving_average(f->cpu, &average, &op)
                                 : f->cpu->table->optimizer(f->cpu, &args, &op));
        run(f, op);
    }
    for (int j = 0; j < 4; j++) {
        same_bits("ranges", data[0][j], data[1][j], (size_t)(all + shift + 1) * sizeof(float));
        free(data[0][j]), free(data[1][j]);
    }
}

static void test_ranges(void **state)
{
    static const ls_update_range few[] = {
        {0, 0, 0.5, 0, false}, {0, 7, 0.25, 0, true}, {7, 2, 0, 0.9, false}};
    static const ls_update_range one[] = {{0, 1001, 0.25, 0, false}};
    static const ls_update_range many[] = {{0, 3, 0, 0.75, false},   {3, 9000, 0.25, 0, false},
                                           {9003, 1, 0, 0, true},    {9004, 6, 0, 0.5, false},
                                           {9010, 0, 0, 0, false},   {9010, 77, 0, 0, true},
                                           {9087, 9, 0.125, 0, true}};
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++) {
        check_ranges(*state, (ls_optimizer_kind)kind, few, 3, kind & 1);
        check_ranges(*state, (ls_optimizer_kind)kind, one, 1, 0);
        check_ranges(*state, (ls_optimizer_kind)kind, many, 7, 0);
    }
}

/* Sums of blocks: of each range by itself, with the bits that the range has alone, whatever is
 * beside it; 0 of moving statistics; weight decay is in the gradient, as the optimizer adds it. */
static void test_square_sums(void **state)
{
    static const ls_update_range ranges[] = {{0, 3, 0, 0, false},
                                             {3, 5000, 0.25, 0, true},
                                             {5003, 1024, 0, 0.9, false},
                                             {6027, 0, 0, 0, false},
                                             {6027, 2049, 0, 0, false}};
    enum { RANGES = 5, ALL = 8076, BLOCKS = 1 + 5 + 1 + 0 + 3 };
    fixture *f = *state;
    ls_kernels *tables[2] = {f->cpu, f->reference};
    float *w = randoms(ALL, 1), *g[2];
    double sums[2][BLOCKS + 1] = {{0}}, alone[5];
    for (int k = 0; k < 2; k++) {
        g[k] = randoms(ALL, 2);
        sums[k][BLOCKS] = -7;
        apply_square_sums(f, tables[k],
                          &(ls_square_sums_args){ALL, g[k], w, ranges, RANGES, sums[k]});
        assert_true(sums[k][BLOCKS] == -7 && sums[k][6] == 0);
    }
    compare("gradient", g[0], g[1], NULL, 2 * U, ALL);
    for (int b = 0; b < BLOCKS; b++)
        assert_true(fabs(sums[0][b] - sums[1][b]) <= 4 * U * sums[1][b]);
    const ls_update_range part = {0, ranges[4].count, 0, 0, false};
    apply_square_sums(
        f, f->cpu,
        &(ls_square_sums_args){part.count, g[0] + ranges[4].first, NULL, &part, 1, alone});
    same_bits("alone", alone, sums[0] + 7, 3 * sizeof *alone);
    free(w), free(g[0]), free(g[1]);
}

/* sum(lo, hi) of kernel.h. */
static double tree_sum(const double *sums, int64_t lo, int64_t hi)
{
    int64_t half = 1;
    while (2 * half < hi - lo)
        half *= 2;
    return hi - lo == 1 ? sums[lo] : tree_sum(sums, lo, lo + half) + tree_sum(sums, lo + half, hi);
}

static void test_clip_factor(void **state)
{
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 65, 4097};
    fixture *f = *state;
    double sums[4097];
    ls_clip clip;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int64_t i = 0; i < counts[c]; i++)
            sums[i] = 1.0 / (double)(i % 101 + 3);
        const double norm = counts[c] ? sqrt(tree_sum(sums, 0, counts[c])) : 0;
        apply_clip_factor(f, f->cpu, &(ls_clip_factor_args){counts[c], sums, 0.75, &clip});
        assert_true(clip.norm == norm);
        assert_true(clip.factor == (norm > 0.75 ? 0.75 / (norm + 1e-6) : 1));
    }
    sums[0] = NAN;
    apply_clip_factor(f, f->cpu, &(ls_clip_factor_args){1, sums, 1, &clip});
    assert_true(isnan(clip.norm) && isnan(clip.factor));
}
