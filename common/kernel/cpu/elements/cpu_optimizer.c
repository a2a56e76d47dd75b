/* SPDX-License-Identifier: MIT */
/* The optimizer of the cpu table: the scalars of the step once, in double, then one pass; ranges
 * one after the other, each thread those that its elements meet. */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

typedef struct optimizer_op {
    const ls_vector_loops *loops;
    int threads;
    int64_t count;
    const ls_step_state *state;
    float *gradient; /* as the update's, to be written where it decays */
    ls_vector_update update;
    int64_t range_count; /* behind this; 0: all is trained */
} optimizer_op;

/* Elements [first, last) of a range. */
static void part_of_range(const optimizer_op *o, const ls_update_range *range, int64_t first,
                          int64_t last)
{
    float *weight = o->update.weight, *gradient = o->gradient;
    if (range->keep != 0) {
        o->loops->moving_average(gradient + first, (float)(1 - range->keep), weight + first,
                                 last - first);
        return;
    }
    if (range->decay != 0)
        o->loops->decay(weight + first, (float)range->decay, gradient + first, last - first);
    o->loops->optimizer(&o->update, first, last);
}

static void part_of_ranges(const optimizer_op *o, int64_t first, int64_t last)
{
    const ls_update_range *ranges = (const ls_update_range *)(o + 1);
    for (int64_t r = 0; r < o->range_count; r++) {
        const int64_t begin = ranges[r].first, end = begin + ranges[r].count;
        if (begin < last && end > first)
            part_of_range(o, &ranges[r], begin > first ? begin : first, end < last ? end : last);
    }
}

static void part_of_step(void *context, int part, int parts)
{
    const optimizer_op *o = context;
    int64_t first, last;
    ls_cpu_split(o->count, part, parts, &first, &last);
    if (o->range_count)
        part_of_ranges(o, first, last);
    else
        o->loops->optimizer(&o->update, first, last);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    optimizer_op *o = ls_op_arguments(op);
    ls_update_scalars_set(&o->update.scalars, o->update.kind, o->state);
    ls_team_run(o->threads, part_of_step, o);
    return LS_OK;
}

ls_status ls_cpu_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments,
                           const ls_work *work, ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_loop",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_loop",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_loop",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_loop"};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_optimizer_args *a = arguments;
    const optimizer_op bound = {.loops = cpu->loops,
                                .threads = ls_cpu_threads_for(cpu, a->count),
                                .count = a->count,
                                .state = a->state,
                                .gradient = a->gradient,
                                .range_count = a->range_count,
                                .update = {.kind = a->kind,
                                           .weight = a->weight,
                                           .gradient = a->gradient,
                                           .first = a->slot[0],
                                           .second = a->slot[1],
                                           .scalars = ls_update_scalars_make(a)}};
    const ls_op like = {
        .name = names[a->kind], .run = run, .flops = work->flops, .bytes = work->bytes};
    return ls_op_bind_array(&like, &bound, sizeof bound, a->ranges,
                            (size_t)a->range_count * sizeof *a->ranges, out);
}
