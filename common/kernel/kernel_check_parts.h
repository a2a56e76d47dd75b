/* SPDX-License-Identifier: MIT */
/* What the checks of arguments share: kernel_check.c and kernel_check_layers.c. */
#ifndef LS_COMMON_KERNEL_KERNEL_CHECK_PARTS_H
#define LS_COMMON_KERNEL_KERNEL_CHECK_PARTS_H

#include "common/kernel/kernel_check.h"

/** What a tensor is: needed and read but for what is said. APART: ls_work_touch says its access,
 *  which is not as large as what counts as its bytes. */
enum { NEEDED = 0, OPTIONAL = 1, WRITTEN = 2, APART = 4 };

/** One tensor of an operation: [rows, columns] elements. */
typedef struct ls_checked_tensor {
    const char *name;
    const void *data;
    int64_t rows, columns;
    size_t element_bytes;
    unsigned what;
} ls_checked_tensor;

/** Refuses bad sizes and missing memory; adds the bytes of all to *work, and their accesses. */
ls_status ls_check_tensors(const char *op, size_t count, const ls_checked_tensor *tensors,
                           ls_work *work);

/** Adds the read of a data set. */
ls_status ls_check_source(const char *op, ls_work *work, const void *source, uint64_t samples,
                          size_t sample_bytes);

/** Refuses ranges that are not of 0 to `count` in their order (`gaps`: some of it), or have values
 *  without meaning; adds what decay computes to *flops. */
ls_status ls_check_ranges(const char *op, const ls_update_range *ranges, int64_t range_count,
                          int64_t count, bool gaps, double *flops);

/** Refuses what is not finite. */
ls_status ls_check_value(const char *op, const char *name, double value);

#endif
