/* SPDX-License-Identifier: MIT */
/* Lists of operations: what a step is composed of. */
#pragma once

#include "common/device/device.h"

/** Operations in order; owned by the list. All zero is an empty list. */
typedef struct ls_op_list {
    ls_op **items; /**< [count] owned */
    size_t count;  /**< operations */
} ls_op_list;

/** Takes over `op`, also where it fails. */
ls_status ls_op_list_add(ls_op_list *list, ls_op *op);
/** Enqueues them, in order, on a queue of their device. */
ls_status ls_op_list_enqueue(const ls_op_list *list, ls_queue *queue);

/** Visits an operation: to name its kernel, to sum its cost. */
typedef void (*ls_op_visit)(void *context, const ls_op *op);

/** Visits them, in order. */
void ls_op_list_each(const ls_op_list *list, ls_op_visit visit, void *context);

/** Device memory that the operations hold. */
size_t ls_op_list_workspace(const ls_op_list *list);

/** Frees the operations and the items, not the struct. */
void ls_op_list_clear(ls_op_list *list);
