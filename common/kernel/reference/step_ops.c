/* SPDX-License-Identifier: MIT */
/*
 * Operations that touch no reals: the sum of two losses, the end of a step, the time, a fault. All
 * CPU tables use them. Also the opening of the reference tables.
 */
#include "common/kernel/reference/step_ops.h"

#include "common/base/clock.h"
#include "common/kernel/kernel_check.h"
#include "common/kernel/op_bind.h"
#include "common/kernel/step_inline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_reference_open(const ls_kernel_table *table, ls_device *device, ls_kernels **out)
{
    ls_kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels)
        return ls_fail_memory(table->name, sizeof *kernels);
    *kernels = (ls_kernels){.table = table, .device = device};
    *out = kernels;
    return LS_OK;
}

void ls_reference_close(ls_kernels *kernels)
{
    free(kernels);
}

/* ---- add_loss ------------------------------------------------------------------------------ */

static ls_status run_add_loss(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_add_loss_args *a = ls_op_arguments(op);
    *a->out = *a->a + *a->b;
    return LS_OK;
}

ls_status ls_step_add_loss(ls_kernels *kernels, const ls_add_loss_args *arguments,
                           const ls_work *work, ls_op **out)
{
    (void)kernels;
    const ls_op like = {
        .name = "add_loss", .run = run_add_loss, .flops = work->flops, .bytes = work->bytes};
    return ls_op_bind(&like, arguments, sizeof *arguments, out);
}

/* ---- finish_step --------------------------------------------------------------------------- */

static ls_status run_finish_step(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_finish_step_args *f = ls_op_arguments(op);
    ls_step_state *state = f->state;
    uint64_t place = state->record % f->capacity;
    f->records[place] = (ls_step_record){.end_ns = ls_clock_ns(), .loss = f->loss ? *f->loss : 0};
    for (uint64_t i = 0; i < f->more; i++)
        f->more_losses[place * f->more + i] = f->loss[1 + i];
    ls_step_advance(state, f->batch, &f->schedule);
    return LS_OK;
}

ls_status ls_step_finish_step(ls_kernels *kernels, const ls_finish_step_args *arguments,
                              const ls_work *work, ls_op **out)
{
    (void)kernels;
    const ls_op like = {
        .name = "finish_step", .run = run_finish_step, .flops = work->flops, .bytes = work->bytes};
    return ls_op_bind(&like, arguments, sizeof *arguments, out);
}

/* ---- stamp --------------------------------------------------------------------------------- */

static ls_status run_stamp(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_stamp_args *s = ls_op_arguments(op);
    *s->time_ns = ls_clock_ns();
    return LS_OK;
}

ls_status ls_step_stamp(ls_kernels *kernels, const ls_stamp_args *arguments, const ls_work *work,
                        ls_op **out)
{
    (void)kernels;
    const ls_op like = {.name = "stamp", .run = run_stamp, .bytes = work->bytes};
    return ls_op_bind(&like, arguments, sizeof *arguments, out);
}

/* ---- flip_bit ------------------------------------------------------------------------------ */

static ls_status run_flip_bit(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_flip_bit_args *f = ls_op_arguments(op);
    int64_t largest = 0;
    uint32_t bits;
    if (f->state->step != f->step || f->count == 0)
        return LS_OK;
    for (int64_t i = 1; i < f->count; i++)
        if (fabsf(f->data[i]) > fabsf(f->data[largest]))
            largest = i;
    memcpy(&bits, &f->data[largest], sizeof bits);
    bits ^= UINT32_C(1) << 30;
    memcpy(&f->data[largest], &bits, sizeof bits);
    return LS_OK;
}

ls_status ls_step_flip_bit(ls_kernels *kernels, const ls_flip_bit_args *arguments,
                           const ls_work *work, ls_op **out)
{
    (void)kernels;
    const ls_op like = {.name = "flip_bit", .run = run_flip_bit, .bytes = work->bytes};
    return ls_op_bind(&like, arguments, sizeof *arguments, out);
}
