/* SPDX-License-Identifier: MIT */
/* The cpu table: opens the library, names it, and lists the operations of the other files. */
#include "common/kernel/cpu/cpu_kernels.h"

#include "common/kernel/cpu/product/cpu_product.h"
#include "common/kernel/kernel_tables.h"
#include "common/kernel/reference/step_ops.h"

#include <stdio.h>
#include <stdlib.h>

int ls_cpu_threads_for(const cpu_kernels *kernels, int64_t elements)
{
    return elements / kernels->threads < CPU_SPLIT_ELEMENTS ? 1 : kernels->threads;
}

void ls_cpu_split(int64_t count, int part, int parts, int64_t *first, int64_t *last)
{
    int64_t blocks = (count + 63) / 64, share = blocks / parts, more = blocks % parts;
    int64_t from = share * part + (part < more ? part : more);
    int64_t to = from + share + (part < more ? 1 : 0);
    *first = from * 64 < count ? from * 64 : count;
    *last = to * 64 < count ? to * 64 : count;
}

void ls_cpu_share(int64_t count, int part, int parts, int64_t *first, int64_t *last)
{
    int64_t share = count / parts, more = count % parts;
    *first = share * part + (part < more ? part : more);
    *last = *first + share + (part < more);
}

static void close_table(ls_kernels *kernels)
{
    if (!kernels)
        return;
    ls_product_engine_close(((cpu_kernels *)kernels)->engine);
    free(kernels);
}

static ls_status open_table(ls_device *device, ls_kernels **out)
{
    cpu_kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels)
        return ls_fail_memory("cpu kernels", sizeof *kernels);
    kernels->base = (ls_kernels){.table = &ls_cpu_kernels, .device = device};
    kernels->loops = ls_vector_loops_pick();
    int cores = ls_device_describe(device)->core_count;
    kernels->threads = cores > 1 ? cores : 1;
    char product[64];
    ls_status status = ls_product_engine_open(device, &kernels->engine, product);
    if (status) {
        free(kernels);
        return status;
    }
    snprintf(kernels->library, sizeof kernels->library, "%s, loops %s)", product,
             kernels->loops->isa);
    *out = &kernels->base;
    return LS_OK;
}

static const char *library(const ls_kernels *kernels)
{
    return ((const cpu_kernels *)kernels)->library;
}

#define CPU_ENTRY(entry, args)  LS_KERNEL_CHECKED(entry, args, ls_cpu_##entry)
#define STEP_ENTRY(entry, args) LS_KERNEL_CHECKED(entry, args, ls_step_##entry)
LS_KERNEL_OWN_ENTRIES(CPU_ENTRY)
LS_KERNEL_LAYER_ENTRIES(CPU_ENTRY)
LS_KERNEL_STEP_ENTRIES(STEP_ENTRY)

const ls_kernel_table ls_cpu_kernels = {.name = "cpu",
                                        .help = "oneDNN products and vectorised loops, float32",
                                        .kind = LS_DEVICE_CPU,
                                        .real_bytes = sizeof(float),
                                        .open = open_table,
                                        .close = close_table,
                                        .library = library,
                                        LS_KERNEL_CORE_ENTRIES(LS_KERNEL_LISTED)
                                            LS_KERNEL_LAYER_ENTRIES(LS_KERNEL_LISTED)};
