/* SPDX-License-Identifier: MIT */
/*
 * Averages of parameters: of all replicas, by all-reduces, or of a replica and its peers
 * (ls_strategy_average.peers). Peers' parameters arrive in the replica's inboxes; only when all are
 * sent does any replica change its own.
 */
#include "common/comm/comm_wire.h"
#include "impl/step/verbs/build.h"

/* Where the parameters of the replica's peer number i arrive. */
static ls_span inbox(ls_step *s, int replica, int i)
{
    ls_span span = ls_parameters(s, replica, ls_all(s));
    ls_member *m = ls_step_member(s, replica);
    int peers[LS_JOB_REPLICAS];
    if (m->replica && !m->inboxes && !s->program->status)
        ls_step_fail(
            s, ls_replica_take(m->replica, "inboxes", LS_MEMORY_COMMUNICATION,
                               (size_t)ls_step_plan_peers(s->plan, replica, peers) * span.bytes,
                               &m->inboxes));
    span.memory = m->inboxes ? (char *)m->inboxes + (size_t)i * span.bytes : NULL;
    return span;
}

static void append_quotient(ls_step *s, int member, ls_range range, int count)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_scale_args scale = {.count = (int64_t)range.count,
                                 .factor = 1.0 / count,
                                 .y = (float *)ls_replica_trained(r) + range.first};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->scale(r->kernels, &scale, &op);
    ls_task_of_op(s->program, "average", member, range, op, status);
}

static void average_all(ls_step *s)
{
    for (int b = 0; b < ls_bucket_count(s); b++) {
        const ls_channel *c = &s->plan->lanes.channels[LS_GROUPS];
        const ls_range range = ls_bucket(s, b);
        if (!range.count)
            continue;
        ls_sum_parameters(s, b);
        for (int i = 0; i < c->local_count && !s->program->status; i++)
            append_quotient(s, c->local[i], range, ls_replicas(s));
        for (int r = 0; r < ls_replicas(s); r++)
            ls_refresh(s, r, range);
    }
}

size_t ls_mean_scratch(const ls_step_plan *plan, const ls_comm *comm)
{
    const ls_buckets *buckets = &plan->groups->buckets;
    size_t most = 0;
    for (size_t b = 0; b < buckets->count; b++) {
        const size_t room =
            ls_wired_room(plan->job->exchange.wire, comm->rank, comm->size, buckets->extents[b]);
        most = room > most ? room : most;
    }
    return (most + sizeof(float) - 1) / sizeof(float);
}

static ls_status make_mean(ls_step *s, const ls_call *call, int member, ls_brought *brought,
                           ls_op_list *ops)
{
    const int b = *(const int *)call->of;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_wired_args args = {.wire = ls_step_job(s)->exchange.wire,
                                .mean = true,
                                .data = (float *)ls_replica_trained(r) + ls_bucket(s, b).first,
                                .extent = s->plan->groups->buckets.extents[b],
                                .room = (void *)brought->args.scratch,
                                .error = r->wire_error};
    return ls_wired_build(s->resources->ends[call->channel].items[member].comm, &args, ops);
}

void ls_mean(ls_step *s, int b)
{
    const ls_range range = ls_bucket(s, b);
    if (!range.count)
        return;
    if (ls_step_job(s)->exchange.wire) {
        ls_step_call(s, &(ls_call){.verb = "mean",
                                   .channel = LS_GROUPS,
                                   .half = LS_HALVES,
                                   .range = range,
                                   .bring = make_mean,
                                   .of = &b});
        return;
    }
    ls_sum_parameters(s, b);
    for (int r = 0; r < ls_replicas(s); r++) {
        const ls_span p = ls_parameters(s, r, range);
        ls_combine(s, "mean", p, &(ls_combination){.a = 1, .x = p, .divisor = ls_replicas(s)});
    }
}

/* Adds in the order of the replicas' numbers: what comes before its own is summed first. */
static void average_one(ls_step *s, int replica, const int *peers, int count)
{
    const ls_span own = ls_parameters(s, replica, ls_all(s));
    int before = 0;
    while (before < count && peers[before] < replica)
        before++;
    for (int i = 1; i < before && !s->program->status; i++)
        ls_step_add(s, "add", inbox(s, replica, 0), inbox(s, replica, i));
    for (int i = before ? before - 1 : 0; i < count && !s->program->status; i++)
        ls_step_add(s, "add", own, inbox(s, replica, i < before ? 0 : i));
    if (count && !s->program->status)
        append_quotient(s, replica, ls_all(s), count + 1);
}

void ls_average(ls_step *s)
{
    if (!ls_step_due(s).count)
        return;
    if (s->plan->strategy->average.peers) {
        int peers[LS_JOB_REPLICAS];
        for (int r = 0; r < ls_replicas(s); r++)
            for (int i = 0, count = ls_step_plan_peers(s->plan, r, peers); i < count; i++)
                ls_message(s, inbox(s, r, i), ls_parameters(s, peers[i], ls_all(s)), LS_REPLACE);
        for (int r = 0; r < ls_replicas(s); r++)
            if (ls_step_replica(s, r))
                average_one(s, r, peers, ls_step_plan_peers(s->plan, r, peers));
    } else {
        average_all(s);
    }
}
