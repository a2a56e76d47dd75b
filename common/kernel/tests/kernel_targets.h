/* SPDX-License-Identifier: MIT */
/* Ragged lengths: tests of set_targets, and of a loss without all its labels; part of
 * test_kernels.c. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

/* Labels behind a sample's length go; the scale is that of a whole batch, over epochs' ends. */
static void test_set_targets(void **state)
{
    enum { SAMPLES = 7, ROWS = 3, T = 9, BATCH = 300 };
    fixture *f = *state;
    const ls_step_state at = {.position = 5};
    const ls_random random = ls_random_stream(0, "lengths");
    ls_kernels *const both[] = {f->cpu, f->reference};
    for (int k = 0; k < 4; k++) {
        const int64_t begin = k < 2 ? 0 : 4, width = k < 2 ? T : 3;
        int32_t labels[ROWS * T] = {0};
        double scale, targets = 0;
        const ls_set_targets_args args = {
            {SAMPLES, 1, false}, &at, random, T, 1, BATCH, 2, ROWS, width, begin, labels, &scale};
        apply_set_targets(f, both[k % 2], &args);
        for (uint64_t i = 0; i < BATCH; i++)
            targets += 2 + ls_random_bits(random, (5 + 1 + i) % SAMPLES) % (T - 2 + 1);
        assert_true(scale == 1 / targets);
        for (int r = 0; r < ROWS; r++)
            for (int64_t t = 0; t < width; t++) {
                const int64_t count =
                    2 + ls_random_bits(random, (uint64_t)(5 + 2 + r) % SAMPLES) % (T - 2 + 1);
                assert_int_equal(labels[r * width + t], begin + t < count ? 0 : -1);
            }
    }
}

/* A row without a target changes nothing, and its gradient is 0: of few classes, and of many. */
static void test_softmax_ragged(void **state)
{
    enum { ROWS = 21 };
    fixture *f = *state;
    const double scale = 0.125;
    for (int k = 0; k < 4; k++) {
        ls_kernels *kernels = k % 2 ? f->cpu : f->reference;
        const int64_t classes = k < 2 ? 10 : 70;
        float *logits = randoms(ROWS * classes, 1), *all = randoms(ROWS * classes, 1);
        float *some = randoms(ROWS * classes, 1);
        int32_t labels[ROWS], kept = 0;
        double loss[2];
        for (int32_t r = 0; r < ROWS; r++)
            labels[r] = r % 3 == 1 ? -1 : r % 10;
        ls_softmax_cross_entropy_args args = {.rows = ROWS,
                                              .classes = classes,
                                              .logits = logits,
                                              .labels = labels,
                                              .scale = 5,
                                              .scale_at = &scale,
                                              .dlogits = all,
                                              .loss = &loss[0]};
        apply_softmax_cross_entropy(f, kernels, &args);
        float *packed = randoms(ROWS * classes, 1);
        int32_t left[ROWS];
        for (int32_t r = 0; r < ROWS; r++)
            if (labels[r] >= 0) {
                memcpy(packed + kept * classes, logits + r * classes,
                       (size_t)classes * sizeof *packed);
                left[kept++] = labels[r];
            }
        args = (ls_softmax_cross_entropy_args){.rows = kept,
                                               .classes = classes,
                                               .logits = packed,
                                               .labels = left,
                                               .scale = scale,
                                               .dlogits = some,
                                               .loss = &loss[1]};
        apply_softmax_cross_entropy(f, kernels, &args);
        assert_true(fabs(loss[0] - loss[1]) <=
                    1e-14 * loss[1]); /* a table may sum rows in a tree */
        for (int32_t r = 0, at = 0; r < ROWS; r++)
            for (int64_t c = 0, here = labels[r] < 0 ? 0 : at++ * classes; c < classes; c++)
                assert_true(all[r * classes + c] == (labels[r] < 0 ? 0 : some[here + c]));
        free(logits), free(all), free(some), free(packed);
    }
}
