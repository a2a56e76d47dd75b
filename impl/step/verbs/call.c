/* SPDX-License-Identifier: MIT */
/*
 * Calls: what all members of a channel do together, an all-reduce or a half of one. And the ends of
 * all channels, which calls and messages (message.c) go through.
 *
 * If events order the communicator's queues (GPUs), one call enqueues the operations of all
 * members; otherwise each member waits for its peers on its own queue.
 */
#include "common/comm/comm.h"
#include "impl/ps/served.h"
#include "impl/step/verbs/build.h"

/* ---- Opening --------------------------------------------------------------------------------- */

/* The group whose channel it is; NULL if it does not belong to a group. */
static const ls_planned_group *group_of(const ls_step_plan *plan, int channel)
{
    const int g = channel - LS_GROUPS;
    return g >= 0 && g < plan->group_count ? &plan->groups[g] : NULL;
}

static bool is_used(const ls_step_plan *plan, int channel)
{
    const ls_planned_group *g = group_of(plan, channel);
    return channel == LS_MESSAGES ? ls_step_plan_has_ends(plan) : !g || g->buckets.count;
}

/* What a group's scratch holds: numbers as they travel. */
static ls_memory_type type_of(const ls_job_exchange *exchange)
{
    static const ls_memory_type types[] = {[LS_WIRE_FLOAT32] = LS_MEMORY_FLOAT32,
                                           [LS_WIRE_BF16] = LS_MEMORY_BF16,
                                           [LS_WIRE_INT8] = LS_MEMORY_INT8};
    return types[exchange->wire ? exchange->wire : exchange->gradient_wire];
}

/* Allocates scratch for the largest call of this end; they run one after the other. */
static ls_status take_scratch(ls_resources *r, int channel, int member, ls_end *end)
{
    const ls_planned_group *g = group_of(r->plan, channel);
    const size_t most = !g ? ls_sums_scratch(r->plan, member, end)
                        : r->plan->job->exchange.wire
                            ? ls_mean_scratch(r->plan, end->comm)
                            : ls_group_scratch(r->plan, g, member, end->comm);
    const size_t slots = g ? ls_group_slots(r->plan, g, member) : 0;
    if (slots)
        LS_TRY(ls_replica_take(
            r->members[member].replica, "sums of shares", LS_MEMORY_COMMUNICATION,
            slots * ls_group_share_before(g, g->buckets.count, end->comm) * sizeof(float),
            &end->terms));
    return most ? ls_replica_take(
                      r->members[member].replica, "scratch",
                      LS_MEMORY_AS(LS_MEMORY_COMMUNICATION,
                                   g ? type_of(&r->plan->job->exchange) : LS_MEMORY_FLOAT32),
                      most * sizeof(float), &end->scratch)
                : LS_OK;
}

static ls_status open_ends(ls_resources *r, int channel)
{
    const ls_channel *c = &r->plan->lanes.channels[channel];
    const ls_planned_group *g = group_of(r->plan, channel);
    const ls_allreduce *algorithm = r->plan->job->exchange.allreduce;
    const ls_ends *ends = &r->ends[channel];
    for (int i = 0; i < c->local_count; i++)
        ends->items[c->local[i]].comm = ends->comms[i];
    if (channel == LS_MESSAGES)
        return ls_served_open_requests(r);
    if (algorithm->check && c->local_count)
        LS_TRY(algorithm->check(ends->comms[0]));
    for (int i = 0; i < c->local_count; i++) {
        /* the order of sums between places does not depend on hosts */
        ends->comms[i]->layout = g ? g->layout : NULL;
        LS_TRY(take_scratch(r, channel, c->local[i], &ends->items[c->local[i]]));
    }
    return LS_OK;
}

ls_status ls_channels_open(ls_resources *r)
{
    const ls_lanes *lanes = &r->plan->lanes;
    for (int i = 0; i < lanes->channel_count; i++) {
        const ls_channel *c = &lanes->channels[i];
        if (!is_used(r->plan, i))
            continue;
        LS_TRY(ls_connect(r, c->local, c->local_count, LS_COUNTED, r->ends[i].comms));
        LS_TRY(ls_comm_agree(r->plan->job->ranks.comm, open_ends(r, i)));
    }
    return LS_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* A member's part in a call. */
static ls_status build(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const ls_end *end = &s->resources->ends[c->channel].items[member];
    b->args.scratch = end->scratch;
    LS_TRY(c->bring(s, c, member, b, ops));
    if (!c->algorithm)
        return LS_OK;
    if (!b->args.cut)
        b->args.cut = &b->extent;
    b->args.count = b->args.cut->count;
    LS_TRY(c->half == LS_HALVES ? c->algorithm->build(end->comm, &b->args, ops)
                                : c->algorithm->half(end->comm, c->half, &b->args, ops));
    return c->take ? c->take(s, c, member, b, ops) : LS_OK;
}

int ls_step_joint(ls_step *s, int channel)
{
    const ls_comm *first = s->resources->ends[channel].comms[0];
    return first && ls_comm_is_joint(first) ? s->program->calls++ : -1;
}

void ls_step_call(ls_step *s, const ls_call *c)
{
    static const char *const verbs[] = {[LS_HALVES] = "all-reduce",
                                        [LS_REDUCE_SCATTER] = "reduce-scatter",
                                        [LS_ALL_GATHER] = "all-gather"};
    const ls_channel *channel = &s->plan->lanes.channels[c->channel];
    const int call = ls_step_joint(s, c->channel);
    for (int i = 0; i < channel->local_count && !s->program->status; i++) {
        const int member = channel->local[i];
        ls_op_list ops = {0};
        ls_brought b = {.node = -1};
        const ls_status status = build(s, c, member, &b, &ops);
        ls_task *task = ls_task_of(s->program, c->verb ? c->verb : verbs[c->half],
                                   channel->lane[member], c->range, &ops, status);
        if (!task)
            return;
        task->node = b.node;
        task->call = call;
        task->end.channel = c->channel;
        ls_task_count_messages(s->program, s->resources->ends[c->channel].items[member].comm->rank);
    }
}
