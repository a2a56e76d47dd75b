/* SPDX-License-Identifier: MIT */
/* Operations with their arguments behind them; see op_bind.h. */
#include "common/kernel/op_bind.h"

#include <stdlib.h>
#include <string.h>

static void destroy(ls_op *op)
{
    free(op);
}

ls_status ls_op_bind(const ls_op *like, const void *arguments, size_t bytes, ls_op **out)
{
    return ls_op_bind_array(like, arguments, bytes, NULL, 0, out);
}

ls_status ls_op_bind_array(const ls_op *like, const void *arguments, size_t bytes,
                           const void *array, size_t array_bytes, ls_op **out)
{
    ls_bound_op *bound = calloc(1, sizeof *bound + bytes + array_bytes);
    if (!bound)
        return ls_fail_memory(like->name, sizeof *bound + bytes + array_bytes);
    bound->op = *like;
    if (!like->destroy)
        bound->op.destroy = destroy;
    memcpy(bound->arguments, arguments, bytes);
    if (array_bytes)
        memcpy(bound->arguments + bytes, array, array_bytes);
    *out = &bound->op;
    return LS_OK;
}
