/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_kernels.c for the default table of gpu:0, through kernel_staging.h, with the
 * bounds there; kernel_bits.h and kernel_step.h (a step as a CUDA graph has the bits of one put by
 * hand); faults; TF32. Skipped where there is no GPU. Not yet run on one.
 *
 * Bound of TF32: 2^-9 sum |terms|: each factor is off by 2^-11, and the sum in float32.
 */
#define FIXTURE_OPEN  open_gpu
#define FIXTURE_CLOSE close_gpu
#include "common/kernel/tests/kernel_bits.h"
#include "common/kernel/tests/kernel_staging.h"
#include "common/kernel/tests/kernel_step.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_kernels.c"

static void open_gpu(fixture *f)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .logical = -1};
    ls_device *gpu;
    ls_queue *queue;
    ls_kernels *inner;
    must(ls_device_open(f->machine, &name, &policy, &gpu));
    must(ls_queue_open(gpu, "staging", &queue));
    must(ls_kernels_open(gpu, LS_MATH_FLOAT32, &inner));
    print_message("%s\n", inner->table->library(inner));
    f->cpu = staging_open(inner, queue);
}

static void close_gpu(fixture *f)
{
    staging_close(f->cpu);
}

static void test_step(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f);
    const staging_kernels *gpu = staging_of(f->cpu);
    step_compare(gpu->queue, gpu->inner, f->queue, cpu);
    cpu->table->close(cpu);
}

/* The next wait says that a label is none, once; the losses of that step are NaN. */
static void test_label(void **state)
{
    fixture *f = *state;
    float z[70] = {0}, dz[70];
    int32_t labels[7] = {0, 9, 3, 4, 5, 10, 1};
    double loss = 123;
    ls_op *op;
    const ls_softmax_cross_entropy_args args = {7, 10, z, labels, 1, dz, &loss};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    must(ls_queue_put(f->queue, op));
    ls_status status = ls_queue_sync(f->queue);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "label"));
    ls_status_free(status);
    labels[5] = 2;
    run(f, op);
    assert_true(fabs(loss - 7 * log(10)) < 1e-12);
}

static void multiply(fixture *f, ls_math math, const float *a, const float *b, int64_t n, float *c)
{
    staging_kernels *gpu = staging_of(f->cpu);
    ls_op *op;
    gpu->inner->math = math;
    must(f->cpu->table->gemm(f->cpu,
                             &(ls_gemm_args){.m = n, .n = n, .k = n, .a = a, .b = b, .c = c}, &op));
    gpu->inner->math = LS_MATH_FLOAT32;
    run(f, op);
}

static void test_tf32(void **state)
{
    fixture *f = *state;
    enum { N = 512 };
    float *a = randoms(N * N, 1), *b = randoms(N * N, 2), *full = randoms(N * N, 3);
    float *a1 = absolutes(a, N * N), *b1 = absolutes(b, N * N), *limit = randoms(N * N, 4);
    float *rounded = randoms(N * N, 5);
    multiply(f, LS_MATH_FLOAT32, a, b, N, full);
    multiply(f, LS_MATH_FLOAT32, a1, b1, N, limit);
    multiply(f, LS_MATH_TF32, a, b, N, rounded);
    compare("tf32", rounded, full, limit, 0x1p-9, N * N);
    int64_t same = 0;
    for (int64_t i = 0; i < N * N; i++)
        same += rounded[i] == full[i];
    print_message("%lld of %d elements are the same\n", (long long)same, N * N);
    assert_true(same < N * N / 2);
    free(a), free(b), free(a1), free(b1), free(full), free(limit), free(rounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_bits),   cmocka_unit_test(test_squared_error_bits),
        cmocka_unit_test(test_optimizer_bits), cmocka_unit_test(test_step),
        cmocka_unit_test(test_label),          cmocka_unit_test(test_tf32),
    };
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    const int gpus = ls_machine_count(machine, LS_DEVICE_GPU);
    ls_machine_close(machine);
    if (!gpus) {
        print_message("no GPU here\n");
        return 77;
    }
    return run_kernel_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
