/* SPDX-License-Identifier: MIT */
/*
 * Attention of stored values (gpu_attention_cores.cu, gpu_attention_cores_back.cu) against the
 * reference, which computes in double: what is rounded is off by half an ulp of bfloat16 and by the
 * sums' errors. Tensor cores are taken to lose CUT of a sum with each 16 terms. With A the largest
 * score as a sum of absolute terms, a share of T keys is off by RHO(A); y by that and its sum's
 * error; a gradient by that times the largest sum of a key's shares, and its terms. A head's bits
 * do not depend on other heads or samples, nor on where the arrays begin.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/tests/kernel_fixture.h"

#define CUT 0x1p-22

typedef struct attention_case {
    ls_attention_shape shape;
    int64_t count; /* elements of y */
    uint16_t *qkv, *y, *dy, *dqkv;
    float *sums;
} attention_case;

/* Arrays that begin `shift` elements after a multiple of 16 bytes. */
static attention_case attention_begin(ls_attention_shape shape, int shift)
{
    attention_case c = {.shape = shape, .count = shape.rows * shape.steps * shape.width};
    uint16_t **const all[] = {&c.qkv, &c.y, &c.dy, &c.dqkv};
    for (uint32_t i = 0; i < 4; i++) {
        const int64_t count = i % 3 ? c.count : 3 * c.count;
        uint16_t *array = random_bf16(count + shift, i + 1);
        memmove(array + shift, array, (size_t)count * sizeof *array);
        *all[i] = array + shift;
    }
    c.sums = randoms(shape.rows * shape.steps * shape.heads, 5);
    return c;
}

static void attention_end(attention_case *c, int shift)
{
    free(c->qkv - shift), free(c->y - shift), free(c->dy - shift), free(c->dqkv - shift);
    free(c->sums);
}

/* Runs it, and is sure of its name. */
static void run_named(fixture *f, ls_op *op, const char *name)
{
    assert_string_equal(op->name, name);
    run(f, op);
}

static void attend_stored(fixture *f, const attention_case *c)
{
    ls_op *op;
    must(f->cpu->table->attention_forward(
        f->cpu, &(ls_attention_forward_args){c->shape, c->qkv, c->y, c->sums, true}, &op));
    run_named(f, op, "attention_forward.tiles");
}

static void attend_stored_back(fixture *f, const attention_case *c)
{
    const ls_attention_backward_args args = {c->shape, c->qkv, c->y, c->dy, c->sums, c->dqkv, true};
    ls_op *op;
    must(f->cpu->table->attention_backward(f->cpu, &args, &op));
    run_named(f, op, "attention_backward.tiles");
}

static float *wide(const uint16_t *x, int64_t count)
{
    float *y = randoms(count, 1);
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_float_of_bf16(x[i]);
    return y;
}

static void compare_rounded(const char *what, const attention_case *c, const uint16_t *got,
                            const float *want, double bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double value = (double)ls_float_of_bf16(got[i]), exact = (double)want[i];
        int exponent;
        frexp(fmax(fabs(value), fabs(exact)), &exponent);
        if (!(fabs(value - exact) <= ldexp(1, exponent - 9) + bound))
            fail_msg("%s of [%lld,%lld,%lld,%lld]: element %lld is %.9g, not %.9g; bound %.3g",
                     what, (long long)c->shape.rows, (long long)c->shape.steps,
                     (long long)c->shape.heads, (long long)c->shape.width, (long long)i, value,
                     exact, bound);
    }
}

/* The largest norm of a head's part of rows [.., width], an upper bound with another's of sums of
 * absolute terms. */
static double longest_row(const float *x, int64_t rows, int64_t stride, const attention_case *c)
{
    const int64_t d = c->shape.width / c->shape.heads;
    double most = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < c->shape.heads; h++) {
            double sum = 0;
            for (int64_t i = 0; i < d; i++)
                sum += pow((double)x[r * stride + h * d + i], 2);
            most = fmax(most, sqrt(sum));
        }
    return most;
}

/* What a share is off by. */
static double share_bound(const attention_case *c, const float *qkv, double *most_score)
{
    const int64_t C = c->shape.width, rows = c->shape.rows * c->shape.steps;
    const double d = (double)(C / c->shape.heads), tiles = (double)c->shape.steps / 64 + 1;
    const double A =
        longest_row(qkv, rows, 3 * C, c) * longest_row(qkv + C, rows, 3 * C, c) / sqrt(d);
    *most_score = A;
    return 2 * ((d / 16 + 2) * CUT + 8 * U) * A + 8 * U * (1 + tiles);
}

static void check_stored_forward(fixture *f, const attention_case *c)
{
    const ls_attention_shape s = c->shape;
    float *qkv = wide(c->qkv, 3 * c->count), *y = randoms(c->count, 2);
    float *sums = randoms(s.rows * s.steps * s.heads, 3);
    double A;
    const double rho = share_bound(c, qkv, &A), T = (double)s.steps;
    apply_attention_forward(f, f->reference, &(ls_attention_forward_args){s, qkv, y, sums, false});
    compare_rounded("y", c, c->y, y, 2 * rho + (3 * T / 16 + 2) * CUT + T * U, c->count);
    compare("sums", c->sums, sums, NULL, rho + T * U + 4 * U * (A + log(T + 1)),
            s.rows * s.steps * s.heads);
    free(qkv), free(y), free(sums);
}

/* The largest sum of a key's shares. */
static double most_shared(const attention_case *c, const float *qkv)
{
    const ls_attention_shape s = c->shape;
    const int64_t d = s.width / s.heads;
    double most = 1;
    for (int64_t n = 0; n < s.rows * s.heads; n++)
        for (int64_t j = 0; j < s.steps; j++) {
            const float *q = qkv + n / s.heads * s.steps * 3 * s.width + n % s.heads * d;
            const float *k = q + s.width + j * 3 * s.width;
            double sum = 0;
            for (int64_t p = j; p < s.steps; p++) {
                double score = 0;
                for (int64_t i = 0; i < d; i++)
                    score += (double)q[p * 3 * s.width + i] * (double)k[i];
                sum += exp(score / sqrt((double)d) - (double)c->sums[n * s.steps + p]);
            }
            most = fmax(most, sum);
        }
    return most;
}

static void check_stored_backward(fixture *f, const attention_case *c)
{
    const ls_attention_shape s = c->shape;
    const int64_t C = s.width, rows = s.rows * s.steps;
    float *qkv = wide(c->qkv, 3 * c->count), *y = wide(c->y, c->count);
    float *dy = wide(c->dy, c->count), *dqkv = randoms(3 * c->count, 2);
    double A;
    const double rho = share_bound(c, qkv, &A), T = (double)s.steps, d = (double)(C / s.heads);
    const double slope = longest_row(dy, rows, C, c) *
                         (longest_row(qkv + 2 * C, rows, 3 * C, c) + longest_row(y, rows, C, c));
    const double cut = rho + (d / 16 + 2) * CUT + d * U + (3 * T / 16 + 8) * CUT;
    apply_attention_backward(f, f->reference,
                             &(ls_attention_backward_args){s, qkv, y, dy, c->sums, dqkv, false});
    compare_rounded("dqkv", c, c->dqkv, dqkv, most_shared(c, qkv) * fmax(slope, 1) * cut,
                    3 * c->count);
    free(qkv), free(y), free(dy), free(dqkv);
}

static void test_stored_attention(void **state)
{
    static const ls_attention_shape shapes[] = {{0, 3, 1, 4},     {1, 1, 1, 1},   {2, 7, 3, 15},
                                                {1, 64, 2, 32},   {1, 65, 1, 32}, {1, 150, 2, 128},
                                                {1, 67, 1, 80},   {2, 35, 1, 96}, {1, 3, 1, 72},
                                                {1, 130, 2, 256}, {1, 330, 1, 16}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        attention_case at[2];
        for (int k = 0; k < 2; k++) {
            at[k] = attention_begin(shapes[i], k);
            attend_stored(f, &at[k]);
            attend_stored_back(f, &at[k]);
        }
        check_stored_forward(f, &at[0]);
        check_stored_backward(f, &at[0]);
        same_bits("moved dqkv", at[0].dqkv, at[1].dqkv,
                  (size_t)(3 * at[0].count) * sizeof *at[0].y);
        same_bits("moved y", at[0].y, at[1].y, (size_t)at[0].count * sizeof *at[0].y);
        attention_end(&at[0], 0), attention_end(&at[1], 1);
    }
}

/* Shares keep a float's bits: of four keys, the first's value is 0, and those of the others are 1
 * and what takes the second's share away, but for 2^-17 of it. */
static void test_stored_shares(void **state)
{
    enum { HEADS = 16, D = 16, T = 4 };
    const ls_attention_shape s = {1, T, HEADS, HEADS * D};
    fixture *f = *state;
    attention_case c = attention_begin(s, 0);
    for (int i = 0; i < T * 3 * HEADS * D; i++) /* small scores, which are off by little */
        if (i % (3 * HEADS * D) < HEADS * D)
            c.qkv[i] = ls_bf16_of_float(ls_float_of_bf16(c.qkv[i]) / 16);
    for (int h = 0; h < HEADS; h++) {
        uint16_t *const q = c.qkv + h * D + 3 * 3 * s.width, *const k = c.qkv + h * D + s.width;
        double score[T] = {0};
        for (int i = 0; i < D; i++)
            k[9 * s.width + i] = k[6 * s.width + i];
        for (int j = 0; j < T; j++)
            for (int i = 0; i < D; i++)
                score[j] += (double)ls_float_of_bf16(q[i]) *
                            (double)ls_float_of_bf16(k[j * 3 * s.width + i]) / 4;
        const double ratio = exp(score[1] - score[2]);
        const uint16_t upper = ls_bf16_of_float((float)-ratio);
        const uint16_t lower = ls_bf16_of_float((float)(-ratio - (double)ls_float_of_bf16(upper)));
        const uint16_t values[T] = {0, 0x3f80, upper, lower};
        for (int j = 0; j < T; j++)
            for (int i = 0; i < D; i++)
                k[j * 3 * s.width + s.width + i] = values[j];
    }
    attend_stored(f, &c);
    float *qkv = wide(c.qkv, 3 * c.count), *y = randoms(c.count, 2), *sums = randoms(T * HEADS, 3);
    double A;
    const double bound = share_bound(&c, qkv, &A);
    apply_attention_forward(f, f->reference, &(ls_attention_forward_args){s, qkv, y, sums, false});
    compare_rounded("y of the last row", &c, c.y + 3 * s.width, y + 3 * s.width, bound, s.width);
    free(qkv), free(y), free(sums);
    attention_end(&c, 0);
}

/* The last of `samples` samples, whatever the others: y and dqkv; the caller frees them. */
static uint16_t *attend_stored_last(fixture *f, int64_t samples)
{
    const ls_attention_shape s = {samples, 67, 2, 48};
    const int64_t row = s.steps * s.width;
    attention_case c = attention_begin(s, 0);
    uint16_t *last = random_bf16(4 * row, 1);
    memcpy(c.qkv + 3 * (c.count - row), last, (size_t)(3 * row) * sizeof *last);
    memcpy(c.dy + c.count - row, last, (size_t)row * sizeof *last);
    attend_stored(f, &c);
    attend_stored_back(f, &c);
    memcpy(last, c.y + c.count - row, (size_t)row * sizeof *last);
    memcpy(last + row, c.dqkv + 3 * (c.count - row), (size_t)(3 * row) * sizeof *last);
    attention_end(&c, 0);
    return last;
}

static void test_stored_apart(void **state)
{
    uint16_t *alone = attend_stored_last(*state, 1), *among = attend_stored_last(*state, 3);
    same_bits("a stored sample among others", among, alone, 4 * 67 * 48 * sizeof *alone);
    free(alone), free(among);
}

#define ATTENTION_BF16_TESTS                                                                       \
    cmocka_unit_test(test_stored_attention), cmocka_unit_test(test_stored_shares),                 \
        cmocka_unit_test(test_stored_apart)
