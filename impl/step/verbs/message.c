/* SPDX-License-Identifier: MIT */
/* Messages between members; see step.h. */
#include "impl/ps/served.h"
#include "impl/step/verbs/build.h"

ls_span ls_gradient(ls_step *s, int member, size_t sum, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    ls_span span = {member, NULL, range.count * sizeof(float)};
    float *memory = NULL;
    if (r)
        memory = s->plan->members[member].replica < 0
                     ? ls_served_sum(s, member, sum)
                     : ls_slice_gradients(ls_step_member(s, member)->slice[s->batch_kind], sum);
    if (memory)
        span.memory = memory + ls_step_offset(s, member, range);
    return span;
}

bool ls_cross_devices(const ls_step *s, int a, int b)
{
    const ls_planned_member *x = &s->plan->members[a], *y = &s->plan->members[b];
    return x->process != y->process || x->device != y->device;
}

/* Appends one end; none in another process, or from the channel's `arrivals` on. */
static void append_end(ls_step *s, const char *verb, int member, int peer,
                       const ls_exchange *exchange, int call)
{
    const size_t in_float = exchange->bytes ? sizeof(float) : 1; /* ends are matched in floats */
    const ls_channel *channel = &s->plan->lanes.channels[LS_MESSAGES];
    ls_op *op = NULL;
    if (s->program->status || !ls_step_replica(s, member) || member >= channel->arrivals)
        return;
    if (!ls_step_can(s, channel->lane[member] >= 0, "ls_message",
                     "reaches another process only between servers, devices of one divided "
                     "replica, or replicas that .average.peers names; use ls_give here"))
        return;
    const ls_status status =
        ls_comm_exchange(s->resources->ends[LS_MESSAGES].items[member].comm, exchange, &op);
    if (!status && !ls_step_plan_two_ended(s->plan))
        op->use = LS_TIME_COMMUNICATION;
    ls_task *task = ls_task_of_op(s->program, verb, channel->lane[member], ls_no_range, op, status);
    if (!task)
        return;
    task->call = call;
    task->end = (ls_task_end){.channel = LS_MESSAGES,
                              .peer = peer,
                              .sent = (exchange->send_count + in_float - 1) / in_float,
                              .received = (exchange->receive_count + in_float - 1) / in_float};
}

/* A message within a process: a copy. Addends arrive in separate memory, and the receiver adds
 * them. */
static void copy_message(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    ls_span there = to;
    if (arriving == LS_ADD)
        ls_step_fail(s, ls_replica_take(ls_step_replica(s, to.member), "staging",
                                        LS_MEMORY_COMMUNICATION, to.bytes, &there.memory));
    if (s->program->status)
        return;
    if (from.member == ls_holder(s)) /* which would copy for each replica in turn */
        ls_step_copy(s, "fetch", to.member, there, from);
    else
        ls_step_copy(s, "send",
                     from.member == to.member ? from.member : s->plan->members[from.member].sends,
                     there, from);
    if (arriving == LS_ADD)
        ls_step_add(s, "add", to, there);
}

void ls_message(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    const ls_planned_member *members = s->plan->members;
    const bool are_local = ls_step_replica(s, to.member) && ls_step_replica(s, from.member);
    const bool inside =
        ls_step_plan_two_ended(s->plan) && !ls_cross_devices(s, to.member, from.member);
    if (!ls_step_plan_two_ended(s->plan) && are_local) {
        copy_message(s, to, from, arriving);
        return;
    }
    /* sums have float32 numbers */
    const bool bytes = ls_job_rounds(ls_step_job(s)) && arriving != LS_ADD;
    const size_t each = bytes ? 1 : sizeof(float);
    const int call = ls_step_joint(s, LS_MESSAGES);
    const ls_exchange send = {.to = members[to.member].rank,
                              .send = from.memory,
                              .send_count = from.bytes / each,
                              .bytes = bytes,
                              .from = -1,
                              .inside = inside};
    const ls_exchange receive = {.to = -1,
                                 .from = members[from.member].rank,
                                 .receive = to.memory,
                                 .receive_count = to.bytes / each,
                                 .bytes = bytes,
                                 .add = arriving == LS_ADD,
                                 .inside = inside};
    append_end(s, "send", from.member, to.member, &send, call);
    append_end(s, arriving == LS_ADD ? "add" : "receive", to.member, from.member, &receive, call);
}
