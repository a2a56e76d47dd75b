/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_kernels.c for the default table of gpu:0, through kernel_staging.h, with their
 * tolerances; kernel_bits.h and kernel_step.h (a step as a CUDA graph has the bits of an uncaptured
 * one); faults. Skipped without a GPU.
 */
#define FIXTURE_OPEN  open_gpu
#define FIXTURE_CLOSE close_gpu
#include "common/kernel/cuda/tests/kernel_bits.h"
#include "common/kernel/cuda/tests/kernel_gpu.h"
#include "common/kernel/tests/kernel_step.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_kernels.c"

static void test_step(void **state)
{
    fixture *f = *state;
    ls_kernels *cpu = open_cpu(f);
    const staging_kernels *gpu = staging_of(f->cpu);
    step_compare(gpu->queue, gpu->inner, f->queue, cpu);
    cpu->table->close(cpu);
}

/* The next wait reports an invalid label, once; the losses of that step are NaN. */
static void test_label(void **state)
{
    fixture *f = *state;
    float z[70] = {0}, dz[70];
    int32_t labels[7] = {0, 9, 3, 4, 5, 10, 1};
    double loss = 123;
    ls_op *op;
    const ls_softmax_cross_entropy_args args = {7, 10, z, labels, 1, dz, &loss};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    must(ls_queue_enqueue(f->queue, op));
    ls_status status = ls_queue_sync(f->queue);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "label"));
    ls_status_free(status);
    labels[5] = 2;
    run(f, op);
    assert_true(fabs(loss - 7 * log(10)) < 1e-12);
}

static void test_tf32(void **state)
{
    fixture *f = *state;
    (void)check_tf32(f, staging_of(f->cpu)->inner, 512); /* printed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_bits),   cmocka_unit_test(test_squared_error_bits),
        cmocka_unit_test(test_optimizer_bits), cmocka_unit_test(test_square_bits),
        cmocka_unit_test(test_step),           cmocka_unit_test(test_label),
        cmocka_unit_test(test_tf32),
    };
    if (!gpu_here())
        return 77;
    return run_kernel_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
