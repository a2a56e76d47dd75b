/* SPDX-License-Identifier: MIT */
/* The cpu table: opens the library, names it, and lists the operations of the other files. */
#include "common/kernel/cpu/cpu_kernels.h"

#include "common/device/cpu/team.h"
#include "common/kernel/cpu/product/cpu_product.h"
#include "common/kernel/kernel_tables.h"
#include "common/kernel/reference/step_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls_cpu_threads_for(const cpu_kernels *kernels, int64_t elements)
{
    return elements / kernels->threads < CPU_SPLIT_ELEMENTS ? 1 : kernels->threads;
}

/* ---- Operations ---------------------------------------------------------------------------- */

/* Thread `part`'s range of [0, count): sizes differ by at most one. */
static void share(int64_t count, int part, int parts, int64_t *first, int64_t *last)
{
    const int64_t size = count / parts, more = count % parts;
    *first = size * part + (part < more ? part : more);
    *last = *first + size + (part < more);
}

typedef struct shared_work {
    cpu_op *op;
    int64_t count;
    void (*part)(const cpu_part *part);
} shared_work;

static void run_part(void *context, int part, int parts)
{
    const shared_work *w = context;
    const int64_t block = w->op->in_blocks ? 64 : 1;
    cpu_part p = {.loops = w->op->loops, .arguments = w->op->arguments, .last = w->count};
    if (parts > 1) {
        share((w->count + block - 1) / block, part, parts, &p.first, &p.last);
        p.first = p.first * block < w->count ? p.first * block : w->count;
        p.last = p.last * block < w->count ? p.last * block : w->count;
    }
    if (w->op->own_bytes)
        p.own = (char *)w->op->memory + w->op->memory_bytes + (size_t)part * w->op->own_bytes;
    w->part(&p);
}

ls_status ls_cpu_op_share(cpu_op *op, int64_t shared, void (*part)(const cpu_part *part))
{
    shared_work work = {op, shared, part};
    return ls_team_run(op->threads, run_part, &work);
}

static ls_status run(ls_op *base, ls_queue *queue)
{
    (void)queue;
    cpu_op *op = (cpu_op *)base;
    if (op->once)
        LS_TRY(op->once(op));
    if (op->part)
        LS_TRY(ls_cpu_op_share(op, op->shared, op->part));
    if (op->end)
        op->end(op);
    return LS_OK;
}

static void destroy(ls_op *base)
{
    cpu_op *op = (cpu_op *)base;
    ls_product_close(op->product);
    free(op);
}

ls_status ls_cpu_op_open(ls_kernels *kernels, const cpu_op *like, const void *arguments,
                         size_t bytes, const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    cpu_op *op;
    LS_TRY(ls_allocate(like->op.name, &op, 1, sizeof *op + bytes + work->array_bytes));
    *op = *like;
    memcpy(op->arguments, arguments, bytes);
    if (work->array_bytes)
        memcpy(op->arguments + bytes, work->array, work->array_bytes);
    op->op.run = like->op.run ? like->op.run : run;
    op->op.destroy = destroy;
    op->loops = cpu->loops;
    op->device = kernels->device;
    op->threads = like->threads ? like->threads : ls_cpu_threads_for(cpu, like->elements);
    const size_t room = op->memory_bytes + (size_t)op->threads * op->own_bytes;
    ls_status status = room ? ls_scratch_take(&kernels->scratch, room, &op->memory) : LS_OK;
    if (status) {
        free(op);
        return status;
    }
    *out = &op->op;
    return LS_OK;
}

/* ---- The table ----------------------------------------------------------------------------- */

static void close_table(ls_kernels *kernels)
{
    if (!kernels)
        return;
    ls_scratch_release(&kernels->scratch);
    free(kernels);
}

static ls_status open_table(ls_device *device, ls_kernels **out)
{
    cpu_kernels *kernels;
    LS_TRY(ls_allocate("cpu kernels", &kernels, 1, sizeof *kernels));
    kernels->base =
        (ls_kernels){.table = &ls_cpu_kernels, .device = device, .scratch.device = device};
    kernels->loops = ls_vector_loops_pick();
    int cores = ls_device_describe(device)->core_count;
    kernels->threads = cores > 1 ? cores : 1;
    ls_status status = ls_product_library_find(device, &kernels->library);
    if (status) {
        free(kernels);
        return status;
    }
    kernels->engine = kernels->library->engine;
    kernels->base.multiplies_bf16 = kernels->library->multiplies_bf16;
    snprintf(kernels->name, sizeof kernels->name, "%s, loops %s)", kernels->library->name,
             kernels->loops->isa);
    *out = &kernels->base;
    return LS_OK;
}

static const char *library(const ls_kernels *kernels)
{
    return ((const cpu_kernels *)kernels)->name;
}

#define CPU_ENTRY(entry, args)                                                                     \
    LS_KERNEL_CHECKED(entry, args, ls_cpu_##entry(kernels, arguments, &work, out))
#define STEP_ENTRY(entry, args)                                                                    \
    LS_KERNEL_CHECKED(entry, args, ls_step_##entry(kernels, arguments, &work, out))
LS_KERNEL_OWN_ENTRIES(CPU_ENTRY)
LS_KERNEL_LAYER_ENTRIES(CPU_ENTRY)
LS_KERNEL_TRANSFORMER_ENTRIES(CPU_ENTRY)
LS_KERNEL_STORAGE_ENTRIES(CPU_ENTRY)
LS_KERNEL_BF16_ENTRIES(CPU_ENTRY)
CPU_ENTRY(bf16_elements, ls_bf16_elements_args)
LS_KERNEL_STEP_ENTRIES(STEP_ENTRY)

const ls_kernel_table ls_cpu_kernels = {
    .name = "cpu",
    .help = "oneDNN and vectorised loops, float32",
    .kind = LS_DEVICE_CPU,
    .real_bytes = sizeof(float),
    .open = open_table,
    .close = close_table,
    .library = library,
    LS_KERNEL_CORE_ENTRIES(LS_KERNEL_LISTED) LS_KERNEL_LAYER_ENTRIES(LS_KERNEL_LISTED)
        LS_KERNEL_TRANSFORMER_ENTRIES(LS_KERNEL_LISTED) LS_KERNEL_STORAGE_ENTRIES(LS_KERNEL_LISTED)
            LS_KERNEL_BF16_ENTRIES(LS_KERNEL_LISTED)
                LS_KERNEL_LISTED(bf16_elements, ls_bf16_elements_args)};
