/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro optimizer`: limited by memory bandwidth. Only bytes that must be read and written
 * count: the gradient once, weights and slots twice.
 */
#include "bench/micro/micro.h"

ls_status ls_micro_time_optimizer(ls_micro *m, size_t count, ls_micro_figure *figure)
{
    float *memory[4] = {NULL};
    void *state = NULL;
    ls_op *op = NULL;
    int slots = m->optimizer.rule->slots;
    *figure =
        (ls_micro_figure){.op = "optimizer",
                          .shape = m->optimizer.rule->name,
                          .bytes = count * sizeof(float),
                          .count = count,
                          .moved_bytes = (double)(count * sizeof(float)) * (3.0 + 2.0 * slots)};
    ls_bench_release(&m->bench);
    LS_TRY(ls_bench_take(&m->bench, sizeof(ls_step_state), &state));
    for (int i = 0; i < 2 + slots; i++)
        LS_TRY(ls_bench_floats(&m->bench, count, &memory[i]));
    const ls_optimizer *o = &m->optimizer;
    const ls_update_range all = {.count = (int64_t)count, .shrinks = true};
    const ls_optimizer_args args = {.kind = o->rule->kind,
                                    .count = (int64_t)count,
                                    .weight = memory[0],
                                    .gradient = memory[1],
                                    .slot = {memory[2], memory[3]},
                                    .mu = o->mu,
                                    .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .rho = o->rho,
                                    .epsilon = o->epsilon,
                                    .decay = o->decay,
                                    .ranges = &all,
                                    .range_count = 1,
                                    .state = state};
    const ls_status made = m->bench.kernels->table->optimizer(m->bench.kernels, &args, &op);
    return ls_bench_time_made(&m->bench, made, &op, LS_MICRO_ROUNDS, &figure->ns);
}

ls_status ls_micro_optimizer(ls_micro *m)
{
    size_t sizes[LS_MICRO_SIZES + 1], count;
    ls_micro_figure figure;
    sizes[0] = m->model->graph->variables.elements * sizeof(float);
    LS_TRY(ls_micro_sizes(m, 4096, sizes + 1, &count));
    for (size_t i = 0; i <= count; i++) {
        LS_TRY(ls_micro_time_optimizer(m, sizes[i] / sizeof(float), &figure));
        LS_TRY(ls_micro_row(m, &figure));
    }
    return LS_OK;
}
