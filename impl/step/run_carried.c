/* SPDX-License-Identifier: MIT */
/*
 * The state that one run saves and another continues from (ls_run_kind.keep): each member's flat
 * buffers, what servers know of their workers, and counters. Not records, which have been read, nor
 * what every step computes anew.
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

/* Saves or restores the bytes that the server's end has received. */
static ls_status keep_received(ls_stepped *me, int server, ls_carried *carried)
{
    const ls_comm *end = me->served->ends[me->served->layout.workers + server].comm;
    ls_received *before = &me->served->servers[server].received, all = *before;
    if (!carried->gives && end && end->backend->received) {
        const ls_received now = end->backend->received(end);
        all.bytes += now.bytes;
        all.copied += now.copied;
    }
    LS_TRY(ls_carry_value(carried, &all, sizeof all));
    if (carried->gives)
        *before = all;
    return LS_OK;
}

static ls_status keep_served(ls_stepped *me, ls_carried *carried)
{
    ls_served *served = me->served;
    for (int k = 0; k < served->layout.servers; k++) {
        if (!served->servers[k].shard.replica)
            continue;
        LS_TRY(keep_serving(&served->servers[k].serving, carried));
        LS_TRY(keep_received(me, k, carried));
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
    for (int m = 0; m < me->shared.all; m++)
        if (me->shared.members[m].replica)
            LS_TRY(ls_replica_keep(me->shared.members[m].replica, carried));
    LS_TRY(ls_carry_value(carried, me->put, sizeof me->put));
    LS_TRY(ls_carry_value(carried, me->shared.steps, sizeof me->shared.steps));
    LS_TRY(ls_carry_value(carried, &counted, sizeof counted));
    if (carried->gives)
        me->counted = counted;
    return me->served ? keep_served(me, carried) : LS_OK;
}
