/* SPDX-License-Identifier: MIT */
/* Shared by the tables for CPUs: opening a table without state, operations that are one loop over
 * their arguments, and the operations of LS_KERNEL_STEP_ENTRIES. */
#pragma once

#include "common/kernel/kernel_check.h"
#include "common/kernel/kernel_tables.h"

/* ls_kernel_table's open and close for a table without state. */
ls_status ls_reference_open(const ls_kernel_table *table, ls_device *device, ls_kernels **out);
void ls_reference_close(ls_kernels *kernels);

/** An operation with a copy of its arguments, and behind that one of its work's array. */
typedef struct ls_bound_op {
    ls_op op;
    _Alignas(16) unsigned char arguments[];
} ls_bound_op;

ls_status ls_op_bind(const char *name, ls_status (*run)(ls_op *op, ls_queue *queue),
                     const void *arguments, size_t bytes, const ls_work *work, ls_op **out);

/** Defines `make`, which makes the operation `name`, whose run is loop(arguments). */
#define LS_OP_OF_LOOP(scope, make, args, name, loop)                                               \
    static ls_status make##_run(ls_op *op, ls_queue *queue)                                        \
    {                                                                                              \
        (void)queue;                                                                               \
        return loop((const args *)(void *)((ls_bound_op *)op)->arguments);                         \
    }                                                                                              \
    scope ls_status make(ls_kernels *kernels, const args *arguments, const ls_work *work,          \
                         ls_op **out)                                                              \
    {                                                                                              \
        (void)kernels;                                                                             \
        return ls_op_bind(name, make##_run, arguments, sizeof *arguments, work, out);              \
    }

/* ls_step_add_loss, ... */
#define LS_STEP_ENTRY(entry, args) LS_KERNEL_MAKES(ls_step_##entry, args)
LS_KERNEL_STEP_ENTRIES(LS_STEP_ENTRY)
#undef LS_STEP_ENTRY
