/* SPDX-License-Identifier: MIT */
/*
 * What every back end's constructors check, and how much work an operation is.
 *
 * Each function refuses (LS_CODE_USAGE) negative sizes, sizes whose bytes cannot be counted, NULL
 * where data is needed, and values without meaning; and counts flops and bytes as kernel.h's ls_op
 * reports them.
 */
#pragma once

#include "common/kernel/kernel.h"

/** The work of one run. The caller sets the first two members, and an ls_check_... adds to the
 * others. */
typedef struct ls_work {
    const char *op;    /**< the entry, for what is refused */
    size_t real_bytes; /**< of an element of the table */
    double flops;
    double bytes;        /**< each tensor read or written, once */
    ls_access *accesses; /**< of the operation: on the heap, until ls_work_done */
    size_t access_count;
    const void *array; /**< what an argument points to and the operation copies; NULL if nothing */
    size_t array_bytes;
} ls_work;

/** Adds memory that the operation accesses; ignores NULL. */
ls_status ls_work_touch(ls_work *work, const void *memory, size_t bytes, bool writes);

/** Moves the work to the operation *out, unless making it failed (`made`). The scratch that it took
 * is among its accesses. */
ls_status ls_work_done(ls_kernels *kernels, ls_work *work, ls_status made, ls_op **out);

/** The failure of an operation that found a label outside [0, classes) in row `row`. */
ls_status ls_label_fail(const char *op, int64_t row, int32_t label, int64_t classes);

/** The failure of an operation that found an invalid token in row `row`. */
ls_status ls_token_fail(const char *op, int64_t row, double value, int64_t tokens);

/* ls_check_gemm, ls_check_dense_forward, ...: one per entry of the table. */
#define LS_KERNEL_CHECK(entry, args)                                                               \
    ls_status ls_check_##entry(const args *arguments, ls_work *work);
LS_KERNEL_ENTRIES(LS_KERNEL_CHECK)
#undef LS_KERNEL_CHECK

/** Declares the function that makes an entry's operation from checked arguments. It adds accesses
 * only if operations share memory that is not among the arguments. */
#define LS_KERNEL_MAKES(make, args)                                                                \
    ls_status make(ls_kernels *kernels, const args *arguments, const ls_work *work, ls_op **out);

/** Defines a table's entry, checked_<entry>; every operation of a table is made through one. `make`
 * is an expression that makes it from kernels, arguments and work. */
#define LS_KERNEL_CHECKED(entry, args, make)                                                       \
    static ls_status checked_##entry(ls_kernels *kernels, const args *arguments, ls_op **out)      \
    {                                                                                              \
        ls_work work = {.op = #entry, .real_bytes = kernels->table->real_bytes};                   \
        ls_status status = ls_check_##entry(arguments, &work);                                     \
        ls_scratch_begin(&kernels->scratch);                                                       \
        if (!status)                                                                               \
            status = make;                                                                         \
        return ls_work_done(kernels, &work, status, out);                                          \
    }

/** The entry's member of the table. */
#define LS_KERNEL_LISTED(entry, args) .entry = checked_##entry,
