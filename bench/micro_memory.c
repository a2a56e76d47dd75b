/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro copy` and `lockstep micro optimizer`: bound by memory bandwidth. Bytes are those
 * that must be read and written: a copy 2 per byte; an optimizer pass the gradient once, weights
 * and slots twice.
 */
#include "bench/micro.h"

#include "common/nn/net.h"

#include <string.h>

/* A copy as an operation, for timing. */
typedef struct copy_op {
    ls_op op;
    void *to;
    const void *from;
    size_t bytes;
} copy_op;

static ls_status run_copy(ls_op *op, ls_queue *queue)
{
    copy_op *c = (copy_op *)op;
    const ls_device *device = ls_queue_device(queue);
    if (ls_device_describe(device)->name.kind == LS_DEVICE_GPU) /* run by the host: launches */
        return ls_queue_copy(queue, c->to, device, c->from, device, c->bytes);
    memcpy(c->to, c->from, c->bytes);
    return LS_OK;
}

static void keep_copy(ls_op *op)
{
    (void)op;
}

ls_status ls_micro_time_copy(ls_micro *m, size_t bytes, ls_statistics *ns)
{
    const size_t floats = bytes / sizeof(float);
    float *from = NULL, *to = NULL;
    ls_status status = ls_bench_floats(&m->bench, floats, &from);
    if (!status)
        status = ls_bench_floats(&m->bench, floats, &to);
    copy_op copy = {.op = {.name = "copy", .run = run_copy, .destroy = keep_copy},
                    .to = to,
                    .from = from,
                    .bytes = floats * sizeof(float)};
    ls_op *op = &copy.op;
    if (!status)
        status = ls_bench_time(&m->bench, &op, 1, LS_MICRO_ROUNDS, ns);
    ls_device_release(m->device, from);
    ls_device_release(m->device, to);
    return status;
}

static ls_status time_copy(ls_micro *m, size_t bytes)
{
    ls_micro_figure figure = {.op = "copy",
                              .bytes = bytes,
                              .count = bytes / sizeof(float),
                              .moved_bytes = 2.0 * (double)bytes};
    LS_TRY(ls_micro_time_copy(m, bytes, &figure.ns));
    return ls_micro_row(m, &figure);
}

ls_status ls_micro_copy(ls_micro *m)
{
    size_t sizes[LS_MICRO_SIZES], count;
    LS_TRY(ls_micro_sizes(m, 4096, sizes, &count));
    for (size_t i = 0; i < count; i++)
        LS_TRY(time_copy(m, sizes[i]));
    return LS_OK;
}

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
    ls_status status =
        ls_device_allocate(m->device, LS_MEMORY_WORKSPACE, sizeof(ls_step_state), &state);
    for (int i = 0; i < 2 + slots && !status; i++)
        status = ls_bench_floats(&m->bench, count, &memory[i]);
    const ls_optimizer *o = &m->optimizer;
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
                                    .state = state};
    if (!status)
        status = m->bench.kernels->table->optimizer(m->bench.kernels, &args, &op);
    if (!status)
        status = ls_bench_time(&m->bench, &op, 1, LS_MICRO_ROUNDS, &figure->ns);
    ls_op_free(op);
    for (int i = 0; i < 4; i++)
        ls_device_release(m->device, memory[i]);
    ls_device_release(m->device, state);
    return status;
}

ls_status ls_micro_optimizer(ls_micro *m)
{
    size_t sizes[LS_MICRO_SIZES], count;
    ls_micro_figure figure;
    LS_TRY(ls_micro_sizes(m, 4096, sizes, &count));
    LS_TRY(ls_micro_time_optimizer(m, m->model->graph->variables.elements, &figure));
    LS_TRY(ls_micro_row(m, &figure));
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_micro_time_optimizer(m, sizes[i] / sizeof(float), &figure));
        LS_TRY(ls_micro_row(m, &figure));
    }
    return LS_OK;
}
