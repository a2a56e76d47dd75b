/* SPDX-License-Identifier: MIT */
/* The tests of test_layer_kernels.c through kernel_staging.h, on the memory of another CPU device:
 * checks the staging, on which test_gpu_layer_kernels relies. */
#define FIXTURE_OPEN  open_staged
#define FIXTURE_CLOSE close_staged
#include "common/kernel/tests/kernel_staged.h"

#include "common/kernel/tests/test_layer_kernels.c"
