/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_kernels.c for the cuda table, without a GPU: its own code on the host, its
 * kernels compiled for a CPU (gpu_emulate.h), and loops instead of cuBLASLt (blas_emulate.h).
 * Tolerances as there, and in kernel_bits.h and kernel_step.h. Shows that indices, layouts,
 * barriers and arithmetic are right; nothing about a GPU's compiler, memory and libraries.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#define STEP_COMPARED 5
#define BF16_SHAPES   6
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/tests/kernel_bits.h"
#include "common/kernel/cuda/tests/kernel_emulated.h"
#include "common/kernel/cuda/tests/product_bits.h"
#include "common/kernel/tests/kernel_staging.h"
#include "common/kernel/tests/kernel_step.h"

uint64_t gpu_emulated_launches(bool only);

#define OTHER_MAIN
#include "common/kernel/tests/test_kernels.c"

#include "common/kernel/cuda/tests/bf16_bits.h"

/* ---- What a GPU cannot return ------------------------------------------------------------------
 */

static void check_fault(fixture *f, int64_t classes, int32_t bad)
{
    float *z = calloc((size_t)(7 * classes), sizeof *z), *dz = randoms(7 * classes, 1);
    int32_t labels[7] = {0, 9, 3, 4, 5, bad, 1};
    double loss = 123;
    ls_op *op;
    const ls_softmax_cross_entropy_args args = {7, classes, z, labels, 1, NULL, dz, &loss};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    fault = 0;
    must(ls_queue_enqueue(f->queue, op));
    must(ls_queue_sync(f->queue));
    assert_true(fault != 0 && isnan(loss) && isnan(dz[5 * classes]) && !isnan(dz[0]));
    labels[5] = 2, fault = 0;
    run(f, op);
    assert_true(fault == 0 && fabs(loss - 7 * log((double)classes)) < 1e-12);
    free(z), free(dz);
}

static void test_fault(void **state)
{
    static const int64_t classes[] = {10, 4099}; /* the latter: a block a row */
    for (int i = 0; i < 2; i++) {
        const int32_t bad[] = {-1, (int32_t)classes[i], INT32_MIN, INT32_MAX};
        for (int b = 0; b < 4; b++)
            check_fault(*state, classes[i], bad[b]);
    }
}

/* The largest element, the first among equals, at any position; NaN is found only at the first. */
static void test_flips(void **state)
{
    fixture *f = *state;
    static const int64_t places[] = {0, 1, 255, 256, 257, 511, 999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int way = 0; way < 4; way++) {
            float *got = randoms(1000, 1), *want = randoms(1000, 1);
            const ls_step_state at = {.step = 4};
            got[places[i]] = way & 1 ? INFINITY : -3;
            got[999] = way & 1 ? INFINITY : 3;
            got[way & 2 ? 0 : 500] = NAN;
            memcpy(want, got, 1000 * sizeof *want);
            apply_flip_bit(f, f->cpu, &(ls_flip_bit_args){1000, got, &at, 4});
            apply_flip_bit(f, f->reference, &(ls_flip_bit_args){1000, want, &at, 4});
            same_bits("flip_bit", got, want, 1000 * sizeof *got);
            free(got), free(want);
        }
}

/* Several parts of the loss, in a ring. */
static void test_more_losses(void **state)
{
    fixture *f = *state;
    enum { MORE = 127, CAPACITY = 3 };
    double loss[1 + MORE], ring[CAPACITY][MORE];
    ls_step_state at = {.record = 4, .learning_rate = 1};
    ls_step_record records[CAPACITY];
    for (int i = 0; i <= MORE; i++)
        loss[i] = i;
    const ls_rate_schedule halves = {.initial = 0.5, .factor = 0.5, .period = 2};
    const ls_finish_step_args args = {&at, 32, halves, loss, records, CAPACITY, MORE, &ring[0][0]};
    apply_finish_step(f, f->cpu, &args);
    for (int i = 0; i < MORE; i++)
        assert_true(ring[1][i] == i + 1);
    assert_true(records[1].loss == 0 && at.record == 5 && at.learning_rate == 0.5);
    unsigned told = 0; /* notifies the host, which reads no device memory meanwhile */
    assert_int_equal(ls_gpu_finish_step(NULL, &args, &told), 0);
    assert_true(told == 6 && at.record == 6);
}

static void test_step(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f);
    step_compare(f->queue, f->cpu, f->queue, cpu);
    cpu->table->close(cpu);
}

static void test_tf32(void **state)
{
    fixture *f = *state;
    assert_true(check_tf32(f, f->cpu, 100) < 100 * 100 / 2);
}

/* Only measuring roofs uses the library's first choice, which splits sums. */
static void test_any_order(void **state)
{
    fixture *f = *state;
    enum { SIDE = 20 };
    float a[SIDE * SIDE] = {0}, b[SIDE * SIDE] = {0}, c[SIDE * SIDE];
    const ls_gemm_args args = {.m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = b, .c = c};
    for (int any = 0; any < 2; any++) {
        ls_op *op;
        f->cpu->any_order = any;
        blas_pieces.allowed = any ? 4 : 1;
        must(f->cpu->table->gemm(f->cpu, &args, &op));
        assert_int_equal(blas_pieces.latest, any ? 4 : 1);
        ls_op_free(op);
    }
    f->cpu->any_order = false;
    blas_pieces.allowed = 1;
}

/* Candidates are tried in order until one runs; a lack of memory ends the trial. */
static void test_candidates(void **state)
{
    static const struct {
        int64_t k; /* divisible by 3: no candidates without split sums */
        cublasStatus_t failure;
        uint64_t tried;
        const char *text; /* of the failure */
    } cases[] = {
        {20, CUBLAS_STATUS_SUCCESS, 2, NULL},
        {21, CUBLAS_STATUS_SUCCESS, 1, NULL},
        {20, CUBLAS_STATUS_NOT_SUPPORTED, 3 + 2,
         "cuBLASLt: 4x4x20: cuBLASLt has no algorithm without split-K for this matrix product"},
        {20, CUBLAS_STATUS_ALLOC_FAILED, 1,
         "cuBLASLt: try a product: this function of cuBLASLt failed: CUBLAS_STATUS_"},
    };
    fixture *f = *state;
    float data[21 * 4] = {0}, c[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_op *op = NULL;
        blas_failure = cases[i].failure;
        blas_counted.refused = 0;
        ls_status status = f->cpu->table->gemm(
            f->cpu, &(ls_gemm_args){.m = 4, .n = 4, .k = cases[i].k, .a = data, .b = data, .c = c},
            &op);
        blas_failure = CUBLAS_STATUS_SUCCESS;
        assert_int_equal(blas_counted.refused, cases[i].tried);
        if (!cases[i].text)
            must(status);
        else if (!strstr(ls_status_text(status), cases[i].text))
            fail_msg("%s", ls_status_text(status));
        ls_status_free(cases[i].text ? status : LS_OK);
        ls_op_free(op);
    }
}

/* The first candidate that suits, whose tile is unknown and which is refused as NOT_SUPPORTED, is
 * tried first unless another is faster by the model: one with tiles of 64 x 64, refused as
 * INTERNAL_ERROR, for a small product of float32; our own kernel for a large one. Products are only
 * counted. */
static void test_first_choice(void **state)
{
    static const struct {
        int64_t side;
        ls_math math;
        cublasStatus_t first;
    } cases[] = {{4, LS_MATH_FLOAT32, CUBLAS_STATUS_INTERNAL_ERROR},
                 {4, LS_MATH_TF32, CUBLAS_STATUS_NOT_SUPPORTED},
                 {8192, LS_MATH_TF32, CUBLAS_STATUS_NOT_SUPPORTED},
                 {8192, LS_MATH_FLOAT32, CUBLAS_STATUS_SUCCESS}};
    fixture *f = *state;
    const ls_math math = f->cpu->math;
    float data[4] = {0};
    blas_counted.only = true;
    gpu_emulated_launches(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_gemm_args args = {
            .m = cases[i].side, .n = cases[i].side, .k = 20, .a = data, .b = data, .c = data};
        ls_op *op;
        f->cpu->math = cases[i].math;
        blas_counted.refused = 0;
        blas_counted.first = CUBLAS_STATUS_SUCCESS;
        must(f->cpu->table->gemm(f->cpu, &args, &op));
        assert_int_equal(blas_counted.first, cases[i].first);
        assert_int_equal(cases[i].first == CUBLAS_STATUS_SUCCESS, !strcmp(op->name, "gemm.tiles"));
        ls_op_free(op);
    }
    gpu_emulated_launches(false);
    blas_counted.only = false;
    f->cpu->math = math;
}

/* The library adds the bias to a large product of too few tiles for our own kernel, wherever the
 * bias lies. */
static void test_large_bias(void **state)
{
    enum { ROWS = 1024, INPUTS = 20, OUTPUTS = 1024 };
    fixture *f = *state;
    float *x = randoms(ROWS * INPUTS, 1), *w = randoms(OUTPUTS * INPUTS, 2);
    float *bias = randoms(OUTPUTS + 1, 3), *y = randoms(ROWS * OUTPUTS, 4);
    ls_op *op;
    must(f->cpu->table->dense_forward(f->cpu,
                                      &(ls_dense_forward_args){.rows = ROWS,
                                                               .inputs = INPUTS,
                                                               .outputs = OUTPUTS,
                                                               .x = x,
                                                               .weight = w,
                                                               .bias = bias + 1,
                                                               .y = y},
                                      &op));
    run(f, op);
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        double sum = 0;
        for (int k = 0; k < INPUTS; k++)
            sum += (double)x[i / OUTPUTS * INPUTS + k] * (double)w[i % OUTPUTS * INPUTS + k];
        assert_true(y[i] == (float)sum + bias[1 + i % OUTPUTS]);
    }
    assert_true(blas_counted.epilogues > 0);
    float *const all[] = {x, w, bias, y};
    for (int i = 0; i < 4; i++)
        free(all[i]);
}

/* ---- Wherever matrices lie ---------------------------------------------------------------------
 */

static bool same_layout(const blas_layout *a, const blas_layout *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->leading == b->leading &&
           a->batch == b->batch && a->apart == b->apart && a->type == b->type;
}

static bool same_question(const blas_question *a, const blas_question *b)
{
    bool same = memcmp(&a->desc, &b->desc, sizeof a->desc) == 0 &&
                memcmp(&a->preference, &b->preference, sizeof a->preference) == 0;
    for (int i = 0; i < 3; i++)
        same &= same_layout(&a->layout[i], &b->layout[i]);
    return same;
}

/* A dense layer's operations with matrix `moved` one to three elements after a multiple of 16
 * bytes: out [rows,outputs], [outputs,inputs + 1], [rows,inputs]. */
static void run_moved(fixture *f, int moved, size_t by, float *out[3])
{
    enum { ROWS = 512, INPUTS = 26, OUTPUTS = 33 };
    const int64_t counts[] = {ROWS * INPUTS, OUTPUTS * INPUTS,       OUTPUTS,       ROWS * OUTPUTS,
                              ROWS * INPUTS, OUTPUTS * (INPUTS + 1), ROWS * OUTPUTS};
    float *base[7], *m[7];
    ls_op *op;
    for (int i = 0; i < 7; i++) {
        base[i] = randoms(counts[i] + 4, (uint32_t)i + 1);
        m[i] = base[i] + (i == moved ? by : 0);
        memmove(m[i], base[i], (size_t)counts[i] * sizeof *m[i]);
    }
    const ls_kernel_table *t = f->cpu->table;
    must(t->dense_forward(f->cpu,
                          &(ls_dense_forward_args){ROWS, INPUTS, OUTPUTS, m[0], m[1], m[2], m[6],
                                                   LS_ACTIVATION_RELU, false},
                          &op));
    run(f, op);
    must(t->dense_backward_weights(
        f->cpu,
        &(ls_dense_backward_weights_args){ROWS, INPUTS, OUTPUTS, m[0], m[3], m[5],
                                          m[5] + OUTPUTS * INPUTS, false},
        &op));
    run(f, op);
    must(t->dense_backward_data(
        f->cpu,
        &(ls_dense_backward_data_args){ROWS, INPUTS, OUTPUTS, m[3], m[1], m[0], m[4], false}, &op));
    run(f, op);
    const int results[] = {6, 5, 4};
    for (int i = 0; i < 3; i++) {
        out[i] = malloc((size_t)counts[results[i]] * sizeof(float));
        memcpy(out[i], m[results[i]], (size_t)counts[results[i]] * sizeof(float));
    }
    for (int i = 0; i < 7; i++)
        free(base[i]);
}

/* Both halves of a backward pass belong to one layer. */
static void test_halves(void **state)
{
    fixture *f = *state;
    float data[4] = {0};
    ls_dense_backward_args args = {{2, 2, 1, data, data, data, NULL, false},
                                   {2, 1, 1, data, data, NULL, data, false}};
    ls_op *op = NULL;
    ls_status status = f->cpu->table->dense_backward(f->cpu, &args, &op);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "have different dy or sizes"));
    assert_null(op);
    ls_status_free(status);
}

/* How kernel_staging.h implements joint operations, which the cpu table lacks. */
static void test_staged(void **state)
{
    fixture *f = *state;
    ls_kernels *inner = f->cpu;
    ls_queue *queue;
    must(ls_queue_open(f->device, "staging", &queue));
    f->cpu = staging_open(inner, queue);
    test_dense_backward(state);
    test_gather_batch(state);
    free(f->cpu);
    f->cpu = inner;
    ls_queue_close(queue);
}

/* The library gets the same arguments, and the bits are the same. */
static void test_places(void **state)
{
    static const size_t bytes[] = {512 * 33 * sizeof(float), 33 * 27 * sizeof(float),
                                   512 * 26 * sizeof(float)};
    float *want[3], *got[3];
    blas_question first[8];
    blas_asked.count = 0;
    run_moved(*state, 0, 0, want);
    const size_t asked = blas_asked.count;
    assert_in_range(asked, 3, 8);
    memcpy(first, blas_asked.latest, asked * sizeof *first);
    for (int moved = 0; moved < 7; moved++)
        for (size_t by = 1; by < 4; by++) {
            blas_asked.count = 0;
            run_moved(*state, moved, by, got);
            assert_int_equal(blas_asked.count, asked);
            for (size_t i = 0; i < asked; i++)
                assert_true(same_question(&blas_asked.latest[i], &first[i]));
            for (int i = 0; i < 3; i++) {
                same_bits("moved", got[i], want[i], bytes[i]);
                free(got[i]);
            }
        }
    for (int i = 0; i < 3; i++)
        free(want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_staged),
        cmocka_unit_test(test_softmax_bits),
        cmocka_unit_test(test_squared_error_bits),
        cmocka_unit_test(test_optimizer_bits),
        cmocka_unit_test(test_square_bits),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_more_losses),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_first_choice),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_tiles_cost),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_bf16_tiles),
        cmocka_unit_test(test_bf16_infinite),
        cmocka_unit_test(test_bf16_places),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_large_bias),
    };
    return run_kernel_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
