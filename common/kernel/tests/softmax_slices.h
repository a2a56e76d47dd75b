/* SPDX-License-Identifier: MIT */
/*
 * Softmax cross-entropy in slices of the classes: tests of its entries against the reference, and
 * against whole rows; part of test_transformer_kernels.c. Bounds, u = 2^-24:
 *
 *     softmax_part    the same bits; sums and terms: (32 + classes / 16) u, as of whole rows
 *     softmax_whole   2 u more for each slice
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

#define U 0x1p-24

/* rows, classes, slices */
static const int64_t slice_shapes[][3] = {{0, 5, 2},    {1, 1, 1},    {3, 7, 7},    {17, 33, 3},
                                          {64, 256, 4}, {5, 1000, 5}, {70, 96, 64}, {9, 130, 1}};
enum { SLICE_SHAPES = sizeof slice_shapes / sizeof *slice_shapes };

/* Logits of all classes [rows,classes] in slices, one after the other, and what is made of them. */
typedef struct sliced {
    int64_t rows, classes, slices;
    const float *whole;
    const int32_t *labels;
    float *logits, *terms, *parts; /* parts: [slices,rows,3] */
    const double *scale_at;        /* labels may be -1; or NULL */
} sliced;

static int64_t slice_begin(const sliced *s, int64_t slice)
{
    return slice * s->classes / s->slices;
}

static void open_sliced(sliced *s, const int64_t *shape, const float *whole, const int32_t *labels)
{
    *s = (sliced){.rows = shape[0],
                  .classes = shape[1],
                  .slices = shape[2],
                  .whole = whole,
                  .labels = labels};
    s->logits = randoms(s->rows * s->classes, 5);
    s->terms = randoms(s->rows * s->classes, 6);
    s->parts = randoms(s->slices * s->rows * 3, 7);
    for (int64_t i = 0; i < s->slices; i++) {
        const int64_t begin = slice_begin(s, i), count = slice_begin(s, i + 1) - begin;
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(s->logits + s->rows * begin + r * count, whole + r * s->classes + begin,
                   (size_t)count * sizeof *whole);
    }
}

static void close_sliced(sliced *s)
{
    free(s->logits), free(s->terms), free(s->parts);
}

static void make_parts(fixture *f, ls_kernels *table, const sliced *s, bool largest, bool terms)
{
    for (int64_t i = 0; i < s->slices; i++) {
        const int64_t begin = slice_begin(s, i), count = slice_begin(s, i + 1) - begin;
        apply_softmax_part(f, table,
                           &(ls_softmax_part_args){s->rows, count, begin, s->classes,
                                                   s->logits + s->rows * begin, s->labels,
                                                   s->scale_at, largest,
                                                   terms ? s->terms + s->rows * begin : NULL,
                                                   s->parts + i * s->rows * 3});
    }
}

/* The terms become gradients, which are put together in `whole`. */
static double make_whole(fixture *f, ls_kernels *table, const sliced *s, double scale, float *whole)
{
    double loss = 0, none = 7;
    for (int64_t i = 0; i < s->slices; i++) {
        const int64_t begin = slice_begin(s, i), count = slice_begin(s, i + 1) - begin;
        float *dz = s->terms + s->rows * begin;
        apply_softmax_whole(f, table,
                            &(ls_softmax_whole_args){s->rows, s->slices, s->parts, scale,
                                                     s->scale_at, i ? NULL : &loss, i, count, begin,
                                                     s->labels, dz});
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(whole + r * s->classes + begin, dz + r * count, (size_t)count * sizeof *dz);
    }
    apply_softmax_whole(f, table, /* without a gradient */
                        &(ls_softmax_whole_args){s->rows, s->slices, s->parts, scale, s->scale_at,
                                                 &none, 0, 1, 0, s->labels, NULL});
    assert_true(none == loss);
    return loss;
}

/* Logits of a shape, and labels, of which the first ones go through all classes. */
static void make_logits(const int64_t *shape, float range, float **z, int32_t **labels)
{
    *z = randoms(shape[0] * shape[1], 1);
    *labels = calloc((size_t)shape[0] + 1, sizeof **labels);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        (*z)[i] *= range;
    for (int64_t r = 0; r < shape[0]; r++)
        (*labels)[r] = (int32_t)((r * 37 + shape[1] - 1) % shape[1]);
}

static void test_softmax_part(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * SLICE_SHAPES; i++) {
        float *z;
        int32_t *labels;
        sliced got, want;
        make_logits(slice_shapes[i / 2], i % 2 ? 3 : 60, &z, &labels);
        open_sliced(&got, slice_shapes[i / 2], z, labels);
        open_sliced(&want, slice_shapes[i / 2], z, labels);
        const int64_t count = got.rows * got.classes, parts = got.slices * got.rows;
        make_parts(f, f->cpu, &got, false, i % 3);
        make_parts(f, f->reference, &want, false, i % 3);
        const double bound = (32 + (double)got.classes / 16) * U;
        compare("terms", got.terms, want.terms, NULL, bound, count);
        for (int64_t p = 0; p < parts; p++) {
            same_bits("largest", &got.parts[3 * p], &want.parts[3 * p], sizeof(float));
            same_bits("label's", &got.parts[3 * p + 2], &want.parts[3 * p + 2], sizeof(float));
            assert_true(fabs((double)got.parts[3 * p + 1] - (double)want.parts[3 * p + 1]) <=
                        bound * (double)want.parts[3 * p + 1]);
        }
        same_bits("behind", got.parts + 3 * parts, want.parts + 3 * parts, sizeof(float));
        make_parts(f, f->cpu, &got, true, false);
        make_parts(f, f->reference, &want, true, false);
        same_bits("largest", got.parts, want.parts, (size_t)(3 * parts) * sizeof(float));
        close_sliced(&got), close_sliced(&want), free(z), free(labels);
    }
}

/* Slices have the loss and the gradient of the whole. */
static void test_softmax_whole(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * SLICE_SHAPES; i++) {
        const int64_t *shape = slice_shapes[i / 2], count = shape[0] * shape[1];
        const double scale = 1.0 / 77, range = i % 2 ? 3 : 60;
        const double terms = 32 + (double)(shape[1] / 16 + 2 * shape[2]);
        float *z, *got = randoms(count, 2), *want = randoms(count, 3);
        int32_t *labels;
        double loss[2] = {0};
        sliced s;
        make_logits(shape, (float)range, &z, &labels);
        open_sliced(&s, shape, z, labels);
        s.scale_at = i % 2 ? &scale : NULL;
        for (int64_t r = 1; s.scale_at && r < shape[0]; r += 4)
            labels[r] = -1;
        make_parts(f, f->cpu, &s, false, true);
        loss[0] = make_whole(f, f->cpu, &s, scale, got);
        apply_softmax_cross_entropy(f, f->reference,
                                    &(ls_softmax_cross_entropy_args){shape[0], shape[1], z, labels,
                                                                     scale, s.scale_at, want,
                                                                     &loss[1]});
        compare("dlogits", got, want, NULL, terms * U * scale, count);
        assert_true(fabs(loss[0] - loss[1]) <= scale * (double)shape[0] * (terms + 2 * range) * U);
        make_parts(f, f->reference, &s, false, true);
        loss[0] = make_whole(f, f->reference, &s, scale, got);
        compare("reference", got, want, NULL, 4 * terms * U * scale, count);
        assert_true(fabs(loss[0] - loss[1]) <= scale * (double)shape[0] * (terms + 2 * range) * U);
        close_sliced(&s), free(z), free(labels), free(got), free(want);
    }
}

static void test_count_parts(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SLICE_SHAPES; i++) {
        const int64_t *shape = slice_shapes[i], rows = 2 * shape[0];
        const int64_t twice[] = {rows, shape[1], shape[2]};
        const ls_step_state at = {.position = 1000};
        const uint64_t samples = 1000 + (uint64_t)shape[0] * 2 / 3;
        uint64_t got = 5, want = 5, whole = 5;
        float *z;
        int32_t *labels;
        sliced s;
        make_logits(twice, 2, &z, &labels);
        for (int64_t j = 0; j < rows * shape[1]; j++)
            z[j] = roundf(z[j]) + 1; /* many ties; of one class all are positive */
        for (int64_t r = 0; r < rows && shape[1] == 1; r++)
            z[r] = 1;
        open_sliced(&s, twice, z, labels);
        make_parts(f, f->cpu, &s, true, false);
        ls_count_parts_args args = {rows, shape[2], 2, s.parts, labels, &at, samples, &got};
        apply_count_parts(f, f->cpu, &args);
        args.correct = &want;
        apply_count_parts(f, f->reference, &args);
        assert_int_equal(got, want);
        apply_count_correct(
            f, f->reference,
            &(ls_count_correct_args){rows, shape[1], 2, z, labels, &at, samples, &whole});
        if (shape[1] > 1)
            assert_int_equal(got, whole);
        close_sliced(&s), free(z), free(labels);
    }
}
