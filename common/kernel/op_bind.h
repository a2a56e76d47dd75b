/* SPDX-License-Identifier: MIT */
/* An operation with its arguments behind it: what most entries of the CPU tables need. */
#ifndef LS_COMMON_KERNEL_OP_BIND_H
#define LS_COMMON_KERNEL_OP_BIND_H

#include "common/device/device.h"

/** `op` first, then a copy of the arguments. */
typedef struct ls_bound_op {
    ls_op op;
    _Alignas(16) unsigned char arguments[];
} ls_bound_op;

/**
 * Makes an operation like `like` (name, run, flops, bytes) with a copy of `arguments`. Where
 * like->destroy is NULL, it becomes one that frees the operation.
 */
ls_status ls_op_bind(const ls_op *like, const void *arguments, size_t bytes, ls_op **out);

/** The same, with a copy of an array behind that of the arguments, whose size is a multiple of the
 *  array's alignment. */
ls_status ls_op_bind_array(const ls_op *like, const void *arguments, size_t bytes,
                           const void *array, size_t array_bytes, ls_op **out);

/** The copy of the array behind arguments of `bytes`. */
static inline void *ls_op_array(ls_op *op, size_t bytes)
{
    return ((ls_bound_op *)op)->arguments + bytes;
}

/** The copy. */
static inline void *ls_op_arguments(ls_op *op)
{
    return ((ls_bound_op *)op)->arguments;
}

#endif
