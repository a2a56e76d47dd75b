/* SPDX-License-Identifier: MIT */
/*
 * ps: between-graph replication with parameter servers, which own shards of the variables. A worker
 * pulls the variables, runs forward and backward over its slice, and pushes each range of gradients
 * as soon as it is final. A server sums the gradients of its shard and updates it.
 *
 * Reduction order: in fast mode ((g0 + g1) + g2) + ... by worker number; in exact mode the rest of
 * the tree over the workers' finished subtrees (slice.h). Ranks and shards: ps_layout.h. Servers
 * that do not wait for all workers: ps_arrival.c.
 */
#include "impl/ps/ps_layout.h"
#include "impl/ps/ps_step.h"
#include "impl/strategies.h"

static void pull(ls_step *s, int server)
{
    ls_range range;
    for (size_t i = 0; ls_shard_range(s, server, i, &range); i++)
        for (int w = 0; w < ls_replicas(s); w++)
            ls_message(s, ls_parameters(s, w, range), ls_parameters(s, server, range), LS_REPLACE);
}

/* Each worker pushes its sums; in exact mode, each sum has a buffer on the server. */
static void push(ls_step *s, const ls_pushed *p)
{
    const bool exact = ls_step_job(s)->exact.on;
    size_t arrived = 0;
    for (int w = 0; w < ls_replicas(s); w++)
        for (size_t sum = 0; sum < ls_sums(s, w); sum++, arrived++)
            ls_message(s, ls_gradient(s, p->server, exact ? arrived : 0, p->range),
                       ls_gradient(s, w, sum, p->range), exact || !arrived ? LS_REPLACE : LS_ADD);
    if (exact)
        ls_add_arrived(s, p->server, p->range);
}

/* A range is updated as soon as its gradients have arrived; with --clip, when all have. */
static void build_sync(ls_step *s)
{
    const bool clips = ls_step_job(s)->update.clip > 0;
    ls_pushed part;
    for (int k = 0, server; (server = ls_server(s, k)) >= 0; k++)
        pull(s, server);
    for (int w = 0; w < ls_replicas(s); w++)
        ls_forward(s, w, ls_all(s));
    for (size_t i = 0; ls_pushed_range(s, i, &part); i++) {
        for (int w = 0; w < ls_replicas(s); w++)
            ls_backward(s, w, part.range);
        push(s, &part);
        if (!clips)
            ls_update(s, part.server, part.range);
    }
    ls_clip_gradients(s, LS_TOGETHER);
    for (size_t i = 0; clips && ls_pushed_range(s, i, &part); i++)
        ls_update(s, part.server, part.range);
}

static void build(ls_step *s)
{
    if (ls_ps_by_arrival(&ls_step_job(s)->ps))
        ls_ps_arrival_build(s);
    else
        build_sync(s);
}

static void add(ls_traffic *sum, const ls_step *s, int worker, int server, ls_range range,
                uint64_t times)
{
    if (ls_cross_devices(s, worker, server))
        ls_traffic_add(sum, (ls_traffic){range.count * sizeof(float), 1}, times);
}

/* For each worker on another device than the server: sends it the ranges, and its sums back.
 * Servers that do not wait for all workers receive a shard's gradient as a whole. */
static ls_traffic formula(const ls_step *s)
{
    const bool whole = ls_ps_by_arrival(&ls_step_job(s)->ps);
    ls_traffic sum = {0};
    ls_range range;
    ls_pushed part;
    for (int w = 0; w < ls_replicas(s); w++) {
        for (int k = 0, server; (server = ls_server(s, k)) >= 0; k++)
            for (size_t i = 0; ls_shard_range(s, server, i, &range); i++)
                add(&sum, s, w, server, range, 1 + (whole ? ls_sums(s, w) : 0));
        for (size_t i = 0; !whole && ls_pushed_range(s, i, &part); i++)
            add(&sum, s, w, part.server, part.range, ls_sums(s, w));
    }
    return sum;
}

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    (void)values;
    if (option == &ls_option_variable_device) /* the server in one process */
        return ranks == 1;
    return ranks > 1 || (option != &ls_option_ps_servers && option != &ls_option_ps_colocate &&
                         option != &ls_option_ps_shard);
}

static void resolve(ls_job *job, int ranks)
{
    const ls_declared_values *v = &job->options;
    job->ps = (ls_ps_options){.ranks = ranks,
                              .mode = (ls_ps_mode)ls_declared_number(v, &ls_option_ps_mode),
                              .staleness = (int)ls_declared_number(v, &ls_option_ps_staleness),
                              .backups = (int)ls_declared_number(v, &ls_option_ps_backup_workers),
                              .servers = (int)ls_declared_number(v, &ls_option_ps_servers),
                              .colocate = ls_declared_number(v, &ls_option_ps_colocate),
                              .by_variable = ls_declared_number(v, &ls_option_ps_shard)};
    job->update.own_mean = job->ps.mode != LS_PS_SYNC; /* gradients are applied one by one */
}

const ls_strategy ls_strategy_ps = {
    .name = "ps",
    .help = "between-graph: servers hold the variables, workers pull them and push gradients",
    .spreads = {.gradients.on[LS_MEMBER] = LS_PARTIAL, .parameters.on[LS_MEMBER] = LS_SERVED},
    .options =
        (const ls_declared_option *const[]){&ls_option_ps_mode, &ls_option_ps_staleness,
                                            &ls_option_ps_servers, &ls_option_ps_colocate,
                                            &ls_option_ps_shard, &ls_option_ps_backup_workers,
                                            &ls_option_variable_device, NULL},
    .has = has,
    .resolve = resolve,
    .build = build,
    .witness.formula = formula,
    .witness.sum = ls_sum_in_order,
};
