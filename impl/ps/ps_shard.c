/* SPDX-License-Identifier: MIT */
/* A server's shard; see ps_shard.h. */
#include "common/base/grow.h"
#include "impl/ps/ps_shard.h"

/* Adds the parts of variables in a range to a graph without layers. */
static ls_status add_variables(const ls_variables *whole, const ls_ps_range *range,
                               ls_graph_part *part)
{
    ls_variables *variables = &part->graph->variables;
    for (size_t i = 0; i < whole->count; i++) {
        ls_variable v = whole->items[i];
        const ls_range both =
            ls_range_common((ls_range){v.offset, v.count}, (ls_range){range->first, range->count});
        if (!both.count)
            continue;
        v.rank = 1;
        v.shape[0] = (int64_t)both.count;
        LS_TRY(ls_grow("ps", &part->whole, variables->count, sizeof *part->whole));
        part->whole[variables->count] = both.first;
        LS_TRY(ls_variables_add(variables, &v));
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
            LS_TRY(add_variables(&job->model->graph->variables, &layout->ranges[i], &s->part));
    s->part.owned = s->part.graph->variables.elements;
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
    ls_graph_part_close(&s->part);
}

ls_status ls_ps_shard_apply(const ls_ps_shard *s, ls_op_list *ops)
{
    if (s->replica->elements)
        LS_TRY(ls_replica_update(s->replica, (ls_range){0, s->replica->elements}, LS_DECAY_TO_ADD,
                                 ops));
    return ls_replica_finish(s->replica, s->replica->job->batch, ops);
}
