/* SPDX-License-Identifier: MIT */
/* The tests of test_residual_kernels.c for the cuda table, without a GPU: see
 * test_kernels_emulated.c. */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/tests/kernel_emulated.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_residual_kernels.c"

#include "common/kernel/cuda/tests/residual_bits.h"

int main(void)
{
    const struct CMUnitTest tests[] = {RESIDUAL_BITS_TESTS};
    return run_residual_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
