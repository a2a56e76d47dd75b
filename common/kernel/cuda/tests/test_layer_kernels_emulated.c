/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_layer_kernels.c for the cuda table, without a GPU: see test_kernels_emulated.c.
 * What that table promises beyond the bounds there is in layer_bits.h.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/tests/kernel_emulated.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/cuda/tests/layer_bits.h"

/* A label that is none: a fault, and NaN in its row and in the loss. */
static void test_logistic_fault(void **state)
{
    fixture *f = *state;
    static const int32_t bad[] = {-1, 2, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        float z[70] = {0}, dz[70];
        int32_t labels[70] = {0, 1, bad[i], 1};
        double loss = 123;
        ls_op *op;
        const ls_logistic_loss_args args = {70, z, labels, 1, dz, &loss};
        must(f->cpu->table->logistic_loss(f->cpu, &args, &op));
        fault = 0;
        must(ls_queue_put(f->queue, op));
        must(ls_queue_sync(f->queue));
        assert_true(fault != 0 && isnan(loss) && isnan(dz[2]) && dz[1] == -0.5f);
        labels[2] = 1, fault = 0;
        run(f, op);
        assert_true(fault == 0 && fabs(loss - 70 * log(2)) < 1e-12);
    }
}

/* ---- The recurrence of few states, and of many ----------------------------------------------- */

/* A shape whose H states lie among `width`; those beyond are zeros. */
typedef struct recurrence {
    ls_lstm_shape shape;
    int64_t width;
    float *y, *gates, *previous; /* y; then the gates' gradients; the states before */
} recurrence;

/* `count` lines of `parts` times H values, as parts of `width`. */
static float *widen(const recurrence *r, int64_t count, int64_t parts, uint32_t seed)
{
    const int64_t H = r->shape.hidden;
    float *values = randoms(count * parts * H, seed);
    float *wide = calloc((size_t)(count * parts * r->width) + 1, sizeof *wide);
    for (int64_t i = 0; i < count * parts; i++)
        memcpy(wide + i * r->width, values + i * H, (size_t)H * sizeof *wide);
    free(values);
    return wide;
}

/* The weights: a line for each element of each gate. */
static float *widen_weights(const recurrence *r)
{
    const int64_t H = r->shape.hidden, P = r->width;
    float *values = randoms(4 * H * H, 3), *wide = calloc((size_t)(4 * P * P), sizeof *wide);
    for (int64_t k = 0; k < 4 * H; k++)
        for (int64_t j = 0; j < H; j++)
            wide[(k / H * P + k % H) * P + j] = values[k * H + j] / sqrtf((float)H);
    free(values);
    return wide;
}

static void run_recurrence(recurrence *r)
{
    const int64_t P = r->width, T = r->shape.steps, N = r->shape.rows * T;
    const int64_t ends = r->shape.last ? r->shape.rows : N;
    float *weight = widen_weights(r), *bias = widen(r, 1, 4, 4), *dy = widen(r, ends, 1, 5);
    float *packed = calloc((size_t)(4 * P * P), sizeof *packed), *cells = widen(r, N, 1, 6);
    float *partial = widen(r, r->shape.rows, 4, 7);
    r->gates = widen(r, N, 4, 8), r->previous = widen(r, N, 1, 9), r->y = widen(r, ends, 1, 10);
    for (int64_t i = 0; i < 4 * P * P; i++)
        packed[i % P * 4 * P + i / P] = weight[i];
    ls_gpu_lstm l = {.shape = r->shape,
                     .weight = weight,
                     .packed = packed,
                     .partial = partial,
                     .bias = bias,
                     .gates = r->gates,
                     .cells = cells,
                     .previous = r->previous,
                     .y = r->y,
                     .dy = dy};
    l.shape.hidden = P;
    assert_int_equal(ls_gpu_lstm_forward(NULL, &l, NULL), 0);
    assert_int_equal(ls_gpu_lstm_backward(NULL, &l, NULL), 0);
    free(weight), free(bias), free(dy), free(packed), free(cells), free(partial);
}

/* The first `lines` lines of both. */
static void same_lines(const char *name, const recurrence *a, const float *got, const recurrence *b,
                       const float *want, int64_t lines)
{
    const size_t bytes = (size_t)a->shape.hidden * sizeof *got;
    for (int64_t i = 0; i < lines; i++)
        same_bits(name, got + i * a->width, want + i * b->width, bytes);
}

static void same_recurrences(recurrence *a, recurrence *b, int64_t rows)
{
    const int64_t T = a->shape.steps;
    run_recurrence(a);
    run_recurrence(b);
    same_lines("y", a, a->y, b, b->y, rows * (a->shape.last ? 1 : T));
    same_lines("gates", a, a->gates, b, b->gates, rows * T * 4);
    same_lines("previous", a, a->previous, b, b->previous, rows * T);
    free(a->y), free(a->gates), free(a->previous), free(b->y), free(b->gates), free(b->previous);
}

/* Kernels of their own, the same bits; nor do a sample's depend on how many there are. */
static void test_few_states(void **state)
{
    static const int64_t hidden[] = {1, 20, LS_GPU_LSTM_FEW};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const ls_lstm_shape few = {3, 4, 1, hidden[i], i & 1}, many = {513, 4, 1, hidden[i], i & 1};
        recurrence a = {few, hidden[i], NULL, NULL, NULL}, b = {few, 80, NULL, NULL, NULL};
        recurrence c = {many, hidden[i], NULL, NULL, NULL}, d = {many, 80, NULL, NULL, NULL};
        same_recurrences(&a, &b, few.rows);
        same_recurrences(&c, &d, many.rows);
        same_recurrences(&a, &c, few.rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAYER_BITS_TESTS, cmocka_unit_test(test_logistic_fault),
                                       cmocka_unit_test(test_few_states)};
    return run_layer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
