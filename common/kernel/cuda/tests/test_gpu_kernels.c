/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_kernels.c for the default table of gpu:0, through kernel_staging.h, with their
 * tolerances; kernel_bits.h and kernel_step.h (a step as a CUDA graph has the bits of an uncaptured
 * one); faults. Skipped without a GPU.
 */
#define FIXTURE_OPEN  open_gpu
#define FIXTURE_CLOSE close_gpu
#define BF16_SHAPES   6
#include "common/kernel/cuda/cuda_kernels.h"
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
    const ls_softmax_cross_entropy_args args = {7, 10, z, labels, 1, NULL, dz, &loss};
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

/* Products that are large enough for our own kernel, where the GPU runs it, in all layouts: no
 * error above 2^-21 of the terms' absolute sum. The name says which kernel it was. */
static void check_large_product(fixture *f, const int64_t size[3], int layout, bool accumulate)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    float *a = randoms(m * k, 1), *b = randoms(k * n, 2), *c = randoms(m * n, 3);
    float *before = randoms(m * n, 3);
    const ls_gemm_args args = {.transpose_a = layout & 1,
                               .transpose_b = layout & 2,
                               .m = m,
                               .n = n,
                               .k = k,
                               .a = a,
                               .b = b,
                               .c = c,
                               .accumulate = accumulate};
    double worst = 0;
    ls_op *op;
    must(f->cpu->table->gemm(f->cpu, &args, &op));
    print_message("%s %lld x %lld x %lld, layout %d: ", op->name, (long long)m, (long long)n,
                  (long long)k, layout);
    run(f, op);
    for (int64_t at = 0; at < m * n; at += 7) {
        const int64_t row = at / n, column = at % n;
        double sum = accumulate ? (double)before[at] : 0, limit = fabs(sum);
        for (int64_t i = 0; i < k; i++) {
            const double term = (double)a[layout & 1 ? i * m + row : row * k + i] *
                                (double)b[layout & 2 ? column * k + i : i * n + column];
            sum += term, limit += fabs(term);
        }
        worst = fmax(worst, fabs((double)c[at] - sum) / limit);
    }
    print_message("off by %.1e at most\n", worst);
    assert_true(worst <= 0x1p-21);
    free(a), free(b), free(c), free(before);
}

static void test_large_products(void **state)
{
    static const int64_t sizes_of[][3] = {{1160, 1032, 200}, {1157, 1029, 35}};
    for (int i = 0; i < 2; i++)
        for (int layout = 0; layout < 4; layout++)
            check_large_product(*state, sizes_of[i], layout, layout % 2);
}

/* Products of bfloat16 by our own kernel. */
static void test_bf16_tiles(void **state)
{
    cuda_kernels *kernels = (cuda_kernels *)staging_of(((fixture *)*state)->cpu)->inner;
    kernels->tiles_alone = true;
    for (int way = 0; way < 16; way++) {
        check_bf16(*state, 3, 65, 65, way);
        check_bf16(*state, 3, 72, 64, way);
    }
    for (int way = 1; way < 4; way += 2)
        check_bf16(*state, 300, 136, 200, way);
    kernels->tiles_alone = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_bits),   cmocka_unit_test(test_squared_error_bits),
        cmocka_unit_test(test_optimizer_bits), cmocka_unit_test(test_square_bits),
        cmocka_unit_test(test_step),           cmocka_unit_test(test_label),
        cmocka_unit_test(test_tf32),           cmocka_unit_test(test_large_products),
        cmocka_unit_test(test_bf16_tiles),
    };
    if (!gpu_here())
        return 77;
    return run_kernel_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
