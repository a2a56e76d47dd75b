/* SPDX-License-Identifier: MIT */
/* The reference table in float32: sums in double, results rounded to float once. */
#define LS_REAL            float
#define LS_REFERENCE_TABLE ls_reference_kernels
#define LS_REFERENCE_NAME  "reference"
#define LS_REFERENCE_HELP  "plain C, float32 with sums in double: the definition"
#include "common/kernel/reference/reference_loops.h"
