/* SPDX-License-Identifier: MIT */
/* Who serves, who works, and what a server holds; see ps_layout.h. */
#include "impl/ps/ps_layout.h"

#include "common/comm/comm.h"

#include <stdlib.h>

int ls_ps_workers(const ls_ps_options *o, int all_devices)
{
    return o->ranks == 1 || o->colocate ? all_devices : all_devices - o->servers;
}

int ls_ps_worker_on(const ls_job *job, int index)
{
    const int rank = job->comm ? job->comm->rank : index;
    if (job->ps.ranks == 1 || job->ps.colocate)
        return rank;
    return rank < job->ps.servers ? -1 : rank - job->ps.servers;
}

ls_device *ls_ps_device(const ls_job *job, const ls_ps_member *member)
{
    return (size_t)member->device == job->device_count ? job->variable_device
                                                       : job->devices[member->device];
}

ls_status ls_ps_refuse_arrival(const char *comm)
{
    return ls_fail(LS_CODE_USAGE, "option", "--comm",
                   "%s (of GPUs) cannot receive from any rank, as servers do that do not wait for "
                   "all; --ps-mode sync without backup workers, or CPU devices, work",
                   comm);
}

/* ---- Members -------------------------------------------------------------------------------- */

static void add_member(ls_ps_layout *l, bool server, int process, int device)
{
    int *number = server ? &l->servers : &l->workers;
    (server ? l->server_rank : l->worker_rank)[*number] = l->member_count;
    l->members[l->member_count++] = (ls_ps_member){server, (*number)++, process, device};
}

/* Ranks in order; of a rank that serves and works, the server first. */
static void list_members(const ls_job *job, ls_ps_layout *l)
{
    const ls_ps_options *o = &job->ps;
    const int devices = (int)job->device_count;
    if (o->ranks == 1)
        add_member(l, true, 0, devices);
    for (int r = 0; r < (o->ranks == 1 ? devices : o->ranks); r++) {
        const int process = job->comm ? r : 0, device = job->comm ? 0 : r;
        const bool serves = o->ranks > 1 && r < o->servers;
        if (serves)
            add_member(l, true, process, device);
        if (!serves || o->colocate)
            add_member(l, false, process, device);
    }
}

/* The variable device may be that of a worker. */
static const ls_device *device_of(const ls_job *job, const ls_ps_member *m)
{
    return m->process == ls_job_process(job) ? ls_ps_device(job, m) : NULL;
}

bool ls_ps_same_device(const ls_job *job, const ls_ps_layout *l, int server, int worker)
{
    const ls_ps_member *s = &l->members[l->server_rank[server]];
    const ls_ps_member *w = &l->members[l->worker_rank[worker]];
    if (s->process != w->process)
        return false;
    return job->comm ? s->device == w->device : device_of(job, s) == device_of(job, w);
}

/* ---- Shards --------------------------------------------------------------------------------- */

static void add_range(ls_ps_layout *l, int server, size_t first, size_t count)
{
    ls_ps_range *last = l->range_count ? &l->ranges[l->range_count - 1] : NULL;
    if (!count)
        return;
    if (last && last->server == server && last->first + last->count == first)
        last->count += count;
    else
        l->ranges[l->range_count++] = (ls_ps_range){
            .server = server, .first = first, .count = count, .at = l->elements[server]};
    l->elements[server] += count;
}

static void shard_by_bytes(const ls_variables *variables, ls_ps_layout *l)
{
    for (int s = 0; s < l->servers; s++) {
        size_t first = ls_comm_share(variables->elements, s, l->servers);
        add_range(l, s, first, ls_comm_share(variables->elements, s + 1, l->servers) - first);
    }
}

/* Greedy: the largest variable that is left goes to the server that holds least; among equals the
 * first. Ranges are then sorted in the order of the flat buffer. */
static ls_status shard_by_variable(const ls_variables *variables, ls_ps_layout *l)
{
    size_t *held = calloc((size_t)l->servers, sizeof *held);
    int *server = malloc(variables->count * sizeof *server);
    ls_status status =
        held && server ? LS_OK : ls_fail_memory("ps", variables->count * sizeof *server);
    for (size_t i = 0; i < variables->count && !status; i++)
        server[i] = -1;
    for (size_t placed = 0; placed < variables->count && !status; placed++) {
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
    for (size_t i = 0; i < variables->count && !status; i++)
        add_range(l, server[i], variables->items[i].offset, variables->items[i].count);
    free(held);
    free(server);
    return status;
}

/* Each bucket's part of each range. */
static void cut_by_buckets(const ls_buckets *buckets, ls_ps_layout *l)
{
    for (size_t b = 0; b < buckets->count; b++) {
        const ls_range *bucket = &buckets->items[b];
        for (size_t r = 0; r < l->range_count; r++) {
            const ls_ps_range *range = &l->ranges[r];
            const ls_range both = ls_range_common(*bucket, (ls_range){range->first, range->count});
            if (both.count)
                l->pushed[l->pushed_count++] =
                    (ls_ps_range){.server = range->server,
                                  .first = both.first,
                                  .count = both.count,
                                  .at = range->at + both.first - range->first};
        }
    }
}

ls_status ls_ps_layout_open(const ls_job *job, const ls_buckets *buckets, ls_ps_layout *l)
{
    const ls_variables *variables = &job->model->graph->variables;
    const size_t ranks = (size_t)job->ps.ranks + job->device_count;
    const size_t ranges = variables->count + (size_t)job->ps.servers;
    *l = (ls_ps_layout){.members = calloc(2 * ranks, sizeof *l->members),
                        .server_rank = calloc(ranks, sizeof *l->server_rank),
                        .worker_rank = calloc(ranks, sizeof *l->worker_rank),
                        .elements = calloc(ranks, sizeof *l->elements),
                        .ranges = calloc(ranges, sizeof *l->ranges),
                        .pushed = calloc(ranges * buckets->count, sizeof *l->pushed)};
    if (!l->members || !l->server_rank || !l->worker_rank || !l->elements || !l->ranges ||
        !l->pushed)
        return ls_fail_memory("ps", ranges * buckets->count * sizeof *l->pushed);
    list_members(job, l);
    if (job->ps.by_variable)
        LS_TRY(shard_by_variable(variables, l));
    else
        shard_by_bytes(variables, l);
    cut_by_buckets(buckets, l);
    return LS_OK;
}

void ls_ps_layout_close(ls_ps_layout *l)
{
    free(l->members);
    free(l->server_rank);
    free(l->worker_rank);
    free(l->elements);
    free(l->ranges);
    free(l->pushed);
}
