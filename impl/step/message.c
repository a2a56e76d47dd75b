/* SPDX-License-Identifier: MIT */
/* Messages between members, and the verbs of servers; see step.h. */
#include "common/base/grow.h"
#include "impl/step/served.h"

#include <stdlib.h>

static const ls_range nothing = {0, 0};

/* ---- Servers and their ranges ---------------------------------------------------------------- */

static const ls_ps_layout *layout_of(const ls_step *s)
{
    return &s->run->served->layout;
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
    return &s->run->served->servers[number_of(s, server)];
}

bool ls_shard_range(const ls_step *s, int server, size_t i, ls_range *out)
{
    const ls_ps_layout *l = layout_of(s);
    for (size_t r = 0; r < l->range_count; r++) {
        if (l->ranges[r].server != number_of(s, server) || i-- > 0)
            continue;
        *out = (ls_range){l->ranges[r].first, l->ranges[r].count};
        return true;
    }
    return false;
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

size_t ls_step_place(const ls_step *s, int member, ls_range range)
{
    const ls_ps_layout *l = s->run->served ? layout_of(s) : NULL;
    for (size_t i = 0; l && member >= l->workers && i < l->range_count; i++) {
        const ls_ps_range *held = &l->ranges[i];
        if (held->server == number_of(s, member) && range.first >= held->first &&
            range.first < held->first + held->count)
            return held->at + range.first - held->first;
    }
    return range.first;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* A server's buffer for sum number `sum`, counted over all workers; both batch sizes share it. */
static void *arrival(ls_step *s, int server, size_t sum)
{
    ls_served_server *at = server_at(s, server);
    ls_replica *r = ls_step_replica(s, server);
    while (sum > at->arrival_count && !s->status) {
        s->status = ls_grow("step", &at->arrivals, at->arrival_count, sizeof *at->arrivals);
        if (!s->status)
            s->status =
                ls_replica_take(r, "arrivals", LS_MEMORY_COMMUNICATION, r->elements * sizeof(float),
                                &at->arrivals[at->arrival_count]);
        at->arrival_count += !s->status;
    }
    return s->status ? NULL : sum ? at->arrivals[sum - 1] : r->gradients;
}

ls_span ls_gradient(ls_step *s, int member, size_t sum, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    ls_span span = {member, NULL, range.count * sizeof(float)};
    float *memory = NULL;
    if (r && s->run->served && member >= s->run->count)
        memory = arrival(s, member, sum);
    else if (r)
        memory = ls_slice_gradients(ls_step_member(s, member)->slice[s->batch_kind], sum);
    if (memory)
        span.memory = memory + ls_step_place(s, member, range);
    return span;
}

void ls_add_arrived(ls_step *s, int server, ls_range range)
{
    const int workers = layout_of(s)->workers;
    size_t count = 0;
    if (s->status || !ls_step_job(s)->exact || !ls_step_replica(s, server))
        return;
    for (int w = 0; w < workers; w++)
        count += ls_sums(s, w);
    ls_span *spans;
    s->status = ls_allocate("step", &spans, count, sizeof *spans);
    for (size_t i = 0; i < count && spans; i++)
        spans[i] = ls_gradient(s, server, i, range);
    ls_step_sum(s, server, range, spans, workers, spans ? spans[0].memory : NULL);
    free(spans);
}

/* ---- Messages -------------------------------------------------------------------------------- */

enum { MOST = 2 * LS_JOB_REPLICAS }; /* most members with messages: workers and servers */

static ls_status open_ends(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    const int *here = run->here, count = run->here_count;
    ls_comm *controls[MOST] = {0};
    LS_TRY(ls_held_connect(run, here, count, run->served, run->comms));
    if (run->served && ls_ps_by_arrival(&job->ps)) {
        if (!run->comms[0]->backend->receive_any)
            return ls_ps_refuse_arrival(run->comms[0]->backend->name);
        LS_TRY(ls_held_connect(run, here, count, false, controls));
    }
    for (int i = 0; i < count; i++) {
        ls_message_end *end = &run->ends[here[i]];
        *end = (ls_message_end){.comm = run->comms[i], .control = controls[i]};
        LS_TRY(ls_lane_open(run, here[i], run->served ? "communication" : "transfer",
                            !run->served || (job->overlap && here[i] < run->count), &end->lane));
        if (end->control)
            LS_TRY(ls_served_open_talk(run, here[i]));
    }
    return LS_OK;
}

ls_status ls_ends_open(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    return run->served || run->places > (int)job->device_count
               ? ls_comm_agree(job->comm, open_ends(run))
               : LS_OK;
}

bool ls_apart(const ls_step *s, int a, int b)
{
    const ls_replica *x = ls_step_replica(s, a), *y = ls_step_replica(s, b);
    return ls_step_member(s, a)->process != ls_step_member(s, b)->process ||
           (x && y && x->device != y->device);
}

/* Appends one end; none in another process, or of a server that serves requests as they arrive. */
static void say_end(ls_step *s, const char *verb, int member, int peer, const ls_exchange *exchange,
                    int call)
{
    const ls_stepped *run = s->run;
    const ls_message_end *end = &run->ends[member];
    ls_op *op = NULL;
    if (s->status || !ls_step_replica(s, member) || (end->control && member >= run->count))
        return;
    if (!end->comm) {
        ls_step_fail(s, ls_fail(LS_CODE_USAGE, "strategy", run->base.strategy->name,
                                "sends a message between members of two processes, which only "
                                "servers and places of a replica over several processes can; "
                                "ls_all_reduce goes between all"));
        return;
    }
    const ls_status status = ls_comm_exchange(end->comm, exchange, &op);
    if (!status && !run->served) {
        op->use = LS_TIME_COMMUNICATION;
        s->copied.bytes_sent += exchange->send_count * sizeof(float);
        s->copied.messages_sent += exchange->to >= 0;
    }
    ls_task *task = ls_task_of_op(s, verb, end->lane, nothing, op, status);
    if (!task)
        return;
    task->call = call;
    task->ends = run->comms;
    task->rank = end->comm->rank;
    task->peer = peer;
    task->sent = exchange->send_count;
    task->received = exchange->receive_count;
}

/* A message within a process: a copy by the sender. What is to be added arrives in memory of its
 * own, and the receiver adds it. */
static void pass_on(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    ls_span there = to;
    if (arriving == LS_ADD)
        ls_step_fail(s, ls_replica_take(ls_step_replica(s, to.member), "staging",
                                        LS_MEMORY_COMMUNICATION, to.bytes, &there.memory));
    if (s->status)
        return;
    ls_send(s, there, from);
    if (arriving == LS_ADD)
        ls_step_add(s, "add", to, there);
}

void ls_message(ls_step *s, ls_span to, ls_span from, ls_arriving arriving)
{
    const ls_stepped *run = s->run;
    const bool here = ls_step_replica(s, to.member) && ls_step_replica(s, from.member);
    const bool inside = run->served && !ls_apart(s, to.member, from.member);
    const int call = run->comms[0] && ls_comm_is_joint(run->comms[0]) ? s->calls++ : -1;
    const ls_exchange send = {.to = ls_members_rank(run, to.member),
                              .send = from.memory,
                              .send_count = from.bytes / sizeof(float),
                              .from = -1,
                              .inside = inside};
    const ls_exchange receive = {.to = -1,
                                 .from = ls_members_rank(run, from.member),
                                 .receive = to.memory,
                                 .receive_count = to.bytes / sizeof(float),
                                 .add = arriving == LS_ADD,
                                 .inside = inside};
    if (!run->served && here) {
        pass_on(s, to, from, arriving);
        return;
    }
    say_end(s, "send", from.member, to.member, &send, call);
    say_end(s, arriving == LS_ADD ? "add" : "receive", to.member, from.member, &receive, call);
}

/* ---- Servers that serve requests as they arrive ---------------------------------------------- */

/* Appended once, not for the tail. */
void ls_serve(ls_step *s, int server)
{
    ls_op *op = NULL;
    if (s->status || !ls_step_replica(s, server) || s->batch_kind != LS_FULL)
        return;
    const ls_status status = ls_ps_serving_op(&server_at(s, server)->serving, &op);
    ls_task_of_op(&s->run->step[LS_BEFORE], "serve", server, nothing, op, status);
}

static bool speaks(const ls_step *s, int worker)
{
    return !s->status && ls_step_replica(s, worker);
}

/* A push request depends on the gradients that it announces: the server waits for nothing else. */
static void touch_gradients(ls_step *s, int worker, int server)
{
    ls_range range;
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++) {
        const ls_span span = ls_gradient(s, worker, 0, range);
        ls_task_touch(s, span.memory, span.bytes, false);
    }
}

/* Sets the elements of the messages that follow a request: the whole shard. */
static void announce(const ls_step *s, ls_task *task, int server, bool sends)
{
    if (!task)
        return;
    task->peer = server;
    task->announces = true;
    *(sends ? &task->sent : &task->received) = layout_of(s)->elements[number_of(s, server)];
}

void ls_request(ls_step *s, int worker, int server, ls_ps_kind kind)
{
    ls_op_list ops = {0};
    if (!speaks(s, worker) || (kind == LS_PS_BYE && s->batch_kind != LS_FULL))
        return;
    const ls_status status =
        ls_ps_say(&s->run->served->speakers[worker], ls_members_rank(s->run, server), kind, &ops);
    ls_step *in = kind == LS_PS_BYE ? &s->run->step[LS_AFTER] : s;
    ls_step_fail(in, status);
    const bool asks = kind == LS_PS_PULL && ls_step_job(s)->ps.backups;
    ls_task *task = ls_task_begin(in, asks ? "ask" : "say", s->run->ends[worker].lane, nothing);
    if (kind == LS_PS_PULL || kind == LS_PS_PUSH)
        announce(s, task, server, kind == LS_PS_PUSH);
    ls_task_take_ops(in, &ops);
    if (kind == LS_PS_PUSH) /* the gradients must be final */
        touch_gradients(in, worker, server);
    ls_task_end(in);
}

void ls_unless_late(ls_step *s, int worker, void (*part)(ls_step *s, int worker))
{
    ls_op_list ops = {0};
    if (speaks(s, worker) && ls_step_job(s)->ps.backups) {
        const ls_status status = ls_ps_begin(&s->run->served->speakers[worker], &ops);
        ls_task_of(s, "begin", s->run->ends[worker].lane, nothing, &ops, status);
        s->pass[worker] = &s->run->served->speakers[worker].late;
    }
    part(s, worker);
    s->pass[worker] = NULL;
}
