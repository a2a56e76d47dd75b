/* SPDX-License-Identifier: MIT */
/*
 * Operations without reals: the sum of two losses, a norm, the end of a step, the time, a fault.
 * All CPU tables use them. Also opens the reference tables.
 */
#include "common/kernel/reference/step_ops.h"

#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/kernel/step_inline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_reference_open(const ls_kernel_table *table, ls_device *device, ls_kernels **out)
{
    ls_kernels *kernels;
    LS_TRY(ls_allocate(table->name, &kernels, 1, sizeof *kernels));
    *kernels = (ls_kernels){.table = table, .device = device};
    *out = kernels;
    return LS_OK;
}

void ls_reference_close(ls_kernels *kernels)
{
    free(kernels);
}

ls_status ls_op_bind(const char *name, ls_status (*run)(ls_op *op, ls_queue *queue),
                     const void *arguments, size_t bytes, const ls_work *work, ls_op **out)
{
    const size_t size = sizeof(ls_bound_op) + bytes + work->array_bytes;
    ls_bound_op *bound;
    LS_TRY(ls_allocate(name, &bound, 1, size));
    bound->op = (ls_op){.name = name, .run = run};
    memcpy(bound->arguments, arguments, bytes);
    if (work->array_bytes)
        memcpy(bound->arguments + bytes, work->array, work->array_bytes);
    *out = &bound->op;
    return LS_OK;
}

static ls_status add_loss(const ls_add_loss_args *a)
{
    *a->out = *a->a + *a->b;
    return LS_OK;
}

/* Pairs of neighbours, then pairs of their sums: the tree of kernel.h. */
static ls_status clip_factor(const ls_clip_factor_args *a)
{
    for (int64_t d = 1; d < a->count; d *= 2)
        for (int64_t i = 0; i + d < a->count; i += 2 * d)
            a->sums[i] += a->sums[i + d];
    *a->clip = ls_clip_of(a->count ? a->sums[0] : 0, a->most);
    return LS_OK;
}

static ls_status finish_step(const ls_finish_step_args *f)
{
    ls_step_state *state = f->state;
    uint64_t slot = state->record % f->capacity;
    f->records[slot] = (ls_step_record){.end_ns = ls_clock_ns(), .loss = f->loss ? *f->loss : 0};
    for (uint64_t i = 0; i < f->more; i++)
        f->more_losses[slot * f->more + i] = f->loss[1 + i];
    ls_step_advance(state, f->batch, &f->schedule);
    return LS_OK;
}

static ls_status stamp(const ls_stamp_args *s)
{
    *s->time_ns = ls_clock_ns();
    return LS_OK;
}

static ls_status set_first(const ls_set_first_args *s)
{
    *s->first = s->state->position + s->offset;
    return LS_OK;
}

/* The samples of so many positions of a batch, some at a time. */
enum { SOME_SAMPLES = 256 };

static int64_t some_samples(const ls_set_targets_args *s, uint64_t first, uint64_t left,
                            ls_order_epoch *cache, uint32_t samples[SOME_SAMPLES])
{
    const uint64_t some = left < SOME_SAMPLES ? left : SOME_SAMPLES;
    ls_order_samples(&s->order, s->state->position + first, some, cache, samples);
    return (int64_t)some;
}

static ls_status set_targets(const ls_set_targets_args *s)
{
    ls_order_epoch cache = {.epoch = UINT64_MAX};
    uint32_t samples[SOME_SAMPLES] = {0};
    int64_t targets = 0;
    for (uint64_t i = 0; i < s->count; i += SOME_SAMPLES) {
        const int64_t some = some_samples(s, s->first + i, s->count - i, &cache, samples);
        for (int64_t k = 0; k < some; k++)
            targets += ls_targets_of(s->random, samples[k], s->whole);
    }
    *s->scale = 1.0 / (double)targets;
    for (int64_t r = 0; r < s->rows; r += SOME_SAMPLES) {
        const int64_t some =
            some_samples(s, s->offset + (uint64_t)r, (uint64_t)(s->rows - r), &cache, samples);
        for (int64_t k = 0; k < some; k++) {
            const int64_t count = ls_targets_of(s->random, samples[k], s->whole) - s->begin;
            for (int64_t t = count > 0 ? count : 0; t < s->width; t++)
                s->labels[(r + k) * s->width + t] = -1;
        }
    }
    return LS_OK;
}

static ls_status flip_bit(const ls_flip_bit_args *f)
{
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

#define STEP_ENTRY(entry, args) LS_OP_OF_LOOP(, ls_step_##entry, args, #entry, entry)
LS_KERNEL_STEP_ENTRIES(STEP_ENTRY)
