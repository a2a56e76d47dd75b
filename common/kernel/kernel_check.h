/* SPDX-License-Identifier: MIT */
/*
 * What every back end's constructors check, and how much work an operation is.
 *
 * Each function refuses (LS_CODE_USAGE) negative sizes, sizes whose bytes cannot be counted, NULL
 * where data is needed, and values without meaning; and counts flops and bytes as kernel.h's ls_op
 * reports them. `real_bytes` is the table's element size.
 */
#ifndef LS_COMMON_KERNEL_KERNEL_CHECK_H
#define LS_COMMON_KERNEL_KERNEL_CHECK_H

#include "common/kernel/kernel.h"

/** The work of one run. */
typedef struct ls_work {
    double flops;
    double bytes; /**< each tensor read or written, once */
} ls_work;

/** The failure of an operation that met a label outside [0, classes) in row `row`. */
ls_status ls_label_fail(const char *op, int64_t row, int32_t label, int64_t classes);

/* ls_check_gemm, ls_check_dense_forward, ...: one per entry of the table. */
#define LS_KERNEL_CHECK(entry, args)                                                               \
    ls_status ls_check_##entry(const args *arguments, size_t real_bytes, ls_work *work);
LS_KERNEL_ENTRIES(LS_KERNEL_CHECK)
#undef LS_KERNEL_CHECK

#endif
