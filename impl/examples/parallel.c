/* SPDX-License-Identifier: MIT */
/*
 * make_parallel; see parallel.h. A lane is what parts on one device share: a queue, kernels, and a
 * copy of the variables. The other lanes are enqueued before the holder's.
 */
#include "impl/examples/parallel.h"

#include <stdlib.h>

typedef struct lane {
    ls_device *device;
    ls_queue *queue; /* the holder's is borrowed */
    ls_kernels *kernels;
    void *variables;
    ls_event
        *done; /* recorded when its parts' results have arrived; NULL means the holder's lane */
} lane;

/* A part, with its sums on the holder. */
typedef struct piece {
    ls_part part;
    lane *at;
    bool open;
    void *gradients;
    double *loss;
} piece;

typedef struct allocation {
    ls_device *device;
    void *memory;
} allocation;

struct ls_parallel {
    ls_parallel_options options;
    ls_device *holder;
    lane *lanes;
    int lane_count;
    piece *pieces;   /* [options.count] */
    ls_event *ready; /* recorded when batches and variables are up to date */
    ls_kernels *kernels;
    ls_op_list sums; /* run by the holder */
    allocation *allocations;
    size_t allocation_count;
    ls_traffic sent;
};

/* ---- One run -------------------------------------------------------------------------------- */

static ls_status enqueue_copy(ls_parallel *me, const lane *at, void *to, const ls_device *to_device,
                              const void *from, size_t bytes)
{
    const ls_device *from_device = to_device == me->holder ? at->device : me->holder;
    me->sent.bytes_sent += bytes;
    me->sent.messages_sent++;
    return ls_queue_copy(at->queue, to, to_device, from, from_device, bytes);
}

/* The rows of a part in the holder's batch. */
static void *rows_of(const ls_part *part, const ls_batch *batch)
{
    return (char *)batch->data + (size_t)part->first * batch->row_bytes;
}

static ls_status enqueue_function(ls_parallel *me, piece *p)
{
    return me->options.function->enqueue ? me->options.function->enqueue(&p->part, p->at->queue)
                                         : ls_op_list_enqueue(&p->part.ops, p->at->queue);
}

static ls_status enqueue_remote(ls_parallel *me, piece *p)
{
    const ls_parallel_options *o = &me->options;
    ls_part *part = &p->part;
    const lane *at = p->at;
    const size_t rows = (size_t)part->rows;
    for (int i = 0; i < o->input_count; i++)
        LS_TRY(enqueue_copy(me, at, part->input[i].data, at->device, rows_of(part, &o->input[i]),
                            rows * o->input[i].row_bytes));
    LS_TRY(enqueue_function(me, p));
    for (int i = 0; i < o->output_count; i++)
        LS_TRY(enqueue_copy(me, at, rows_of(part, &o->output[i]), me->holder, part->output[i].data,
                            rows * o->output[i].row_bytes));
    if (o->gradients)
        LS_TRY(enqueue_copy(me, at, p->gradients, me->holder, part->gradients, o->variable_bytes));
    if (o->loss)
        LS_TRY(enqueue_copy(me, at, p->loss, me->holder, part->loss, sizeof *o->loss));
    return LS_OK;
}

static ls_status enqueue_lane(ls_parallel *me, lane *at)
{
    LS_TRY(ls_queue_wait(at->queue, me->ready));
    if (me->options.variables)
        LS_TRY(enqueue_copy(me, at, at->variables, at->device, me->options.variables,
                            me->options.variable_bytes));
    for (int i = 0; i < me->options.count; i++)
        if (me->pieces[i].at == at)
            LS_TRY(enqueue_remote(me, &me->pieces[i]));
    return ls_queue_record(at->queue, at->done);
}

ls_status ls_parallel_enqueue(ls_parallel *me)
{
    ls_queue *queue = me->options.queue;
    me->sent = (ls_traffic){0};
    LS_TRY(ls_queue_record(queue, me->ready));
    for (int i = 0; i < me->lane_count; i++)
        if (me->lanes[i].done)
            LS_TRY(enqueue_lane(me, &me->lanes[i]));
    for (int i = 0; i < me->options.count; i++)
        if (!me->pieces[i].at->done)
            LS_TRY(enqueue_function(me, &me->pieces[i]));
    for (int i = 0; i < me->lane_count; i++)
        if (me->lanes[i].done)
            LS_TRY(ls_queue_wait(queue, me->lanes[i].done));
    return ls_op_list_enqueue(&me->sums, queue);
}

ls_status ls_parallel_sync(ls_parallel *me)
{
    ls_status status = ls_queue_sync(me->options.queue);
    for (int i = 0; i < me->lane_count; i++)
        if (me->lanes[i].done)
            status = ls_status_first(status, ls_queue_sync(me->lanes[i].queue));
    return status;
}

ls_traffic ls_parallel_traffic(const ls_parallel *me)
{
    return me->sent;
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status take(ls_parallel *me, ls_device *device, ls_memory_use use, size_t bytes,
                      void **out)
{
    size_t size = (me->allocation_count + 1) * sizeof *me->allocations;
    allocation *more = realloc(me->allocations, size);
    if (!more)
        return ls_fail_memory("make_parallel", size);
    me->allocations = more;
    LS_TRY(ls_device_allocate(device, use, bytes, out));
    me->allocations[me->allocation_count++] = (allocation){device, *out};
    return LS_OK;
}

static ls_status open_kernels(const ls_parallel *me, ls_device *device, ls_kernels **out)
{
    const ls_device_info *info = ls_device_describe(device);
    const ls_kernel_table *table =
        me->options.table ? me->options.table : ls_kernel_table_default(info->name.kind);
    if (!table || table->kind != info->name.kind)
        return ls_fail(LS_CODE_USAGE, "make_parallel", info->text,
                       "the given table of kernels is for another kind of device, or this build "
                       "has no kernels for this kind; use a table for this kind, or cpu:0");
    return table->open(device, out);
}

static ls_status open_lane(ls_parallel *me, ls_device *device, lane *at)
{
    at->device = device;
    LS_TRY(open_kernels(me, device, &at->kernels));
    if (device == me->holder) {
        at->queue = me->options.queue;
        at->variables = me->options.variables;
        return LS_OK;
    }
    LS_TRY(ls_queue_open(device, "parallel", &at->queue));
    LS_TRY(ls_event_open(device, &at->done));
    if (!me->options.variables)
        return LS_OK;
    return take(me, device, LS_MEMORY_PARAMETERS, me->options.variable_bytes, &at->variables);
}

static ls_status lane_of(ls_parallel *me, ls_device *device, lane **out)
{
    for (int i = 0; i < me->lane_count; i++)
        if (me->lanes[i].device == device) {
            *out = &me->lanes[i];
            return LS_OK;
        }
    *out = &me->lanes[me->lane_count++];
    return open_lane(me, device, *out);
}

static ls_status place_batches(ls_parallel *me, const piece *p, const ls_batch *batches, int count,
                               ls_batch *out)
{
    for (int i = 0; i < count; i++) {
        out[i] = (ls_batch){rows_of(&p->part, &batches[i]), batches[i].row_bytes};
        if (p->at->done)
            LS_TRY(take(me, p->at->device, LS_MEMORY_ACTIVATIONS,
                        (size_t)p->part.rows * batches[i].row_bytes, &out[i].data));
    }
    return LS_OK;
}

/* Allocates a sum in the part's memory and on the holder; a single part's is the result. */
static ls_status place_sum(ls_parallel *me, const piece *p, size_t bytes, void *result,
                           ls_memory_use use, void **computed, void **summed)
{
    const bool alone = me->options.count == 1, remote = p->at->done != NULL;
    *summed = result;
    if (!alone)
        LS_TRY(take(me, me->holder, remote ? LS_MEMORY_COMMUNICATION : use, bytes, summed));
    *computed = *summed;
    return remote ? take(me, p->at->device, use, bytes, computed) : LS_OK;
}

static int64_t first_row(const ls_parallel_options *o, int number)
{
    return number * o->rows / o->count;
}

static ls_status open_piece(ls_parallel *me, int number, piece *p)
{
    const ls_parallel_options *o = &me->options;
    ls_part *part = &p->part;
    LS_TRY(lane_of(me, o->devices[number], &p->at));
    const int64_t first = first_row(o, number);
    *part = (ls_part){.context = o->context,
                      .number = number,
                      .count = o->count,
                      .first = first,
                      .rows = first_row(o, number + 1) - first,
                      .batch = o->rows,
                      .device = p->at->device,
                      .kernels = p->at->kernels,
                      .input_count = o->input_count,
                      .output_count = o->output_count,
                      .variables = p->at->variables};
    LS_TRY(place_batches(me, p, o->input, o->input_count, part->input));
    LS_TRY(place_batches(me, p, o->output, o->output_count, part->output));
    if (o->gradients)
        LS_TRY(place_sum(me, p, o->variable_bytes, o->gradients, LS_MEMORY_GRADIENTS,
                         &part->gradients, &p->gradients));
    void *summed, *computed;
    if (o->loss) {
        LS_TRY(place_sum(me, p, sizeof *o->loss, o->loss, LS_MEMORY_WORKSPACE, &computed, &summed));
        p->loss = summed;
        part->loss = computed;
    }
    p->open = true;
    return o->function->open(part);
}

/* result = ((part 0 + part 1) + part 2) + ..., for gradients and losses. */
static ls_status build_sums(ls_parallel *me)
{
    const ls_parallel_options *o = &me->options;
    const ls_kernel_table *table = me->kernels->table;
    ls_op *op;
    for (int i = 1; i < o->count && o->gradients; i++) {
        const ls_add_args args = {.count = (int64_t)(o->variable_bytes / table->real_bytes),
                                  .a = i == 1 ? me->pieces[0].gradients : o->gradients,
                                  .b = me->pieces[i].gradients,
                                  .y = o->gradients};
        LS_TRY(table->add(me->kernels, &args, &op));
        LS_TRY(ls_op_list_add(&me->sums, op));
    }
    for (int i = 1; i < o->count && o->loss; i++) {
        const ls_add_loss_args args = {
            .a = i == 1 ? me->pieces[0].loss : o->loss, .b = me->pieces[i].loss, .out = o->loss};
        LS_TRY(table->add_loss(me->kernels, &args, &op));
        LS_TRY(ls_op_list_add(&me->sums, op));
    }
    return LS_OK;
}

static ls_status check(const ls_parallel_options *o)
{
    if (o->count < 1 || o->count > LS_PARALLEL_PARTS || o->count > o->rows)
        return ls_fail(LS_CODE_USAGE, "make_parallel", "count",
                       "%lld rows cannot be divided into %d parts; give at least 1 part, at most "
                       "one for each row, and at most %d",
                       (long long)o->rows, o->count, LS_PARALLEL_PARTS);
    if (o->input_count < 0 || o->input_count > LS_PARALLEL_BATCHES || o->output_count < 0 ||
        o->output_count > LS_PARALLEL_BATCHES)
        return ls_fail(LS_CODE_USAGE, "make_parallel", "batches",
                       "%d inputs and %d outputs are not possible; give at most %d of each",
                       o->input_count, o->output_count, LS_PARALLEL_BATCHES);
    if (o->gradients && !o->variables)
        return ls_fail(LS_CODE_USAGE, "make_parallel", "gradients",
                       "gradients are asked for, but no variables are given; give variables, or "
                       "ask for no gradients");
    return LS_OK;
}

static ls_status build(ls_parallel *me)
{
    const size_t count = (size_t)me->options.count;
    me->lanes = calloc(count, sizeof *me->lanes);
    me->pieces = calloc(count, sizeof *me->pieces);
    if (!me->lanes || !me->pieces)
        return ls_fail_memory("make_parallel", count * (sizeof *me->lanes + sizeof *me->pieces));
    LS_TRY(ls_event_open(me->holder, &me->ready));
    LS_TRY(open_kernels(me, me->holder, &me->kernels));
    for (int i = 0; i < me->options.count; i++)
        LS_TRY(open_piece(me, i, &me->pieces[i]));
    return build_sums(me);
}

ls_status ls_make_parallel(const ls_parallel_options *options, ls_parallel **out)
{
    LS_TRY(check(options));
    ls_parallel *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("make_parallel", sizeof *me);
    me->options = *options;
    me->holder = ls_queue_device(options->queue);
    ls_status status = build(me);
    if (status)
        ls_parallel_close(me);
    else
        *out = me;
    return status;
}

static void close_lane(const ls_parallel *me, lane *at)
{
    if (at->device != me->holder)
        ls_queue_close(at->queue);
    ls_event_close(at->done);
    if (at->kernels)
        at->kernels->table->close(at->kernels);
}

void ls_parallel_close(ls_parallel *me)
{
    if (!me)
        return;
    for (int i = 0; me->pieces && i < me->options.count; i++) {
        piece *p = &me->pieces[i];
        if (p->open && me->options.function->close)
            me->options.function->close(&p->part);
        ls_op_list_clear(&p->part.ops);
    }
    ls_op_list_clear(&me->sums);
    for (int i = 0; i < me->lane_count; i++)
        close_lane(me, &me->lanes[i]);
    ls_event_close(me->ready);
    for (size_t i = 0; i < me->allocation_count; i++)
        ls_device_release(me->allocations[i].device, me->allocations[i].memory);
    if (me->kernels)
        me->kernels->table->close(me->kernels);
    free(me->allocations);
    free(me->pieces);
    free(me->lanes);
    free(me);
}
