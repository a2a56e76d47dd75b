/* SPDX-License-Identifier: MIT */
/*
 * Backup workers: synchronous steps that do not wait for the last B of n workers (Chen et al. 2016,
 * "Revisiting Distributed Synchronous SGD"). A worker's part is a step, said here; a server is one
 * operation, which takes the gradients that come first (ps_serve_backup.c).
 *
 * A worker asks each server for the variables of its step, and is told where it is too late. It
 * then passes over the whole step, and all steps up to the newest: it works for step k from
 * variables k of all shards, and their batch k, or not at all. So no gradient is stale, and
 * training ends after as many updates as there are steps.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

static void pull(ls_step *s, int worker, int server)
{
    ls_range range;
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++) {
        if (i == 0)
            ls_ask(s, worker, server);
        ls_message(s, ls_parameters(s, worker, range), ls_parameters(s, server, range), false);
    }
}

/* Who has no sample has no gradient, which nobody waits for. */
static void push(ls_step *s, int worker, int server)
{
    ls_range range;
    if (!ls_sums(s, worker))
        return;
    ls_say(s, worker, server, LS_PS_PUSH);
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++)
        ls_message(s, ls_gradient(s, server, 0, range), ls_gradient(s, worker, 0, range), false);
}

void ls_ps_backup_build(ls_step *s)
{
    ls_piece piece;
    for (int k = 0; k < ls_servers(s); k++)
        ls_serve(s, ls_server(s, k));
    for (int w = 0; w < ls_replicas(s); w++) {
        ls_begin_if_in_time(s, w);
        for (int k = 0; k < ls_servers(s); k++)
            pull(s, w, ls_server(s, k));
        ls_forward(s, w);
        for (size_t i = 0; ls_served_piece(s, i, &piece); i++) {
            ls_backward(s, w, piece.range);
            if (piece.last)
                push(s, w, piece.server);
        }
        ls_end_if_in_time(s, w);
        ls_end(s, w);
        for (int k = 0; k < ls_servers(s); k++)
            ls_say(s, w, ls_server(s, k), LS_PS_BYE);
    }
}
