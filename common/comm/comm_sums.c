/* SPDX-License-Identifier: MIT */
/*
 * Sums of ranges; see comm_sums.h. A processor runs the steps block by block, so that the
 * accumulators stay in the cache; a GPU runs one kernel (gpu_sums.h).
 */
#include "common/comm/comm_sums.h"

#include "common/comm/comm_parts.h"

#include <string.h>

#if LS_HAS_CUDA
#include "common/comm/gpu_sums.h"
#include "common/device/cuda/cuda_check.h"
#endif

enum { BLOCK = 4096 };

typedef struct sums_op {
    ls_op op;
    size_t count, step_count;
    ls_sum_step steps[];
} sums_op;

static void do_step(const ls_sum_step *s, size_t at, size_t count)
{
    if (s->to != s->a)
        memcpy(s->to + at, s->a + at, count * sizeof *s->to);
    if (s->b)
        ls_loop_add(s->to + at, s->b + at, count);
}

static ls_status run_loops(ls_op *op, ls_queue *queue)
{
    const sums_op *sums = (const sums_op *)op;
    (void)queue;
    for (size_t at = 0; at < sums->count; at += BLOCK) {
        size_t left = sums->count - at, count = left < BLOCK ? left : BLOCK;
        for (size_t s = 0; s < sums->step_count; s++)
            do_step(&sums->steps[s], at, count);
    }
    return LS_OK;
}

#if LS_HAS_CUDA
static ls_status run_kernel(ls_op *op, ls_queue *queue)
{
    const sums_op *sums = (const sums_op *)op;
    return ls_cuda_check_code(
        ls_device_describe(ls_queue_device(queue))->text, op->name,
        ls_gpu_sums(ls_queue_native(queue), sums->steps, sums->step_count, sums->count));
}

static ls_status load_kernels(void *device)
{
    return ls_cuda_check_code(ls_device_describe(device)->text, "load the kernel of sums",
                              ls_gpu_load_sums());
}
#endif

ls_status ls_sums_load(ls_device *device)
{
#if LS_HAS_CUDA
    if (ls_device_describe(device)->name.kind == LS_DEVICE_GPU)
        return ls_device_call(device, load_kernels, device);
#endif
    (void)device;
    return LS_OK;
}

ls_status ls_sums_make(const ls_device *device, const char *name, const ls_sum_step *steps,
                       size_t step_count, size_t count, ls_op **out)
{
    const size_t bytes = sizeof(sums_op) + step_count * sizeof *steps;
    sums_op *sums;
    LS_TRY(ls_allocate("communicator", &sums, 1, bytes));
    sums->op = (ls_op){.name = name, .run = run_loops, .use = LS_TIME_COMMUNICATION};
    sums->count = count;
    sums->step_count = step_count;
    memcpy(sums->steps, steps, step_count * sizeof *steps);
    ls_status status = LS_OK;
    for (size_t s = 0; s < step_count && !status; s++) {
        const ls_access touched[] = {{steps[s].to, count * sizeof(float), true},
                                     {steps[s].a, count * sizeof(float), false},
                                     {steps[s].b, count * sizeof(float), false}};
        status = ls_op_touches(&sums->op, touched, 3);
        sums->op.flops += steps[s].b ? (double)count : 0;
        sums->op.bytes += (double)ls_comm_bytes(steps[s].b ? 3 : 2, count);
    }
#if LS_HAS_CUDA
    if (ls_device_describe(device)->name.kind == LS_DEVICE_GPU)
        sums->op.run = run_kernel;
#else
    (void)device;
#endif
    if (status)
        ls_op_free(&sums->op);
    else
        *out = &sums->op;
    return status;
}
