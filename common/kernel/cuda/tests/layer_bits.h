/* SPDX-License-Identifier: MIT */
/*
 * What the cuda table promises of images and sequences beyond the bounds of test_layer_kernels.c:
 * crops, normalisation, weight decay and the gradient of the logistic loss have the bits of the cpu
 * table, at any alignment; the losses, sums in double in another order, 1e-13 of them. (Pools and
 * moves have the bits of the reference.) And sizes that its kernels treat apart.
 */
#pragma once

#include "common/kernel/cuda/tests/conv_max_bits.h"
#include "common/kernel/tests/kernel_fixture.h"

static ls_kernels *cpu_of(fixture *f)
{
    ls_kernels *cpu;
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &cpu));
    return cpu;
}

static void test_crop_bits(void **state)
{
    enum { ROWS = 40, SIDE = 13, CROP = 9, IMAGE = 3 * SIDE * SIDE, COUNT = 3 * CROP * CROP };
    fixture *f = *state;
    ls_kernels *cpu = cpu_of(f), *const both[] = {f->cpu, cpu};
    uint8_t source[ROWS * IMAGE];
    uint32_t indices[ROWS], seed = 3;
    float *out[] = {randoms(ROWS * COUNT, 1), randoms(ROWS * COUNT, 2)};
    const ls_step_state at = {.position = ((uint64_t)1 << 33) + 5};
    for (int i = 0; i < ROWS * IMAGE; i++)
        noise(&seed), source[i] = (uint8_t)(seed >> 24);
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = ROWS - 1 - i;
    for (int k = 0; k < 2; k++) {
        apply_gather_crops(f, both[k],
                           &(ls_gather_crops_args){ROWS, 3, SIDE, CROP, source, indices, true, 5,
                                                   11, &at, out[k], 3, ROWS});
    }
    same_bits("crops", out[0], out[1], ROWS * COUNT * sizeof **out);
    free(out[0]), free(out[1]);
    cpu->table->close(cpu);
}

static void check_lrn_bits(fixture *f, ls_kernels *cpu, int64_t channels, int64_t radius)
{
    enum { PIXELS = 23 };
    const int64_t count = PIXELS * channels;
    ls_kernels *const both[] = {f->cpu, cpu};
    float *x = randoms(count, 1), *dy = randoms(count, 2);
    float *out[2][2] = {{randoms(count, 3), randoms(count, 4)},
                        {randoms(count, 5), randoms(count, 6)}};
    for (int k = 0; k < 2; k++) {
        apply_lrn_forward(f, both[k],
                          &(ls_lrn_forward_args){PIXELS, channels, radius, 0.3, x, out[k][0]});
        apply_lrn_backward(
            f, both[k],
            &(ls_lrn_backward_args){PIXELS, channels, radius, 0.3, k, x, dy, out[k][1]});
    }
    /* With `relu`, 0 where x is not positive. */
    for (int64_t i = 0; i < count; i++)
        out[0][1][i] = x[i] > 0 ? out[0][1][i] : 0;
    same_bits("lrn_forward", out[0][0], out[1][0], (size_t)count * sizeof(float));
    same_bits("lrn_backward", out[0][1], out[1][1], (size_t)count * sizeof(float));
    free(x), free(dy);
    for (int k = 0; k < 4; k++)
        free(out[k / 2][k % 2]);
}

static void test_lrn_bits(void **state)
{
    static const int64_t channels[] = {1, 2, 5, 16, 63, 64, 65, 300, 1030, 1100};
    static const int64_t radius[] = {0, 1, 4, 7, 64};
    ls_kernels *cpu = cpu_of(*state);
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t r = 0; r < sizeof radius / sizeof *radius; r++)
            check_lrn_bits(*state, cpu, channels[c], radius[r]);
    cpu->table->close(cpu);
}

/* Channels in fours: windows that overlap, touch and leave gaps; strides that are even and odd, and
 * differ; borders; pixels that no window covers. */
static void test_pool_sizes(void **state)
{
    static const ls_conv_shape more[] = {
        {3, 8, 1, {9, 8, 5, 4, 3, 3, 2, 2, 1, 0}},  {2, 4, 1, {7, 10, 3, 3, 3, 5, 3, 4, 1, 2}},
        {2, 12, 1, {8, 8, 4, 4, 2, 2, 2, 2, 0, 0}}, {2, 8, 1, {11, 7, 3, 6, 2, 4, 4, 1, 0, 1}},
        {3, 4, 1, {6, 9, 3, 5, 5, 4, 2, 2, 2, 1}},
    };
    for (int i = 0; i < (int)(sizeof more / sizeof *more); i++) {
        check_pool_forward(*state, &more[i]);
        check_pool_backward(*state, &more[i], false);
        check_pool_backward(*state, &more[i], true);
    }
}

/* What no block's memory holds is refused in words. */
static void test_lrn_refusal(void **state)
{
    fixture *f = *state;
    float x[600] = {0}, y[600];
    ls_op *op;
    ls_status status =
        f->cpu->table->lrn_forward(f->cpu, &(ls_lrn_forward_args){2, 300, 65, 0.3, x, y}, &op);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "radius"));
    ls_status_free(status);
}

static void test_logistic_bits(void **state)
{
    enum { ROWS = 1025 };
    fixture *f = *state;
    ls_kernels *cpu = cpu_of(f), *const both[] = {f->cpu, cpu};
    float *z = randoms(ROWS, 1), *dz[] = {randoms(ROWS, 2), randoms(ROWS, 3)};
    int32_t labels[ROWS];
    double loss[2];
    for (int i = 0; i < ROWS; i++)
        z[i] *= 30, labels[i] = i * i % 2;
    for (int k = 0; k < 2; k++) {
        ls_op *op;
        const ls_logistic_loss_args args = {ROWS, z, labels, 1.0 / 77, dz[k], &loss[k]};
        must(both[k]->table->logistic_loss(both[k], &args, &op));
        must(ls_queue_enqueue(f->queue, op));
        run(f, op);
    }
    same_bits("dlogits", dz[0], dz[1], ROWS * sizeof **dz);
    assert_true(fabs(loss[0] - loss[1]) <= 1e-13 * loss[1]);
    free(z), free(dz[0]), free(dz[1]);
    cpu->table->close(cpu);
}

/* Sizes that the kernels treat apart: as many states as registers hold weights of; more, with many
 * rows, or with more states than shared memory holds at once; a bias's gradient in pieces. */
static void test_lstm_sizes(void **state)
{
    static const int64_t more[][4] = {{513, 2, 3, 70}, {1, 3, 3, 270}, {2, 2, 3, 1030},
                                      {3, 1, 2, 64},   {2, 6, 3, 64},  {513, 1, 2, 5}};
    for (int i = 0; i < 6; i++)
        check_lstm(*state, more[i], i & 1, true);
}

/* Sums in pieces: rows times positions beyond the length of one; 1 x 1; more channels than outputs;
 * weights that lie as they are multiplied. */
static void test_conv_sizes(void **state)
{
    static const ls_conv_shape more[] = {
        {70, 1, 3, {9, 8, 9, 8, 3, 3, 1, 1, 1, 1}},    {6, 7, 5, {5, 4, 5, 4, 1, 1, 1, 1, 0, 0}},
        {5, 8, 4, {5, 4, 3, 2, 1, 1, 2, 2, 0, 0}},     {9, 12, 6, {5, 5, 3, 3, 2, 3, 2, 2, 0, 1}},
        {9, 1, 3, {28, 28, 26, 26, 3, 3, 1, 1, 0, 0}},
    };
    for (int i = 0; i < 5; i++) {
        check_conv_forward(*state, &more[i], i & 1, LS_ACTIVATION_RELU);
        check_conv_weights(*state, &more[i], true);
        check_conv_data(*state, &more[i]);
    }
}

/* The gradient of this shape's weights has a kernel of gpu_conv_weights.cu. */
static void is_direct(const fixture *f, const ls_conv_shape *s)
{
    const size_t filters = (size_t)(s->outputs * filter_elements(s));
    float *x = randoms(s->rows * in_elements(s), 1), *dy = randoms(s->rows * out_elements(s), 2);
    float *dweight = randoms((int64_t)filters, 3), *dbias = randoms(s->outputs, 4);
    const ls_conv_backward_weights_args args = {
        .shape = *s, .x = x, .dy = dy, .dweight = dweight, .dbias = dbias};
    ls_op *op;
    must(f->cpu->table->conv_backward_weights(f->cpu, &args, &op));
    if (!strstr(op->name, ".direct"))
        fail_msg("%lld channels, %lld outputs: %s", (long long)s->channels, (long long)s->outputs,
                 op->name);
    ls_op_free(op);
    free(x), free(dy), free(dweight), free(dbias);
}

/* Chunks of several strips, one or two at a time, the last one with fewer; strips with lines below
 * the image; more channels and outputs than one tile; each kernel of gpu_conv_weights.cu; copies of
 * one and of four floats. */
static void test_conv_weights_sizes(void **state)
{
    static const ls_conv_shape more[] = {
        {140, 20, 20, {4, 16, 4, 16, 3, 3, 1, 1, 1, 1}},
        {1060, 1, 32, {1, 64, 1, 64, 3, 3, 1, 1, 1, 1}},
        {3, 20, 18, {7, 9, 7, 9, 3, 3, 1, 1, 1, 1}},
        {5, 18, 17, {9, 17, 4, 8, 3, 3, 2, 2, 0, 0}},
        {2, 3, 16, {8, 8, 8, 8, 3, 3, 1, 1, 1, 1}},
        {2, 1, 32, {17, 17, 8, 8, 3, 3, 2, 2, 0, 0}},
        {2, 16, 32, {8, 8, 4, 4, 3, 3, 2, 2, 0, 0}},
        {3, 12, 9, {9, 12, 4, 6, 5, 5, 2, 2, 1, 2}},
        {2, 4, 16, {13, 30, 13, 30, 5, 5, 1, 1, 2, 2}},
        {2, 3, 12, {12, 11, 5, 4, 5, 5, 2, 2, 1, 0}},
        {3, 1, 16, {70, 16, 35, 8, 3, 3, 2, 2, 1, 1}},
        {2, 16, 16, {21, 37, 21, 37, 3, 3, 1, 1, 1, 1}},
    };
    for (int i = 0; i < (int)(sizeof more / sizeof *more); i++) {
        is_direct(*state, &more[i]);
        check_conv_weights(*state, &more[i], true);
    }
}

#define LAYER_BITS_TESTS                                                                           \
    cmocka_unit_test(test_crop_bits), cmocka_unit_test(test_lrn_bits),                             \
        cmocka_unit_test(test_pool_sizes), cmocka_unit_test(test_lrn_refusal),                     \
        cmocka_unit_test(test_logistic_bits), cmocka_unit_test(test_lstm_sizes),                   \
        cmocka_unit_test(test_conv_sizes), cmocka_unit_test(test_conv_weights_sizes),              \
        cmocka_unit_test(test_conv_max_bits)
