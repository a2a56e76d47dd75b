/* SPDX-License-Identifier: MIT */
/*
 * What processors and GPUs compile from the same text, and what the CUDA table asks cuBLASLt for,
 * tried on the host: shapes as products of columns against the reference, an optimizer's elements
 * and the order of samples against the cpu table. The same bits; products: (k + 4) u sum |terms|.
 */
#include "common/base/order_inline.h"
#include "common/kernel/cuda/column_product.h"
#include "common/kernel/step_inline.h"
#include "common/kernel/tests/kernel_fixture.h"

static const double unit = 0x1p-24;

/* ---- Products of columns ----------------------------------------------------------------------
 */

/* The definition of ls_column_product, in float, with the bound of each element in `limit`. */
static void multiply(const ls_column_product *p, float *limit)
{
    const float *a = p->a, *b = p->b, *bias = p->bias;
    float *c = p->c;
    const int64_t step_a = ls_column_rows_of_a(p), step_b = ls_column_rows_of_b(p);
    for (int64_t column = 0; column < p->n; column++)
        for (int64_t row = 0; row < p->m; row++) {
            const int64_t at = column * p->m + row;
            float sum = 0, terms = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const float x = p->transpose_a ? a[row * step_a + k] : a[k * step_a + row];
                const float y = p->transpose_b ? b[k * step_b + column] : b[column * step_b + k];
                sum += x * y;
                terms += fabsf(x * y);
            }
            const float more = (p->accumulate ? c[at] : 0) + (bias ? bias[row] : 0);
            c[at] = p->relu ? fmaxf(sum + more, 0) : sum + more;
            limit[at] = (float)((double)(p->k + 4) * unit * (double)(terms + fabsf(more)));
        }
}

static void same_product(const char *what, const ls_column_product *p, const float *want)
{
    float *limit = randoms(p->m * p->n, 0);
    multiply(p, limit);
    compare(what, p->c, want, limit, 1, p->m * p->n);
    free(limit);
}

static void products_have_their_shapes(void **state)
{
    fixture *f = *state;
    enum { ROWS = 7, INPUTS = 5, OUTPUTS = 3, MOST = ROWS * INPUTS };
    float *x = randoms(MOST, 1), *w = randoms(MOST, 2), *dy = randoms(MOST, 3);
    float *bias = randoms(OUTPUTS, 4), *got = randoms(MOST, 5), *want = randoms(MOST, 5);
    const ls_kernel_table *t = f->reference->table;
    ls_op *op;
    for (int way = 0; way < 4; way++) {
        ls_dense_forward_args args = {ROWS, INPUTS, OUTPUTS, x, w, way & 1 ? bias : NULL, want, 0};
        args.activation = way & 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE;
        must(t->dense_forward(f->reference, &args, &op));
        run(f, op);
        args.y = got;
        const ls_column_product forward = ls_column_dense_forward(&args);
        same_product("dense_forward", &forward, want);
    }
    ls_dense_backward_weights_args weights = {ROWS, INPUTS, OUTPUTS, x, dy, want, NULL};
    must(t->dense_backward_weights(f->reference, &weights, &op));
    run(f, op);
    weights.dweight = got;
    const ls_column_product backward = ls_column_dense_backward_weights(&weights);
    same_product("dense_backward_weights", &backward, want);

    ls_dense_backward_data_args data = {ROWS, INPUTS, OUTPUTS, dy, w, NULL, want};
    must(t->dense_backward_data(f->reference, &data, &op));
    run(f, op);
    data.dx = got;
    const ls_column_product below = ls_column_dense_backward_data(&data);
    same_product("dense_backward_data", &below, want);
    free(x), free(w), free(dy), free(bias), free(got), free(want);
}

static void gemms_have_their_shapes(void **state)
{
    fixture *f = *state;
    enum { M = 4, N = 7, K = 5, MOST = 35 };
    for (int way = 0; way < 8; way++) {
        float *a = randoms(MOST, 1), *b = randoms(MOST, 2);
        float *got = randoms(MOST, 3), *want = randoms(MOST, 3); /* alike: c is added to */
        ls_gemm_args args = {way & 1, way & 2, M, N, K, a, b, want, way & 4};
        ls_op *op;
        must(f->reference->table->gemm(f->reference, &args, &op));
        run(f, op);
        args.c = got;
        const ls_column_product product = ls_column_gemm(&args);
        same_product("gemm", &product, want);
        free(a), free(b), free(got), free(want);
    }
}

/* ---- Elements ---------------------------------------------------------------------------------
 */

static void check_update(fixture *f, ls_optimizer_kind kind, uint64_t step)
{
    enum { COUNT = 1001 };
    ls_step_state at = {.step = step, .learning_rate = 0.01};
    float *got[4], *want[4];
    for (uint32_t i = 0; i < 4; i++) {
        got[i] = randoms(COUNT, i + 1);
        for (int j = 0; j < COUNT; j++) /* slots that are sums of squares are not negative */
            got[i][j] = i > 1 ? fabsf(got[i][j]) : got[i][j];
        want[i] = malloc((COUNT + 1) * sizeof(float));
        assert_non_null(want[i]);
        memcpy(want[i], got[i], COUNT * sizeof(float));
    }
    ls_optimizer_args args = {.kind = kind,
                              .count = COUNT,
                              .weight = want[0],
                              .gradient = want[1],
                              .slot = {want[2], want[3]},
                              .mu = 0.9,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .rho = 0.9,
                              .epsilon = 1e-7,
                              .state = &at};
    ls_op *op;
    must(f->cpu->table->optimizer(f->cpu, &args, &op));
    run(f, op);
    ls_update_scalars scalars;
    ls_update_begin(&args, &scalars);
    for (int i = 0; i < COUNT; i++)
        ls_update_element(kind, &scalars, got[1][i], &got[0][i], &got[2][i], &got[3][i]);
    for (int i = 0; i < 4; i++) {
        same_bits("update", got[i], want[i], COUNT * sizeof(float));
        free(got[i]), free(want[i]);
    }
}

static void updates_have_the_bits_of_the_cpu_table(void **state)
{
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++) {
        check_update(*state, (ls_optimizer_kind)kind, 0);
        check_update(*state, (ls_optimizer_kind)kind, 12345);
    }
}

/* One sample at a time, as a GPU's thread finds it, keys and all. */
static void single_samples_are_those_of_the_order(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static const uint64_t sizes[] = {1, 2, 3, 50, 97, 1000, 60000, INT32_MAX};
    uint32_t want[MOST];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            const ls_sample_order order = {.samples = sizes[i], .seed = 7, .shuffle = shuffle};
            ls_order_epoch cache = {.epoch = UINT64_MAX}, like;
            const uint64_t first = sizes[i] * 5 - 1; /* over the end of an epoch */
            ls_order_samples(&order, first, MOST, &cache, want);
            ls_order_epoch_set(&order, 0, &like);
            for (uint64_t j = 0; j < MOST; j++) {
                like.epoch = (first + j) / sizes[i];
                if (shuffle)
                    ls_order_set_keys(ls_order_stream(&order), &like);
                assert_int_equal(ls_order_sample(&like, (uint32_t)((first + j) % sizes[i])),
                                 want[j]);
            }
        }
}

static void powers_are_powers(void **state)
{
    (void)state;
    assert_true(ls_step_power(0.5, 0) == 1 && ls_step_power(0.5, 10) == 0x1p-10);
    assert_true(ls_step_power(3, 5) == 243);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_have_their_shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(gemms_have_their_shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(updates_have_the_bits_of_the_cpu_table, setup, teardown),
        cmocka_unit_test(single_samples_are_those_of_the_order),
        cmocka_unit_test(powers_are_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
