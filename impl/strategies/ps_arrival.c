/* SPDX-License-Identifier: MIT */
/*
 * Parameter servers that do not wait for all workers. A worker's part is a step, described here; a
 * server is one operation, which serves requests as they arrive (../arrival/serve.c).
 *
 * Async and ssp: a gradient, the mean over its worker's slice, is applied when it arrives, and the
 * worker continues with the updated variables. So a run depends on the order of arrival alone.
 *
 * Backup workers: synchronous steps that do not wait for the last B of n workers (Chen et al. 2016,
 * "Revisiting Distributed Synchronous SGD"). When a worker requests the variables of its step, a
 * server answers whether it is late. A late worker skips this step and all others before the
 * newest. So step k is computed from variables k of all shards and batch k, or not at all; no
 * gradient is stale, and the number of updates is the number of steps.
 *
 * A worker sends a request to one server at a time, right before the messages, so that no server
 * waits for a worker that another one delays. A shard's gradient is pushed whole, once it is final;
 * with --clip once all are, since a worker scales them by the norm of its whole gradient.
 */
#include "impl/arrival/arrival_step.h"
#include "impl/strategies.h"

static void pull(ls_step *s, int worker, int server)
{
    ls_range range;
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++) {
        if (i == 0)
            ls_request(s, worker, server, LS_PS_PULL);
        ls_message(s, ls_parameters(s, worker, range), ls_parameters(s, server, range), LS_REPLACE);
    }
}

/* In a tail batch with fewer samples than workers, some workers have no gradient; with backup
 * workers, servers do not wait for them. */
static void push(ls_step *s, int worker, int server)
{
    const bool empty = !ls_sums(s, worker);
    ls_range range;
    if (!empty || !ls_step_job(s)->ps.backups)
        ls_request(s, worker, server, empty ? LS_PS_EMPTY : LS_PS_PUSH);
    for (size_t i = 0; !empty && ls_shard_range(s, server, i, &range); i++)
        ls_message(s, ls_gradient(s, server, 0, range), ls_gradient(s, worker, 0, range),
                   LS_REPLACE);
}

static void train(ls_step *s, int worker)
{
    const bool clips = ls_step_job(s)->update.clip > 0;
    ls_pushed part;
    for (int k = 0, server; (server = ls_server(s, k)) >= 0; k++)
        pull(s, worker, server);
    ls_forward(s, worker, ls_all(s));
    for (size_t i = 0; ls_pushed_range(s, i, &part); i++) {
        ls_backward(s, worker, part.range);
        if (part.last && !clips)
            push(s, worker, part.server);
    }
    ls_clip_gradients(s, worker);
    for (int k = 0, server; clips && (server = ls_server(s, k)) >= 0; k++)
        push(s, worker, server);
}

void ls_ps_arrival_build(ls_step *s)
{
    for (int k = 0, server; (server = ls_server(s, k)) >= 0; k++)
        ls_serve(s, server);
    for (int w = 0; w < ls_replicas(s); w++) {
        ls_unless_late(s, w, train);
        for (int k = 0, server; (server = ls_server(s, k)) >= 0; k++)
            ls_request(s, w, server, LS_PS_BYE);
    }
}
