/* SPDX-License-Identifier: MIT */
/* The tests of test_residual_kernels.c for the default table of gpu:0, through kernel_staging.h.
 * Skipped without a GPU. */
#define FIXTURE_OPEN  open_gpu
#define FIXTURE_CLOSE close_gpu
#include "common/kernel/cuda/tests/kernel_gpu.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_residual_kernels.c"

#include "common/kernel/cuda/tests/residual_bits.h"

int main(void)
{
    const struct CMUnitTest tests[] = {RESIDUAL_BITS_TESTS};
    if (!gpu_here())
        return 77;
    return run_residual_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
