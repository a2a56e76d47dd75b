/* SPDX-License-Identifier: MIT */
/* The oracle's places; see oracle_parts.h. */
#include "bench/gate/oracle_parts.h"

#include "common/base/grow.h"
#include "common/nn/divide/graph_context.h"

#include <stdlib.h>

static ls_status open_replicas(ls_oracle_places *me, const ls_job *job)
{
    LS_TRY(ls_allocate("oracle", &me->replicas, (size_t)me->parts.count, sizeof *me->replicas));
    for (int j = 0; j < me->parts.count; j++) {
        const ls_replica like = {.job = job,
                                 .device = job->devices[0],
                                 .part = &me->parts.parts[j],
                                 .updates = j == 0,
                                 .parameters = j ? me->replicas[0]->parameters : NULL,
                                 .state = j ? me->replicas[0]->state : NULL,
                                 .data.rows = job->batch,
                                 .loss.sums = 1};
        LS_TRY(ls_replica_open(&like, &me->replicas[j]));
    }
    return LS_OK;
}

ls_status ls_oracle_places_open(int places, const ls_job *job, ls_oracle_places **out)
{
    ls_oracle_places *me;
    LS_TRY(ls_allocate("oracle", &me, 1, sizeof *me));
    ls_status status = ls_context_open(job->model->graph, places, &me->all, &me->parts);
    if (!status)
        status = open_replicas(me, job);
    if (status)
        ls_oracle_places_close(me);
    else
        *out = me;
    return status;
}

void ls_oracle_places_close(ls_oracle_places *me)
{
    if (!me)
        return;
    for (int j = me->parts.count; j-- > 0 && me->replicas;) /* the owner of the parameters last */
        ls_replica_close(me->replicas[j]);
    free(me->replicas);
    ls_graph_parts_close(&me->parts);
    ls_graph_close(me->all);
    free(me);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static ls_queue *queue_of(const ls_oracle_places *me)
{
    return me->replicas[0]->queue;
}

static ls_net *net_of(ls_slice *const *slices, int j)
{
    return ls_slice_piece_net(slices[j], 0);
}

/* Copies what node n has dealt to another place, or, backward, what it has collected. */
static ls_status cross(const ls_oracle_places *me, ls_slice *const *slices, int n, bool backward)
{
    ls_device *device = me->replicas[0]->device;
    for (size_t i = 0; i < me->parts.border_count; i++) {
        const ls_border *b = &me->parts.borders[i];
        if ((backward ? b->first_use : b->node) != n)
            continue;
        const ls_net *dealer = net_of(slices, b->from), *collector = net_of(slices, b->to);
        const int dealt = me->parts.parts[b->from].local[b->node];
        const int collected = me->parts.parts[b->to].local[b->node];
        const size_t bytes = (size_t)ls_net_rows(dealer) * b->samples * sizeof(float);
        LS_TRY(backward ? ls_queue_copy(queue_of(me), ls_net_node_gradient(dealer, dealt), device,
                                        ls_net_node_gradient(collector, collected), device, bytes)
                        : ls_queue_copy(queue_of(me), ls_net_node_output(collector, collected),
                                        device, ls_net_node_output(dealer, dealt), device, bytes));
    }
    return LS_OK;
}

static ls_status run_node(const ls_oracle_places *me, ls_slice *const *slices, int n,
                          ls_net_pass pass)
{
    const int j = me->parts.place[n];
    LS_TRY(ls_net_node_enqueue(net_of(slices, j), me->parts.parts[j].local[n], pass, queue_of(me)));
    return cross(me, slices, n, pass == LS_NET_BACKWARD);
}

static bool is_input(const ls_oracle_places *me, int n)
{
    return me->all->nodes[n].layer->role == LS_LAYER_INPUT;
}

ls_status ls_oracle_places_run(ls_oracle_places *me, ls_slice *const *slices)
{
    if (!ls_slice_sums(slices[0], 0))
        return LS_OK;
    for (int j = 0; j < me->parts.count; j++) {
        /* the places' inputs: the first acts of their slices */
        size_t count;
        const ls_act *acts = ls_slice_acts(slices[j], &count);
        for (size_t i = 0; i < count; i++)
            if (acts[i].kind == LS_ACT_FEED)
                LS_TRY(ls_op_list_enqueue(acts[i].lists[0], queue_of(me)));
    }
    for (int n = 0; n < me->all->count; n++)
        if (!is_input(me, n))
            LS_TRY(run_node(me, slices, n, LS_NET_FORWARD));
    for (int n = me->all->count; n-- > 0;)
        if (!is_input(me, n))
            LS_TRY(run_node(me, slices, n, LS_NET_BACKWARD));
    return LS_OK;
}

/* The places gather, and count, on separate queues. */
ls_status ls_oracle_places_predict(void *context, const ls_evaluating *how)
{
    const ls_oracle_places *me = context;
    (void)how;
    for (int j = 0; j < me->parts.count; j++)
        LS_TRY(ls_queue_sync(me->replicas[j]->queue));
    for (int n = 0; n < me->all->count; n++)
        if (me->all->nodes[n].layer->role == LS_LAYER_COMPUTE)
            LS_TRY(run_node(me, me->evaluated, n, LS_NET_PREDICT));
    return ls_queue_sync(queue_of(me));
}
