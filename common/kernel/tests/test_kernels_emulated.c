/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_kernels.c for the cuda table, without a GPU: its own code on the host, its
 * kernels compiled for a CPU (gpu_emulate.h), and cuBLASLt's functions in loops (blas_emulate.h).
 * Bounds as there; beside them the gradients of the losses and the optimizers have the bits of the
 * cpu table.
 *
 * It shows that indices, layouts, barriers and arithmetic are right; nothing about what a GPU's
 * compiler, memory and libraries make of them.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/tests/blas_emulate.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_kernels.c"

/* The fault of the queue at hand, which the linker puts in place of the CUDA queues'. */
static unsigned fault;
unsigned *__wrap_ls_cuda_queue_fault(const ls_queue *queue);
unsigned *__wrap_ls_cuda_queue_fault(const ls_queue *queue)
{
    (void)queue;
    return &fault;
}

/* No stream here is behind. */
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

static void open_emulated(fixture *f)
{
    cuda_kernels *kernels = calloc(1, sizeof *kernels);
    kernels->base = (ls_kernels){.table = &ls_cuda_kernels, .device = f->device};
    kernels->blas.call = blas_emulated;
    must(ls_blas_open(&kernels->blas));
    f->cpu = &kernels->base;
}

static void close_emulated(fixture *f)
{
    f->cpu->table->close(f->cpu);
}

/* ---- Beyond the bounds: the cpu table's bits ------------------------------------------------- */

static ls_kernels *open_cpu(fixture *f)
{
    ls_kernels *cpu;
    must(ls_kernels_open(f->device, LS_MATH_FLOAT32, &cpu));
    return cpu;
}

static void check_softmax_bits(fixture *f, ls_kernels *cpu, int64_t rows, int64_t classes)
{
    const int64_t count = rows * classes;
    float *z = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 3);
    int32_t *labels = calloc((size_t)rows + 1, sizeof *labels);
    double loss[2];
    ls_op *op;
    for (int64_t i = 0; i < count; i++)
        z[i] *= 20;
    for (int64_t i = 0; i < rows; i++)
        labels[i] = (int32_t)(i * 7 % classes);
    ls_softmax_cross_entropy_args args = {rows, classes, z, labels, 1.0 / 77, got, &loss[0]};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    must(ls_queue_put(f->queue, op)); /* a second time: what it leaves behind is what it found */
    run(f, op);
    args.dlogits = want, args.loss = &loss[1];
    must(cpu->table->softmax_cross_entropy(cpu, &args, &op));
    run(f, op);
    same_bits("dlogits", got, want, (size_t)count * sizeof *got);
    assert_true(fabs(loss[0] - loss[1]) <= 1e-14 * fabs(loss[1]));
    free(z), free(got), free(want), free(labels);
}

static void test_softmax_bits(void **state)
{
    static const int64_t classes[] = {1, 2, 10, 31, 32, 33, 100, 1000};
    static const int64_t rows[] = {1, 2, 15, 17, 64, 65, 300};
    ls_kernels *cpu = open_cpu(*state);
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            check_softmax_bits(*state, cpu, rows[r], classes[c]);
    cpu->table->close(cpu);
}

static void test_squared_error_bits(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f);
    static const int64_t rows[] = {1, 17, 256, 70001};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float *y = randoms(rows[i], 1), *t = randoms(rows[i], 2), *got = randoms(rows[i], 3);
        float *want = randoms(rows[i], 4);
        double loss[2];
        ls_op *op;
        ls_squared_error_args args = {rows[i], 1, y, t, 1.0 / 77, got, &loss[0]};
        must(f->cpu->table->squared_error(f->cpu, &args, &op));
        must(ls_queue_put(f->queue, op));
        run(f, op);
        args.dy = want, args.loss = &loss[1];
        must(cpu->table->squared_error(cpu, &args, &op));
        run(f, op);
        same_bits("dy", got, want, (size_t)rows[i] * sizeof *got);
        assert_true(fabs(loss[0] - loss[1]) <= 1e-13 * loss[1]);
        free(y), free(t), free(got), free(want);
    }
    cpu->table->close(cpu);
}

/* Ranges that begin and end anywhere, at any alignment, three steps on. */
static void check_optimizer_bits(fixture *f, ls_kernels *cpu, int kind, int64_t first,
                                 int64_t count, int64_t shift)
{
    enum { ALL = 1100 };
    ls_kernels *const both[] = {f->cpu, cpu};
    float *data[2][4];
    for (int k = 0; k < 2; k++) {
        ls_step_state at = {.step = 41, .learning_rate = 0.01};
        for (int j = 0; j < 4; j++) {
            data[k][j] = randoms(ALL, (uint32_t)j);
            for (int i = 0; i < ALL && j == 3 - (kind == LS_OPTIMIZER_RMSPROP); i++)
                data[k][j][i] = fabsf(data[k][j][i]);
        }
        /* The same elements lie `shift` further where the cuda table runs, the gradient not. */
        const int64_t move = k ? 0 : shift;
        for (int j = 0; j < 4 && move; j++)
            if (j != 1)
                memmove(data[k][j] + move, data[k][j], (ALL - 8) * sizeof(float));
        ls_optimizer_args args = {.kind = (ls_optimizer_kind)kind, .count = count, .state = &at};
        args.weight = data[k][0] + first + move, args.gradient = data[k][1] + first;
        args.slot[0] = data[k][2] + first + move, args.slot[1] = data[k][3] + first + move;
        args.mu = 0.9, args.beta1 = 0.9, args.beta2 = 0.999, args.rho = 0.9, args.epsilon = 1e-7;
        ls_op *op;
        must(both[k]->table->optimizer(both[k], &args, &op));
        for (int i = 0; i < 3; i++, at.step++)
            must(ls_queue_put(f->queue, op)), must(ls_queue_sync(f->queue));
        ls_op_free(op);
    }
    for (int j = 0; j < 4; j++) {
        same_bits("optimizer", data[0][j] + (j == 1 ? 0 : shift), data[1][j],
                  (ALL - 8) * sizeof(float));
        free(data[0][j]), free(data[1][j]);
    }
}

static void test_optimizer_bits(void **state)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 100, 1001};
    ls_kernels *cpu = open_cpu(*state);
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int64_t first = 0; first < 5; first++)
                for (int64_t shift = 0; shift < 4; shift++)
                    check_optimizer_bits(*state, cpu, kind, first, counts[c], shift);
    cpu->table->close(cpu);
}

/* ---- What a GPU cannot return ------------------------------------------------------------------
 */

static void test_fault(void **state)
{
    fixture *f = *state;
    static const int32_t bad[] = {-1, 10, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        float z[70] = {0}, dz[70];
        int32_t labels[7] = {0, 9, 3, 4, 5, bad[i], 1};
        double loss = 123;
        ls_op *op;
        const ls_softmax_cross_entropy_args args = {7, 10, z, labels, 1, dz, &loss};
        must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
        fault = 0;
        must(ls_queue_put(f->queue, op));
        must(ls_queue_sync(f->queue));
        assert_true(fault != 0 && isnan(loss) && isnan(dz[50]) && !isnan(dz[0]));
        labels[5] = 2, fault = 0;
        run(f, op);
        assert_true(fault == 0 && fabs(loss - 7 * log(10)) < 1e-12);
    }
}

/* The largest element, the first of equals, wherever it lies; NaN is found only where it is first.
 */
static void test_flips(void **state)
{
    fixture *f = *state;
    static const int64_t places[] = {0, 1, 255, 256, 257, 511, 999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int way = 0; way < 4; way++) {
            float *got = randoms(1000, 1), *want = randoms(1000, 1);
            const ls_step_state at = {.step = 4};
            ls_op *op;
            got[places[i]] = way & 1 ? INFINITY : -3;
            got[999] = way & 1 ? INFINITY : 3;
            got[way & 2 ? 0 : 500] = NAN;
            memcpy(want, got, 1000 * sizeof *want);
            must(f->cpu->table->flip_bit(f->cpu, &(ls_flip_bit_args){1000, got, &at, 4}, &op));
            run(f, op);
            must(f->reference->table->flip_bit(f->reference,
                                               &(ls_flip_bit_args){1000, want, &at, 4}, &op));
            run(f, op);
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
    ls_op *op;
    for (int i = 0; i <= MORE; i++)
        loss[i] = i;
    const ls_finish_step_args args = {&at,     32,       {0.5, 0.5, 2}, loss,
                                      records, CAPACITY, MORE,          &ring[0][0]};
    must(f->cpu->table->finish_step(f->cpu, &args, &op));
    run(f, op);
    for (int i = 0; i < MORE; i++)
        assert_true(ring[1][i] == i + 1);
    assert_true(records[1].loss == 0 && at.record == 5 && at.learning_rate == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_bits),   cmocka_unit_test(test_squared_error_bits),
        cmocka_unit_test(test_optimizer_bits), cmocka_unit_test(test_fault),
        cmocka_unit_test(test_flips),          cmocka_unit_test(test_more_losses),
    };
    return run_kernel_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
