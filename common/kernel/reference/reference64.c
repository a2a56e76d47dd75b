/* SPDX-License-Identifier: MIT */
/* The reference table in double throughout, for gradient checks. */
#define LS_REAL            double
#define LS_REFERENCE_TABLE ls_reference64_kernels
#define LS_REFERENCE_NAME  "reference64"
#define LS_REFERENCE_HELP  "plain C, double throughout: for gradient checks"
#include "common/kernel/reference/reference_loops.h"
