/* SPDX-License-Identifier: MIT */
/* The registry of kernel tables; a back end is one line of `tables`. */
#include "common/kernel/kernel.h"

#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cuda/cuda_table.h"
#include "common/kernel/reference/reference.h"

#include <stdio.h>
#include <string.h>

static const ls_kernel_table *const tables[] = {
    &ls_reference_kernels,
    &ls_reference64_kernels,
    &ls_cpu_kernels,
#if LS_HAS_CUDA
    &ls_cuda_kernels,
#endif
    NULL,
};

const ls_kernel_table *const *ls_kernel_tables(void)
{
    return tables;
}

ls_status ls_kernel_table_find(const char *name, const ls_kernel_table **out)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; tables[i]; i++) {
        if (!strcmp(tables[i]->name, name)) {
            *out = tables[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 tables[i]->name);
        if (used >= sizeof names)
            used = sizeof names - 1;
    }
    return ls_fail(LS_CODE_USAGE, "kernels", name, "there is no such table; valid are %s", names);
}

const ls_kernel_table *ls_kernel_table_default(ls_device_kind kind)
{
#if LS_HAS_CUDA
    if (kind == LS_DEVICE_GPU)
        return &ls_cuda_kernels;
#endif
    return kind == LS_DEVICE_CPU ? &ls_cpu_kernels : NULL;
}
