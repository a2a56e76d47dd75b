/* SPDX-License-Identifier: MIT */
/*
 * Moving averages of parameters for evaluation: put in the parameters' place for its time. The
 * parameters wait in the gradient buffer, which nobody reads between steps.
 */
#include "impl/replica.h"

static ls_status copy(const ls_replica *r, void *to, const void *from)
{
    return ls_queue_copy(r->queue, to, r->device, from, r->device,
                         r->owned * r->kernels->table->real_bytes);
}

ls_status ls_replica_average_in(ls_replica *r)
{
    if (!r->average)
        return LS_OK;
    LS_TRY(copy(r, r->gradients, r->parameters));
    LS_TRY(copy(r, r->parameters, r->average));
    return ls_queue_sync(r->queue);
}

ls_status ls_replica_average_out(ls_replica *r)
{
    if (!r->average)
        return LS_OK;
    LS_TRY(copy(r, r->parameters, r->gradients));
    return ls_queue_sync(r->queue);
}
