/* SPDX-License-Identifier: MIT */
/*
 * A replica's update of a range of the flat buffers: weight decay, then the optimizer's pass over
 * what is trained, and moving statistics moved on; then moving averages of all of it.
 */
#include "impl/replica.h"

static void *element_at(const ls_replica *r, void *flat, size_t index)
{
    return flat ? (char *)flat + index * r->kernels->table->real_bytes : NULL;
}

/* gradient += decay * w where the range meets a variable that decays. */
static ls_status append_decay(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    const ls_variables *variables = &r->graph->variables;
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        size_t from = v->offset > first ? v->offset : first, to = v->offset + v->count;
        to = to < first + count ? to : first + count;
        if (v->decay == 0 || from >= to)
            continue;
        const ls_weight_decay_args args = {.count = (int64_t)(to - from),
                                           .decay = v->decay,
                                           .weight = element_at(r, r->parameters, from),
                                           .gradient = element_at(r, r->gradients, from)};
        ls_op *op;
        LS_TRY(r->kernels->table->weight_decay(r->kernels, &args, &op));
        op->use = LS_TIME_OPTIMIZER;
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

/* The optimizer's pass over a range that it trains all of. */
static ls_status append_optimizer(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    const ls_optimizer *o = &r->job->optimizer;
    const ls_optimizer_args args = {
        .kind = o->rule->kind,
        .count = (int64_t)count,
        .weight = element_at(r, r->parameters, first),
        .gradient = element_at(r, r->gradients, first),
        .slot = {element_at(r, r->slot[0], first), element_at(r, r->slot[1], first)},
        .mu = o->mu,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .rho = o->rho,
        .epsilon = o->epsilon,
        .state = r->state,
    };
    ls_op *op;
    LS_TRY(r->kernels->table->optimizer(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* Moving averages follow the updated parameters. */
static ls_status append_average(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    const ls_moving_average_args args = {.count = (int64_t)count,
                                         .decay = r->job->average,
                                         .state = r->state,
                                         .value = element_at(r, r->parameters, first),
                                         .average = element_at(r, r->average, first)};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(r->kernels->table, "moving_average", "the model"));
    LS_TRY(r->kernels->table->moving_average(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* Moving statistics move towards the batch's, which stand where gradients do. */
static ls_status append_statistics(ls_replica *r, size_t first, size_t count, double keep,
                                   ls_op_list *ops)
{
    const ls_moving_average_args args = {.count = (int64_t)count,
                                         .decay = keep,
                                         .value = element_at(r, r->gradients, first),
                                         .average = element_at(r, r->parameters, first)};
    ls_op *op;
    LS_TRY(r->kernels->table->moving_average(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

/* The optimizer's pass over what it trains of the range, and the batch's statistics. */
static ls_status append_update(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    const ls_variables *variables = &r->graph->variables;
    const size_t end = first + count;
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const size_t from = v->offset > first ? v->offset : first, to = v->offset + v->count;
        const size_t last = to < end ? to : end;
        if (v->keep == 0 || from >= last)
            continue;
        if (from > first)
            LS_TRY(append_optimizer(r, first, from - first, ops));
        LS_TRY(append_statistics(r, from, last - from, v->keep, ops));
        first = last;
    }
    return first < end || !count ? append_optimizer(r, first, end - first, ops) : LS_OK;
}

ls_status ls_replica_apply(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    LS_TRY(append_update(r, first, count, ops));
    return r->average ? append_average(r, first, count, ops) : LS_OK;
}

ls_status ls_replica_update(ls_replica *r, size_t first, size_t count, ls_op_list *ops)
{
    LS_TRY(append_decay(r, first, count, ops));
    return ls_replica_apply(r, first, count, ops);
}
