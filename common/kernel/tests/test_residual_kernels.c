/* SPDX-License-Identifier: MIT */
/*
 * The cpu table against the reference: every entry of residual networks, over edge shapes.
 * u = 2^-24. Other files include this one to do the same with other tables.
 *
 * Bounds:
 *     bn_sums           1e-13 sum |terms|: sums in double in another order
 *     bn_moments, bn_moving_moments, shortcut_*   the same bits
 *     bn_forward        8 u sum |terms|
 *     bn_backward_sums  8 u sum |terms|: what a gradient is multiplied by is known to 4 u; dz: bits
 *     bn_backward       16 u sum |terms|
 *     mean_pool_*       (pixels + 2) u sum |terms| / pixels
 *     moving_average    4 u sum |terms|
 */
#include "common/kernel/tests/kernel_fixture.h"

#define U 0x1p-24

/* pixels, channels: whole and odd blocks of channels, tiles of pixels */
static const int64_t bn_shapes[][2] = {{0, 16}, {1, 5},    {2, 16},   {63, 17}, {64, 32},
                                       {65, 3}, {200, 64}, {129, 40}, {7, 0}};
enum { BN_SHAPES = sizeof bn_shapes / sizeof *bn_shapes };

/* Values whose channels have different means and deviations. */
static float *spread(const int64_t s[2], uint32_t seed)
{
    float *x = randoms(s[0] * s[1], seed);
    for (int64_t i = 0; i < s[0] * s[1]; i++)
        x[i] = x[i] * (1 + (float)(i % s[1])) + (float)(i % s[1]) - 3;
    return x;
}

static double *doubles(int64_t count, double value)
{
    double *data = malloc(((size_t)count + 1) * sizeof *data);
    for (int64_t i = 0; i <= count; i++)
        data[i] = value;
    return data;
}

static void compare_sums(const char *what, const double *got, const double *want,
                         const double *limit, double factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= factor * limit[i]))
            fail_msg("%s: sum %lld is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
}

static void test_bn_sums(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < BN_SHAPES; i++) {
        const int64_t *s = bn_shapes[i];
        float *x = spread(s, 1), *x1 = absolutes(x, s[0] * s[1]);
        double *got = doubles(2 * s[1], 7), *want = doubles(2 * s[1], 7);
        double *limit = doubles(2 * s[1], 0);
        float *moments = randoms(2 * s[1], 2), *apart = randoms(2 * s[1], 2);
        ls_bn_sums_args args = {s[0], s[1], x, got, i & 1 ? moments : NULL, 1e-5};
        ls_op *op;
        must(f->cpu->table->bn_sums(f->cpu, &args, &op));
        must(ls_queue_enqueue(f->queue, op)); /* a second run must give the same */
        run(f, op);
        if (args.moments) { /* equals what bn_moments computes of these sums */
            const ls_bn_moments_args of = {s[1], s[0] ? s[0] : 1, 1e-5, got, apart};
            apply_bn_moments(f, f->reference, &of);
        }
        same_bits("moments", moments, apart, (size_t)(2 * s[1] + 1) * sizeof *moments);
        args.sums = want, args.moments = NULL;
        apply_bn_sums(f, f->reference, &args);
        args.x = x1, args.sums = limit;
        apply_bn_sums(f, f->reference, &args);
        free(moments), free(apart);
        compare_sums("bn_sums", got, want, limit, 1e-13, 2 * s[1]);
        assert_true(got[2 * s[1]] == 7 && want[2 * s[1]] == 7);
        free(x), free(x1), free(got), free(want), free(limit);
    }
}

static void test_bn_moments(void **state)
{
    fixture *f = *state;
    enum { C = 19 };
    for (int64_t count = 1; count < 5; count += 3) {
        double sums[2 * C];
        float got[2 * C + 1] = {0}, want[2 * C + 1] = {0};
        for (int i = 0; i < C; i++) {
            sums[i] = (double)count * (i - 4);
            sums[C + i] = (double)count * (i - 4) * (i - 4) + (i % 3 ? 0.7 * i : -1e-9);
        }
        ls_bn_moments_args args = {C, count, 1e-5, sums, got};
        apply_bn_moments(f, f->cpu, &args);
        args.moments = want;
        apply_bn_moments(f, f->reference, &args);
        same_bits("bn_moments", got, want, sizeof got);
        /* A variance cannot be negative. */
        assert_true(fabsf(want[C] - 1 / sqrtf(1e-5f)) < 1e-2f);
        assert_true(want[0] == -4 && want[5] == 1);
    }
}

static void test_bn_moving_moments(void **state)
{
    fixture *f = *state;
    enum { C = 21 };
    float *mean = randoms(C, 1), *variance = randoms(C, 2);
    float got[2 * C + 1] = {0}, want[2 * C + 1] = {0};
    for (int i = 0; i < C; i++)
        variance[i] = fabsf(variance[i]);
    ls_bn_moving_moments_args args = {C, 1e-5, mean, variance, got};
    apply_bn_moving_moments(f, f->cpu, &args);
    args.moments = want;
    apply_bn_moving_moments(f, f->reference, &args);
    same_bits("bn_moving_moments", got, want, sizeof got);
    assert_true(want[3] == mean[3] && fabsf(want[C] * sqrtf(variance[0] + 1e-5f) - 1) < 1e-6f);
    free(mean), free(variance);
}

/* Inputs of the entries that follow the sums. */
typedef struct bn_data {
    const int64_t *shape;
    float *x, *moments, *weight, *bias, *z, *dy;
    double *sums;
} bn_data;

static bn_data bn_numbers(fixture *f, const int64_t s[2])
{
    const int64_t C = s[1], all = s[0] * C;
    bn_data d = {s,
                 spread(s, 1),
                 randoms(2 * C, 2),
                 randoms(C, 3),
                 randoms(C, 4),
                 randoms(all, 5),
                 randoms(all, 6),
                 doubles(2 * C, 0)};
    apply_bn_sums(f, f->reference, &(ls_bn_sums_args){s[0], C, d.x, d.sums, NULL, 0});
    const ls_bn_moments_args args = {.channels = C,
                                     .count = s[0] ? s[0] : 1,
                                     .epsilon = 1e-5,
                                     .sums = d.sums,
                                     .moments = d.moments};
    apply_bn_moments(f, f->reference, &args);
    return d;
}

static void bn_free(bn_data d)
{
    free(d.x), free(d.moments), free(d.weight), free(d.bias), free(d.z), free(d.dy), free(d.sums);
}

/* |x - mean| * |weight| / deviation + |bias| of element i. */
static double terms_at(const bn_data *d, int64_t i)
{
    const int64_t C = d->shape[1], c = i % C;
    return fabs((double)d->x[i]) * fabs((double)d->weight[c] * (double)d->moments[C + c]) +
           fabs((double)d->moments[c] * (double)d->weight[c] * (double)d->moments[C + c]) +
           fabs((double)d->bias[c]);
}

static void test_bn_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 4 * BN_SHAPES; i++) {
        const int64_t *s = bn_shapes[i / 4], all = s[0] * s[1];
        bn_data d = bn_numbers(f, s);
        float *got = randoms(all, 7), *want = randoms(all, 7), *limit = randoms(all, 8);
        ls_bn_forward_args args = {s[0],
                                   s[1],
                                   d.x,
                                   d.moments,
                                   d.weight,
                                   d.bias,
                                   i & 1 ? d.z : NULL,
                                   got,
                                   i & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE};
        apply_bn_forward(f, f->cpu, &args);
        args.y = want;
        apply_bn_forward(f, f->reference, &args);
        for (int64_t j = 0; j < all; j++)
            limit[j] = (float)(terms_at(&d, j) + fabs((double)d.z[j]));
        compare("bn_forward", got, want, limit, 8 * U, all);
        same_bits("behind", got + all, want + all, sizeof *got);
        free(got), free(want), free(limit);
        bn_free(d);
    }
}

/* A quarter of the mean and of the unbiased variance; the variance of one pixel is 0. */
static void check_statistics(const bn_data *d, int64_t count, const float *got)
{
    const int64_t C = d->shape[1];
    for (int64_t c = 0; c < C; c++) {
        const double mean = d->sums[c] / (double)count;
        const double apart =
            d->sums[C + c] - (double)count * mean * mean; /* at least 0, up to rounding */
        const double variance = count > 1 ? apart / (double)(count - 1) : 0;
        assert_true(got[c] == (float)(0.25 * mean));
        assert_true(fabs((double)got[C + c] - 0.25 * variance) <=
                    1e-6 * (fabs(variance) + mean * mean));
    }
}

/* way: 0 no ReLU, 1 output given, 2 recomputed; with dz, without, or in place of dy. */
static void check_backward_sums(fixture *f, const bn_data *d, int way, int with_dz)
{
    const int64_t N = d->shape[0], C = d->shape[1], all = N * C;
    float *y = randoms(all, 9), *dy[2], *dz[2], *of_weights[2];
    double *sums[2], *limit = doubles(2 * C, 1e-30);
    ls_kernels *tables[2] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        dy[k] = randoms(all, 6), dz[k] = randoms(all, 7);
        sums[k] = doubles(2 * C, 7), of_weights[k] = randoms(4 * C, 3);
        ls_bn_backward_sums_args args = {N,
                                         C,
                                         d->x,
                                         d->moments,
                                         d->weight,
                                         d->bias,
                                         way ? LS_ACTIVATION_RELU : 0,
                                         way == 1 ? y : NULL,
                                         dy[k],
                                         with_dz == 2 ? dy[k]
                                         : with_dz    ? dz[k]
                                                      : NULL,
                                         sums[k],
                                         of_weights[k],
                                         of_weights[k] + C,
                                         d->sums,
                                         N + way,
                                         0.25,
                                         of_weights[k] + 2 * C,
                                         of_weights[k] + 3 * C};
        args.count += !args.count;
        apply_bn_backward_sums(f, tables[k], &args);
    }
    check_statistics(d, N + way ? N + way : 1, of_weights[1] + 2 * C);
    same_bits("statistics", of_weights[0] + 2 * C, of_weights[1] + 2 * C,
              (size_t)(2 * C + 1) * sizeof **of_weights);
    for (int64_t i = 0; i < all; i++) {
        const int64_t c = i % C;
        limit[c] += fabs((double)d->dy[i]);
        limit[C + c] += fabs((double)d->dy[i] * ((double)d->x[i] - (double)d->moments[c]) *
                             (double)d->moments[C + c]);
    }
    compare_sums("bn_backward_sums", sums[0], sums[1], limit, 8 * U, 2 * C);
    for (int64_t c = 0; c < C; c++) {
        assert_true(of_weights[0][c] == (float)sums[0][C + c]);
        assert_true(of_weights[0][C + c] == (float)sums[0][c]);
    }
    same_bits("dz", dz[0], dz[1], (size_t)(all + 1) * sizeof **dz);
    same_bits("dy", dy[0], dy[1], (size_t)(all + 1) * sizeof **dy);
    for (int k = 0; k < 2; k++)
        free(dy[k]), free(dz[k]), free(sums[k]), free(of_weights[k]);
    free(y), free(limit);
}

static void test_bn_backward_sums(void **state)
{
    for (int i = 0; i < BN_SHAPES; i++) {
        bn_data d = bn_numbers(*state, bn_shapes[i]);
        for (int way = 0; way < 3; way++)
            for (int with_dz = 0; with_dz < 3; with_dz++)
                check_backward_sums(*state, &d, way, with_dz);
        bn_free(d);
    }
}

static void test_bn_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * BN_SHAPES; i++) {
        const int64_t *s = bn_shapes[i / 2], C = s[1], all = s[0] * C;
        bn_data d = bn_numbers(f, s);
        float *got = randoms(all, 7), *want = randoms(all, 7), *limit = randoms(all, 8);
        ls_bn_backward_args args = {s[0],      C,        s[0] + 1, d.x,
                                    d.moments, d.weight, d.bias,   i & 1 ? LS_ACTIVATION_RELU : 0,
                                    d.sums,    d.dy,     got};
        apply_bn_backward(f, f->cpu, &args);
        args.dx = want;
        apply_bn_backward(f, f->reference, &args);
        for (int64_t j = 0; j < all; j++) {
            const int64_t c = j % C;
            const double n =
                (fabs((double)d.x[j]) + fabs((double)d.moments[c])) * (double)d.moments[C + c];
            limit[j] = (float)(fabs((double)d.weight[c] * (double)d.moments[C + c]) *
                               (fabs((double)d.dy[j]) + fabs(d.sums[c]) / (double)(s[0] + 1) +
                                n * fabs(d.sums[C + c]) / (double)(s[0] + 1)));
        }
        compare("bn_backward", got, want, limit, 16 * U, all);
        same_bits("behind", got + all, want + all, sizeof *got);
        free(got), free(want), free(limit);
        bn_free(d);
    }
}

static const ls_shortcut_shape shortcuts[] = {
    {0, 4, 4, 3, 6, 2}, {2, 6, 5, 3, 3, 1}, {3, 5, 7, 16, 32, 2}, {2, 4, 4, 1, 9, 3}};
enum { SHORTCUTS = sizeof shortcuts / sizeof *shortcuts };

static int64_t small_elements(const ls_shortcut_shape *s)
{
    return s->rows * ((s->in_height + s->stride - 1) / s->stride) *
           ((s->in_width + s->stride - 1) / s->stride) * s->outputs;
}

static void test_shortcut_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SHORTCUTS; i++) {
        const ls_shortcut_shape *s = &shortcuts[i];
        const int64_t in = s->rows * s->in_height * s->in_width * s->channels;
        const int64_t out = small_elements(s);
        float *x = randoms(in, 1), *got = randoms(out, 2), *want = randoms(out, 2);
        apply_shortcut_forward(f, f->cpu, &(ls_shortcut_forward_args){*s, x, got});
        apply_shortcut_forward(f, f->reference, &(ls_shortcut_forward_args){*s, x, want});
        same_bits("shortcut_forward", got, want, (size_t)(out + 1) * sizeof *got);
        assert_true(!out ||
                    (want[0] == x[0] && (s->outputs == s->channels || want[s->channels] == 0)));
        free(x), free(got), free(want);
    }
}

static void test_shortcut_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SHORTCUTS; i++) {
        const ls_shortcut_shape *s = &shortcuts[i];
        const int64_t in = s->rows * s->in_height * s->in_width * s->channels;
        float *dy = randoms(small_elements(s), 1), *got = randoms(in, 2), *want = randoms(in, 2);
        apply_shortcut_backward(f, f->cpu, &(ls_shortcut_backward_args){*s, dy, got});
        apply_shortcut_backward(f, f->reference, &(ls_shortcut_backward_args){*s, dy, want});
        same_bits("shortcut_backward", got, want, (size_t)(in + 1) * sizeof *got);
        assert_true(!in || want[0] == dy[0]);
        free(dy), free(got), free(want);
    }
}

/* rows, pixels, channels */
static const int64_t means[][3] = {{0, 4, 5}, {3, 64, 64}, {2, 1, 7}, {5, 6, 17}};

static void test_mean_pool_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        const int64_t *s = means[i], out = s[0] * s[2];
        float *x = randoms(s[1] * out, 1), *got = randoms(out, 2), *want = randoms(out, 2);
        ls_mean_pool_forward_args args = {s[0], s[1], s[2], x, got};
        apply_mean_pool_forward(f, f->cpu, &args);
        args.y = want;
        apply_mean_pool_forward(f, f->reference, &args);
        compare("mean_pool_forward", got, want, NULL, (double)(s[1] + 2) * U, out);
        same_bits("behind", got + out, want + out, sizeof *got);
        free(x), free(got), free(want);
    }
}

static void test_mean_pool_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        const int64_t *s = means[i], in = s[0] * s[1] * s[2];
        float *dy = randoms(s[0] * s[2], 1), *got = randoms(in, 2), *want = randoms(in, 2);
        ls_mean_pool_backward_args args = {s[0], s[1], s[2], dy, got};
        apply_mean_pool_backward(f, f->cpu, &args);
        args.dx = want;
        apply_mean_pool_backward(f, f->reference, &args);
        compare("mean_pool_backward", got, want, NULL, 2 * U, in);
        same_bits("behind", got + in, want + in, sizeof *got);
        free(dy), free(got), free(want);
    }
}

static void test_moving_average(void **state)
{
    fixture *f = *state;
    static const int64_t counts[] = {0, 1, 17, 1000};
    for (int i = 0; i < 12; i++) {
        const int64_t count = counts[i / 3];
        const ls_step_state at = {.step = i % 3 == 1 ? 4 : 1000000};
        float *value = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 2);
        float *before = randoms(count, 2);
        ls_moving_average_args args = {count, 0.9999, i % 3 ? &at : NULL, value, got};
        apply_moving_average(f, f->cpu, &args);
        args.average = want;
        apply_moving_average(f, f->reference, &args);
        compare("moving_average", got, want, NULL, 8 * U, count);
        /* t = 5: 6 / 15 of the old value remains. */
        const double stays = i % 3 == 1 ? 0.4 : 0.9999;
        for (int64_t j = 0; j < count; j++)
            assert_true(fabs((double)want[j] - stays * (double)before[j] -
                             (1 - stays) * (double)value[j]) < 4 * U);
        same_bits("behind", got + count, want + count, sizeof *got);
        free(value), free(got), free(want), free(before);
    }
}

static void test_add_sums(void **state)
{
    fixture *f = *state;
    double a[5] = {1, 2, 3, 4, 5}, b[5] = {1e-17, 1, -3, 0.5, 7}, got[5], want[5];
    for (int with = 0; with < 2; with++)
        for (int k = 0; k < 2; k++) {
            ls_kernels *table = k ? f->reference : f->cpu;
            double *out = k ? want : got;
            memset(out, 0, sizeof got);
            apply_add_sums(f, table, &(ls_add_sums_args){4, a, with ? b : NULL, out});
            for (int i = 0; i < 5; i++)
                assert_true(out[i] == (i == 4 ? 0 : with ? a[i] + b[i] : a[i]));
        }
    same_bits("add_sums", got, want, sizeof got);
}

static int run_residual_tests(void)
{
    /* One test for each entry of the table: a new entry without a test does not compile. */
#define ENTRY_TEST(entry, args) cmocka_unit_test(test_##entry),
    const struct CMUnitTest tests[] = {LS_KERNEL_RESIDUAL_ENTRIES(ENTRY_TEST)};
#undef ENTRY_TEST
    return cmocka_run_group_tests(tests, setup, teardown);
}

#ifndef OTHER_MAIN
int main(void)
{
    return run_residual_tests();
}
#endif
