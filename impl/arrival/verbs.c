/* SPDX-License-Identifier: MIT */
/* The verbs of servers that serve requests as they arrive; see arrival_step.h. */
#include "impl/arrival/arrival_step.h"
#include "impl/ps/served.h"
#include "impl/step/verbs/build.h"

static bool can_request(ls_step *s, const char *verb)
{
    const ls_channel *c = &s->plan->lanes.channels[LS_MESSAGES];
    return ls_step_can(s, c->arrivals < c->members, verb,
                       "cannot be called in this step, since no server serves requests as they "
                       "arrive; call it only if ls_ps_by_arrival returns true");
}

/* Appended once, not for the tail. */
void ls_serve(ls_step *s, int server)
{
    ls_op *op = NULL;
    if (!can_request(s, "ls_serve") || !ls_step_replica(s, server) || s->batch_kind != LS_FULL)
        return;
    ls_served_server *servers = s->resources->served->servers;
    const ls_status status =
        ls_ps_serving_op(&servers[server - s->plan->placed.workers].serving, &op);
    ls_task_of_op(s->before, "serve requests: send, add, update", server, ls_no_range, op, status);
}

/* Sets the elements of the messages that follow a request: the whole shard. */
static void announce(const ls_step *s, ls_task *task, int server, bool sends)
{
    const size_t elements = s->plan->placed.elements[server - s->plan->placed.workers];
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
    const ls_status status = ls_ps_request(s->resources->served->clients[worker],
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
        ls_ps_client *client = s->resources->served->clients[worker];
        const int lane = s->plan->lanes.channels[LS_MESSAGES].lane[worker];
        const ls_status status = ls_ps_begin(client, &ops);
        ls_task_of(s->program, "begin", lane, ls_no_range, &ops, status);
        s->program->skip = &client->late;
    }
    part(s, worker);
    s->program->skip = NULL;
}
