/* SPDX-License-Identifier: MIT */
/* The optimizer of the cpu table: computes the step's scalars once, in double, then makes one pass.
 * Ranges follow one after another; each thread updates those that overlap its elements. */
#include "common/kernel/cpu/cpu_kernels.h"

typedef struct optimizer_args {
    const ls_step_state *state;
    float *gradient; /* the update's gradient; written if weights decay */
    ls_vector_update update;
    int64_t range_count; /* they follow this struct; 0: all elements */
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
    ls_update_scalars_set(&o->update.scalars, o->update.kind, o->state);
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
