/* SPDX-License-Identifier: MIT */
/* Roles of ranks, and shards of servers; see ps_layout.h. */
#include "impl/ps/ps_layout.h"

#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "impl/buckets.h"

#include <stdlib.h>

int ls_ps_worker_on(const ls_job *job, int index)
{
    const int rank = job->ranks.comm ? job->ranks.comm->rank : index;
    if (job->ps.ranks == 1 || job->ps.colocate)
        return rank;
    return rank < job->ps.servers ? -1 : rank - job->ps.servers;
}

ls_status ls_ps_refuse_arrival(const char *comm)
{
    return ls_fail(LS_CODE_USAGE, "option", "--comm",
                   "a server that does not wait for all workers must receive from whichever sends "
                   "first, which '%s' cannot do; use --ps-mode sync --ps-backup-workers 0, or CPU "
                   "devices with --comm auto",
                   comm);
}

/* ---- Members -------------------------------------------------------------------------------- */

ls_ps_seat ls_ps_seat_of(const ls_job *job, const ls_ps_layout *l, int member)
{
    const bool serves = member >= l->workers, all_work = job->ps.ranks == 1 || job->ps.colocate;
    /* in one process, the number of the member's device */
    const int host = serves ? member - l->workers : member + (all_work ? 0 : l->servers);
    ls_ps_seat seat = {.process = job->ranks.comm ? host : 0};
    if (serves) /* workers of earlier ranks precede it */
        seat.rank = job->ps.colocate ? 2 * host : host;
    else
        seat.rank = member + (host < l->servers ? host + 1 : l->servers);
    if (seat.process == ls_job_process(job)) /* a worker may be on the variable device, too */
        seat.device = serves && job->ps.ranks == 1 ? job->variable_device
                                                   : job->devices[job->ranks.comm ? 0 : host];
    return seat;
}

bool ls_ps_same_device(const ls_job *job, const ls_ps_layout *l, int server, int worker)
{
    const ls_ps_seat a = ls_ps_seat_of(job, l, l->workers + server);
    const ls_ps_seat b = ls_ps_seat_of(job, l, worker);
    return a.process == b.process && a.device == b.device;
}

/* ---- Shards --------------------------------------------------------------------------------- */

static void add_range(ls_ps_layout *l, int server, ls_range range)
{
    ls_ps_range *last = l->range_count ? &l->ranges[l->range_count - 1] : NULL;
    if (!range.count)
        return;
    if (last && last->server == server && last->range.first + last->range.count == range.first)
        last->range.count += range.count;
    else
        l->ranges[l->range_count++] = (ls_ps_range){server, range, l->elements[server]};
    l->elements[server] += range.count;
}

/* As one bucket is cut. */
static ls_status shard_by_bytes(const ls_job *job, ls_ps_layout *l)
{
    const ls_graph *graph = job->model->graph;
    ls_closing(ls_buckets_close) ls_buckets all;
    const ls_bucketing how = {.bytes = SIZE_MAX, .block = ls_job_block(job)};
    LS_TRY(ls_buckets_open(graph, graph->variables.elements, how, &all));
    for (int s = 0; s < l->servers && all.count; s++)
        add_range(l, s, ls_bucket_share(&all, 0, s, l->servers));
    return LS_OK;
}

/* Greedy: assigns the largest remaining variable to the server with the fewest elements, in a tie
 * the first. Then adds ranges in the order of the flat buffer. */
static ls_status shard_by_variable(const ls_variables *variables, ls_ps_layout *l)
{
    ls_auto size_t *held = NULL;
    ls_auto int *server = NULL;
    LS_TRY(ls_allocate("ps", &held, (size_t)l->servers, sizeof *held));
    LS_TRY(ls_allocate("ps", &server, variables->count, sizeof *server));
    for (size_t i = 0; i < variables->count; i++)
        server[i] = -1;
    for (size_t placed = 0; placed < variables->count; placed++) {
        size_t next = variables->count;
        int least = 0;
        for (size_t i = variables->count; i-- > 0;)
            if (server[i] < 0 && (next == variables->count ||
                                  variables->items[i].count >= variables->items[next].count))
                next = i;
        for (int s = 1; s < l->servers; s++)
            least = held[s] < held[least] ? s : least;
        server[next] = least;
        held[least] += variables->items[next].count;
    }
    for (size_t i = 0; i < variables->count; i++)
        add_range(l, server[i], (ls_range){variables->items[i].offset, variables->items[i].count});
    return LS_OK;
}

/* Splits all ranges at bucket boundaries. Backward makes gradients final bucket by bucket. */
static ls_status cut_by_buckets(const ls_job *job, ls_ps_layout *l)
{
    const ls_graph *graph = job->model->graph;
    ls_closing(ls_buckets_close) ls_buckets buckets;
    LS_TRY(ls_buckets_open(graph, graph->variables.elements,
                           (ls_bucketing){.bytes = job->exchange.bucket_bytes}, &buckets));
    LS_TRY(ls_allocate("ps", &l->pushed, l->range_count * buckets.count, sizeof *l->pushed));
    for (size_t i = 0; i < l->range_count * buckets.count; i++) {
        const ls_ps_range *r = &l->ranges[i % l->range_count];
        const ls_range both = ls_range_common(buckets.items[i / l->range_count], r->range);
        if (both.count)
            l->pushed[l->pushed_count++] =
                (ls_ps_range){r->server, both, r->at + both.first - r->range.first};
    }
    return LS_OK;
}

ls_status ls_ps_layout_open(const ls_job *job, ls_ps_layout *l)
{
    const ls_variables *variables = &job->model->graph->variables;
    const int devices = (int)job->device_count, servers = job->ps.servers;
    const size_t ranges = variables->count + (size_t)servers;
    *l = (ls_ps_layout){.servers = servers,
                        .workers =
                            ls_ps_workers(&job->ps, job->ps.ranks == 1 ? devices : job->ps.ranks)};
    LS_TRY(ls_allocate("ps", &l->elements, (size_t)servers, sizeof *l->elements));
    LS_TRY(ls_allocate("ps", &l->ranges, ranges, sizeof *l->ranges));
    LS_TRY(job->ps.by_variable ? shard_by_variable(variables, l) : shard_by_bytes(job, l));
    return cut_by_buckets(job, l);
}

bool ls_ps_layout_range(const ls_ps_layout *l, int server, size_t i, ls_range *out)
{
    for (size_t r = 0; r < l->range_count; r++) {
        if (l->ranges[r].server != server || i-- > 0)
            continue;
        *out = l->ranges[r].range;
        return true;
    }
    return false;
}

void ls_ps_layout_close(ls_ps_layout *l)
{
    free(l->elements);
    free(l->ranges);
    free(l->pushed);
}
