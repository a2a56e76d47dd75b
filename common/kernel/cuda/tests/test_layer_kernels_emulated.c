/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_layer_kernels.c for the cuda table, without a GPU: see test_kernels_emulated.c.
 * layer_bits.h has what that table promises beyond these tolerances.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/tests/kernel_emulated.h"

uint64_t gpu_emulated_launches(bool only);

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/cuda/tests/layer_bits.h"

/* An invalid label: a fault, and NaN in its row and in the loss. */
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
        must(ls_queue_enqueue(f->queue, op));
        must(ls_queue_sync(f->queue));
        assert_true(fault != 0 && isnan(loss) && isnan(dz[2]) && dz[1] == -0.5f);
        labels[2] = 1, fault = 0;
        run(f, op);
        assert_true(fault == 0 && fabs(loss - 70 * log(2)) < 1e-12);
    }
}

/* A sample's recurrence depends neither on other samples nor on how many a block has, at once or in
 * turn: y and the gates' gradients, [rows,STEPS,states] and four times that; the last sample is the
 * first. */
enum { STEPS = 3 };

static void recurrence(int64_t rows, int64_t states, float *y, float *gates)
{
    const int64_t N = rows * STEPS * states, last = N - STEPS * states;
    const size_t bytes = (size_t)(STEPS * states) * sizeof(float);
    float *weight = randoms(4 * states * states, 1), *bias = randoms(4 * states, 2);
    float *cells = randoms(N, 3), *previous = randoms(N, 4), *dy = randoms(N, 5);
    float *packed = randoms(4 * states * states, 6), *partial = randoms(4 * rows * states, 7);
    const ls_gpu_lstm l = {.shape = {rows, STEPS, 1, states, false},
                           .weight = weight,
                           .packed = packed,
                           .partial = partial,
                           .bias = bias,
                           .gates = gates,
                           .cells = cells,
                           .previous = previous,
                           .y = y,
                           .dy = dy};
    memcpy(dy + last, dy, bytes);
    memcpy(gates + 4 * last, gates, 4 * bytes);
    assert_int_equal(ls_gpu_lstm_forward(NULL, &l), 0);
    assert_int_equal(ls_gpu_lstm_backward(NULL, &l), 0);
    same_bits("y of the same sample", y, y + last, bytes);
    same_bits("gates of the same sample", gates, gates + 4 * last, 4 * bytes);
    free(weight), free(bias), free(cells), free(previous), free(dy), free(packed), free(partial);
}

static void test_samples_apart(void **state)
{
    static const int64_t states[] = {5, 64, 66}, rows[] = {3, 513};
    (void)state;
    for (int s = 0; s < 3; s++) {
        float *y[2], *gates[2];
        for (int i = 0; i < 2; i++) {
            const int64_t N = rows[i] * STEPS * states[s];
            y[i] = randoms(N, 8), gates[i] = randoms(4 * N, 9);
            recurrence(rows[i], states[s], y[i], gates[i]);
        }
        const size_t bytes = 2 * (size_t)(STEPS * states[s]) * sizeof(float); /* two samples */
        same_bits("y", y[0], y[1], bytes);
        same_bits("gates", gates[0], gates[1], 4 * bytes);
        for (int i = 0; i < 2; i++)
            free(y[i]), free(gates[i]);
    }
}

/* ---- Names say what computes the products -----------------------------------------------------
 */

enum { POSITIONS = 128, CHANNELS = 20, OUTPUTS = 1152, PART = 8, NAMED = 5 };

static void check_names(fixture *f, int64_t rows, const char *const names[NAMED])
{
    const ls_kernel_table *t = f->cpu->table;
    const ls_conv_shape s = {
        rows, CHANNELS, OUTPUTS, {1, POSITIONS, 1, POSITIONS, 1, 3, 1, 1, 0, 1}};
    const ls_lstm_shape l = {rows, POSITIONS, CHANNELS, OUTPUTS / 4, false};
    float d[4]; /* nothing is computed */
    ls_op *ops[NAMED];
    must(t->conv_forward(f->cpu, &(ls_conv_forward_args){.shape = s, .x = d, .weight = d, .y = d},
                         &ops[0]));
    must(t->conv_backward_weights(f->cpu, &(ls_conv_backward_weights_args){s, d, d, d, NULL},
                                  &ops[1]));
    must(t->conv_backward_data(f->cpu, &(ls_conv_backward_data_args){s, d, d, d, NULL}, &ops[2]));
    must(t->lstm_forward(f->cpu, &(ls_lstm_forward_args){l, d, d, d, d, d, d}, &ops[3]));
    must(t->lstm_backward(f->cpu, &(ls_lstm_backward_args){l, d, d, d, d, d, NULL, d, d, d},
                          &ops[4]));
    for (int i = 0; i < NAMED; i++) {
        assert_string_equal(strchr(ops[i]->name, '.'), names[i]);
        ls_op_free(ops[i]);
    }
}

/* Of 1,024 rows of windows by 1,152 outputs there are 72 tiles, enough for our own kernel; of a
 * last part of 128 rows, or by 60 terms, 9. It is looked for once: who finds it absent does not ask
 * again. Products are only counted. */
static void test_names(void **state)
{
    static const char *const tiles[NAMED] = {".tiles", ".tiles", ".cublaslt", ".tiles+cuda",
                                             ".tiles+cuda"};
    static const char *const both[NAMED] = {".cublaslt+tiles", ".cublaslt+tiles", ".cublaslt",
                                            ".tiles+cuda", ".tiles+cuda"};
    static const char *const library[NAMED] = {".cublaslt", ".cublaslt", ".cublaslt",
                                               ".cublaslt+cuda", ".cublaslt+cuda"};
    static const char *const none[NAMED] = {".cuda", ".cuda", ".cuda", ".cuda", ".cuda"};
    fixture *f = *state;
    cuda_kernels *cuda = (cuda_kernels *)f->cpu, before = *cuda;
    cuda->way = LS_CONV_PRODUCTS;
    cuda->window_bytes = sizeof(float) * PART * POSITIONS * 3 * CHANNELS;
    blas_counted.only = true;
    gpu_emulated_launches(true);
    check_names(f, PART, tiles);
    assert_int_equal(cuda->tiles, LS_TILES_HERE);
    check_names(f, PART + 1, both);
    check_names(f, 0, none);
    cuda->tiles = LS_TILES_ABSENT;
    check_names(f, PART, library);
    gpu_emulated_launches(false);
    blas_counted.only = false;
    *cuda = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAYER_BITS_TESTS, cmocka_unit_test(test_logistic_fault),
                                       cmocka_unit_test(test_samples_apart),
                                       cmocka_unit_test(test_names)};
    return run_layer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
