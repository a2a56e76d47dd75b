/* SPDX-License-Identifier: MIT */
/*
 * A replica's update of a range of the flat buffers: weight decay, the optimizer's pass and moving
 * statistics as one operation; then moving averages of parameters. Also its initial values.
 */
#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "common/nn/graph_split.h"
#include "common/kernel/rate_inline.h"
#include "impl/carried.h"
#include "impl/replica.h"

#include <stdlib.h>

static void *element_at(const ls_replica *r, void *flat, size_t index)
{
    return flat ? (char *)flat + index * r->kernels->table->real_bytes : NULL;
}

void *ls_replica_updated_at(const ls_replica *r, ls_range range, size_t state)
{
    return r->masters ? element_at(r, r->masters, state)
                      : element_at(r, r->parameters, r->windows.parameters ? state : range.first);
}

ls_status ls_replica_find(const ls_replica *r, ls_range range, size_t *out)
{
    const ls_shares *s = &r->updated.shares;
    *out = 0;
    for (size_t b = 0; s->buckets && b < s->buckets->count; b++) {
        const ls_range share = ls_bucket_share(s->buckets, b, s->share, s->count);
        if (range.first >= share.first && range.first + range.count <= share.first + share.count) {
            *out += range.first - share.first;
            return LS_OK;
        }
        *out += share.count;
    }
    if (s->buckets)
        return ls_fail(LS_CODE_USAGE, "update", NULL,
                       "elements %zu to %zu are in no share of replica %d, which has no optimizer "
                       "state for these; update its own shares",
                       range.first, range.first + range.count - 1, s->share);
    *out = range.first;
    return LS_OK;
}

/* ---- Ranges with equal treatment ------------------------------------------------------------- */

typedef struct range_list {
    ls_update_range *items;
    int64_t count;
} range_list;

/* Lists the variables in elements [first, first + count). Weights shrink, not biases and norms. */
static ls_status find_ranges(const ls_replica *r, size_t first, size_t count, bool decay,
                             range_list *out)
{
    const ls_variables *variables = &r->graph->variables;
    const bool shrink = r->job->update.optimizer.rule->kind == LS_OPTIMIZER_ADAMW;
    out->count = 0;
    LS_TRY(ls_allocate("update", &out->items, variables->count, sizeof *out->items));
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const ls_range both =
            ls_range_common((ls_range){v->offset, v->count}, (ls_range){first, count});
        const ls_update_range range = {.first = (int64_t)(both.first - first),
                                       .count = (int64_t)both.count,
                                       .decay = decay ? v->decay : 0,
                                       .keep = v->keep,
                                       .shrinks = shrink && v->shrinks};
        if (both.count) {
            /* merged with the previous range if both have equal treatment */
            ls_update_range *last = out->count ? &out->items[out->count - 1] : NULL;
            if (last && last->decay == range.decay && last->keep == range.keep &&
                last->shrinks == range.shrinks)
                last->count += range.count;
            else
                out->items[out->count++] = range;
        }
    }
    const ls_update_range *only = out->items;
    if (out->count == 1 && only->decay == 0 && only->keep == 0 && !only->shrinks)
        out->count = 0;
    return LS_OK;
}

/* ---- The operations -------------------------------------------------------------------------- */

/* Appends weight decay's gradient (`decay`), the optimizer's pass, and the step of moving
 * statistics towards those of the batch, which are in the gradient buffer. */
static ls_status append_update(ls_replica *r, ls_range range, size_t state, bool decay,
                               ls_op_list *ops)
{
    const size_t first = range.first, count = range.count;
    const ls_optimizer *o = &r->job->update.optimizer;
    range_list ranges;
    LS_TRY(find_ranges(r, first, count, decay, &ranges));
    const ls_optimizer_args args = {
        .kind = o->rule->kind,
        .count = (int64_t)count,
        .weight = ls_replica_updated_at(r, range, state),
        .gradient = element_at(r, r->gradients, r->windows.gradients ? state : first),
        .slot = {element_at(r, r->updated.slot[0], state),
                 element_at(r, r->updated.slot[1], state)},
        .mu = o->mu,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .rho = o->rho,
        .epsilon = o->epsilon,
        .decay = o->decay,
        .state = r->state,
        .ranges = ranges.items,
        .range_count = ranges.count,
        .clip = r->updates ? r->norm.clip : NULL,
    };
    ls_op *op;
    ls_status status = r->kernels->table->optimizer(r->kernels, &args, &op);
    free(ranges.items);
    LS_TRY(status);
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* Appends the step of moving averages towards the updated parameters. */
static ls_status append_average(ls_replica *r, ls_range range, size_t state, ls_op_list *ops)
{
    const ls_moving_average_args args = {.count = (int64_t)range.count,
                                         .decay = r->job->update.average,
                                         .state = r->state,
                                         .value = ls_replica_updated_at(r, range, state),
                                         .average = element_at(r, r->updated.average, state)};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "moving_average", "the model"));
    LS_TRY(r->kernels->table->moving_average(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_update(ls_replica *r, ls_range range, ls_decay_left decay, ls_op_list *ops)
{
    size_t state;
    LS_TRY(ls_replica_find(r, range, &state));
    LS_TRY(
        append_update(r, range, state, decay == LS_DECAY_TO_ADD && r->job->update.clip == 0, ops));
    if (r->updated.average)
        LS_TRY(append_average(r, range, state, ops));
    return ls_replica_round(r, range, ops);
}

/* ---- Weight decay's part of the loss -------------------------------------------------------- */

/* The number of the part to which variable v belongs. */
static size_t part_of(const ls_replica *r, size_t v)
{
    const int slice = r->loss.decay_parts > 1 ? ls_graph_slice(r->graph, v) : 0;
    return slice ? (size_t)slice - 1 : r->loss.decay_parts - 1;
}

/* Appends setting *loss to part number `part` of weight decay's part of the loss, of the variables
 * in a range, whose first element is at `weight`, summed variable by variable; nothing if none
 * decays.
 */
static ls_status append_decay_loss(ls_replica *r, ls_range range, const void *weight, size_t part,
                                   double *loss, ls_op_list *ops)
{
    const ls_variables *variables = &r->graph->variables;
    ls_update_range *ranges;
    LS_TRY(ls_allocate("replica", &ranges, variables->count, sizeof *ranges));
    ls_weight_decay_args args = {
        .count = (int64_t)range.count, .weight = weight, .ranges = ranges, .loss = loss};
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const size_t first = v->offset - range.first;
        if (v->decay != 0 && v->offset >= range.first && first < range.count &&
            part_of(r, i) == part)
            ranges[args.range_count++] =
                (ls_update_range){(int64_t)first, (int64_t)v->count, v->decay, 0, false};
    }
    ls_op *op = NULL;
    ls_status status = LS_OK;
    if (args.range_count)
        status = ls_kernel_table_need(r->kernels->table, "weight_decay", "the model");
    if (args.range_count && !status)
        status = r->kernels->table->weight_decay(r->kernels, &args, &op);
    free(ranges);
    LS_TRY(status);
    if (!op)
        return LS_OK;
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_decay_loss(ls_replica *r, ls_op_list *ops)
{
    for (size_t i = 0; i < r->loss.decay_parts; i++)
        LS_TRY(append_decay_loss(r, (ls_range){0, r->updated.owned},
                                 r->masters ? r->masters : r->parameters, i,
                                 r->loss.decay + (i ? 2 + i : 0), ops));
    return LS_OK;
}

ls_status ls_replica_decay(ls_replica *r, ls_range bucket, bool first, ls_op_list *ops)
{
    const char *weight =
        (const char *)r->windows.whole_parameters +
        ls_windows_at(r->windows.parameters, bucket.first) * r->kernels->table->real_bytes;
    double *nothing = r->loss.decay + 1, *part = r->loss.decay + 2;
    ls_op *op;
    for (size_t i = 0; i < r->loss.decay_parts; i++) {
        double *sum = r->loss.decay + (i ? 2 + i : 0);
        const ls_add_loss_args zero = {.a = nothing, .b = nothing, .out = sum},
                               add = {.a = sum, .b = part, .out = sum};
        if (first) {
            LS_TRY(r->kernels->table->add_loss(r->kernels, &zero, &op));
            LS_TRY(ls_op_list_add(ops, op));
        }
        const size_t before = ops->count;
        LS_TRY(append_decay_loss(r, bucket, weight, i, part, ops));
        if (ops->count == before)
            continue;
        LS_TRY(r->kernels->table->add_loss(r->kernels, &add, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

/* sum(lo, hi) of exact mode's tree over slices. */
static double sum_slices(const double *parts, int64_t lo, int64_t hi)
{
    const int64_t mid = ls_canonical_middle(lo, hi);
    return hi - lo == 1 ? parts[lo] : sum_slices(parts, lo, mid) + sum_slices(parts, mid, hi);
}

double ls_replica_decay_sum(const double *parts, size_t count)
{
    const double rest = parts[count - 1];
    return count > 1 ? sum_slices(parts, 0, (int64_t)count - 1) + rest : rest;
}

ls_status ls_replica_add_decay(ls_replica *r, uint64_t first, uint64_t count,
                               ls_step_record *records)
{
    for (uint64_t i = 0; i < count && r->loss.decay; i++) {
        const uint64_t slot = (first + i) % r->job->records;
        double parts[LS_REPLICA_LOSSES];
        LS_TRY(ls_queue_read(r->queue, parts,
                             r->loss.more_losses + slot * r->loss.more + r->loss.sums - 1,
                             r->loss.decay_parts * sizeof *parts));
        records[i].loss += ls_replica_decay_sum(parts, r->loss.decay_parts);
    }
    return LS_OK;
}

/* ---- Initial values ------------------------------------------------------------------------- */

/* Copies the model's parameters into a range of a buffer of its part, which is at `flat`; `out`:
 * back. */
static ls_status move(const ls_replica *r, float *flat, ls_range range, float *model, bool out)
{
    const size_t bytes = range.count * sizeof *flat;
    float *packed;
    if (!r->part) /* one copy */
        return out ? ls_queue_read(r->queue, model + range.first, flat, bytes)
                   : ls_queue_write(r->queue, flat, model + range.first, bytes);
    LS_TRY(ls_allocate("replica", &packed, range.count, sizeof *packed));
    if (!out)
        ls_graph_part_copy(r->part, range, packed, model, true);
    ls_status status = out ? ls_queue_read(r->queue, packed, flat, bytes)
                           : ls_queue_write(r->queue, flat, packed, bytes);
    if (!status && out)
        ls_graph_part_copy(r->part, range, packed, model, false);
    free(packed);
    return status;
}

static ls_status move_first(const ls_replica *r, float *flat, size_t count, float *model, bool out)
{
    return move(r, flat, (ls_range){0, count}, model, out);
}

/* The same for a buffer of what it updates, which a replica with shares has of these. */
static ls_status move_shares(const ls_replica *r, float *flat, float *model, bool out)
{
    if (!r->updated.shares.buckets)
        return move_first(r, flat, r->updated.owned, model, out);
    for (size_t b = 0; b < r->updated.shares.buckets->count; b++) {
        const ls_range share = ls_bucket_share(r->updated.shares.buckets, b,
                                               r->updated.shares.share, r->updated.shares.count);
        if (share.count)
            LS_TRY(move(r, flat, share, model, out));
        flat += share.count;
    }
    return LS_OK;
}

/* Where an array is that has what the replica updates alone; NULL: it has no such array. */
static void *stated(const ls_replica *r, ls_values values)
{
    return values == LS_AVERAGES ? r->updated.average
           : values == LS_VALUES ? (r->masters              ? r->masters
                                    : r->windows.parameters ? r->parameters
                                                            : NULL)
                                 : r->updated.slot[values - LS_SLOT_0];
}

ls_status ls_replica_gather(ls_replica *r, ls_values values, float *model)
{
    if (values == LS_AVERAGES && !r->updated.average)
        values = LS_VALUES;
    void *shares = stated(r, values);
    if (shares)
        return move_shares(r, shares, model, true);
    return values == LS_SLOT_0 || values == LS_SLOT_1 ||
                   ls_replica_parameter_bytes(r) != sizeof *model
               ? LS_OK
               : move_first(r, r->parameters, r->updated.owned, model, true);
}

ls_status ls_replica_read(ls_replica *r, ls_values values, ls_range range, float *out)
{
    const ls_shares *s = &r->updated.shares;
    const float *shares = stated(r, values), *whole = r->parameters;
    const size_t element = sizeof *out;
    if (shares || !s->buckets)
        return ls_queue_read(r->queue, out, (shares ? shares : whole) + range.first,
                             range.count * element);
    size_t at = 0;
    for (size_t b = 0; b < s->buckets->count; b++) { /* all parameters, and it updates its shares */
        const ls_range share = ls_bucket_share(s->buckets, b, s->share, s->count);
        const ls_range both = ls_range_common(range, (ls_range){at, share.count});
        if (both.count)
            LS_TRY(ls_queue_read(r->queue, out + (both.first - range.first),
                                 whole + share.first + (both.first - at), both.count * element));
        at += share.count;
    }
    return LS_OK;
}

ls_status ls_replica_gradient(ls_replica *r, float *gradient)
{
    return move_first(r, r->gradients, r->elements, gradient, true);
}

ls_status ls_replica_set(ls_replica *r, const float *parameters)
{
    float *model = (float *)parameters;
    if (ls_replica_parameter_bytes(r) == sizeof *model)
        return move_first(r, r->parameters, r->elements, model, false);
    return ls_replica_set_copies(r, model);
}

ls_status ls_replica_put(ls_replica *r, const float *parameters)
{
    LS_TRY(ls_replica_set(r, parameters));
    return r->masters ? move_shares(r, r->masters, (float *)parameters, false) : LS_OK;
}

ls_status ls_replica_load(ls_replica *r, const float *parameters)
{
    const ls_step_state start = {.step = r->job->start,
                                 .position = ls_job_samples(r->job, r->job->start),
                                 .record = r->job->start,
                                 .learning_rate =
                                     ls_rate_of_step(&r->job->update.schedule, r->job->start)};
    const size_t real = r->kernels->table->real_bytes;
    const ls_state_values *resumed = r->job->resumed;
    float *model = (float *)parameters;
    LS_TRY(r->windows.parameters && !r->masters ? move_shares(r, r->parameters, model, false)
                                                : ls_replica_set(r, model));
    if (r->masters)
        LS_TRY(move_shares(r, r->masters, model, false));
    void *zeros;
    ls_status status = ls_allocate("replica", &zeros, r->elements, real);
    for (int i = 0; i < r->updated.slots && !status; i++)
        status =
            resumed ? move_shares(r, r->updated.slot[i], (float *)resumed->of[LS_SLOT_0 + i], false)
                    : ls_queue_write(r->queue, r->updated.slot[i], zeros, r->updated.stated * real);
    for (int i = 0; i < LS_OWNED_MOST && r->updated.own[i] && !status; i++)
        status = r->updated.owns[i].begins == LS_OWNED_PARAMETERS
                     ? move_first(r, r->updated.own[i], r->elements, model, false)
                     : ls_queue_write(r->queue, r->updated.own[i], zeros, r->elements * real);
    if (r->wire_error && !status)
        status = ls_queue_write(r->queue, r->wire_error, &(float){0}, sizeof *r->wire_error);
    free(zeros);
    if (!status)
        status = ls_queue_write(r->queue, r->state, &start, sizeof start);
    if (!status && r->updated.average)
        status = move_shares(r, r->updated.average,
                             resumed ? (float *)resumed->of[LS_AVERAGES] : model, false);
    if (!status && r->loss.decay)
        status = ls_queue_write(r->queue, r->loss.decay, (const double[2 + LS_REPLICA_LOSSES]){0},
                                (2 + r->loss.decay_parts) * sizeof *r->loss.decay);
    return status ? status : ls_op_list_enqueue(&r->loss.decay_loss, r->queue);
}

ls_status ls_replica_keep(ls_replica *r, ls_carried *carried)
{
    for (size_t i = 0; i < r->buffer_count; i++)
        if (r->buffers[i].carried)
            LS_TRY(ls_carry_memory(carried, r->queue, r->buffers[i].memory, r->buffers[i].bytes));
    return LS_OK;
}
