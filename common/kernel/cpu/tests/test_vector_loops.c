/* SPDX-License-Identifier: MIT */
/*
 * The vector loops: every instruction set of this machine gives the portable one's bits, a range
 * gives the same bits however split or aligned, and the values are right. Tolerances: exponential 1
 * unit in the last place on [-87, 0]; logarithm 4e-16 (1 + |ln x|); bytes / 255 and the sample
 * order exact; a row of softmax does not depend on the others: exact.
 */
#include "common/kernel/cpu/vector.h"
#include "common/kernel/tests/kernel_fixture.h"

#define EXPONENTIAL_ULP 1.0
#define LOGARITHM_ERROR 4e-16

enum { SPACE = 6000 };

typedef struct outcome {
    float data[3][SPACE];
    uint32_t numbers[SPACE];
    double value[3];
} outcome;

static const int64_t counts[] = {0, 1, 2, 5, 15, 16, 17, 31, 33, 63, 100, 129, 257, 511};
enum { COUNTS = sizeof counts / sizeof *counts };

static void prepare(outcome *o)
{
    uint32_t seed = 11;
    memset(o, 0, sizeof *o);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < SPACE; i++)
            o->data[k][i] = noise(&seed);
}

/* Runs loop number `which` on `count` elements that start `shift` elements off. */
typedef void (*loop_call)(const ls_vector_loops *loops, outcome *o, int64_t count, int shift);

static void call_elements(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    float *a = o->data[0] + s, *b = o->data[1] + s, *c = o->data[2] + s;
    l->relu(a, a, n);
    l->mask(a, b, b, n);
    l->add(a, b, c, n);
    l->fill(a + 1000, 0.3f, n);
    l->polynomial(b, a + 2000, n);
    l->exponential(a, b + 1000, n);
    l->exponential(b + 1000, b + 1000, n);
    for (int64_t i = 0; i < n; i++)
        c[2000 + i] = fabsf(c[i]) + 0.5f;
    l->logarithm(c + 2000, &o->value[1], n > 1 ? 1 : n);
}

static void call_columns(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    static const int64_t widths[] = {1, 3, 10, 16, 20};
    for (int k = 0; k < 5; k++) {
        int64_t rows = n / widths[k];
        l->column_sums(o->data[0] + s, rows, widths[k], 0, widths[k], o->data[2] + 100 * k + s);
        l->bias(o->data[1] + s, k % 2 ? o->data[0] + s : NULL, rows, widths[k], k != 3);
    }
}

static void call_dense(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    static const int64_t shapes[][2] = {{3, 1}, {1, 1}, {4, 2}, {2, 5}};
    for (int k = 0; k < 4; k++) {
        int64_t in = shapes[k][0], out = shapes[k][1];
        float *x = o->data[0] + s, *w = o->data[1] + s, *dy = o->data[1] + 100 + s;
        float *y = o->data[2] + s;
        l->dense_forward(&(ls_dense_forward_args){n, in, out, x, w, k ? w + 50 : NULL, y,
                                                  k % 2 ? LS_ACTIVATION_RELU : 0, false});
        l->dense_backward_weights(&(ls_dense_backward_weights_args){
            n, in, out, x, dy, y + 3000, k == 2 ? NULL : y + 3500, false});
        l->dense_backward_data(
            &(ls_dense_backward_data_args){n, in, out, dy, w, k % 2 ? x : NULL, y + 3600, false});
        l->gemm(&(ls_gemm_args){.m = n,
                                .n = out,
                                .k = in,
                                .a = x,
                                .b = w,
                                .c = y + 3000,
                                .transpose_b = k % 2,
                                .accumulate = k > 1});
    }
}

static void call_losses(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    static const int64_t classes[] = {1, 3, 10, 16, 33, 130};
    int32_t labels[512];
    o->value[0] = l->squared_error(o->data[0] + s, o->data[1] + s, 0.1f, o->data[2] + s, n);
    for (int k = 0; k < 6; k++) {
        int64_t rows = n / classes[k];
        for (int64_t r = 0; r < rows; r++)
            labels[r] = (int32_t)(r * 5 % classes[k]);
        const ls_vector_softmax softmax = {.rows = rows,
                                           .classes = classes[k],
                                           .logits = o->data[0] + s,
                                           .labels = labels,
                                           .scale = 0.25f,
                                           .dlogits = o->data[2] + 700 * (k + 1) + s};
        o->value[1] += l->softmax(&softmax);
        o->value[2] += (double)l->count_correct(o->data[0] + s, labels, rows, classes[k]) * (k + 1);
        assert_int_equal(l->bad_label(labels, rows, classes[k], false), -1);
    }
}

static void call_batches(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    const ls_sample_order order = {1000, 5, true};
    ls_order_epoch epoch;
    uint32_t rows[512];
    ls_order_epoch_set(&order, 3, &epoch);
    l->indices(&epoch, 7, (uint64_t)n, o->numbers + s);
    for (int64_t i = 0; i < n; i++)
        rows[i] = o->numbers[s + i] % 40;
    for (int type = 0; type < 2; type++)
        for (int64_t width = 1; width < 10; width += 8) {
            const ls_gather_args gather = {
                n, width, type ? LS_GATHER_FLOAT : 0, o->data[0] + s, rows, o->data[2] + s, 40};
            l->gather(&gather, 0, n);
        }
}

static void call_optimizers(const ls_vector_loops *l, outcome *o, int64_t n, int s)
{
    for (int64_t i = 0; i < n; i++)
        o->data[2][1000 + s + i] = fabsf(o->data[2][1000 + s + i]);
    for (int kind = 0; kind <= LS_OPTIMIZER_RMSPROP; kind++) {
        float *second = o->data[2] + 1000 + s;
        const ls_vector_update u = {.kind = (ls_optimizer_kind)kind,
                                    .weight = o->data[0] + s,
                                    .gradient = o->data[1] + s,
                                    .first = kind == LS_OPTIMIZER_RMSPROP ? second : o->data[2] + s,
                                    .second = second,
                                    .scalars = {.rate = 0.01f,
                                                .keep_first = 0.9f,
                                                .add_first = 0.1f,
                                                .keep_second = 0.99f,
                                                .add_second = 0.01f,
                                                .unbias_second = 3.7f,
                                                .epsilon = 1e-7f}};
        int64_t middle = n / 3; /* a split must not change the bits */
        l->optimizer(&u, 0, s % 2 ? middle : n);
        if (s % 2)
            l->optimizer(&u, middle, n);
    }
}

static const loop_call calls[] = {call_elements, call_columns, call_dense,
                                  call_losses,   call_batches, call_optimizers};

static void test_same_bits_everywhere(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    outcome *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    size_t tables = ls_vector_loops_list(list);
    for (size_t t = 0; t < tables; t++)
        print_message("%s\n", list[t]->isa);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int i = 0; i < COUNTS; i++)
            for (int shift = 0; shift < 4; shift++) {
                prepare(want);
                calls[c](list[0], want, counts[i], shift);
                for (size_t t = 1; t < tables; t++) {
                    prepare(got);
                    calls[c](list[t], got, counts[i], shift);
                    same_bits(list[t]->isa, got, want, sizeof *got);
                }
            }
    free(want), free(got);
}

/* Inputs shifted by 1 to 3 elements give the same results: alignment, split ranges. */
static void test_alignment(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    outcome *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    size_t tables = ls_vector_loops_list(list);
    const size_t keep = (SPACE - 8) * sizeof(float);
    for (size_t t = 0; t < tables; t++)
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            for (int i = 0; i < COUNTS; i++)
                for (int shift = 1; shift < 4; shift++) {
                    prepare(want);
                    prepare(got);
                    for (int k = 0; k < 3; k++)
                        memmove(got->data[k] + shift, want->data[k], keep);
                    calls[c](list[t], want, counts[i], 0);
                    calls[c](list[t], got, counts[i], shift);
                    for (int k = 0; k < 3; k++)
                        same_bits("shifted", got->data[k] + shift, want->data[k], keep);
                    same_bits("value", got->value, want->value, sizeof got->value);
                }
    free(want), free(got);
}

static void test_exponential(void **state)
{
    (void)state;
    const ls_vector_loops *loops = ls_vector_loops_pick();
    double worst = 0;
    enum { BLOCK = 4096 };
    float x[BLOCK], y[BLOCK];
    for (int block = 0; block < 500; block++) {
        for (int i = 0; i < BLOCK; i++)
            x[i] = -87.0f * (float)(block * BLOCK + i) / (500.0f * BLOCK);
        loops->exponential(x, y, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            double want = exp((double)x[i]);
            double ulp = ldexp(1, ilogb(want) - 23);
            double off = fabs((double)y[i] - want) / ulp;
            worst = off > worst ? off : worst;
        }
    }
    print_message("exponential: at most %.3f ulp off\n", worst);
    assert_true(worst <= EXPONENTIAL_ULP);
    const float ends[] = {0, -87.5f, -200, -INFINITY, NAN, -0.0f};
    loops->exponential(ends, y, 6);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0 && isnan(y[4]) && y[5] == 1);
}

static void test_logarithm(void **state)
{
    (void)state;
    const ls_vector_loops *loops = ls_vector_loops_pick();
    double worst = 0, y[1000];
    float x[1000];
    for (int block = 0; block < 200; block++) {
        for (int i = 0; i < 1000; i++)
            x[i] = block < 100 ? 1 + (float)(block * 1000 + i) * 1e-4f
                               : expf((float)(block * 1000 + i - 150000) * 1e-3f);
        loops->logarithm(x, y, 1000);
        for (int i = 0; i < 1000; i++) {
            double off = fabs(y[i] - log((double)x[i])) / (1 + fabs(log((double)x[i])));
            worst = off > worst ? off : worst;
        }
    }
    print_message("logarithm: at most %.2g off\n", worst);
    assert_true(worst <= LOGARITHM_ERROR);
    const float ends[] = {1, NAN, INFINITY};
    loops->logarithm(ends, y, 3);
    assert_true(y[0] == 0 && isnan(y[1]) && !isfinite(y[2]));
}

static void test_bytes(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    uint8_t bytes[256];
    uint32_t index = 0;
    float unit[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (size_t t = ls_vector_loops_list(list); t--;) {
        const ls_gather_args gather = {1, 256, LS_GATHER_BYTES_TO_UNIT, bytes, &index, unit, 1};
        list[t]->gather(&gather, 0, 1);
        for (int i = 0; i < 256; i++)
            assert_true(unit[i] == (float)i / 255.0f);
    }
}

/* The cipher with real divisions, element by element. */
static uint32_t sample_at(const ls_order_epoch *e, uint32_t code)
{
    do {
        uint32_t right = code / e->a, left = code % e->a;
        for (int round = 0; round < LS_ORDER_ROUNDS; round++) {
            uint32_t value = (right + e->key[round]) * 0x9E3779B1u;
            value = (value ^ (value >> 15)) * 0x85EBCA77u;
            value ^= value >> 13;
            uint32_t size = round % 2 ? e->b : e->a;
            uint32_t next = (left + (((value >> 16) * size) >> 16)) % size;
            left = right;
            right = next;
        }
        code = e->a * right + left;
    } while (code >= e->samples);
    return code;
}

static void test_order(void **state)
{
    (void)state;
    static const uint64_t samples[] = {1,     2,     3,       5,          97,        1000,
                                       10000, 60000, 1 << 20, 2147117574, 2147483647};
    enum { PLACES = 5000 };
    const ls_vector_loops *list[4];
    size_t tables = ls_vector_loops_list(list);
    uint32_t *out = calloc(PLACES, sizeof *out);
    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++)
        for (int end = 0; end < 2; end++) {
            const ls_sample_order order = {samples[k], 7, true};
            uint64_t n = samples[k] < PLACES ? samples[k] : PLACES;
            uint64_t first = end ? samples[k] - n : 0;
            ls_order_epoch epoch;
            ls_order_epoch_set(&order, 3, &epoch);
            for (size_t t = 0; t < tables; t++) {
                list[t]->indices(&epoch, first, n, out);
                for (uint64_t i = 0; i < n; i++)
                    assert_int_equal(out[i], sample_at(&epoch, (uint32_t)(first + i)));
            }
            ls_order_epoch_samples(&epoch, first, n, out);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(out[i], sample_at(&epoch, (uint32_t)(first + i)));
        }
    free(out);
}

/* Row r alone gives row r's bits in the batch. */
static void test_softmax_rows(void **state)
{
    (void)state;
    const ls_vector_loops *loops = ls_vector_loops_pick();
    static const int64_t classes[] = {1, 2, 10, 16, 32, 33, 100};
    enum { ROWS = 37 };
    float *z = randoms(ROWS * 100, 1), *batch = randoms(ROWS * 100, 2), *row = randoms(100, 3);
    int32_t labels[ROWS] = {0};
    for (int k = 0; k < 7; k++) {
        ls_vector_softmax all = {.rows = ROWS, .classes = classes[k], .logits = z};
        all.labels = labels, all.scale = 0.5f, all.dlogits = batch;
        loops->softmax(&all);
        for (int r = 0; r < ROWS; r++) {
            ls_vector_softmax one = all;
            one.rows = 1, one.logits = z + r * classes[k], one.dlogits = row;
            loops->softmax(&one);
            same_bits("row", row, batch + r * classes[k], (size_t)classes[k] * sizeof *row);
        }
    }
    free(z), free(batch), free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_logarithm),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_softmax_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
