/* SPDX-License-Identifier: MIT */
/* Part of test_kernels.c: updates over tables of ranges. */
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
