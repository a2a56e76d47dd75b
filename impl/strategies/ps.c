/* SPDX-License-Identifier: MIT */
/*
 * ps: between-graph replication with parameter servers, which hold the variables, a shard each. A
 * worker pulls the variables; takes its part of the batch forward and backward; and pushes its
 * gradients, piece by piece, as they become final. A server adds up its shard's gradients and
 * updates the shard.
 *
 * Order of summation: fast mode ((g0 + g1) + g2) + ... by number of the worker; exact mode the rest
 * of the tree over the workers' finished subtrees (slice.h). Who is what and which ranges a server
 * holds: ps_layout.h. Servers that do not wait for all workers: ps_async.c, ps_backup.c.
 */
#include "impl/ps/ps_layout.h"
#include "impl/ps/ps_records.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

#include <string.h>

static void pull(ls_step *s, int server)
{
    ls_range range;
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++)
        for (int w = 0; w < ls_replicas(s); w++)
            ls_message(s, ls_parameters(s, w, range), ls_parameters(s, server, range), false);
}

/* Of each worker its sums; exact: each to a place of its own. */
static void push(ls_step *s, const ls_piece *p)
{
    const bool exact = ls_step_job(s)->exact;
    size_t arrived = 0;
    for (int w = 0; w < ls_replicas(s); w++)
        for (size_t sum = 0; sum < ls_sums(s, w); sum++, arrived++)
            ls_message(s, ls_gradient(s, p->server, exact ? arrived : 0, p->range),
                       ls_gradient(s, w, sum, p->range), !exact && arrived > 0);
    ls_add_arrived(s, p->server, p->range);
}

static void build_sync(ls_step *s)
{
    ls_piece piece;
    for (int k = 0; k < ls_servers(s); k++)
        pull(s, ls_server(s, k));
    for (int w = 0; w < ls_replicas(s); w++)
        ls_forward(s, w);
    for (size_t i = 0; ls_served_piece(s, i, &piece); i++) {
        for (int w = 0; w < ls_replicas(s); w++)
            ls_backward(s, w, piece.range);
        push(s, &piece);
        ls_update(s, piece.server, piece.range);
    }
    for (int w = 0; w < ls_replicas(s); w++)
        ls_end(s, w);
    for (int k = 0; k < ls_servers(s); k++)
        ls_end(s, ls_server(s, k));
}

static void build(ls_step *s)
{
    const ls_ps_options *ps = &ls_step_job(s)->ps;
    if (ps->backups)
        ls_ps_backup_build(s);
    else if (ls_ps_by_arrival(ps))
        ls_ps_async_build(s);
    else
        build_sync(s);
}

/* Servers are ranks, or in one process the one variable device. */
static ls_status check(const ls_outline *o)
{
    const bool device = strcmp(o->comm, "device") == 0;
    if (device && (o->ps_alone || o->ps_backups))
        return ls_ps_refuse_arrival(o->comm);
    if (strcmp(o->comm, "thread") != 0 && strcmp(o->comm, "mpi") != 0 && !device)
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "%s cannot send to one rank, as servers do; thread, mpi, device or auto",
                       o->comm);
    if (o->ranks == 1 && (o->ps_servers != 1 || o->ps_colocate))
        return ls_fail(LS_CODE_USAGE, "option", o->ps_colocate ? "--ps-colocate" : "--ps-servers",
                       "is of several ranks, and in one process the server is the variable device; "
                       "--ranks N or mpirun -n N works");
    if (o->exact && o->ps_alone)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-mode",
                       "async and ssp have no sum of all gradients that could be exact; --reduce "
                       "fast, or sync, works");
    if (o->exact && o->ps_backups)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "leaves gradients out, and the exact sum has all; --reduce fast, or 0, "
                       "works");
    if (o->ps_backups && o->ps_backups >= o->replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "%d of %d workers leave none to wait for; at most %d, or more workers, work",
                       o->ps_backups, o->replicas, o->replicas - 1);
    if (o->ranks > 1 && o->devices != 1)
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "is 1 for each rank of ps, not %zu; more ranks work", o->devices);
    if (o->ranks > 1 && o->ps_colocate && o->ps_servers > o->ranks)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-servers",
                       "%d servers are more than the %d ranks; at most as many work", o->ps_servers,
                       o->ranks);
    if (o->ranks > 1 && !o->ps_colocate && o->ps_servers >= o->ranks)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-servers",
                       "%d servers leave none of %d ranks to work; %d ranks or more, or "
                       "--ps-colocate, work",
                       o->ps_servers, o->ranks, o->ps_servers + 1);
    return LS_OK;
}

static void add(ls_traffic *sum, const ls_step *s, int worker, int server, ls_range range,
                uint64_t times)
{
    if (!ls_apart(s, worker, server))
        return;
    sum->messages_sent += times;
    sum->bytes_sent += times * range.count * sizeof(float);
}

/* Every worker that is not on the server's device: the ranges to it, and back its sums' pieces; a
 * whole shard's, where servers do not wait for all. */
static ls_traffic formula(const ls_step *s)
{
    const bool whole = ls_ps_by_arrival(&ls_step_job(s)->ps);
    ls_traffic sum = {0};
    ls_range range;
    ls_piece piece;
    for (int w = 0; w < ls_replicas(s); w++) {
        for (int k = 0; k < ls_servers(s); k++)
            for (size_t i = 0; ls_shard_range(s, ls_server(s, k), i, &range); i++)
                add(&sum, s, w, ls_server(s, k), range, 1 + (whole ? ls_sums(s, w) : 0));
        for (size_t i = 0; !whole && ls_served_piece(s, i, &piece); i++)
            add(&sum, s, w, piece.server, piece.range, ls_sums(s, w));
    }
    return sum;
}

const ls_strategy ls_strategy_ps = {
    .name = "ps",
    .help = "between-graph: servers hold the variables, workers pull them and push gradients",
    .equivalent = true,
    .variables = LS_VARIABLES_SERVED,
    .replicated = true,
    .check = check,
    .build = build,
    .formula = formula,
    .sum = ls_sum_in_order,
};
