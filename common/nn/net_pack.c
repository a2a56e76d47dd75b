/* SPDX-License-Identifier: MIT */
/*
 * Weights of a net's convolutions in the order of images, where the kernel table brings them there
 * all at once: memory for them, and the operation, which goes before the first of them.
 */
#include "common/nn/net_private.h"

#include <stdlib.h>

/* A device's chunks are aligned so; a pool's pieces need not be. */
enum { PACKED_ALIGNMENT = 256 };

static size_t padded(size_t bytes)
{
    return (bytes + PACKED_ALIGNMENT - 1) / PACKED_ALIGNMENT * PACKED_ALIGNMENT;
}

static const ls_variable *weights_of(const ls_net *net, int n)
{
    return &net->options.graph->variables.items[graph_node(net, n)->variables[0]];
}

/* Whether node n has weights of its own to be packed. */
static bool packs_own(const ls_net *net, int n)
{
    const ls_node *node = graph_node(net, n);
    return node->layer->packs && node->layer->packs(node) && node->shares < 0;
}

static ls_status take_memory(ls_net *net, char **room)
{
    const size_t real = net->options.kernels->table->real_bytes;
    size_t bytes = 0;
    void *memory = NULL;
    for (int n = 0; n < net->options.graph->count; n++)
        if (packs_own(net, n))
            bytes += padded(weights_of(net, n)->count * real);
    if (bytes) {
        net->packed_bytes = bytes + PACKED_ALIGNMENT;
        LS_TRY(ls_net_allocate(net, LS_MEMORY_WORKSPACE, net->packed_bytes, &memory));
    }
    *room = memory ? (char *)memory + (padded((uintptr_t)memory) - (uintptr_t)memory) : NULL;
    return LS_OK;
}

/* Gives nodes their places, and lists them. */
static int64_t place_weights(ls_net *net, char *room, ls_packed_weights *items)
{
    const size_t real = net->options.kernels->table->real_bytes;
    int64_t count = 0;
    for (int n = 0; n < net->options.graph->count; n++) {
        const ls_node *node = graph_node(net, n);
        const ls_variable *w = packs_own(net, n) ? weights_of(net, n) : NULL;
        if (node->shares >= 0)
            net->nodes[n].packed = net->nodes[node->shares].packed;
        if (!w)
            continue;
        net->pack_at = count ? net->pack_at : n;
        net->nodes[n].packed = room;
        items[count++] = (ls_packed_weights){
            .outputs = w->shape[0],
            .channels = w->shape[1],
            .taps = w->shape[2] * w->shape[3],
            .weight = (const char *)net->options.parameters + w->offset * real,
            .packed = room,
        };
        room += padded(w->count * real);
    }
    return count;
}

ls_status ls_net_build_pack(ls_net *net)
{
    ls_kernels *kernels = net->options.kernels;
    const size_t nodes = (size_t)net->options.graph->count;
    char *room;
    net->pack_at = -1;
    if (!kernels->table->pack_weights)
        return LS_OK;
    LS_TRY(take_memory(net, &room));
    if (!room)
        return LS_OK;
    ls_packed_weights *items = calloc(nodes, sizeof *items);
    if (!items)
        return ls_fail_memory("net", nodes * sizeof *items);
    const ls_pack_weights_args args = {.items = items, .count = place_weights(net, room, items)};
    ls_op *op;
    ls_status status = kernels->table->pack_weights(kernels, &args, &op);
    free(items);
    return status ? status : ls_op_list_add(&net->pack, op);
}
