/* SPDX-License-Identifier: MIT */
/* The registry of kernel tables; each back end is one line of `tables`. */
#include "common/kernel/kernel_tables.h"

#include <stdlib.h>
#include <string.h>

static const void *const tables[] = {
    &ls_reference_kernels,
    &ls_reference64_kernels,
    &ls_cpu_kernels,
#if LS_HAS_CUDA
    &ls_cuda_kernels,
#endif
    NULL,
};
const ls_registry ls_kernel_tables = {"kernels", tables};

ls_status ls_kernel_table_find(const char *name, const ls_kernel_table **out)
{
    *out = ls_registry_find(&ls_kernel_tables, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_kernel_tables, name);
}

typedef struct entry_field {
    const char *name;
    size_t offset;
} entry_field;

#define ENTRY_FIELD(entry, args) {#entry, offsetof(ls_kernel_table, entry)},
static const entry_field entries[] = {LS_KERNEL_ENTRIES(ENTRY_FIELD)};
#undef ENTRY_FIELD

ls_status ls_kernel_table_need(const ls_kernel_table *table, const char *entry, const char *whose,
                               const char *instead)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].name, entry) != 0)
            continue;
        void (*constructor)(void);
        memcpy(&constructor, (const char *)table + entries[i].offset, sizeof constructor);
        if (constructor)
            return LS_OK;
    }
    return ls_fail(LS_CODE_MISSING, "kernels", table->name,
                   "these kernels have no operation %s, which %s needs; use another type of "
                   "device, or %s",
                   entry, whose, instead);
}

const ls_kernel_table *ls_kernel_table_default(ls_device_kind kind)
{
    if (kind == LS_DEVICE_CPU)
        return &ls_cpu_kernels;
#if LS_HAS_CUDA
    return &ls_cuda_kernels;
#else
    return NULL;
#endif
}

ls_status ls_kernel_math_check(const ls_kernel_table *table, ls_math math)
{
    static const char *const words[] = {[LS_MATH_FLOAT32] = "float32", [LS_MATH_TF32] = "tf32"};
    const char *override = getenv("NVIDIA_TF32_OVERRIDE");
    if (!table->tf32 || !override || !*override)
        return LS_OK;
    const ls_math computed = strcmp(override, "0") == 0 ? LS_MATH_FLOAT32 : LS_MATH_TF32;
    if (computed == math)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option --math", words[math],
                   "the environment variable NVIDIA_TF32_OVERRIDE makes NVIDIA's libraries compute "
                   "in %s; unset this variable, or use --math %s",
                   words[computed], words[computed]);
}

ls_status ls_kernels_open(ls_device *device, ls_math math, ls_kernels **out)
{
    return ls_kernels_open_table(NULL, device, math, out);
}

ls_status ls_kernels_open_table(const ls_kernel_table *table, ls_device *device, ls_math math,
                                ls_kernels **out)
{
    const ls_device_info *info = ls_device_describe(device);
    if (!table)
        table = ls_kernel_table_default(info->name.kind);
    if (!table)
        return ls_fail(LS_CODE_MISSING, "kernels", info->text,
                       "this build has no kernels for this device; use a CPU device");
    if (math == LS_MATH_TF32 && !table->tf32)
        return ls_fail(LS_CODE_USAGE, "kernels", info->text,
                       "the kernels for this device (table %s) do not support tf32; use --math "
                       "float32, or a GPU",
                       table->name);
    LS_TRY(ls_kernel_math_check(table, math));
    LS_TRY(table->open(device, out));
    (*out)->math = math;
    return LS_OK;
}
