/* SPDX-License-Identifier: MIT */
/* The tests of test_residual_kernels.c through kernel_staging.h, on the memory of another CPU
 * device. */
#define FIXTURE_OPEN  open_staged
#define FIXTURE_CLOSE close_staged
#include "common/kernel/tests/kernel_staged.h"

#include "common/kernel/tests/test_residual_kernels.c"
