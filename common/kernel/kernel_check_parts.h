/* SPDX-License-Identifier: MIT */
/* What the checks of arguments share: kernel_check.c, kernel_check_layers.c and _residual.c. */
#pragma once

#include "common/kernel/kernel_check.h"

/** What a tensor is; 0 means required, and read. APART: its access is added by ls_work_touch, since
 * it differs from the bytes that are counted. */
enum { OPTIONAL = 1, WRITTEN = 2, APART = 4 };

/** One tensor of an operation: [rows, columns] elements. */
typedef struct ls_checked_tensor {
    const char *name;
    const void *data;
    int64_t rows, columns;
    size_t element_bytes;
    unsigned what;
} ls_checked_tensor;

/* A member of the arguments `a`: of elements of any size, and of reals of the table of `work`. */
#define TENSOR(name, rows, columns, bytes, what)                                                   \
    ((ls_checked_tensor){#name, a->name, rows, columns, bytes, what})

#define REAL(name, rows, columns, what) TENSOR(name, rows, columns, work->real_bytes, what)
#define READ(name, rows, columns)       REAL(name, rows, columns, 0)
#define WRITE(name, rows, columns)      REAL(name, rows, columns, WRITTEN)
#define READ_SOME(name, rows, columns)  REAL(name, rows, columns, OPTIONAL)
#define WRITE_SOME(name, rows, columns) REAL(name, rows, columns, OPTIONAL | WRITTEN)
/* One or more of the type that it points to. */
#define OF_TYPE(name, rows, columns, what) TENSOR(name, rows, columns, sizeof *a->name, what)

/** Refuses bad sizes and missing memory; adds the bytes of all to *work, and their accesses. */
ls_status ls_check_tensors(ls_work *work, size_t count, const ls_checked_tensor *tensors);

/** Checks the tensors listed. */
#define CHECK_TENSORS(...)                                                                         \
    ls_check_tensors(work,                                                                         \
                     sizeof((const ls_checked_tensor[]){__VA_ARGS__}) / sizeof(ls_checked_tensor), \
                     (const ls_checked_tensor[]){__VA_ARGS__})

/** Adds the read of a data set. */
ls_status ls_check_source(ls_work *work, const void *source, uint64_t samples, size_t sample_bytes);

/** Refuses ranges that do not cover 0 to `count` in order (`gaps`: may leave some out), or have
 * values without meaning; adds the work of decay, and makes them the work's array. */
ls_status ls_check_ranges(ls_work *work, const ls_update_range *ranges, int64_t range_count,
                          int64_t count, bool gaps);

/** Refuses what is not finite. */
ls_status ls_check_value(const ls_work *work, const char *name, double value);

/** Refuses an invalid activation. */
ls_status ls_check_activation(const ls_work *work, ls_activation activation);
