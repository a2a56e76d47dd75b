/* SPDX-License-Identifier: MIT */
/*
 * The cpu table against the reference, every entry of images and sequences, over edge shapes.
 * u = 2^-24. Other files include this one to do the same with other tables.
 *
 * Bounds:
 *     conv_*       (terms + 4) u sum |terms|: the bound of any order of summation
 *     gather_crops 16 u times 256 / range: values of 0 to 255 over a spread
 *     max_pool_*   the same bits: sums of a few in one order
 *     lrn_*        64 u sum |terms|: powers known to 16 u and 10 terms of each sum
 *     transpose    the same bits
 *     weight_decay      1e-12 of the loss; the same bits wherever a range lies
 *     conv_max_*   (terms + 4) u sum |terms|; on small whole numbers, whose sums are exact, the
 *                  same bits and the same places
 *     lstm_*       4 (I + H + 16) T u of the largest: the product's bound, and a step's functions
 *                  known to 16 u, carried on through T steps
 *     logistic     dlogits: 16 u scale; loss: 16 u (rows + loss)
 *     copy_columns the same bits
 */
#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/kernel_sequences.h"

/* `count` whole numbers from -3 to 3. */
static float *wholes(int64_t count, uint32_t seed)
{
    float *data = randoms(count, seed);
    for (int64_t i = 0; i <= count; i++)
        data[i] = roundf(3 * data[i]);
    return data;
}

/* rows, channels, outputs; in, window, stride, padding before, positions: of both axes or apart */
static const ls_conv_shape conv_shapes[] = {
    {0, 1, 32, {5, 5, 3, 3, 3, 3, 1, 1, 0, 0}},  {3, 1, 32, {28, 28, 26, 26, 3, 3, 1, 1, 0, 0}},
    {2, 1, 32, {7, 5, 7, 5, 3, 3, 1, 1, 1, 1}},  {2, 3, 16, {6, 9, 3, 5, 5, 4, 2, 2, 2, 1}},
    {5, 2, 1, {4, 4, 4, 4, 1, 1, 1, 1, 0, 0}},   {1, 5, 40, {8, 3, 2, 1, 3, 3, 3, 2, 0, 0}},
    {4, 64, 64, {6, 6, 6, 6, 5, 5, 1, 1, 2, 2}}, {3, 3, 64, {9, 9, 9, 9, 5, 5, 1, 1, 2, 2}},
    {2, 4, 7, {1, 1, 1, 1, 2, 2, 1, 1, 0, 0}},   {33, 1, 31, {5, 6, 3, 4, 3, 3, 1, 1, 0, 0}},
    {5, 3, 16, {8, 7, 4, 4, 3, 3, 2, 2, 0, 1}},  {2, 3, 32, {8, 8, 3, 3, 3, 3, 2, 2, 0, 0}},
};
enum { CONV_SHAPES = sizeof conv_shapes / sizeof *conv_shapes };

/* Elements of a sample's input, of its output, and of one output's weights. */
static int64_t in_elements(const ls_conv_shape *s)
{
    return s->window.in_height * s->window.in_width * s->channels;
}

static int64_t filter_elements(const ls_conv_shape *s)
{
    return s->window.height * s->window.width * s->channels;
}

typedef struct conv_data {
    float *x, *weight, *bias;
} conv_data;

static conv_data conv_numbers(const ls_conv_shape *s, bool whole)
{
    float *(*make)(int64_t, uint32_t) = whole ? wholes : randoms;
    return (conv_data){make(s->rows * in_elements(s), 1), make(s->outputs * filter_elements(s), 2),
                       make(s->outputs, 3)};
}

static void conv_free(conv_data d)
{
    free(d.x), free(d.weight), free(d.bias);
}

static void check_conv_max(fixture *f, const ls_conv_shape *s, bool whole, ls_activation act)
{
    int64_t count = s->rows * s->outputs, taps = filter_elements(s);
    conv_data d = conv_numbers(s, whole);
    conv_data d1 = {absolutes(d.x, s->rows * in_elements(s)),
                    absolutes(d.weight, s->outputs * taps), absolutes(d.bias, s->outputs)};
    float *y[3] = {randoms(count, 4), randoms(count, 5), randoms(count, 6)};
    int32_t *argmax[2] = {calloc((size_t)count + 1, 4), calloc((size_t)count + 1, 4)};
    ls_conv_max_forward_args args = {*s, d.x, d.weight, d.bias, y[0], argmax[0], act};
    apply_conv_max_forward(f, f->cpu, &args);
    args.y = y[1], args.argmax = argmax[1];
    apply_conv_max_forward(f, f->reference, &args);
    args = (ls_conv_max_forward_args){*s, d1.x, d1.weight, d1.bias, y[2], argmax[1], act};
    if (whole)
        same_bits("places", argmax[0], argmax[1], (size_t)count * sizeof **argmax);
    apply_conv_max_forward(f, f->reference, &args);
    compare("conv_max", y[0], y[1], y[2], whole ? 0 : (double)(taps + 5) * U, count);
    free(argmax[0]), free(argmax[1]), free(y[0]), free(y[1]), free(y[2]);
    conv_free(d), conv_free(d1);
}

static void test_conv_max_forward(void **state)
{
    for (int i = 0; i < CONV_SHAPES; i++)
        for (int way = 0; way < 4; way++)
            check_conv_max(*state, &conv_shapes[i], way & 1,
                           way & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE);
}

static void test_conv_max_backward_weights(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < CONV_SHAPES; i++) {
        const ls_conv_shape *s = &conv_shapes[i];
        int64_t count = s->rows * s->outputs, weights = s->outputs * filter_elements(s);
        int64_t positions = s->window.out_height * s->window.out_width;
        float *x = randoms(s->rows * in_elements(s), 1), *dy = randoms(count, 2);
        float *x1 = absolutes(x, s->rows * in_elements(s));
        float *dw[3] = {randoms(weights, 4), randoms(weights, 5), randoms(weights, 6)};
        float *db[3] = {randoms(s->outputs, 7), randoms(s->outputs, 8), randoms(s->outputs, 9)};
        int32_t *argmax = calloc((size_t)count + 1, sizeof *argmax);
        for (int64_t j = 0; j < count; j++) {
            argmax[j] = (int32_t)(j * 7 % positions);
            dy[j] = j % 3 ? dy[j] : 0; /* like after a ReLU */
        }
        float *dy1 = absolutes(dy, count);
        ls_kernels *const tables[] = {f->cpu, f->reference, f->reference};
        for (int k = 0; k < 3; k++) {
            apply_conv_max_backward_weights(
                f, tables[k],
                &(ls_conv_max_backward_weights_args){*s, k == 2 ? x1 : x, k == 2 ? dy1 : dy, argmax,
                                                     dw[k], db[k]});
        }
        compare("dweight", dw[0], dw[1], dw[2], (double)(s->rows + 4) * U, weights);
        compare("dbias", db[0], db[1], db[2], (double)(s->rows + 4) * U, s->outputs);
        for (int k = 0; k < 3; k++)
            free(dw[k]), free(db[k]);
        free(x), free(x1), free(dy), free(dy1), free(argmax);
    }
}

/* ---- Convolution ---------------------------------------------------------------------------- */

static int64_t out_elements(const ls_conv_shape *s)
{
    return s->window.out_height * s->window.out_width * s->outputs;
}

static void check_conv_forward(fixture *f, const ls_conv_shape *s, bool with_bias,
                               ls_activation act)
{
    int64_t count = s->rows * out_elements(s), taps = filter_elements(s);
    conv_data d = conv_numbers(s, false);
    conv_data d1 = {absolutes(d.x, s->rows * in_elements(s)),
                    absolutes(d.weight, s->outputs * taps), absolutes(d.bias, s->outputs)};
    float *y[3] = {randoms(count, 4), randoms(count, 5), randoms(count, 6)};
    ls_kernels *const tables[] = {f->cpu, f->reference, f->reference};
    for (int k = 0; k < 3; k++) {
        const conv_data *from = k == 2 ? &d1 : &d;
        apply_conv_forward(f, tables[k],
                           &(ls_conv_forward_args){*s, from->x, from->weight,
                                                   with_bias ? from->bias : NULL, y[k], act});
    }
    compare("conv_forward", y[0], y[1], y[2], (double)(taps + 5) * U, count);
    for (int k = 0; k < 3; k++)
        free(y[k]);
    conv_free(d), conv_free(d1);
}

static void test_conv_forward(void **state)
{
    for (int i = 0; i < CONV_SHAPES; i++)
        for (int way = 0; way < 4; way++)
            check_conv_forward(*state, &conv_shapes[i], way & 1,
                               way & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE);
}

static void check_conv_weights(fixture *f, const ls_conv_shape *s, bool with_bias)
{
    int64_t count = s->rows * out_elements(s), weights = s->outputs * filter_elements(s);
    int64_t positions = s->window.out_height * s->window.out_width;
    float *x = randoms(s->rows * in_elements(s), 1), *dy = randoms(count, 2);
    float *x1 = absolutes(x, s->rows * in_elements(s)), *dy1 = absolutes(dy, count);
    float *dw[3] = {randoms(weights, 4), randoms(weights, 5), randoms(weights, 6)};
    float *db[3] = {randoms(s->outputs, 7), randoms(s->outputs, 7), randoms(s->outputs, 7)};
    ls_kernels *const tables[] = {f->cpu, f->reference, f->reference};
    for (int k = 0; k < 3; k++) {
        apply_conv_backward_weights(f, tables[k],
                                    &(ls_conv_backward_weights_args){*s, k == 2 ? x1 : x,
                                                                     k == 2 ? dy1 : dy, dw[k],
                                                                     with_bias ? db[k] : NULL});
    }
    double bound = (double)(s->rows * positions + 4) * U;
    compare("dweight", dw[0], dw[1], dw[2], bound, weights);
    if (with_bias)
        compare("dbias", db[0], db[1], db[2], bound, s->outputs);
    else
        same_bits("no dbias", db[0], db[2], (size_t)s->outputs * sizeof **db);
    for (int k = 0; k < 3; k++)
        free(dw[k]), free(db[k]);
    free(x), free(x1), free(dy), free(dy1);
}

/* Windows larger than the image: no positions, hence no gradient. For every implementation of the
 * cpu table. */
static const ls_conv_shape no_positions[] = {{2, 2, 3, {4, 6, 0, 2, 5, 5, 1, 1, 0, 0}},
                                             {2, 3, 16, {4, 6, 0, 2, 5, 5, 7, 1, 0, 0}}};

static void test_conv_backward_weights(void **state)
{
    for (int i = 0; i < 2; i++)
        check_conv_weights(*state, &no_positions[i], true);
    for (int i = 0; i < 2 * CONV_SHAPES; i++)
        check_conv_weights(*state, &conv_shapes[i / 2], i & 1);
}

static void check_conv_data(fixture *f, const ls_conv_shape *s)
{
    int64_t count = s->rows * in_elements(s), taps = filter_elements(s);
    float *w = randoms(s->outputs * taps, 1), *dy = randoms(s->rows * out_elements(s), 2);
    float *w1 = absolutes(w, s->outputs * taps);
    float *dy1 = absolutes(dy, s->rows * out_elements(s));
    float *dx[3] = {randoms(count, 4), randoms(count, 5), randoms(count, 6)};
    ls_kernels *const tables[] = {f->cpu, f->reference, f->reference};
    for (int k = 0; k < 3; k++) {
        apply_conv_backward_data(
            f, tables[k],
            &(ls_conv_backward_data_args){*s, k == 2 ? dy1 : dy, k == 2 ? w1 : w, dx[k], NULL});
    }
    double terms = (double)(s->outputs * s->window.height * s->window.width);
    compare("dx", dx[0], dx[1], dx[2], (terms + 4) * U, count);
    for (int k = 0; k < 3; k++)
        free(dx[k]);
    free(w), free(w1), free(dy), free(dy1);
}

static void test_conv_backward_data(void **state)
{
    for (int i = 0; i < 2; i++)
        check_conv_data(*state, &no_positions[i]);
    for (int i = 0; i < CONV_SHAPES; i++)
        check_conv_data(*state, &conv_shapes[i]);
}

/* rows, channels, side of the image, of the crop, width of the border */
static void check_crops(fixture *f, const int64_t s[5], bool augment, int low, int high)
{
    enum { SAMPLES = 7 };
    const int64_t image = s[1] * s[2] * s[2], count = s[0] * s[1] * s[3] * s[3];
    uint8_t *source = malloc((size_t)(SAMPLES * image));
    uint32_t *indices = calloc((size_t)s[0] + 1, sizeof *indices), seed = 9;
    float *got = randoms(count, 2), *want = randoms(count, 2);
    const ls_step_state at = {.position = 1000};
    for (int64_t i = 0; i < SAMPLES * image; i++) {
        noise(&seed);
        source[i] = (uint8_t)(low + (int)((seed >> 8) % (uint32_t)(high - low + 1)));
    }
    for (int64_t i = 0; i < s[0]; i++)
        indices[i] = (uint32_t)(i * 3 % SAMPLES);
    ls_gather_crops_args args = {s[0], s[1], s[2], s[3], source, indices, augment,
                                 5,    11,   &at,  got,  s[4],   SAMPLES};
    apply_gather_crops(f, f->cpu, &args);
    args.out = want;
    apply_gather_crops(f, f->reference, &args);
    compare("gather_crops", got, want, NULL, low == high ? 0 : 16 * U * 256 / (high - low), count);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)want[i], squares += (double)want[i] * (double)want[i];
    assert_true(fabs(sum) <= 1e-4 * (double)count);
    assert_true(fabs(squares - (low == high ? 0 : (double)count)) <= 1e-4 * (double)count);
    same_bits("behind", got + count, want + count, sizeof *got);
    free(source), free(indices), free(got), free(want);
}

static void test_gather_crops(void **state)
{
    static const int64_t shapes[][5] = {
        {0, 3, 8, 4, 0}, {50, 3, 32, 24, 0}, {9, 1, 5, 5, 0}, {20, 2, 9, 8, 0}, {40, 3, 32, 32, 4}};
    for (int i = 0; i < 5; i++)
        for (int augment = 0; augment < 2; augment++) {
            check_crops(*state, shapes[i], augment, 0, 255);
            if (!shapes[i][4])
                check_crops(*state, shapes[i], augment, 7, 7); /* uniform: all 0 */
        }
}

/* ---- Pools, normalisation ------------------------------------------------------------------- */

typedef struct pool_data {
    float *x, *y[2];
    int32_t *argmax[2];
    int64_t in, out; /* elements in all rows */
} pool_data;

/* Forward of both tables, with many ties. */
static pool_data pooled(fixture *f, const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    pool_data d = {.in = s->rows * in_elements(s),
                   .out = s->rows * w->out_height * w->out_width * s->channels};
    ls_kernels *const tables[] = {f->cpu, f->reference};
    d.x = wholes(d.in, 1);
    for (int k = 0; k < 2; k++) {
        d.y[k] = randoms(d.out, 2);
        d.argmax[k] = calloc((size_t)d.out + 1, sizeof **d.argmax);
        apply_max_pool_forward(
            f, tables[k],
            &(ls_max_pool_forward_args){s->rows, s->channels, *w, d.x, d.y[k], d.argmax[k]});
    }
    return d;
}

static void pool_free(pool_data d)
{
    free(d.x), free(d.y[0]), free(d.y[1]), free(d.argmax[0]), free(d.argmax[1]);
}

static void check_pool_forward(fixture *f, const ls_conv_shape *s)
{
    pool_data d = pooled(f, s);
    same_bits("largest", d.y[0], d.y[1], (size_t)(d.out + 1) * sizeof **d.y);
    same_bits("places", d.argmax[0], d.argmax[1], (size_t)(d.out + 1) * sizeof **d.argmax);
    pool_free(d);
}

static void test_max_pool_forward(void **state)
{
    for (int i = 0; i < CONV_SHAPES; i++)
        check_pool_forward(*state, &conv_shapes[i]);
}

static void check_pool_backward(fixture *f, const ls_conv_shape *s, bool masked)
{
    pool_data d = pooled(f, s);
    float *dy = randoms(d.out, 3), *dx[2] = {randoms(d.in, 4), randoms(d.in, 4)};
    ls_kernels *const tables[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        apply_max_pool_backward(f, tables[k],
                                &(ls_max_pool_backward_args){s->rows, s->channels, s->window, dy,
                                                             d.argmax[1], masked ? d.y[1] : NULL,
                                                             dx[k]});
    }
    same_bits("dx", dx[0], dx[1], (size_t)(d.in + 1) * sizeof **dx);
    free(dy), free(dx[0]), free(dx[1]);
    pool_free(d);
}

static void test_max_pool_backward(void **state)
{
    for (int i = 0; i < 2 * CONV_SHAPES; i++)
        check_pool_backward(*state, &conv_shapes[i / 2], i & 1);
}

/* pixels, channels, radius */
static const int64_t lrn_shapes[][3] = {{0, 3, 4},  {5, 64, 4}, {3, 1, 4},  {7, 16, 4},
                                        {4, 33, 4}, {2, 3, 7},  {6, 20, 1}, {3, 17, 0}};
enum { LRN_SHAPES = sizeof lrn_shapes / sizeof *lrn_shapes };

static void test_lrn_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < LRN_SHAPES; i++) {
        const int64_t *s = lrn_shapes[i], count = s[0] * s[1];
        float *x = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 2);
        ls_lrn_forward_args args = {s[0], s[1], s[2], 0.3, x, got};
        apply_lrn_forward(f, f->cpu, &args);
        args.y = want;
        apply_lrn_forward(f, f->reference, &args);
        float *limit = absolutes(want, count);
        compare("lrn_forward", got, want, limit, 64 * U, count);
        same_bits("behind", got + count, want + count, sizeof *got);
        free(x), free(got), free(want), free(limit);
    }
}

static void test_lrn_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * LRN_SHAPES; i++) {
        const int64_t *s = lrn_shapes[i / 2], count = s[0] * s[1];
        float *x = randoms(count, 1), *dy = randoms(count, 2), *limit = randoms(count, 3);
        float *got = randoms(count, 4), *want = randoms(count, 4);
        ls_lrn_backward_args args = {s[0], s[1], s[2], 0.3, i & 1, x, dy, got};
        apply_lrn_backward(f, f->cpu, &args);
        args.dx = want;
        apply_lrn_backward(f, f->reference, &args);
        /* |dy| / s^0.75 and each of the sum's terms, s being at least 1 and |x| below 1. */
        for (int64_t j = 0; j < count; j++)
            limit[j] = 1 + 1.5f * 0.3f * (float)(2 * s[2] + 1);
        compare("lrn_backward", got, want, limit, 64 * U, count);
        same_bits("behind", got + count, want + count, sizeof *got);
        free(x), free(dy), free(limit), free(got), free(want);
    }
}

static void test_transpose(void **state)
{
    fixture *f = *state;
    static const int64_t sizes[][3] = {{0, 3, 5}, {2, 0, 3}, {3, 36, 64}, {2, 17, 3}, {5, 1, 9}};
    for (int i = 0; i < 5; i++) {
        const int64_t *s = sizes[i], count = s[0] * s[1] * s[2];
        float *x = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 2);
        ls_transpose_args args = {s[0], s[1], s[2], x, got};
        apply_transpose(f, f->cpu, &args);
        args.y = want;
        apply_transpose(f, f->reference, &args);
        same_bits("transpose", got, want, (size_t)(count + 1) * sizeof *got);
        free(x), free(got), free(want);
    }
}

/* Ranges with gaps; a variable's part is the same wherever it lies. */
static void test_weight_decay(void **state)
{
    fixture *f = *state;
    static const int64_t counts[] = {0, 1, 15, 16, 17, 1000, 70001};
    enum { COUNTS = sizeof counts / sizeof *counts, GAP = 3 };
    ls_update_range ranges[COUNTS];
    int64_t all = 0;
    double losses[2] = {2, 2}, apart = 0;
    ls_op *op;
    for (int i = 0; i < COUNTS; i++) {
        ranges[i] = (ls_update_range){all + GAP, counts[i], 0.25 / (i + 1), 0, false};
        all += GAP + counts[i];
    }
    float *w = randoms(all, 1);
    for (int k = 0; k < 2; k++) {
        ls_kernels *table = k ? f->reference : f->cpu;
        const ls_weight_decay_args args = {all, w, ranges, COUNTS, &losses[k]};
        must(table->table->weight_decay(table, &args, &op));
        must(ls_queue_enqueue(f->queue, op)); /* a second run must give the same */
        run(f, op);
    }
    assert_true(fabs(losses[0] - losses[1]) <= 1e-12 * losses[1] && losses[0] > 0.25);
    for (int i = COUNTS - 1; i >= 0; i--) {
        double loss = 2;
        float *moved = randoms(counts[i] + i, 2) + i;
        memcpy(moved, w + ranges[i].first, (size_t)counts[i] * sizeof *w);
        const ls_update_range one = {0, counts[i], ranges[i].decay, 0, false};
        const ls_weight_decay_args args = {counts[i], moved, &one, 1, &loss};
        apply_weight_decay(f, f->cpu, &args);
        apart += loss;
        free(moved - i);
    }
    assert_true(apart == losses[0]);
    apply_weight_decay(f, f->cpu, &(ls_weight_decay_args){0, w, NULL, 0, losses});
    assert_true(losses[0] == 0);
    free(w);
}

static int run_layer_tests(void)
{
    /* One test for each entry of the table: a new entry without a test does not compile. */
#define ENTRY_TEST(entry, args) cmocka_unit_test(test_##entry),
    const struct CMUnitTest tests[] = {LS_KERNEL_IMAGE_ENTRIES(ENTRY_TEST)};
#undef ENTRY_TEST
    return cmocka_run_group_tests(tests, setup, teardown);
}

#ifndef OTHER_MAIN
int main(void)
{
    return run_layer_tests();
}
#endif
