/* SPDX-License-Identifier: MIT */
/* The table of layers, and lists of operations; see layer.h. */
#include "common/nn/layer.h"

#include "common/nn/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_layer *const layers[] = {
    &ls_layer_input,         &ls_layer_dense,
    &ls_layer_relu,          &ls_layer_polynomial,
    &ls_layer_add,           &ls_layer_softmax_cross_entropy,
    &ls_layer_squared_error, NULL,
};

const ls_layer *const *ls_layers(void)
{
    return layers;
}

ls_status ls_layer_find(const char *name, const ls_layer **out)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; layers[i]; i++) {
        if (strcmp(layers[i]->name, name) == 0) {
            *out = layers[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 layers[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "layer", name, "no layer of this name; layers are %s", names);
}

ls_status ls_op_list_add(ls_op_list *list, ls_op *op)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        ls_op **items = realloc(list->items, capacity * sizeof *items);
        if (!items) {
            ls_op_free(op);
            return ls_fail_memory("operations", capacity * sizeof *items);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = op;
    return LS_OK;
}

ls_status ls_op_list_put(const ls_op_list *list, ls_queue *queue)
{
    for (size_t i = 0; i < list->count; i++)
        LS_TRY(ls_queue_put(queue, list->items[i]));
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
