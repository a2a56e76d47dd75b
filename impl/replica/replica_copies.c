/* SPDX-License-Identifier: MIT */
/* The copy, rounded to bfloat16, of the parameters that a replica's layers read; its masters are
 * float32. See replica.h; to and from the host: replica_values.c. */
#include "impl/replica/replica.h"

/* Appends setting the copy of a range to rounded values. */
static ls_status append_round(ls_replica *r, ls_range range, const ls_replica_at *at,
                              const void *values, ls_op_list *ops)
{
    uint16_t *copies = r->parameters;
    const ls_narrow_args args = {.count = (int64_t)range.count,
                                 .x = (const float *)values + at->state,
                                 .y = copies + at->parameters};
    ls_op *op;
    LS_TRY(r->kernels->table->narrow(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_round(ls_replica *r, ls_range range, ls_op_list *ops)
{
    ls_replica_at at;
    if (!r->masters)
        return LS_OK;
    LS_TRY(ls_replica_find(r, range, &at));
    return append_round(r, range, &at, r->masters, ops);
}

ls_status ls_replica_lend(ls_replica *r, ls_values values)
{
    ls_op_list ops = {0};
    const ls_range owned = {0, r->updated.owned};
    ls_status status =
        append_round(r, owned, &(ls_replica_at){.state = 0}, r->updated.state[values], &ops);
    if (!status)
        status = ls_op_list_enqueue(&ops, r->queue);
    if (!status)
        status = ls_queue_sync(r->queue);
    ls_op_list_clear(&ops);
    return status;
}
