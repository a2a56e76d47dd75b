/* SPDX-License-Identifier: MIT */
/*
 * Runs of steps: the state that one leaves and another goes on from (ls_run_kind.keep): what each
 * member has in its flat buffers, what servers know of their workers, and what was counted. Not
 * records, which have been read, nor what every step makes anew.
 */
#include "impl/carried.h"
#include "impl/step/run.h"
#include "impl/step/served.h"

static ls_status keep_serving(ls_ps_serving *s, ls_carried *carried)
{
    LS_TRY(ls_carry_value(carried, s->clocks, (size_t)s->workers * sizeof *s->clocks));
    LS_TRY(ls_carry_value(carried, &s->version, sizeof s->version));
    LS_TRY(ls_carry_value(carried, &s->log.count, sizeof s->log.count));
    LS_TRY(ls_carry_value(carried, &s->log.lost, sizeof s->log.lost));
    LS_TRY(ls_carry_value(carried, s->log.events, s->log.count * sizeof *s->log.events));
    LS_TRY(ls_carry_value(carried, &s->lead, sizeof s->lead));
    LS_TRY(ls_carry_value(carried, &s->staleness, sizeof s->staleness));
    LS_TRY(ls_carry_value(carried, &s->accepted, sizeof s->accepted));
    LS_TRY(ls_carry_value(carried, &s->samples, sizeof s->samples));
    LS_TRY(ls_carry_value(carried, &s->dropped, sizeof s->dropped));
    return ls_carry_value(carried, &s->served, sizeof s->served);
}

/* What the server's end has received so far goes on with it. */
static ls_status keep_received(const ls_served *served, ls_served_server *server,
                               ls_carried *carried)
{
    const ls_comm *end = served->ends[served->layout.workers + server->shard.server].comm;
    ls_received *before = &server->received, all = *before;
    if (!carried->gives && end->backend->received) {
        const ls_received now = end->backend->received(end);
        all.bytes += now.bytes;
        all.copied += now.copied;
    }
    LS_TRY(ls_carry_value(carried, &all, sizeof all));
    if (carried->gives)
        *before = all;
    return LS_OK;
}

static ls_status keep_served(ls_served *served, ls_carried *carried)
{
    for (int k = 0; k < served->server_count; k++) {
        LS_TRY(keep_serving(&served->servers[k].serving, carried));
        LS_TRY(keep_received(served, &served->servers[k], carried));
    }
    for (int w = 0; w < served->layout.workers; w++)
        LS_TRY(ls_carry_value(carried, &served->speakers[w].newest,
                              sizeof served->speakers[w].newest));
    return LS_OK;
}

ls_status ls_stepped_keep(ls_run *run, ls_carried *carried)
{
    ls_stepped *me = (ls_stepped *)run;
    ls_traffic counted = ls_stepped_counted(me);
    for (int m = 0; m < me->all; m++)
        if (me->members[m].replica)
            LS_TRY(ls_replica_keep(me->members[m].replica, carried));
    LS_TRY(ls_carry_value(carried, me->put, sizeof me->put));
    LS_TRY(ls_carry_value(carried, &counted, sizeof counted));
    if (carried->gives)
        me->counted = counted;
    return me->served ? keep_served(me->served, carried) : LS_OK;
}
