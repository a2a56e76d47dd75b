/* SPDX-License-Identifier: MIT */
/* Replica: a device's buffers and the operations of a step; see replica.h. */
#include "impl/replica/replica.h"

#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

static size_t real_bytes(const ls_replica *replica)
{
    return replica->kernels->table->real_bytes;
}

size_t ls_replica_parameter_bytes(const ls_replica *r)
{
    return ls_job_rounds(r->job) ? sizeof(uint16_t) : real_bytes(r);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* Allocates a buffer and registers it. `out` points to a pointer of some type. */
static ls_status take(ls_replica *r, ls_replica_buffer buffer, void *out)
{
    LS_TRY(ls_grow("replica", &r->buffers, r->buffer_count, sizeof buffer));
    LS_TRY(ls_device_allocate(r->device, buffer.use, buffer.bytes, &buffer.memory));
    memcpy(out, &buffer.memory, sizeof buffer.memory);
    r->buffers[r->buffer_count++] = buffer;
    return LS_OK;
}

ls_status ls_replica_take(ls_replica *r, const char *what, ls_memory_use use, size_t bytes,
                          void *out)
{
    return take(r, (ls_replica_buffer){.what = what, .use = use, .bytes = bytes}, out);
}

/* A use, of elements of so many bytes. */
static ls_memory_use typed(ls_memory_use use, size_t each)
{
    return LS_MEMORY_AS(use, each == sizeof(uint16_t) ? LS_MEMORY_BF16 : LS_MEMORY_FLOAT32);
}

/* An array of all elements, element i belongs to the variables' element i; or an array for the
 * shares alone. */
static ls_status take_array(ls_replica *r, const char *what, ls_memory_use use, bool shared,
                            void *out)
{
    const size_t each = use == LS_MEMORY_PARAMETERS ? ls_replica_parameter_bytes(r) : real_bytes(r);
    const ls_replica_buffer array = {.what = what,
                                     .use = typed(use, each),
                                     .element = shared && r->updated.shares.buckets ? 0 : each,
                                     .bytes = (shared ? r->updated.stated : r->elements) * each,
                                     .carried = use != LS_MEMORY_GRADIENTS};
    return take(r, array, out);
}

/* The memory of windows; `whole` without windows. */
static ls_status take_windows(ls_replica *r, const char *what, const ls_windows *windows,
                              size_t each, void *whole, void **out)
{
    *out = whole;
    return windows ? ls_replica_take(r, what, typed(LS_MEMORY_COMMUNICATION, each),
                                     windows->elements * each, out)
                   : LS_OK;
}

static ls_status take_small(ls_replica *r, const char *what, size_t bytes, void *out)
{
    return ls_replica_take(r, what, LS_MEMORY_AS(LS_MEMORY_WORKSPACE, LS_MEMORY_OTHER), bytes, out);
}

static ls_status take_carried(ls_replica *r, const char *what, size_t bytes, void *out)
{
    LS_TRY(take_small(r, what, bytes, out));
    r->buffers[r->buffer_count - 1].carried = true;
    return LS_OK;
}

static ls_status take_buffers(ls_replica *r)
{
    const size_t records = r->job->records, rows = (size_t)r->data.rows;
    const bool own_variables = !r->parameters;
    void **state = r->updated.state;
    if (own_variables)
        LS_TRY(take_array(r, "parameters", LS_MEMORY_PARAMETERS, r->windows.parameters,
                          &r->parameters));
    LS_TRY(take_array(r, "gradients", LS_MEMORY_GRADIENTS, r->windows.gradients, &r->gradients));
    LS_TRY(take_windows(r, "window", r->windows.parameters, ls_replica_parameter_bytes(r),
                        r->parameters, &r->windows.whole_parameters));
    LS_TRY(take_windows(r, "gradient window", r->windows.gradients, real_bytes(r), r->gradients,
                        &r->windows.whole_gradients));
    if (r->updates && ls_replica_parameter_bytes(r) != real_bytes(r))
        LS_TRY(take_array(r, "master parameters", LS_MEMORY_OPTIMIZER, true, &r->masters));
    state[LS_VALUES] = r->masters ? r->masters : r->windows.parameters ? r->parameters : NULL;
    for (int a = LS_SLOT_0; a < LS_ARRAYS && r->updates; a++)
        if (ls_state_name(r->job, (ls_values)a))
            LS_TRY(take_array(r, a == LS_AVERAGES ? "moving averages" : "optimizer state",
                              LS_MEMORY_OPTIMIZER, true, &state[a]));
    for (int i = 0; i < r->updated.own_count; i++)
        LS_TRY(take_array(r, r->updated.owns[i].name, LS_MEMORY_OPTIMIZER, true,
                          &state[LS_ARRAYS + i]));
    LS_TRY(ls_replica_take_clip(r));
    if (own_variables)
        LS_TRY(take_carried(r, "argument block", sizeof *r->state, &r->state));
    if (r->job->exchange.wire)
        LS_TRY(take_carried(r, "wire error", sizeof *r->wire_error, &r->wire_error));
    LS_TRY(take_small(r, "loss", LS_REPLICA_LOSSES * sizeof *r->loss.parts, &r->loss.parts));
    if (r->loss.more > r->loss.sums - 1)
        LS_TRY(take_carried(r, "loss", 2 * sizeof *r->loss.decay, &r->loss.decay));
    if (r->loss.more)
        LS_TRY(take_small(r, "records", records * r->loss.more * sizeof *r->loss.more_losses,
                          &r->loss.more_losses));
    LS_TRY(take_small(r, NULL, sizeof *r->timing.mark_ns, &r->timing.mark_ns));
    LS_TRY(take_small(r, "records", records * sizeof *r->timing.records, &r->timing.records));
    LS_TRY(take_small(r, "batch", rows * sizeof *r->data.indices, &r->data.indices));
    if (r->job->sampling.ragged)
        LS_TRY(take_small(r, "batch", sizeof *r->data.scale, &r->data.scale));
    if (r->graph->blocks.whole)
        LS_TRY(take_small(r, "batch",
                          rows * (size_t)r->graph->blocks.whole * sizeof *r->data.sequences,
                          &r->data.sequences));
    LS_TRY(take_small(r, NULL, sizeof *r->test.state, &r->test.state));
    return take_small(r, NULL, sizeof *r->test.correct, &r->test.correct);
}

static ls_status share_split(ls_replica *r, const ls_split *split,
                             const void *shared[LS_REPLICA_ARRAYS])
{
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++) {
        const ls_array *array = ls_replica_array(split, i);
        if (array->data)
            LS_TRY(ls_device_share(r->device, array->data, ls_array_bytes(array, split->samples),
                                   &shared[i]));
    }
    return LS_OK;
}

static ls_status open_parts(ls_replica *r)
{
    LS_TRY(ls_queue_open(r->device, "compute", &r->queue));
    LS_TRY(
        ls_kernels_open_table(r->job->kernels.table, r->device, r->job->kernels.math, &r->kernels));
    r->kernels->convolution = r->job->kernels.convolution;
    LS_TRY(take_buffers(r));
    LS_TRY(share_split(r, &r->job->data->train, r->data.train));
    LS_TRY(share_split(r, &r->job->data->test, r->data.test));
    if (r->loss.decay)
        LS_TRY(ls_replica_decay_loss(r, &r->loss.decay_loss));
    return r->kernels->table->stamp(r->kernels, &(ls_stamp_args){.time_ns = r->timing.mark_ns},
                                    &r->timing.mark);
}

static bool decays(const ls_replica *r)
{
    const ls_variables *variables = &r->graph->variables;
    for (size_t i = 0; i < variables->count; i++)
        if (variables->items[i].decay != 0 && variables->items[i].offset < r->updated.owned)
            return true;
    return false;
}

ls_status ls_replica_open(const ls_replica *like, ls_replica **out)
{
    ls_replica *r;
    LS_TRY(ls_allocate("replica", &r, 1, sizeof *r));
    *r = *like;
    r->graph = r->part ? r->part->graph : r->job->model->graph;
    r->elements = r->graph->variables.elements;
    r->updated.owned = r->part ? r->part->owned : r->elements;
    r->updated.own_count = r->updated.owns ? r->job->update.owned : 0;
    for (ls_replica_part_of part = {.next = 0}; ls_replica_next(r, &part);)
        r->updated.stated += part.range.count;
    const bool decays_here =
        r->loss.decays == LS_DECAY_UPDATES ? r->updates : r->loss.decays == LS_DECAY_HERE;
    r->loss.more = r->loss.sums - 1 + (decays_here && decays(r));
    const ls_status status = open_parts(r);
    if (status)
        ls_replica_close(r);
    else
        *out = r;
    return status;
}

void ls_replica_close(ls_replica *r)
{
    if (!r)
        return;
    ls_queue_close(r->queue);
    ls_op_list_clear(&r->loss.decay_loss);
    ls_replica_forget_test(r);
    ls_op_free(r->timing.mark);
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++) {
        ls_device_unshare(r->device, r->data.train[i]);
        ls_device_unshare(r->device, r->data.test[i]);
    }
    for (size_t i = 0; i < r->buffer_count; i++)
        ls_device_release(r->device, r->buffers[i].memory);
    free(r->buffers);
    if (r->kernels)
        r->kernels->table->close(r->kernels);
    free(r);
}

/* ---- The end of a step ----------------------------------------------------------------------- */

ls_status ls_replica_finish(ls_replica *r, int64_t batch, ls_op_list *ops)
{
    const ls_finish_step_args args = {.state = r->state,
                                      .batch = (uint64_t)batch,
                                      .schedule = r->job->update.schedule,
                                      .loss = r->loss.parts,
                                      .records = r->timing.records,
                                      .capacity = r->job->records,
                                      .more = r->loss.more,
                                      .more_losses = r->loss.more_losses};
    ls_op *op;
    /* Last, since partial sums have used this memory. */
    if (r->loss.decay) {
        const ls_add_loss_args decay = {
            .a = r->loss.decay, .b = r->loss.decay + 1, .out = r->loss.parts + r->loss.sums};
        LS_TRY(r->kernels->table->add_loss(r->kernels, &decay, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    LS_TRY(r->kernels->table->finish_step(r->kernels, &args, &op));
    op->use = LS_TIME_HARNESS;
    LS_TRY(ls_op_list_add(ops, op));
    return r->loss.decay && r->loss.decays == LS_DECAY_UPDATES ? ls_replica_decay_loss(r, ops)
                                                               : LS_OK;
}

/* ---- Records -------------------------------------------------------------------------------- */

ls_status ls_replica_records(ls_replica *r, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    LS_TRY(ls_queue_read(r->queue, mark_ns, r->timing.mark_ns, sizeof *mark_ns));
    while (count) { /* a range may wrap around the ring's end */
        uint64_t slot = first % r->job->records;
        uint64_t run = r->job->records - slot < count ? r->job->records - slot : count;
        LS_TRY(ls_queue_read(r->queue, out, r->timing.records + slot, run * sizeof *out));
        first += run;
        out += run;
        count -= run;
    }
    return LS_OK;
}

ls_status ls_replica_more_losses(ls_replica *r, uint64_t index, double *out)
{
    return ls_queue_read(r->queue, out,
                         r->loss.more_losses + index % r->job->records * r->loss.more,
                         r->loss.more * sizeof *out);
}
