/* SPDX-License-Identifier: MIT */
/*
 * A replica's update of a range of the flat buffers: weight decay, the optimizer's pass and moving
 * statistics as one operation; then moving averages of parameters; then, where layers read a copy
 * of the float32 masters, rounding to bfloat16.
 */
#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "common/nn/divide/graph_split.h"
#include "common/kernel/rate_inline.h"
#include "impl/carried.h"
#include "impl/replica/replica.h"

#include <stdlib.h>

static void *element_at(const ls_replica *r, void *flat, size_t index)
{
    return flat ? (char *)flat + index * r->kernels->table->real_bytes : NULL;
}

bool ls_replica_next(const ls_replica *r, ls_replica_part_of *part)
{
    const ls_shares *s = &r->updated.shares;
    part->state += part->range.count;
    if (!s->buckets)
        part->range = (ls_range){0, r->updated.owned};
    else if (part->next < s->buckets->count)
        part->range = ls_bucket_share(s->buckets, part->next, s->share, s->count);
    return part->next++ < (s->buckets ? s->buckets->count : 1);
}

ls_status ls_replica_find(const ls_replica *r, ls_range range, ls_replica_at *out)
{
    size_t state = r->updated.shares.buckets ? SIZE_MAX : range.first;
    for (ls_replica_part_of part = {.next = 0}; state == SIZE_MAX && ls_replica_next(r, &part);)
        if (range.first >= part.range.first &&
            range.first + range.count <= part.range.first + part.range.count)
            state = part.state + range.first - part.range.first;
    if (state == SIZE_MAX)
        return ls_fail(
            LS_CODE_USAGE, "update", NULL,
            "elements %zu to %zu are not in the shares of replica %d, which has no optimizer state "
            "for them; in the strategy's .build function, update only the replica's shares",
            range.first, range.first + range.count - 1, r->updated.shares.share);
    *out = (ls_replica_at){.state = state,
                           .parameters = r->windows.parameters ? state : range.first,
                           .gradients = r->windows.gradients ? state : range.first};
    out->trained = r->masters ? state : out->parameters;
    return LS_OK;
}

/* ---- Ranges with equal treatment ------------------------------------------------------------- */

typedef struct range_list {
    ls_update_range *items;
    int64_t count;
} range_list;

static void close_list(range_list *list)
{
    free(list->items);
}

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
 * statistics towards the batch's, which are in the gradient buffer. */
static ls_status append_update(ls_replica *r, ls_range range, const ls_replica_at *at, bool decay,
                               ls_op_list *ops)
{
    const size_t first = range.first, count = range.count;
    const ls_optimizer *o = &r->job->update.optimizer;
    ls_closing(close_list) range_list ranges = {0};
    LS_TRY(find_ranges(r, first, count, decay, &ranges));
    const ls_optimizer_args args = {
        .kind = o->rule->kind,
        .count = (int64_t)count,
        .weight = element_at(r, ls_replica_trained(r), at->trained),
        .gradient = element_at(r, r->gradients, at->gradients),
        .slot = {element_at(r, r->updated.state[LS_SLOT_0], at->state),
                 element_at(r, r->updated.state[LS_SLOT_1], at->state)},
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
    LS_TRY(r->kernels->table->optimizer(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* Appends the step of moving averages towards the updated parameters. */
static ls_status append_average(ls_replica *r, ls_range range, const ls_replica_at *at,
                                ls_op_list *ops)
{
    const ls_moving_average_args args = {
        .count = (int64_t)range.count,
        .decay = r->job->update.average,
        .state = r->state,
        .value = element_at(r, ls_replica_trained(r), at->trained),
        .average = element_at(r, r->updated.state[LS_AVERAGES], at->state)};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "moving_average", "the model", "another model"));
    LS_TRY(r->kernels->table->moving_average(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_update(ls_replica *r, ls_range range, ls_decay_left decay, ls_op_list *ops)
{
    ls_replica_at at;
    LS_TRY(ls_replica_find(r, range, &at));
    LS_TRY(append_update(r, range, &at, decay == LS_DECAY_TO_ADD && r->job->update.clip == 0, ops));
    if (r->updated.state[LS_AVERAGES])
        LS_TRY(append_average(r, range, &at, ops));
    return ls_replica_round(r, range, ops);
}

ls_status ls_replica_round(ls_replica *r, ls_range range, ls_op_list *ops)
{
    uint16_t *copies = r->parameters;
    ls_replica_at at;
    ls_op *op;
    if (!r->masters)
        return LS_OK;
    LS_TRY(ls_replica_find(r, range, &at));
    const ls_narrow_args args = {.count = (int64_t)range.count,
                                 .x = (const float *)r->masters + at.state,
                                 .y = copies + at.parameters};
    LS_TRY(r->kernels->table->narrow(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* ---- Weight decay's part of the loss -------------------------------------------------------- */

/* Whether this replica counts a variable, among the replicas that together have all. */
static bool counts(const ls_replica *r, size_t variable)
{
    const ls_graph_slices *s = &r->graph->slices;
    return r->graph->variables.items[variable].decay != 0 &&
           (s->place == 0 || ls_graph_slice(r->graph, variable));
}

/* Adds the decaying parts of a range; its elements begin at number `at` of the trained ones. */
static void list_decaying(const ls_replica *r, ls_range range, size_t at, range_list *out)
{
    const ls_variables *variables = &r->graph->variables;
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const ls_range both = ls_range_common((ls_range){v->offset, v->count}, range);
        if (both.count && counts(r, i))
            out->items[out->count++] =
                (ls_update_range){.first = (int64_t)(at + both.first - range.first),
                                  .count = (int64_t)both.count,
                                  .decay = v->decay};
    }
}

static int compare_ranges(const void *a, const void *b)
{
    const int64_t x = ((const ls_update_range *)a)->first, y = ((const ls_update_range *)b)->first;
    return (x > y) - (x < y);
}

/* As above, for all that the replica updates, in order. Returns whether that is contiguous. */
static bool list_all_decaying(const ls_replica *r, range_list *out)
{
    const bool by_shares = r->updated.shares.buckets && r->updated.state[LS_VALUES];
    for (ls_replica_part_of part = {.next = 0}; ls_replica_next(r, &part);)
        list_decaying(r, part.range, by_shares ? part.state : part.range.first, out);
    if (out->count)
        qsort(out->items, (size_t)out->count, sizeof *out->items, compare_ranges);
    return by_shares;
}

ls_status ls_replica_decay_loss(ls_replica *r, ls_op_list *ops)
{
    ls_closing(close_list) range_list ranges = {0};
    LS_TRY(ls_allocate("replica", &ranges.items, r->graph->variables.count, sizeof *ranges.items));
    const bool by_shares = list_all_decaying(r, &ranges);
    const ls_weight_decay_args args = {
        .count = (int64_t)(by_shares ? r->updated.stated : r->updated.owned),
        .weight = ls_replica_trained(r),
        .ranges = ranges.items,
        .range_count = ranges.count,
        .loss = r->loss.decay};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "weight_decay", "the model", "another model"));
    LS_TRY(r->kernels->table->weight_decay(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_add_decay(ls_replica *r, uint64_t first, uint64_t count,
                               ls_step_record *records)
{
    for (uint64_t i = 0; i < count && r->loss.decay; i++) {
        const uint64_t slot = (first + i) % r->job->records;
        double decay;
        LS_TRY(ls_queue_read(r->queue, &decay,
                             r->loss.more_losses + slot * r->loss.more + r->loss.sums - 1,
                             sizeof decay));
        records[i].loss += decay;
    }
    return LS_OK;
}

ls_status ls_replica_keep(ls_replica *r, ls_carried *carried)
{
    for (size_t i = 0; i < r->buffer_count; i++)
        if (r->buffers[i].carried)
            LS_TRY(ls_carry_memory(carried, r->queue, r->buffers[i].memory, r->buffers[i].bytes));
    return LS_OK;
}
