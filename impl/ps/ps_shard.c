/* SPDX-License-Identifier: MIT */
/* A server's shard; see ps_shard.h. */
#include "common/base/grow.h"
#include "impl/ps/ps_shard.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* Adds the parts of variables that lie in a range to a graph, which has nothing else. */
static ls_status add_variables(const ls_variables *whole, const ls_ps_range *range, ls_graph *graph)
{
    for (size_t i = 0; i < whole->count; i++) {
        ls_variable v = whole->items[i];
        const ls_range both =
            ls_range_common((ls_range){v.offset, v.count}, (ls_range){range->first, range->count});
        if (!both.count)
            continue;
        v.rank = 1;
        v.shape[0] = (int64_t)both.count;
        LS_TRY(ls_variables_add(&graph->variables, &v));
    }
    return LS_OK;
}

ls_status ls_ps_shard_open(const ls_job *job, const ls_ps_layout *layout, int server,
                           ls_device *device, ls_ps_shard *s)
{
    s->layout = layout;
    s->server = server;
    LS_TRY(ls_graph_open(&s->part.graph));
    for (size_t i = 0; i < layout->range_count; i++)
        if (layout->ranges[i].server == server)
            LS_TRY(add_variables(&job->model->graph->variables, &layout->ranges[i], s->part.graph));
    s->part.owned = s->part.elements = s->part.graph->variables.elements;
    const ls_replica_options options = {.job = job,
                                        .device = device,
                                        .number = -1,
                                        .part = &s->part,
                                        .sums = 1,
                                        .decay_loss = LS_DECAY_ELSEWHERE};
    return ls_replica_open(&options, &s->replica);
}

void ls_ps_shard_close(ls_ps_shard *s)
{
    ls_replica_close(s->replica);
    ls_graph_close(s->part.graph);
}

/* ---- Values --------------------------------------------------------------------------------- */

ls_status ls_ps_shard_load(const ls_ps_shard *s, const float *parameters)
{
    float *shard;
    LS_TRY(ls_allocate("ps", &shard, s->replica->elements, sizeof *shard));
    for (size_t i = 0; i < s->layout->range_count; i++) {
        const ls_ps_range *range = &s->layout->ranges[i];
        for (size_t k = 0; range->server == s->server && k < range->count; k++)
            shard[range->at + k] = parameters[range->first + k];
    }
    ls_status status = ls_replica_load(s->replica, shard);
    free(shard);
    return status;
}

/* Its ranges of the whole flat buffer, from one like it of the shard. */
static ls_status gather(const ls_ps_shard *s, const float *from, float *whole)
{
    for (size_t i = 0; i < s->layout->range_count; i++) {
        const ls_ps_range *range = &s->layout->ranges[i];
        if (range->server == s->server)
            LS_TRY(ls_queue_read(s->replica->queue, whole + range->first, from + range->at,
                                 range->count * sizeof *from));
    }
    return LS_OK;
}

ls_status ls_ps_shard_gather(const ls_ps_shard *s, float *parameters)
{
    return gather(s, s->replica->parameters, parameters);
}

ls_status ls_ps_shard_averages(const ls_ps_shard *s, float *averages)
{
    const ls_replica *r = s->replica;
    const bool raw = !r->average || LS_PLANTED(raw_evaluated);
    return gather(s, raw ? r->parameters : r->average, averages);
}

ls_status ls_ps_shard_apply(const ls_ps_shard *s, ls_op_list *ops)
{
    if (s->replica->elements)
        LS_TRY(ls_replica_update(s->replica, (ls_range){0, s->replica->elements}, true, ops));
    return ls_replica_finish(s->replica, s->replica->job->batch, ops);
}
