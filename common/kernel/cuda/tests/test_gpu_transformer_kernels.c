/* SPDX-License-Identifier: MIT */
/* The tests of test_transformer_kernels.c for the default table of gpu:0, through kernel_staging.h.
 * Skipped without a GPU. */
#define FIXTURE_OPEN  open_gpu
#define FIXTURE_CLOSE close_gpu
#include "common/kernel/cuda/tests/kernel_gpu.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_transformer_kernels.c"

/* The table whose arithmetic may be set. */
static ls_kernels *inner_kernels(fixture *f)
{
    return staging_of(f->cpu)->inner;
}

#include "common/kernel/cuda/tests/attention_bf16_bits.h"
#include "common/kernel/cuda/tests/attention_float_bits.h"
#include "common/kernel/cuda/tests/transformer_bits.h"

int main(void)
{
    const struct CMUnitTest tests[] = {TRANSFORMER_BITS_TESTS, ATTENTION_BF16_TESTS,
                                       ATTENTION_FLOAT_TESTS};
    if (!gpu_here())
        return 77;
    return run_transformer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
