/* SPDX-License-Identifier: MIT */
/*
 * What a replica has of the arrays of a state, to and from blocks of the model's elements, so that
 * the host never needs room for a whole model. Replicas that are loaded together share the reading
 * of each block; only elements that one of them has are read.
 */
#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/kernel/rate_inline.h"
#include "impl/replica/replica.h"

#include <stdint.h>

/* An array of a replica. */
typedef struct array {
    void *memory; /* NULL if it has no such array */
    size_t each;  /* bytes of an element */
    size_t whole; /* elements, from the first one on; 0 if it has what the replica updates */
} array;

static array array_of(const ls_replica *r, int values)
{
    return (array){r->updated.state[values], r->kernels->table->real_bytes, 0};
}

/* The parameters that layers read, rounded or not. */
static array parameters_of(const ls_replica *r)
{
    return (array){r->parameters, ls_replica_parameter_bytes(r),
                   r->windows.parameters ? 0 : r->elements};
}

/* A block of the model's elements on its way to or from a replica. */
typedef struct transfer {
    ls_range block;
    float *values;     /* [block.count]; NULL if only `begin` and `end` are found */
    bool out;          /* from the replica */
    size_t begin, end; /* the replica has no elements of the block outside of [begin, end) */
} transfer;

/* Converts between the host's elements and the replica's, which have `bytes` bytes each. */
static void convert(float *host, void *there, size_t bytes, size_t count, bool to_host)
{
    uint16_t *narrow = there;
    double *wide = there;
    for (size_t i = 0; i < count; i++)
        if (bytes == sizeof *narrow && to_host)
            host[i] = ls_float_of_bf16(narrow[i]);
        else if (bytes == sizeof *narrow)
            narrow[i] = ls_bf16_of_float(host[i]);
        else if (to_host)
            host[i] = (float)wide[i];
        else
            wide[i] = (double)host[i];
}

/* Elements `some` of the replica, of one variable if it has a part, which are at `there`. */
static ls_status move_some(const ls_replica *r, void *there, size_t each, ls_range some,
                           transfer *t)
{
    const size_t bytes = some.count * each;
    const bool converts = each != sizeof(float);
    ls_auto float *packed = NULL;
    if (!r->part && !converts) { /* one copy */
        float *in_block = t->values + (some.first - t->block.first);
        return t->out ? ls_queue_read(r->queue, in_block, there, bytes)
                      : ls_queue_write(r->queue, there, in_block, bytes);
    }
    LS_TRY(ls_allocate("replica", &packed, some.count + 1, sizeof *packed + sizeof(double)));
    char *other = (char *)(packed + (some.count + 1) / 2 * 2); /* aligned for doubles */
    void *moved = converts ? other : (void *)packed;
    if (!t->out)
        ls_graph_part_copy(r->part, some, packed, t->block, t->values, true);
    if (!t->out && converts)
        convert(packed, other, each, some.count, false);
    LS_TRY(t->out ? ls_queue_read(r->queue, moved, there, bytes)
                  : ls_queue_write(r->queue, there, moved, bytes));
    if (t->out && converts)
        convert(packed, other, each, some.count, true);
    if (t->out)
        ls_graph_part_copy(r->part, some, packed, t->block, t->values, false);
    return LS_OK;
}

/* Elements `range` of the replica, the first of which an array has at `at`. */
static ls_status move_range(const ls_replica *r, array a, size_t at, ls_range range, transfer *t)
{
    ls_range some;
    for (size_t v = 0; ls_graph_part_next(r->part, range, t->block, &v, &some);) {
        const ls_range model = r->part ? t->block : some;
        t->begin = t->begin < model.first ? t->begin : model.first;
        t->end = t->end > model.first + model.count ? t->end : model.first + model.count;
        if (t->values)
            LS_TRY(move_some(r, (char *)a.memory + (at + some.first - range.first) * a.each, a.each,
                             some, t));
    }
    return LS_OK;
}

/* All of an array. */
static ls_status move(const ls_replica *r, array a, transfer *t)
{
    if (a.whole)
        return move_range(r, a, 0, (ls_range){0, a.whole}, t);
    for (ls_replica_part_of part = {.next = 0}; a.memory && ls_replica_next(r, &part);)
        if (part.range.count)
            LS_TRY(move_range(r, a, part.state, part.range, t));
    return LS_OK;
}

ls_status ls_replica_gather(ls_replica *r, ls_values values, ls_range block, float *out)
{
    transfer t = {.block = block, .values = out, .out = true};
    if (values == LS_AVERAGES && !r->updated.state[LS_AVERAGES])
        values = LS_VALUES;
    if (r->updated.state[values] || values != LS_VALUES)
        return move(r, array_of(r, (int)values), &t);
    return ls_replica_parameter_bytes(r) == sizeof *out
               ? move_range(r, parameters_of(r), 0, (ls_range){0, r->updated.owned}, &t)
               : LS_OK;
}

ls_status ls_replica_copies(ls_replica *r, ls_range block, float *out)
{
    return ls_replica_parameter_bytes(r) == sizeof *out
               ? LS_OK
               : move(r, parameters_of(r), &(transfer){.block = block, .values = out, .out = true});
}

ls_status ls_replica_read(ls_replica *r, ls_values values, ls_range range, float *out)
{
    const float *own = r->updated.state[values], *whole = r->parameters;
    for (ls_replica_part_of part = {.next = 0}; ls_replica_next(r, &part);) {
        const ls_range both = ls_range_common(range, (ls_range){part.state, part.range.count});
        const float *from =
            own ? own + both.first : whole + part.range.first + (both.first - part.state);
        if (both.count)
            LS_TRY(ls_queue_read(r->queue, out + (both.first - range.first), from,
                                 both.count * sizeof *out));
    }
    return LS_OK;
}

ls_status ls_replica_gradient(ls_replica *r, float *gradient)
{
    const array gradients = {r->gradients, r->kernels->table->real_bytes, r->elements};
    return move(r, gradients,
                &(transfer){.block = ls_job_elements(r->job), .values = gradient, .out = true});
}

static ls_status put_values(const ls_replica *r, transfer *t)
{
    LS_TRY(move(r, parameters_of(r), t));
    return r->masters ? move(r, array_of(r, LS_VALUES), t) : LS_OK;
}

ls_status ls_replica_put(ls_replica *r, ls_range block, const float *values)
{
    return put_values(r, &(transfer){.block = block, .values = (float *)values});
}

/* ---- First values ---------------------------------------------------------------------------- */

/* What a replica begins with of a block: parameters also become moving averages and buffers of the
 * strategy. */
static ls_status put(ls_replica *r, ls_values values, transfer *t)
{
    if (values != LS_VALUES)
        return move(r, array_of(r, (int)values), t);
    LS_TRY(put_values(r, t));
    if (!r->job->resumed)
        LS_TRY(move(r, array_of(r, LS_AVERAGES), t));
    for (int i = 0; i < r->updated.own_count; i++)
        if (r->updated.owns[i].begins == LS_OWNED_PARAMETERS)
            LS_TRY(move(r, array_of(r, LS_ARRAYS + i), t));
    return LS_OK;
}

/* Reads an array block by block. */
static ls_status fill(ls_replica *const *replicas, int count, ls_values values,
                      const ls_state_source *source, float *host)
{
    const size_t elements = replicas[0]->job->model->graph->variables.elements;
    for (ls_range block = {0}; ls_state_next(elements, &block);) {
        transfer t = {.block = block, .begin = SIZE_MAX};
        for (int i = 0; i < count; i++)
            LS_TRY(put(replicas[i], values, &t));
        if (t.begin >= t.end)
            continue;
        t = (transfer){.block = {t.begin, t.end - t.begin}, .values = host};
        LS_TRY(source->read(source, values, t.block, host));
        for (int i = 0; i < count; i++)
            LS_TRY(put(replicas[i], values, &t));
    }
    return LS_OK;
}

static ls_status clear(ls_replica *r, int values, const float *zeros)
{
    const array a = array_of(r, values);
    const size_t bytes = a.memory ? r->updated.stated * a.each : 0, most = LS_STATE_BLOCK;
    for (size_t at = 0, count; at < bytes; at += count) {
        count = bytes - at < most ? bytes - at : most;
        LS_TRY(ls_queue_write(r->queue, (char *)a.memory + at, zeros, count));
    }
    return LS_OK;
}

/* All that is zero in a first step; `zeros` [LS_STATE_BLOCK bytes]. */
static ls_status clear_all(ls_replica *r, const float *zeros)
{
    for (int a = LS_SLOT_0; a <= LS_SLOT_1 && !r->job->resumed; a++)
        LS_TRY(clear(r, a, zeros));
    for (int i = 0; i < r->updated.own_count; i++)
        if (r->updated.owns[i].begins == LS_OWNED_ZEROS)
            LS_TRY(clear(r, LS_ARRAYS + i, zeros));
    return r->wire_error ? ls_queue_write(r->queue, r->wire_error, &(float){0}, sizeof(float))
                         : LS_OK;
}

/* The argument block, and weight decay of the values that it has now. */
static ls_status begin(ls_replica *r)
{
    const ls_step_state start = {.step = r->job->start,
                                 .position = ls_job_samples(r->job, r->job->start),
                                 .record = r->job->start,
                                 .learning_rate =
                                     ls_rate_of_step(&r->job->update.schedule, r->job->start)};
    LS_TRY(ls_queue_write(r->queue, r->state, &start, sizeof start));
    if (r->loss.decay)
        LS_TRY(ls_queue_write(r->queue, r->loss.decay, (const double[2]){0}, 2 * sizeof(double)));
    return ls_op_list_enqueue(&r->loss.decay_loss, r->queue);
}

ls_status ls_replicas_load(ls_replica *const *replicas, int count, const ls_state_source *source)
{
    const ls_state_source *resumed = count ? replicas[0]->job->resumed : NULL;
    ls_auto float *host = NULL;
    LS_TRY(ls_allocate("replica", &host, LS_STATE_BLOCK, sizeof *host));
    for (int i = 0; i < count; i++)
        LS_TRY(clear_all(replicas[i], host));
    if (count)
        LS_TRY(fill(replicas, count, LS_VALUES, source, host));
    for (int a = LS_SLOT_0; a < LS_ARRAYS && resumed; a++)
        if (ls_state_name(replicas[0]->job, (ls_values)a))
            LS_TRY(fill(replicas, count, (ls_values)a, resumed, host));
    for (int i = 0; i < count; i++)
        LS_TRY(begin(replicas[i]));
    return LS_OK;
}
