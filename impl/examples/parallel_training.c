/* SPDX-License-Identifier: MIT */
/* A function of batches trained on several devices; see parallel_training.h. */
#include "impl/examples/parallel_training.h"

#include <stdlib.h>

static ls_status take_memory(ls_parallel_training *me, int slots)
{
    ls_device *holder = ls_queue_device(me->options.queue);
    const size_t bytes = me->options.variable_bytes;
    void *memory;
    LS_TRY(ls_device_allocate(holder, LS_MEMORY_GRADIENTS, bytes, &me->gradients));
    for (int i = 0; i < slots; i++)
        LS_TRY(ls_device_allocate(holder, LS_MEMORY_OPTIMIZER, bytes, &me->slot[i]));
    LS_TRY(ls_device_allocate(holder, LS_MEMORY_WORKSPACE, sizeof *me->loss, &memory));
    me->loss = memory;
    LS_TRY(ls_device_allocate(holder, LS_MEMORY_WORKSPACE, sizeof *me->state, &memory));
    me->state = memory;
    LS_TRY(ls_device_allocate(holder, LS_MEMORY_WORKSPACE, sizeof *me->record, &memory));
    me->record = memory;
    return LS_OK;
}

static ls_status make_operations(ls_parallel_training *me, const ls_optimizer *o, double rate)
{
    ls_device *holder = ls_queue_device(me->options.queue);
    const ls_kernel_table *table = me->options.table;
    if (!table)
        table = ls_kernel_table_default(ls_device_describe(holder)->name.kind);
    LS_TRY(table->open(holder, &me->kernels));
    const ls_optimizer_args update = {.kind = o->rule->kind,
                                      .count =
                                          (int64_t)(me->options.variable_bytes / table->real_bytes),
                                      .weight = me->options.variables,
                                      .gradient = me->gradients,
                                      .slot = {me->slot[0], me->slot[1]},
                                      .mu = o->mu,
                                      .beta1 = o->beta1,
                                      .beta2 = o->beta2,
                                      .rho = o->rho,
                                      .epsilon = o->epsilon,
                                      .state = me->state};
    const ls_finish_step_args finish = {.state = me->state,
                                        .batch = (uint64_t)me->options.rows,
                                        .schedule = {.initial = rate},
                                        .loss = me->loss,
                                        .records = me->record,
                                        .capacity = 1};
    LS_TRY(table->optimizer(me->kernels, &update, &me->update));
    return table->finish_step(me->kernels, &finish, &me->finish);
}

static ls_status enqueue_step(ls_parallel_training *me)
{
    LS_TRY(ls_parallel_enqueue(me->parallel));
    LS_TRY(ls_queue_enqueue(me->options.queue, me->update));
    return ls_queue_enqueue(me->options.queue, me->finish);
}

static ls_status build(ls_parallel_training *me, const ls_optimizer *optimizer, double rate)
{
    const ls_step_state start = {.learning_rate = rate};
    LS_TRY(take_memory(me, optimizer->rule->slots));
    me->options.gradients = me->gradients;
    me->options.loss = me->loss;
    LS_TRY(ls_make_parallel(&me->options, &me->parallel));
    LS_TRY(make_operations(me, optimizer, rate));
    LS_TRY(ls_queue_write(me->options.queue, me->state, &start, sizeof start));
    LS_TRY(ls_program_begin(me->options.queue));
    ls_status enqueued = enqueue_step(me);
    return ls_status_first(enqueued, ls_program_end(me->options.queue, &me->program));
}

ls_status ls_parallel_training_open(const ls_parallel_options *options,
                                    const ls_optimizer *optimizer, double learning_rate,
                                    ls_parallel_training **out)
{
    ls_parallel_training *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("training", sizeof *me);
    me->options = *options;
    ls_status status = build(me, optimizer, learning_rate);
    if (status)
        ls_parallel_training_close(me);
    else
        *out = me;
    return status;
}

ls_status ls_parallel_training_step(ls_parallel_training *me, uint64_t times)
{
    return ls_program_launch(me->program, times);
}

ls_status ls_parallel_training_loss(ls_parallel_training *me, double *out)
{
    LS_TRY(ls_parallel_sync(me->parallel));
    return ls_queue_read(me->options.queue, out, me->loss, sizeof *out);
}

void ls_parallel_training_close(ls_parallel_training *me)
{
    if (!me)
        return;
    ls_device *holder = ls_queue_device(me->options.queue);
    ls_program_close(me->program);
    ls_parallel_close(me->parallel);
    ls_op_free(me->update);
    ls_op_free(me->finish);
    if (me->kernels)
        me->kernels->table->close(me->kernels);
    void *const memory[] = {me->gradients, me->slot[0], me->slot[1],
                            me->loss,      me->state,   me->record};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        ls_device_release(holder, memory[i]);
    free(me);
}
