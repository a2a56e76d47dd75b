/* SPDX-License-Identifier: MIT */
/*
 * The optimizer of the cpu table: the scalars of the step once, in double, then one pass.
 *
 * Adam's w -= lr mhat / (sqrt(vhat) + eps) is computed as rate m / (sqrt(v c) + eps) with
 * rate = lr / (1 - b1^t) and c = 1 / (1 - b2^t). The powers come by squaring: functions of t alone.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

typedef struct optimizer_op {
    const ls_vector_loops *loops;
    int threads;
    int64_t count;
    double beta1, beta2;
    const ls_step_state *state;
    ls_vector_update update; /* rate and unbias_second change with the step */
} optimizer_op;

static void part_of_step(void *context, int part, int parts)
{
    const optimizer_op *o = context;
    int64_t first, last;
    ls_cpu_split(o->count, part, parts, &first, &last);
    o->loops->optimizer(&o->update, first, last);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    optimizer_op *o = ls_op_arguments(op);
    double rate = o->state->learning_rate;
    if (o->update.kind == LS_OPTIMIZER_ADAM) {
        double power1 = 1, power2 = 1, square1 = o->beta1, square2 = o->beta2;
        for (uint64_t t = o->state->step + 1; t; t >>= 1) {
            power1 *= t & 1 ? square1 : 1;
            power2 *= t & 1 ? square2 : 1;
            square1 *= square1;
            square2 *= square2;
        }
        rate /= 1 - power1;
        o->update.unbias_second = (float)(1 / (1 - power2));
    }
    o->update.rate = (float)rate;
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
    bool adam = a->kind == LS_OPTIMIZER_ADAM;
    double keep = adam ? a->beta2 : a->rho;
    const optimizer_op bound = {.loops = cpu->loops,
                                .threads = ls_cpu_threads_for(cpu, a->count),
                                .count = a->count,
                                .beta1 = a->beta1,
                                .beta2 = a->beta2,
                                .state = a->state,
                                .update = {.kind = a->kind,
                                           .weight = a->weight,
                                           .gradient = a->gradient,
                                           .first = a->slot[0],
                                           .second = a->slot[1],
                                           .keep_first = (float)(adam ? a->beta1 : a->mu),
                                           .add_first = (float)(1 - a->beta1),
                                           .keep_second = (float)keep,
                                           .add_second = (float)(1 - keep),
                                           .epsilon = (float)a->epsilon}};
    const ls_op like = {
        .name = names[a->kind], .run = run, .flops = work.flops, .bytes = work.bytes};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}
