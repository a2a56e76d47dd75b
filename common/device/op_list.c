/* SPDX-License-Identifier: MIT */
/* Lists of operations; see op_list.h. */
#include "common/device/op_list.h"

#include "common/base/grow.h"

#include <stdlib.h>

ls_status ls_op_list_add(ls_op_list *list, ls_op *op)
{
    const ls_status status = ls_grow("operations", &list->items, list->count, sizeof(ls_op *));
    if (status)
        ls_op_free(op);
    else
        list->items[list->count++] = op;
    return status;
}

ls_status ls_op_list_enqueue(const ls_op_list *list, ls_queue *queue)
{
    for (size_t i = 0; i < list->count; i++)
        LS_TRY(ls_queue_enqueue(queue, list->items[i]));
    return LS_OK;
}

void ls_op_list_each(const ls_op_list *list, ls_op_visit visit, void *context)
{
    for (size_t i = 0; i < list->count; i++)
        visit(context, list->items[i]);
}

size_t ls_op_list_workspace(const ls_op_list *list)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->count; i++)
        bytes += list->items[i]->workspace;
    return bytes;
}

void ls_op_list_clear(ls_op_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        ls_op_free(list->items[i]);
    free(list->items);
    *list = (ls_op_list){0};
}
