/* SPDX-License-Identifier: MIT */
/* The tests of test_transformer_kernels.c on guarded pages (kernel_staging.h): no operation
 * accesses memory that it has not declared, or writes what it declared as read. */
#define GUARDED
#define FIXTURE_OPEN  open_staged
#define FIXTURE_CLOSE close_staged
#include "common/kernel/tests/kernel_staged.h"

#include "common/kernel/tests/test_transformer_kernels.c"
