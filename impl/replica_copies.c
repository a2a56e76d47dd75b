/* SPDX-License-Identifier: MIT */
/* The copy, rounded to bfloat16, of the parameters that a replica's layers read; its masters are
 * float32. See replica.h. */
#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "impl/replica.h"

#include <stdlib.h>

/* ---- On the device --------------------------------------------------------------------------- */

/* Appends setting the copy of a range to rounded values. */
static ls_status append_round(ls_replica *r, ls_range range, size_t state, const void *values,
                              ls_op_list *ops)
{
    uint16_t *copies = r->parameters;
    const ls_narrow_args args = {.count = (int64_t)range.count,
                                 .x = (const float *)values + state,
                                 .y = copies + (r->windows.parameters ? state : range.first)};
    ls_op *op;
    LS_TRY(r->kernels->table->narrow(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_round(ls_replica *r, ls_range range, ls_op_list *ops)
{
    size_t state;
    if (!r->masters)
        return LS_OK;
    LS_TRY(ls_replica_find(r, range, &state));
    return append_round(r, range, state, r->masters, ops);
}

ls_status ls_replica_lend(ls_replica *r, ls_values values)
{
    ls_op_list ops = {0};
    const ls_range owned = {0, r->updated.owned};
    ls_status status =
        append_round(r, owned, 0, values == LS_AVERAGES ? r->updated.average : r->masters, &ops);
    if (!status)
        status = ls_op_list_enqueue(&ops, r->queue);
    if (!status)
        status = ls_queue_sync(r->queue);
    ls_op_list_clear(&ops);
    return status;
}

/* ---- To and from the host ---------------------------------------------------------------------
 */

static ls_status write_copies(const ls_replica *r, uint16_t *copies, const float *values,
                              size_t count)
{
    uint16_t *narrow;
    LS_TRY(ls_allocate("replica", &narrow, count, sizeof *narrow));
    for (size_t i = 0; i < count; i++)
        narrow[i] = ls_bf16_of_float(values[i]);
    const ls_status status = ls_queue_write(r->queue, copies, narrow, count * sizeof *narrow);
    free(narrow);
    return status;
}

ls_status ls_replica_fill(const ls_replica *r, size_t at, const float *values, size_t count)
{
    void *whole = r->windows.whole_parameters;
    if (r->job->kernels.precision == LS_PRECISION_BF16)
        return write_copies(r, (uint16_t *)whole + at, values, count);
    return ls_queue_write(r->queue, (float *)whole + at, values, count * sizeof *values);
}

static ls_status read_copies(const ls_replica *r, const uint16_t *copies, float *values,
                             size_t count)
{
    uint16_t *narrow;
    LS_TRY(ls_allocate("replica", &narrow, count, sizeof *narrow));
    const ls_status status = ls_queue_read(r->queue, narrow, copies, count * sizeof *narrow);
    for (size_t i = 0; i < count && !status; i++)
        values[i] = ls_float_of_bf16(narrow[i]);
    free(narrow);
    return status;
}

/* Sets the copy of a range, which begins at `copies`, to the rounded parameters of the model;
 * `out`: reads it into the model's. */
static ls_status move_copies(const ls_replica *r, uint16_t *copies, ls_range range, float *model,
                             bool out)
{
    float *part;
    if (!r->part)
        return out ? read_copies(r, copies, model + range.first, range.count)
                   : write_copies(r, copies, model + range.first, range.count);
    LS_TRY(ls_allocate("replica", &part, range.count, sizeof *part));
    if (!out)
        ls_graph_part_copy(r->part, range, part, model, true);
    const ls_status status = out ? read_copies(r, copies, part, range.count)
                                 : write_copies(r, copies, part, range.count);
    if (!status && out)
        ls_graph_part_copy(r->part, range, part, model, false);
    free(part);
    return status;
}

/* The same of all that it has. */
static ls_status move_all_copies(const ls_replica *r, float *model, bool out)
{
    uint16_t *copies = r->parameters;
    if (!r->windows.parameters)
        return move_copies(r, copies, (ls_range){0, r->elements}, model, out);
    for (size_t b = 0; b < r->updated.shares.buckets->count; b++) {
        const ls_range share = ls_bucket_share(r->updated.shares.buckets, b,
                                               r->updated.shares.share, r->updated.shares.count);
        if (share.count)
            LS_TRY(move_copies(r, copies, share, model, out));
        copies += share.count;
    }
    return LS_OK;
}

ls_status ls_replica_set_copies(ls_replica *r, const float *parameters)
{
    return move_all_copies(r, (float *)parameters, false);
}

ls_status ls_replica_copies(ls_replica *r, float *model)
{
    return ls_replica_parameter_bytes(r) == sizeof(float) ? LS_OK : move_all_copies(r, model, true);
}
