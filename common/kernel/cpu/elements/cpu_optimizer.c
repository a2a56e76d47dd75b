/* SPDX-License-Identifier: MIT */
/* The optimizer of the cpu table: computes the step's scalars once, in double, then makes one pass.
 * Ranges follow one after another; each thread updates the ranges that overlap its elements. Also
 * the sums of squares of a gradient, whose blocks the threads share. */
#include "common/kernel/cpu/cpu_kernels.h"

typedef struct optimizer_args {
    const ls_step_state *state;
    const ls_clip *clip;
    float *gradient; /* the update's gradient; written if weights decay */
    ls_vector_update update;
    int64_t range_count; /* they follow this struct; 0 means all elements */
} optimizer_args;

/* Elements [first, last) of a range. */
static void part_of_range(const cpu_part *p, const ls_update_range *range, int64_t first,
                          int64_t last)
{
    const optimizer_args *o = p->arguments;
    float *weight = o->update.weight, *gradient = o->gradient;
    if (range->keep != 0) {
        p->loops->moving_average(gradient + first, (float)(1 - range->keep), weight + first,
                                 last - first);
        return;
    }
    if (range->decay != 0)
        p->loops->decay(weight + first, (float)range->decay, gradient + first, last - first);
    ls_vector_update update = o->update;
    if (!range->shrinks)
        update.scalars.shrink = 0;
    p->loops->optimizer(&update, first, last);
}

static void part_of_step(const cpu_part *p)
{
    const optimizer_args *o = p->arguments;
    const ls_update_range *ranges = (const void *)(o + 1);
    if (!o->range_count)
        part_of_range(p, &(ls_update_range){0}, p->first, p->last);
    for (int64_t r = 0; r < o->range_count; r++) {
        const int64_t begin = ranges[r].first, end = begin + ranges[r].count;
        if (begin < p->last && end > p->first)
            part_of_range(p, &ranges[r], begin > p->first ? begin : p->first,
                          end < p->last ? end : p->last);
    }
}

static ls_status set_scalars(cpu_op *op)
{
    optimizer_args *o = (void *)op->arguments;
    ls_update_scalars_set(&o->update.scalars, o->update.kind, o->state, o->clip);
    return LS_OK;
}

ls_status ls_cpu_optimizer(ls_kernels *kernels, const ls_optimizer_args *a, const ls_work *work,
                           ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_loop",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_loop",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_loop",
                                        [LS_OPTIMIZER_ADAMW] = "optimizer.adamw_loop",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_loop"};
    const cpu_op like = {.op.name = names[a->kind],
                         .once = set_scalars,
                         .part = part_of_step,
                         .shared = a->count,
                         .elements = a->count,
                         .in_blocks = true};
    const optimizer_args args = {.state = a->state,
                                 .clip = a->clip,
                                 .gradient = a->gradient,
                                 .range_count = a->range_count,
                                 .update = {.kind = a->kind,
                                            .weight = a->weight,
                                            .gradient = a->gradient,
                                            .first = a->slot[0],
                                            .second = a->slot[1],
                                            .scalars = ls_update_scalars_make(a)}};
    return ls_cpu_op_open(kernels, &like, &args, sizeof args, work, out);
}

/* ---- Sums of squares ------------------------------------------------------------------------- */

static double sum_block(const cpu_part *p, const ls_update_range *range, int64_t first,
                        int64_t count)
{
    const ls_square_sums_args *a = p->arguments;
    float *gradient = (float *)a->gradient + first;
    if (range->decay != 0)
        p->loops->decay((const float *)a->weight + first, (float)range->decay, gradient, count);
    return range->keep != 0 ? 0 : p->loops->sum_squares(gradient, count);
}

static void square_sums_part(const cpu_part *p)
{
    const ls_square_sums_args *a = p->arguments;
    const ls_update_range *ranges = (const void *)(a + 1); /* behind the arguments */
    int64_t block = 0;
    for (int64_t r = 0; r < a->range_count; block += ls_square_blocks(ranges[r++].count)) {
        const int64_t end = ranges[r].first + ranges[r].count;
        int64_t at = block < p->first ? p->first - block : 0;
        for (; block + at < p->last && at < ls_square_blocks(ranges[r].count); at++) {
            const int64_t first = ranges[r].first + at * LS_SQUARE_BLOCK, left = end - first;
            a->sums[block + at] =
                sum_block(p, &ranges[r], first, left < LS_SQUARE_BLOCK ? left : LS_SQUARE_BLOCK);
        }
    }
}

static int64_t blocks_of(const ls_square_sums_args *a)
{
    int64_t blocks = 0;
    for (int64_t r = 0; r < a->range_count; r++)
        blocks += ls_square_blocks(a->ranges[r].count);
    return blocks;
}

LS_CPU_OP(square_sums, ".loop", ls_square_sums_args, .part = square_sums_part,
          .shared = blocks_of(a), .elements = a->count)
