/* SPDX-License-Identifier: MIT */
/* The reference tables, and the operations without reals that all CPU tables share. */
#ifndef LS_COMMON_KERNEL_REFERENCE_STEP_OPS_H
#define LS_COMMON_KERNEL_REFERENCE_STEP_OPS_H

#include "common/kernel/kernel_check.h"
#include "common/kernel/kernel_tables.h"

/* ls_kernel_table's open and close for a table without a state of its own. */
ls_status ls_reference_open(const ls_kernel_table *table, ls_device *device, ls_kernels **out);
void ls_reference_close(ls_kernels *kernels);

/* ls_step_add_loss, ... */
#define LS_STEP_ENTRY(entry, args) LS_KERNEL_MAKES(ls_step_##entry, args)
LS_KERNEL_STEP_ENTRIES(LS_STEP_ENTRY)
#undef LS_STEP_ENTRY

#endif
