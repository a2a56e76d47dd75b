/* SPDX-License-Identifier: MIT */
/*
 * The optimizer of the cpu table: the scalars of the step once, in double, then one pass.
 *
 * Adam's w -= lr mhat / (sqrt(vhat) + eps) is computed as rate m / (sqrt(v c) + eps) with
 * rate = lr / (1 - b1^t) and c = 1 / (1 - b2^t). The powers come by squaring: functions of t alone.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/step_inline.h"

typedef struct optimizer_op {
    const ls_vector_loops *loops;
    int threads;
    ls_optimizer_args arguments;
    ls_vector_update update; /* rate and unbias_second change with the step */
} optimizer_op;

static void part_of_step(void *context, int part, int parts)
{
    const optimizer_op *o = context;
    int64_t first, last;
    ls_cpu_split(o->arguments.count, part, parts, &first, &last);
    o->loops->optimizer(&o->update, first, last);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    optimizer_op *o = ls_op_arguments(op);
    ls_update_scalars scalars;
    ls_update_begin(&o->arguments, &scalars);
    o->update.rate = scalars.rate;
    o->update.unbias_second = scalars.unbias_second;
    ls_team_run(o->threads, part_of_step, o);
    return LS_OK;
}

ls_status ls_cpu_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments, ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_loop",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_loop",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_loop",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_loop"};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_optimizer_args *a = arguments;
    ls_work work;
    LS_TRY(ls_check_optimizer(a, kernels->table->real_bytes, &work));
    ls_update_scalars scalars;
    ls_update_fixed(a, &scalars);
    const optimizer_op bound = {.loops = cpu->loops,
                                .threads = ls_cpu_threads_for(cpu, a->count),
                                .arguments = *a,
                                .update = {.kind = a->kind,
                                           .weight = a->weight,
                                           .gradient = a->gradient,
                                           .first = a->slot[0],
                                           .second = a->slot[1],
                                           .keep_first = scalars.keep_first,
                                           .add_first = scalars.add_first,
                                           .keep_second = scalars.keep_second,
                                           .add_second = scalars.add_second,
                                           .epsilon = scalars.epsilon}};
    const ls_op like = {
        .name = names[a->kind], .run = run, .flops = work.flops, .bytes = work.bytes};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}
