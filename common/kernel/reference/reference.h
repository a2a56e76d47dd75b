/* SPDX-License-Identifier: MIT */
/* The reference tables, and the operations without reals that all CPU tables share. */
#ifndef LS_COMMON_KERNEL_REFERENCE_REFERENCE_H
#define LS_COMMON_KERNEL_REFERENCE_REFERENCE_H

#include "common/kernel/kernel.h"

extern const ls_kernel_table ls_reference_kernels;
extern const ls_kernel_table ls_reference64_kernels;

/* ls_kernel_table's open and close for a table without a state of its own. */
ls_status ls_reference_open(const ls_kernel_table *table, ls_device *device, ls_kernels **out);
void ls_reference_close(ls_kernels *kernels);

/* Entries of the table. */
ls_status ls_step_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                                ls_op **out);
ls_status ls_step_add_loss(ls_kernels *kernels, const ls_add_loss_args *arguments, ls_op **out);
ls_status ls_step_finish(ls_kernels *kernels, const ls_finish_step_args *arguments, ls_op **out);
ls_status ls_step_flip_bit(ls_kernels *kernels, const ls_flip_bit_args *arguments, ls_op **out);
ls_status ls_step_stamp(ls_kernels *kernels, const ls_stamp_args *arguments, ls_op **out);

#endif
