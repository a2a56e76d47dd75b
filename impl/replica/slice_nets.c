/* SPDX-License-Identifier: MIT */
/* A slice's buffers and nets; see slice.c. */
#include "impl/replica/slice_private.h"

#include "common/base/grow.h"

ls_status ls_slice_need_level(ls_slice *s, size_t index)
{
    ls_replica *r = s->options.replica;
    if (index < s->level_count)
        return LS_OK;
    if (index >= LS_SLICE_LEVELS)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                       "these are more shards than the tree that sums them can hold; use fewer "
                       "--micro-shards");
    s->gradients[index] = r->windows.whole_gradients;
    const ls_windows *windows = r->windows.gradients;
    const bool alone = ls_slice_node_alone(s, index);
    const size_t elements = alone     ? windows->alone_elements
                            : windows ? windows->elements
                                      : r->elements;
    const ls_memory_use use = alone     ? LS_MEMORY_WORKSPACE
                              : windows ? LS_MEMORY_COMMUNICATION
                                        : LS_MEMORY_GRADIENTS;
    if (index > 0)
        LS_TRY(ls_replica_take(r, "further sums", use, elements * r->kernels->table->real_bytes,
                               &s->gradients[index]));
    s->level_count++;
    return LS_OK;
}

const size_t *ls_slice_gradients_at(const ls_slice *s, size_t level)
{
    const ls_windows *windows = s->options.replica->windows.gradients;
    return !windows ? NULL : ls_slice_node_alone(s, level) ? windows->alone_at : windows->at;
}

uint64_t ls_slice_divisor(const ls_slice *s, uint64_t *first)
{
    const ls_slice_options *o = &s->options;
    *first = (uint64_t)o->divided;
    if (o->divisor)
        return (uint64_t)o->divisor;
    if (!o->replica->job->update.own_mean)
        return (uint64_t)o->batch;
    *first = (uint64_t)ls_slice_begin(o->batch, o->number, o->count);
    return (uint64_t)ls_slice_share(o->batch, o->number, o->count);
}

/* The first net of a chunk's slot, below 0 of any, of this slice or of that whose memory it shares;
 * NULL if there is none yet. */
static ls_net *slot_net(const ls_slice *s, int chunk, int slot)
{
    ls_net *borrowed = s->options.memory_of ? slot_net(s->options.memory_of, chunk, slot) : NULL;
    for (size_t i = 0; i < s->net_count && !borrowed; i++)
        if (s->nets[i].chunk == chunk && (slot < 0 || s->nets[i].slot == slot))
            return s->nets[i].net;
    return borrowed;
}

ls_status ls_slice_need_net(ls_slice *s, size_t index, int64_t rows, int chunk, int slot,
                            ls_net **out)
{
    const size_t loss =
        ls_slice_accumulates(s) ? s->begun : s->loss + (ls_slice_abreast(s) ? (size_t)slot : index);
    const int at = ls_slice_first_slot(s, chunk) + slot;
    if (loss >= LS_REPLICA_LOSSES)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "a device would keep more than %d partial sums of the loss; use fewer "
                       "--gradient-accumulation-steps",
                       (int)LS_REPLICA_LOSSES);
    LS_TRY(ls_slice_need_level(s, index));
    for (size_t i = 0; i < s->net_count; i++) {
        if (s->nets[i].level == index && s->nets[i].chunk == chunk && s->nets[i].slot == at &&
            s->nets[i].loss == loss && ls_net_rows(s->nets[i].net) == rows) {
            *out = s->nets[i].net;
            return LS_OK;
        }
    }
    LS_TRY(ls_grow("slice", &s->nets, s->net_count, sizeof *s->nets));
    ls_replica *r = s->options.replica;
    const ls_net_options options = {
        .graph = r->graph,
        .nodes = ls_graph_part_nodes(r->part, r->graph, chunk),
        .kernels = r->kernels,
        .rows = rows,
        .divisor = ls_slice_divisor(s, &(uint64_t){0}),
        .precision = r->job->kernels.precision,
        .parameters = r->windows.whole_parameters,
        .gradients = s->gradients[index],
        .parameter_at = r->windows.parameters ? r->windows.parameters->at : NULL,
        .gradient_at = ls_slice_gradients_at(s, index),
        .scale_at = r->data.scale,
        .loss = r->loss.parts + loss,
        .memory_of = slot_net(s, chunk, at),
        .repeats = r->repeats,
        .window_of = ls_slice_abreast(s) ? NULL : slot_net(s, chunk, 0),
        .scratch_of = slot_net(s, chunk, -1),
        .seed = r->job->seed,
        .choices = r->job->kernels.choices,
        .weights_apart = r->job->division.weights_apart,
        .waits = r->windows.gradients ? r->windows.gradients->waits : NULL,
        .synced = s->options.synced,
    };
    LS_TRY(ls_net_open(&options, out));
    s->nets[s->net_count++] = (ls_slice_net_at){index, chunk, at, loss, !options.memory_of, *out};
    return LS_OK;
}

void ls_slice_memory(const ls_slice *s, ls_memory_formula *formula)
{
    for (size_t i = 0; i < s->act_count; i++)
        formula->bytes[LS_MEMORY_WORKSPACE] += ls_op_list_workspace(&s->acts[i].own);
    for (size_t i = 0; i < s->net_count; i++) {
        const ls_slice_net_at *at = &s->nets[i];
        formula->bytes[LS_MEMORY_WORKSPACE] += ls_net_workspace(at->net);
        if (!at->own)
            continue;
        size_t shared;
        formula->bytes[LS_MEMORY_ACTIVATIONS] += ls_net_bytes(at->net, &shared);
        formula->bytes[LS_MEMORY_WORKSPACE] += shared;
    }
}
