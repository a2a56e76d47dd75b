/* SPDX-License-Identifier: MIT */
/* Messages between members, and the verbs of servers; see step.h. */
#include "common/base/grow.h"
#include "impl/step/build.h"
#include "impl/step/served.h"

#include <stdlib.h>

/* ---- Servers and their ranges ---------------------------------------------------------------- */

static const ls_ps_layout *layout_of(const ls_step *s)
{
    return &s->plan->servers;
}

int ls_servers(const ls_step *s)
{
    return layout_of(s)->servers;
}

int ls_server(const ls_step *s, int k)
{
    return layout_of(s)->workers + k;
}

static int number_of(const ls_step *s, int server)
{
    return server - layout_of(s)->workers;
}

static ls_served_server *server_at(const ls_step *s, int server)
{
    return &s->resources->served->servers[number_of(s, server)];
}

bool ls_shard_range(const ls_step *s, int server, size_t i, ls_range *out)
{
    return ls_ps_layout_range(layout_of(s), number_of(s, server), i, out);
}

bool ls_pushed_range(const ls_step *s, size_t i, ls_pushed *out)
{
    const ls_ps_layout *l = layout_of(s);
    if (i >= l->pushed_count)
        return false;
    const ls_ps_range *range = &l->pushed[i];
    *out = (ls_pushed){{range->first, range->count}, ls_server(s, range->server), true};
    while (++i < l->pushed_count && out->last)
        out->last = l->pushed[i].server != range->server;
    return true;
}

size_t ls_step_offset(const ls_step *s, int member, ls_range range)
{
    const ls_ps_layout *l = layout_of(s);
    for (size_t i = 0; l->servers && member >= l->workers && i < l->range_count; i++) {
        const ls_ps_range *its = &l->ranges[i];
        if (its->server == number_of(s, member) && range.first >= its->first &&
            range.first < its->first + its->count)
            return its->at + range.first - its->first;
    }
    return range.first;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* A server's buffer for sum number `sum`, counted over all workers; both batch sizes share it. */
static void *arrival(ls_step *s, int server, size_t sum)
{
    ls_served_server *at = server_at(s, server);
    ls_replica *r = ls_step_replica(s, server);
    while (sum > at->arrival_count && !s->program->status) {
        s->program->status =
            ls_grow("step", &at->arrivals, at->arrival_count, sizeof *at->arrivals);
        if (!s->program->status)
            s->program->status =
                ls_replica_take(r, "arrivals", LS_MEMORY_COMMUNICATION, r->elements * sizeof(float),
                                &at->arrivals[at->arrival_count]);
        at->arrival_count += !s->program->status;
    }
    return s->program->status ? NULL : sum ? at->arrivals[sum - 1] : r->gradients;
}

ls_span ls_gradient(ls_step *s, int member, size_t sum, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    ls_span span = {member, NULL, range.count * sizeof(float)};
    float *memory = NULL;
    if (r && s->plan->servers.servers && member >= s->plan->mesh.replicas)
        memory = arrival(s, member, sum);
    else if (r)
        memory = ls_slice_gradients(ls_step_member(s, member)->slice[s->batch_kind], sum);
    if (memory)
        span.memory = memory + ls_step_offset(s, member, range);
    return span;
}

void ls_add_arrived(ls_step *s, int server, ls_range range)
{
    if (!ls_step_can(s, s->plan->servers.servers > 0, "ls_add_arrived",
                     "has no servers: the strategy's variables are not LS_VARIABLES_SERVED"))
        return;
    const int workers = layout_of(s)->workers;
    size_t count = 0;
    if (s->program->status || !ls_step_job(s)->exact || !ls_step_replica(s, server))
        return;
    for (int w = 0; w < workers; w++)
        count += ls_sums(s, w);
    ls_span *spans;
    s->program->status = ls_allocate("step", &spans, count, sizeof *spans);
    for (size_t i = 0; i < count && spans; i++)
        spans[i] = ls_gradient(s, server, i, range);
    ls_step_sum(s, server, range, spans, workers, spans ? spans[0].memory : NULL);
    free(spans);
}

/* ---- Messages -------------------------------------------------------------------------------- */

enum { MOST = 2 * LS_JOB_REPLICAS }; /* most members with messages: workers and servers */

static ls_status open_ends(ls_resources *r)
{
    const ls_step_plan *plan = r->plan;
    const ls_job *job = plan->job;
    const ls_ends *ends = &r->ends[LS_MESSAGES];
    const int *here = plan->here, count = plan->here_count;
    const bool arrival = r->served && ls_ps_by_arrival(&job->ps);
    ls_comm *controls[MOST] = {0};
    LS_TRY(ls_connect(r, here, count, r->served ? LS_COUNTED : LS_UNCOUNTED, ends->comms));
    if (arrival && !ends->comms[0]->backend->receive_any)
        return ls_ps_refuse_arrival(ends->comms[0]->backend->name);
    if (arrival)
        LS_TRY(ls_connect(r, here, count, LS_UNCOUNTED, controls));
    for (int i = 0; i < count; i++) {
        ends->of[here[i]] = (ls_end){.comm = ends->comms[i], .control = controls[i]};
        if (arrival)
            LS_TRY(ls_served_open_requests(r, here[i]));
    }
    return LS_OK;
}

ls_status ls_ends_open(ls_resources *r)
{
    return ls_step_plan_has_ends(r->plan) ? ls_comm_agree(r->plan->job->comm, open_ends(r)) : LS_OK;
}

bool ls_apart(const ls_step *s, int a, int b)
{
    const ls_planned_member *x = &s->plan->members[a], *y = &s->plan->members[b];
    return x->process != y->process || x->device != y->device;
}

/* Appends one end; none in another process, or of a server that serves requests as they arrive. */
static void append_end(ls_step *s, const char *verb, int member, int peer,
                       const ls_exchange *exchange, int call)
{
    const ls_channel *channel = &s->plan->lanes.channels[LS_MESSAGES];
    const bool served = s->plan->servers.servers;
    ls_op *op = NULL;
    if (s->program->status || !ls_step_replica(s, member) || member >= channel->arrivals)
        return;
    if (!ls_step_can(
            s, ls_step_plan_has_end(s->plan, member), "ls_message",
            "sends a message between members of two processes, which only servers, members "
            "of one divided replica and replicas with peers can; use ls_give"))
        return;
    const ls_status status =
        ls_comm_exchange(s->resources->ends[LS_MESSAGES].of[member].comm, exchange, &op);
    if (!status && !served)
        op->use = LS_TIME_COMMUNICATION;
    ls_task *task = ls_task_of_op(s->program, verb, channel->lane[member], ls_no_range, op, status);
    if (!task)
        return;
    task->call = call;
    task->end = (ls_task_end){.channel = LS_MESSAGES,
                              .peer = peer,
                              .sent = exchange->send_count,
                              .received = exchange->receive_count,
                              .counted = !served};
}

/* A message within a process: a copy by the sender. What is to be added arrives in memory of its
 * own, and the receiver adds it. */
static void copy_message(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    ls_span there = to;
    if (arriving == LS_ADD)
        ls_step_fail(s, ls_replica_take(ls_step_replica(s, to.member), "staging",
                                        LS_MEMORY_COMMUNICATION, to.bytes, &there.memory));
    if (s->program->status)
        return;
    ls_send(s, there, from);
    if (arriving == LS_ADD)
        ls_step_add(s, "add", to, there);
}

void ls_message(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    const ls_planned_member *members = s->plan->members;
    const ls_comm *first = s->resources->ends[LS_MESSAGES].comms[0];
    const bool here = ls_step_replica(s, to.member) && ls_step_replica(s, from.member);
    const bool served = s->plan->servers.servers;
    const bool inside = served && !ls_apart(s, to.member, from.member);
    if (!served && here) {
        copy_message(s, to, from, arriving);
        return;
    }
    const int call = first && ls_comm_is_joint(first) ? s->program->calls++ : -1;
    const ls_exchange send = {.to = members[to.member].rank,
                              .send = from.memory,
                              .send_count = from.bytes / sizeof(float),
                              .from = -1,
                              .inside = inside};
    const ls_exchange receive = {.to = -1,
                                 .from = members[from.member].rank,
                                 .receive = to.memory,
                                 .receive_count = to.bytes / sizeof(float),
                                 .add = arriving == LS_ADD,
                                 .inside = inside};
    append_end(s, "send", from.member, to.member, &send, call);
    append_end(s, arriving == LS_ADD ? "add" : "receive", to.member, from.member, &receive, call);
}

/* ---- Servers that serve requests as they arrive ---------------------------------------------- */

static bool can_request(ls_step *s, const char *verb)
{
    const ls_channel *c = &s->plan->lanes.channels[LS_MESSAGES];
    return ls_step_can(s, c->arrivals < c->members, verb,
                       "has no server that serves requests as they arrive (ls_ps_by_arrival)");
}

/* Appended once, not for the tail. */
void ls_serve(ls_step *s, int server)
{
    ls_op *op = NULL;
    if (!can_request(s, "ls_serve") || !ls_step_replica(s, server) || s->batch_kind != LS_FULL)
        return;
    const ls_status status = ls_ps_serving_op(&server_at(s, server)->serving, &op);
    ls_task_of_op(s->before, "serve requests: send, add, update", server, ls_no_range, op, status);
}

/* Sets the elements of the messages that follow a request: the whole shard. */
static void announce(const ls_step *s, ls_task *task, int server, bool sends)
{
    const size_t elements = layout_of(s)->elements[number_of(s, server)];
    if (task)
        task->end = (ls_task_end){.channel = LS_MESSAGES,
                                  .peer = server,
                                  .sent = sends ? elements : 0,
                                  .received = sends ? 0 : elements,
                                  .announces = true};
}

void ls_request(ls_step *s, int worker, int server, ls_ps_kind kind)
{
    ls_op_list ops = {0};
    const int lane = s->plan->lanes.channels[LS_MESSAGES].lane[worker];
    if (!can_request(s, "ls_request") || !ls_step_replica(s, worker) ||
        (kind == LS_PS_BYE && s->batch_kind != LS_FULL))
        return;
    const ls_status status = ls_ps_request(&s->resources->served->clients[worker],
                                           s->plan->members[server].rank, kind, &ops);
    ls_step_program *in = kind == LS_PS_BYE ? s->after : s->program;
    ls_step_program_fail(in, status);
    const bool asks = kind == LS_PS_PULL && ls_step_job(s)->ps.backups;
    ls_task *task = ls_task_begin(in, asks ? "ask" : "request", lane, ls_no_range);
    if (kind == LS_PS_PULL || kind == LS_PS_PUSH)
        announce(s, task, server, kind == LS_PS_PUSH);
    ls_task_take_ops(in, &ops);
    if (kind == LS_PS_PUSH) {
        /* it depends on the gradients that it announces: the server waits for nothing else */
        ls_range range;
        for (size_t i = 0; ls_shard_range(s, server, i, &range); i++) {
            const ls_span span = ls_gradient(s, worker, 0, range);
            ls_task_touch(s->program, span.memory, span.bytes, LS_READS);
        }
    }
    ls_task_finish(in);
}

void ls_unless_late(ls_step *s, int worker, void (*part)(ls_step *s, int worker))
{
    ls_op_list ops = {0};
    if (can_request(s, "ls_unless_late") && ls_step_replica(s, worker) &&
        ls_step_job(s)->ps.backups) {
        ls_ps_client *client = &s->resources->served->clients[worker];
        const int lane = s->plan->lanes.channels[LS_MESSAGES].lane[worker];
        const ls_status status = ls_ps_begin(client, &ops);
        ls_task_of(s->program, "begin", lane, ls_no_range, &ops, status);
        s->program->skip = &client->late;
    }
    part(s, worker);
    s->program->skip = NULL;
}
