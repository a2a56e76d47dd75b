/* SPDX-License-Identifier: MIT */
/*
 * The cpu table against the reference: every entry of transformers, over edge shapes. u = 2^-24.
 * Other files include this one to do the same with other tables.
 *
 * Bounds:
 *     embedding_forward, positions_forward   the same bits
 *     embedding_backward, positions_backward  (rows + 2) u sum |terms|
 *     layer_norm_*    1e-5 of the largest: means of C values, and a sum over the rows
 *     gelu_*          8 u (1 + |x|)
 *     attention_*     1e-5 of the largest: sums of T and of d products
 */
#include "common/base/bf16_inline.h"
#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/softmax_slices.h"

/* Tokens of `rows` rows below `tokens`. */
static float *token_rows(int64_t rows, int64_t tokens)
{
    float *x = randoms(rows, 7);
    for (int64_t i = 0; i < rows; i++)
        x[i] = (float)((i * i + 3 * i) % tokens);
    return x;
}

static double largest_of(const float *x, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

/* got = want within `factor` of the largest, and nothing behind it is written. */
static void near(const char *what, const float *got, const float *want, double factor,
                 int64_t count)
{
    compare(what, got, want, NULL, factor * largest_of(want, count), count);
    same_bits("behind", got + count, want + count, sizeof *got);
}

/* rows, tokens, width */
static const int64_t token_shapes[][3] = {
    {0, 3, 4}, {1, 1, 1}, {7, 5, 17}, {300, 50, 33}, {64, 256, 16}};
enum { TOKEN_SHAPES = sizeof token_shapes / sizeof *token_shapes };

static void test_embedding_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < TOKEN_SHAPES; i++) {
        const int64_t *s = token_shapes[i], count = s[0] * s[2];
        float *x = token_rows(s[0], s[1]), *weight = randoms(s[1] * s[2], 1);
        float *got = randoms(count, 2), *want = randoms(count, 2);
        ls_embedding_forward_args args = {s[0], s[1], s[2], x, weight, got, 0, 0};
        apply_embedding_forward(f, f->cpu, &args);
        args.y = want;
        apply_embedding_forward(f, f->reference, &args);
        same_bits("embedding", got, want, (size_t)(count + 1) * sizeof *got);
        /* Two slices, each with -0.0 for the other's tokens: their sum has the bits of the whole.
         */
        for (int k = 0; k < 2 && s[1] > 1; k++) {
            float *y[2] = {randoms(count, 3), randoms(count, 4)};
            const int64_t cut = s[1] / 3 + 1;
            ls_kernels *table = k ? f->cpu : f->reference;
            weight[0] = -0.0F;
            for (int slice = 0; slice < 2; slice++) {
                const int64_t begin = slice ? cut : 0, end = slice ? s[1] : cut;
                apply_embedding_forward(f, table,
                                        &(ls_embedding_forward_args){s[0], end - begin, s[2], x,
                                                                     weight + begin * s[2],
                                                                     y[slice], begin, s[1]});
            }
            args.y = want;
            apply_embedding_forward(f, f->reference, &args);
            for (int64_t e = 0; e < count; e++) {
                const float sum = y[0][e] + y[1][e];
                same_bits("slices", &sum, &want[e], sizeof sum);
            }
            free(y[0]), free(y[1]);
        }
        free(x), free(weight), free(got), free(want);
    }
}

static void test_embedding_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < TOKEN_SHAPES; i++) {
        const int64_t *s = token_shapes[i], count = s[1] * s[2];
        float *x = token_rows(s[0], s[1]), *dy = randoms(s[0] * s[2], 1);
        float *dy1 = absolutes(dy, s[0] * s[2]), *limit = randoms(count, 2);
        float *got = randoms(count, 2), *want = randoms(count, 2);
        ls_embedding_backward_args args = {s[0], s[1], s[2], x, dy, got, 0};
        apply_embedding_backward(f, f->cpu, &args);
        args.dweight = want;
        apply_embedding_backward(f, f->reference, &args);
        args.dweight = limit, args.dy = dy1;
        apply_embedding_backward(f, f->reference, &args);
        compare("embedding", got, want, limit, (double)(s[0] + 2) * U, count);
        same_bits("behind", got + count, want + count, sizeof *got);
        for (int k = 0; k < 2 && s[1] > 1; k++) { /* the last tokens */
            ls_embedding_backward_args slice = {s[0], s[1] - 1, s[2], x, dy, want, 1};
            args.dweight = limit, args.dy = dy;
            apply_embedding_backward(f, k ? f->cpu : f->reference, &args);
            apply_embedding_backward(f, k ? f->cpu : f->reference, &slice);
            same_bits("slice", want, limit + s[2], (size_t)(count - s[2]) * sizeof *want);
        }
        free(x), free(dy), free(dy1), free(limit), free(got), free(want);
    }
}

/* rows, count */
static const int64_t position_shapes[][2] = {{0, 3}, {1, 1}, {5, 130}, {3, 0}, {16, 1000}};
enum { POSITION_SHAPES = sizeof position_shapes / sizeof *position_shapes };

static void test_positions_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < POSITION_SHAPES; i++) {
        const int64_t *s = position_shapes[i], count = s[0] * s[1];
        float *x = randoms(count, 1), *weight = randoms(s[1], 2);
        float *got = randoms(count, 3), *want = randoms(count, 3);
        ls_positions_forward_args args = {s[0], s[1], x, weight, got};
        apply_positions_forward(f, f->cpu, &args);
        args.y = want;
        apply_positions_forward(f, f->reference, &args);
        same_bits("positions", got, want, (size_t)(count + 1) * sizeof *got);
        free(x), free(weight), free(got), free(want);
    }
}

static void test_positions_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < POSITION_SHAPES; i++) {
        const int64_t *s = position_shapes[i];
        float *dy = randoms(s[0] * s[1], 1), *got = randoms(s[1], 2), *want = randoms(s[1], 2);
        ls_positions_backward_args args = {s[0], s[1], dy, got};
        apply_positions_backward(f, f->cpu, &args);
        args.dweight = want;
        apply_positions_backward(f, f->reference, &args);
        compare("positions", got, want, NULL, (double)(s[0] * (s[0] + 2)) * U, s[1]);
        same_bits("behind", got + s[1], want + s[1], sizeof *got);
        free(dy), free(got), free(want);
    }
}

/* rows, width: whole and odd vectors, fewer and more rows than groups */
static const int64_t norm_shapes[][2] = {{0, 4}, {1, 1}, {3, 17}, {70, 64}, {257, 33}, {40, 128}};
enum { NORM_SHAPES = sizeof norm_shapes / sizeof *norm_shapes };

static void norm_forward(fixture *f, ls_kernels *table, const int64_t *s, const float *x, float *y,
                         float *moments)
{
    float *weight = randoms(s[1], 2), *bias = randoms(s[1], 3);
    apply_layer_norm_forward(
        f, table, &(ls_layer_norm_forward_args){s[0], s[1], 1e-5, x, weight, bias, y, moments});
    free(weight), free(bias);
}

static void test_layer_norm_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < NORM_SHAPES; i++) {
        const int64_t *s = norm_shapes[i], count = s[0] * s[1];
        float *x = randoms(count, 1), *y[2], *moments[2];
        for (int64_t e = 0; e < count; e++)
            x[e] += 3;
        for (int k = 0; k < 2; k++) {
            y[k] = randoms(count, 4), moments[k] = randoms(2 * s[0], 5);
            norm_forward(f, k ? f->reference : f->cpu, s, x, y[k], moments[k]);
        }
        if (s[1] > 1) /* of one value the rate is that of epsilon, and y the bias */
            near("y", y[0], y[1], 1e-5, count);
        near("moments", moments[0], moments[1], 1e-5, 2 * s[0]);
        for (int k = 0; k < 2; k++)
            free(y[k]), free(moments[k]);
        free(x);
    }
}

static void test_layer_norm_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < NORM_SHAPES; i++) {
        const int64_t *s = norm_shapes[i], count = s[0] * s[1];
        float *x = randoms(count, 1), *y = randoms(count, 4), *moments = randoms(2 * s[0], 5);
        float *weight = randoms(s[1], 2), *dy = randoms(count, 6), *got[2][3];
        norm_forward(f, f->reference, s, x, y, moments);
        for (int k = 0; k < 2; k++) {
            got[k][0] = randoms(count, 7), got[k][1] = randoms(s[1], 8),
            got[k][2] = randoms(s[1], 9);
            apply_layer_norm_backward(f, k ? f->reference : f->cpu,
                                      &(ls_layer_norm_backward_args){s[0], s[1], x, weight, moments,
                                                                     dy, got[k][0], got[k][1],
                                                                     .dbias = got[k][2]});
        }
        if (s[1] > 1) /* else dx is 0 but for rounding */
            near("dx", got[0][0], got[1][0], 1e-5, count);
        near("dweight", got[0][1], got[1][1], 1e-5, s[1]);
        near("dbias", got[0][2], got[1][2], 1e-5, s[1]);
        for (int k = 0; k < 6; k++)
            free(got[k / 3][k % 3]);
        free(x), free(y), free(moments), free(weight), free(dy);
    }
}

/* What is added to dx is what overwrites it, or that rounded to bfloat16: the same bits. */
static void test_layer_norm_adds(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2 * NORM_SHAPES; i++) {
        const int64_t *s = norm_shapes[i / 2], count = s[0] * s[1];
        ls_kernels *const kernels = i % 2 ? f->reference : f->cpu;
        float *x = randoms(count, 1), *y = randoms(count, 4), *moments = randoms(2 * s[0], 5);
        float *weight = randoms(s[1], 2), *dy = randoms(count, 6), *dweight = randoms(s[1], 8);
        float *dbias = randoms(s[1], 9), *dx[3];
        norm_forward(f, kernels, s, x, y, moments);
        for (int way = 0; way < 3; way++) {
            dx[way] = randoms(count, 7);
            apply_layer_norm_backward(
                f, kernels,
                &(ls_layer_norm_backward_args){s[0], s[1], x, weight, moments, dy, dx[way], dweight,
                                               dbias, .adds = way > 0, .rounds = way > 1});
        }
        const float *before = randoms(count, 7);
        for (int64_t e = 0; e < count; e++) {
            const float rounded = ls_float_of_bf16(ls_bf16_of_float(dx[0][e]));
            assert_true(dx[1][e] == before[e] + dx[0][e]);
            assert_true(dx[2][e] == before[e] + rounded);
        }
        free(x), free(y), free(moments), free(weight), free(dy), free(dweight), free(dbias);
        free(dx[0]), free(dx[1]), free(dx[2]), free((void *)(uintptr_t)before);
    }
}

static void check_gelu(fixture *f, bool backward)
{
    static const int64_t counts[] = {0, 1, 17, 5000};
    for (int i = 0; i < 4; i++) {
        const int64_t count = counts[i];
        float *x = randoms(count, 1), *dy = randoms(count, 2), *got[2];
        float *limit = randoms(count, 3);
        for (int64_t e = 0; e < count; e++) {
            x[e] *= e % 7 == 0 ? 100 : 6;
            limit[e] = 1 + fabsf(x[e]);
        }
        for (int k = 0; k < 2; k++) {
            ls_kernels *table = k ? f->reference : f->cpu;
            got[k] = randoms(count, 2); /* the same as dy, which may be dx */
            if (backward)
                apply_gelu_backward(f, table,
                                    &(ls_gelu_backward_args){count, x, k ? dy : got[k], got[k]});
            else
                apply_gelu_forward(f, table, &(ls_gelu_forward_args){count, x, got[k]});
        }
        compare("gelu", got[0], got[1], limit, 8 * U, count);
        same_bits("behind", got[0] + count, got[1] + count, sizeof *dy);
        free(x), free(dy), free(limit), free(got[0]), free(got[1]);
    }
}

static void test_gelu_forward(void **state)
{
    check_gelu(*state, false);
}

static void test_gelu_backward(void **state)
{
    check_gelu(*state, true);
}

/* Each element by its number, wherever rows and blocks of four begin; in place, too. */
static void test_dropout(void **state)
{
    static const int64_t shapes[][4] = {
        /* whole, begin; 0: all are here */
        {0, 3},   {3, 0},        {1, 1},        {5, 7},         {2, 1000},
        {700, 3}, {3, 8, 20, 4}, {5, 7, 23, 9}, {300, 3, 7, 4}, {2, 900, 2000, 1100}};
    fixture *f = *state;
    const ls_random random = ls_random_stream(9, "dropout/drop");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t rows = shapes[i][0], width = shapes[i][1], count = rows * width;
        const int64_t whole = shapes[i][2] ? shapes[i][2] : width, begin = shapes[i][3];
        const uint64_t first = UINT64_C(3000000001) + (uint64_t)i;
        for (int k = 0; k < 3; k++) {
            float *x = randoms(count, 1), *y = randoms(count, 1);
            const ls_dropout_args args = {rows,
                                          width,
                                          whole,
                                          begin,
                                          random,
                                          &first,
                                          k == 2 ? 0 : 1u << 30,
                                          k == 2 ? 1 : 4.0f / 3,
                                          k ? y : x,
                                          y};
            apply_dropout(f, k ? f->cpu : f->reference, &args);
            for (int64_t e = 0; e < count; e++) {
                const uint64_t sample = first + (uint64_t)(e / width);
                const uint32_t bits = ls_random_bits(random, sample * (uint64_t)whole +
                                                                 (uint64_t)(begin + e % width));
                const float right = bits >= args.threshold ? x[e] * args.factor : 0;
                same_bits("dropout", &y[e], &right, sizeof right);
            }
            same_bits("behind", y + count, x + count, sizeof *x);
            free(x), free(y);
        }
    }
}

/* Stream dropout/drop under seed 9, samples of 80 elements: element e of the sample at position p
 * has these bits, computed by another Philox4x32-10 and XXH3-64. A threshold just above drops it.
 */
static void test_dropout_known(void **state)
{
    static const struct {
        uint64_t p;
        int e;
        uint32_t bits;
    } known[] = {{0, 0, 0xab39eb02},       {0, 1, 0xac1d0551}, {0, 2, 0xe5317eaf},
                 {0, 5, 0x32705359},       {1, 0, 0x38696be4}, {7, 3, 0xc8576d75},
                 {1000003, 79, 0x4baad645}};
    enum { WIDTH = 80 };
    fixture *f = *state;
    for (size_t i = 0; i < 4 * sizeof known / sizeof *known; i++) {
        float x[WIDTH], y[WIDTH];
        const bool dropped = i & 1;
        const uint32_t threshold = known[i / 4].bits + dropped;
        const ls_dropout_args args = {.rows = 1,
                                      .width = WIDTH,
                                      .whole = WIDTH,
                                      .random = ls_random_stream(9, "dropout/drop"),
                                      .first = &known[i / 4].p,
                                      .threshold = threshold,
                                      .factor = 2,
                                      .x = x,
                                      .y = y};
        for (int e = 0; e < WIDTH; e++)
            x[e] = 1;
        apply_dropout(f, i & 2 ? f->cpu : f->reference, &args);
        assert_true(y[known[i / 4].e] == (dropped ? 0 : 2));
    }
}

/* rows, steps, heads, width: one and several blocks of queries, odd sizes; the widest head whose
 * keys are copied into panels, and wider ones; one of several blocks of queries and of channels;
 * more keys than a block of a product is deep */
static const ls_attention_shape attention_shapes[] = {
    {0, 3, 1, 4},   {1, 1, 1, 1},    {2, 7, 3, 15},   {1, 64, 2, 32},
    {2, 65, 1, 8},  {1, 150, 2, 40}, {1, 35, 1, 264}, {1, 35, 1, 265},
    {2, 3, 2, 140}, {1, 67, 1, 68},  {1, 300, 1, 6}};
enum { ATTENTION_SHAPES = sizeof attention_shapes / sizeof *attention_shapes };

static void test_attention_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < ATTENTION_SHAPES; i++) {
        const ls_attention_shape s = attention_shapes[i];
        const int64_t count = s.rows * s.steps * s.width, sums = s.rows * s.steps * s.heads;
        float *qkv = randoms(3 * count, 1), *y[2], *kept[2];
        for (int64_t e = 0; e < 3 * count; e++)
            qkv[e] *= 3;
        for (int k = 0; k < 2; k++) {
            y[k] = randoms(count, 2), kept[k] = randoms(sums, 3);
            apply_attention_forward(f, k ? f->reference : f->cpu,
                                    &(ls_attention_forward_args){s, qkv, y[k], kept[k], false});
        }
        near("y", y[0], y[1], 1e-5, count);
        near("sums", kept[0], kept[1], 1e-5, sums);
        for (int k = 0; k < 2; k++)
            free(y[k]), free(kept[k]);
        free(qkv);
    }
}

static void test_attention_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < ATTENTION_SHAPES; i++) {
        const ls_attention_shape s = attention_shapes[i];
        const int64_t count = s.rows * s.steps * s.width, sums = s.rows * s.steps * s.heads;
        float *qkv = randoms(3 * count, 1), *y = randoms(count, 2), *kept = randoms(sums, 3);
        float *dy = randoms(count, 4), *dqkv[2];
        apply_attention_forward(f, f->reference,
                                &(ls_attention_forward_args){s, qkv, y, kept, false});
        for (int k = 0; k < 2; k++) {
            dqkv[k] = randoms(3 * count, 5);
            apply_attention_backward(
                f, k ? f->reference : f->cpu,
                &(ls_attention_backward_args){s, qkv, y, dy, kept, dqkv[k], false});
        }
        near("dqkv", dqkv[0], dqkv[1], 1e-5, 3 * count);
        free(qkv), free(y), free(kept), free(dy), free(dqkv[0]), free(dqkv[1]);
    }
}

static int run_transformer_tests(void)
{
    /* One test for each entry of the table: a new entry without a test does not compile. */
#define ENTRY_TEST(entry, args) cmocka_unit_test(test_##entry),
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropout_known),
                                       cmocka_unit_test(test_layer_norm_adds),
                                       LS_KERNEL_TRANSFORMER_ENTRIES(ENTRY_TEST)};
#undef ENTRY_TEST
    return cmocka_run_group_tests(tests, setup, teardown);
}

#ifndef OTHER_MAIN
/* What is no token makes the op fail. */
static void test_wrong_tokens(void **state)
{
    fixture *f = *state;
    static const float wrong[] = {-1, 3, 0.5f, NAN};
    for (int i = 0; i < 8; i++) {
        ls_kernels *table = i & 1 ? f->cpu : f->reference;
        float x[2] = {0, wrong[i / 2]}, weight[6] = {0}, y[4];
        ls_op *op;
        must(table->table->embedding_forward(
            table, &(ls_embedding_forward_args){2, 3, 2, x, weight, y, 0, 0}, &op));
        must(ls_queue_enqueue(f->queue, op));
        ls_status status = ls_queue_sync(f->queue);
        assert_non_null(status);
        assert_non_null(strstr(ls_status_text(status), "row 1"));
        ls_status_free(status);
        ls_op_free(op);
        fixture_close(f); /* its queue has failed */
        memset(f, 0, sizeof *f);
        fixture_open(f, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_tokens)};
    return run_transformer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
#endif
