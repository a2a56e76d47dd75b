/* SPDX-License-Identifier: MIT */
/*
 * Evaluation of a model over several places: the forward pass of the first piece's nets, one batch
 * after the other. The host waits at every border, for nothing is timed here; where places are on
 * several processes, all of these go through the same borders in the same order.
 */
#include "impl/divided.h"

#include <stdlib.h>

/* The nets of the first piece of a full batch. */
static ls_net *net_of(const ls_spread *s, int place)
{
    const size_t part = s->pieces[LS_FULL]->part;
    return ls_slice_part_at(ls_spread_member(s, place)->slice[LS_FULL], part)->net;
}

static int local(const ls_spread *s, int place, int node)
{
    return s->run->parts.parts[place].local[node];
}

static ls_queue *queue_of(const ls_spread *s, int place)
{
    return ls_spread_member(s, place)->replica->queue;
}

/* The output of a node goes over a border, and is there. */
static ls_status carry(const ls_spread *s, size_t border)
{
    const ls_border *b = &s->run->parts.borders[border];
    if (ls_spread_crosses(s, b->from, b->to)) {
        const int place = ls_spread_has(s, b->from) ? b->from : b->to;
        ls_queue *queue = s->transfer[place - s->first];
        LS_TRY(ls_queue_sync(queue_of(s, place)));
        LS_TRY(ls_queue_put(queue, s->pieces[LS_FULL]->transfers[ls_transfer_output(s, border)]));
        return ls_queue_sync(queue);
    }
    if (!ls_spread_has(s, b->from))
        return LS_OK;
    ls_net *from = net_of(s, b->from), *to = net_of(s, b->to);
    const ls_replica *sender = ls_spread_member(s, b->from)->replica;
    LS_TRY(ls_queue_copy(
        sender->queue, ls_net_node_output(to, local(s, b->to, b->node)), ls_spread_device(s, b->to),
        ls_net_node_output(from, local(s, b->from, b->node)), sender->device,
        (size_t)ls_net_rows(from) * b->samples * sender->kernels->table->real_bytes));
    return ls_queue_sync(sender->queue);
}

static ls_status predict(const ls_spread *s)
{
    const ls_graph_parts *parts = &s->run->parts;
    for (int n = 0; n + 1 < parts->whole->count; n++) {
        const int place = parts->place[n];
        if (parts->whole->nodes[n].layer->role == LS_LAYER_INPUT)
            continue;
        if (ls_spread_has(s, place))
            LS_TRY(ls_net_node_predict(net_of(s, place), local(s, place, n), queue_of(s, place)));
        for (size_t i = 0; i < parts->border_count; i++)
            if (parts->borders[i].node == n)
                LS_TRY(carry(s, i));
    }
    return ls_divided_sync(&s->run->shared.base);
}

/* Whoever has the loss tells the others. */
static ls_status share(const ls_spread *s, ls_status mine, ls_evaluation *out)
{
    ls_comm *comm = s->run->shared.base.job->comm;
    ls_evaluation *all = calloc((size_t)comm->size, sizeof *all);
    if (!all && !mine)
        mine = ls_fail_memory("accuracy", (size_t)comm->size * sizeof *all);
    ls_status status = ls_comm_bring(comm, mine, out, sizeof *out, all);
    for (int r = comm->size; r-- > 0 && !status;)
        if (all[r].accuracy >= 0)
            *out = all[r];
    free(all);
    return status;
}

static ls_status evaluate_here(const ls_spread *s, uint64_t most, ls_evaluation *out)
{
    const ls_graph_parts *parts = &s->run->parts;
    const ls_member *judge = ls_spread_member(s, parts->place[parts->whole->count - 1]);
    const uint64_t samples = ls_replica_test_samples(s->run->shared.base.job, most);
    const uint64_t rows = (uint64_t)ls_net_rows(net_of(s, s->first));
    for (int i = 0; i < s->here; i++) {
        LS_TRY(ls_replica_average_in(s->members[i].replica));
        LS_TRY(ls_replica_test_begin(s->members[i].replica, net_of(s, s->first + i)));
    }
    for (uint64_t at = 0; at < samples; at += rows) {
        for (int i = 0; i < s->here; i++)
            LS_TRY(ls_replica_test_feed(s->members[i].replica, at));
        LS_TRY(predict(s));
        if (judge)
            LS_TRY(ls_replica_test_count(judge->replica));
    }
    *out = (ls_evaluation){.accuracy = -1};
    if (judge)
        LS_TRY(ls_replica_test_end(judge->replica, out));
    for (int i = 0; i < s->here; i++)
        LS_TRY(ls_replica_average_out(s->members[i].replica));
    return LS_OK;
}

ls_status ls_divided_evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    const ls_spread *s = ((ls_divided *)run)->spreads;
    ls_status status = evaluate_here(s, most, out);
    for (int i = 0; status && s->ends && i < s->here; i++) /* who waits at a border for this one */
        s->ends[i]->backend->abandon(s->ends[i]);
    return s->ends ? share(s, status, out) : status;
}
