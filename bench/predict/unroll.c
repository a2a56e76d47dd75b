/* SPDX-License-Identifier: MIT */
/* Unrolled steps; see unroll.h. */
#include "bench/predict/unroll.h"

#include "bench/play/engine.h"
#include "bench/predict/nccl_model.h"
#include "bench/predict/unroll_parts.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- All-reduces by formula ----------------------------------------------------------------- */

/* The all-reduce by itself, on ports that its own messages share. */
static ls_status play_alone(const ls_play_graph *graph, const ls_platform *platform, int per_host,
                            double *ns)
{
    ls_play play = {.graph = graph, .platform = platform, .devices_per_host = per_host};
    ls_auto double *end_ns = NULL;
    for (size_t n = 0; n < graph->count; n++) {
        const ls_activity_node *node = &graph->nodes[n];
        const int last = node->from > node->to ? node->from : node->to;
        play.devices = last >= play.devices ? last + 1 : play.devices;
    }
    LS_TRY(ls_allocate("all-reduce", &end_ns, graph->count + 1, sizeof *end_ns));
    *ns = 0;
    LS_TRY(ls_engine_play(LS_ENGINE_PORTS, &play, 1, end_ns));
    for (size_t n = 0; n < graph->count; n++)
        *ns = end_ns[n] > *ns ? end_ns[n] : *ns;
    return LS_OK;
}

/* Sets `ns`: what it takes if its ranks begin together, and no other message uses their ports. */
static ls_status take_time(ls_expanded *e, const ls_platform *platform, int per_host)
{
    if (e->algorithm)
        return play_alone(&e->alone, platform, per_host, &e->ns);
    e->ns = ls_nccl_allreduce(&e->what, platform, per_host);
    return LS_OK;
}

ls_status ls_unrolled_move(ls_unrolled *u, const ls_platform *platform, int per_host)
{
    for (size_t i = 0; i < u->all.count && u->all.level == LS_EXPAND_FORMULA; i++)
        LS_TRY(take_time(u->all.items[i], platform, per_host));
    for (size_t n = 0; n < u->graph.count; n++)
        if (u->graph.nodes[n].to < 0 && u->graph.nodes[n].rounds >= LS_PLAY_FORMULA)
            u->graph.nodes[n].amount = u->all.items[u->graph.nodes[n].rounds - LS_PLAY_FORMULA]->ns;
    return LS_OK;
}

/* The all-reduce by itself, and what its ranks send. */
static ls_status make_alone(const ls_unroller *u, ls_expanded *e)
{
    ls_unrolled alone = {0};
    ls_unroller inner = {.what = u->what, .times = u->times, .out = &alone};
    ls_status status = LS_OK;
    for (int rank = 0; rank < e->what.size && !status; rank++) {
        ls_virtual_comm copy = e->what;
        ls_unroll_task w = {.device = ls_virtual_number(copy.devices[rank]), .tail = LS_PLAY_NONE};
        copy.rank = rank;
        status = ls_unroll_flush(&inner, &w, true);
        for (size_t i = e->first[rank]; i < e->first[rank + 1] && !status; i++)
            status = ls_unroll_move(&inner, &w, &copy, &e->moves[i]);
        if (!status)
            status = ls_unroll_flush(&inner, &w, false);
    }
    if (!status)
        status = ls_play_seal(&alone.graph, 0);
    e->alone = alone.graph;
    e->sent = alone.sent;
    free(inner.channels);
    free(inner.pending);
    return status;
}

/* The first rank of a group that comes to an all-reduce: the others wait for its activity. */
static ls_status meet_all(ls_unroller *u, const ls_unroll_task *w, const ls_virtual_comm *comm,
                          ls_unroll_channel *meeting)
{
    const ls_unroll *what = u->what;
    ls_expansions *all = &u->out->all;
    const size_t known = all->count;
    uint32_t joined;
    size_t number;
    LS_TRY(ls_expand(all, what->algorithm, comm, &number));
    ls_expanded *e = all->items[number];
    if (number == known && e->algorithm)
        LS_TRY(make_alone(u, e));
    if (number == known)
        LS_TRY(take_time(e, what->platform, what->devices_per_host));
    ls_unroll_count_sent(u, e->sent.bytes_sent, e->sent.messages_sent);
    LS_TRY(ls_play_delay(&u->out->graph, u->step, w->device, 0, LS_PLAY_NONE, &joined));
    meeting->first = joined;
    meeting->last = number + 1;
    return LS_OK;
}

static ls_status by_formula(ls_unroller *u, ls_unroll_task *w, const ls_virtual_comm *comm)
{
    ls_unroll_channel *c;
    ls_play_graph *g = &u->out->graph;
    LS_TRY(ls_unroll_flush(u, w, false));
    LS_TRY(ls_unroll_channel_of(u, comm->group, comm->rank, LS_SEEN, &c));
    LS_TRY(ls_unroll_channel_of(u, comm->group, (int)c->first++, LS_ALL_RANKS, &c));
    if (!c->last)
        LS_TRY(meet_all(u, w, comm, c));
    const uint32_t number = (uint32_t)c->last - 1, joined = (uint32_t)c->first;
    LS_TRY(ls_play_wait(g, w->tail, joined));
    ls_play_label label = {w->name, w->lane, LS_TIME_COMMUNICATION, w->tail, w->microbatch};
    LS_TRY(ls_play_delay(g, u->step, w->device, u->out->all.items[number]->ns, joined, &w->tail));
    ls_play_show(g, w->tail, label);
    g->nodes[w->tail].rounds = LS_PLAY_FORMULA + number;
    return LS_OK;
}

/* ---- Operations ----------------------------------------------------------------------------- */

static ls_status exchange(ls_unroller *u, ls_unroll_task *w, const ls_virtual_comm *comm)
{
    if (!comm->whole) {
        const ls_move move = ls_move_of(&comm->exchange);
        return ls_unroll_move(u, w, comm, &move);
    }
    if (u->what->level == LS_EXPAND_FORMULA)
        return by_formula(u, w, comm);
    size_t number;
    LS_TRY(ls_expand(&u->out->all, u->what->algorithm, comm, &number));
    const ls_expanded *e = u->out->all.items[number];
    for (size_t i = e->first[comm->rank]; i < e->first[comm->rank + 1]; i++)
        LS_TRY(ls_unroll_move(u, w, comm, &e->moves[i]));
    return LS_OK;
}

static ls_status add_ops(ls_unroller *u, const ls_step_program *p, const ls_task *task,
                         ls_unroll_task *w)
{
    for (size_t i = 0; i < task->ops.count; i++) {
        const ls_op *op = p->ops[task->ops.first + i];
        const ls_virtual_comm *comm = ls_virtual_comm_of(op);
        if (comm)
            LS_TRY(exchange(u, w, comm));
        else if (op->use < LS_TIME_COMMUNICATION || !(w->ns > 0))
            w->use = (int)op->use;
        if (!comm)
            w->ns += op->use == LS_TIME_DELAY ? (double)u->what->run->base.job->faults.delay_ns
                                              : ls_duration_of(u->what->durations, op);
    }
    return LS_OK;
}

/* The device of a member on the platform. */
static int device_of(const ls_unroller *u, int member)
{
    return ls_virtual_number(ls_step_plan_device(&u->what->run->plan, member));
}

static ls_status add_copy(ls_unroller *u, const ls_task_copy *copy, ls_unroll_task *w)
{
    if (!copy->to)
        return LS_OK;
    const int from = device_of(u, copy->from_member), to = device_of(u, copy->to_member);
    if (from == to) {
        w->ns += u->what->durations->copy_ns * (double)copy->bytes;
        return LS_OK;
    }
    w->ns += ls_unroll_begin_ns(u);
    LS_TRY(ls_unroll_flush(u, w, false));
    ls_unroll_count_sent(u, copy->bytes, 1);
    const uint32_t before = w->tail;
    LS_TRY(ls_play_message(&u->out->graph, u->step, from, to, (double)copy->bytes, 1, w->tail,
                           &w->tail));
    ls_play_show(&u->out->graph, w->tail,
                 (ls_play_label){w->name, w->lane, LS_TIME_COPY, before, w->microbatch});
    w->ns += ls_unroll_begin_ns(u);
    return u->times
               ? ls_unroll_wake(u, from,
                                ls_message_cost(u->times->ns[LS_LATE],
                                                ls_platform_message_ns(
                                                    u->what->platform, u->what->devices_per_host,
                                                    from, to, (double)copy->bytes)),
                                &w->tail)
               : LS_OK;
}

/* A thread that has waited for another lane needs time to run again. */
static ls_status hand_on(ls_unroller *u, int lane, int device, uint32_t *seen)
{
    if (!u->times || *seen == LS_PLAY_NONE)
        return LS_OK;
    const int other = device_of(u, u->what->run->plan.lanes.items[lane].member);
    const double *ns = u->times->ns[other == device ? LS_WITHIN : LS_BETWEEN];
    return ls_unroll_wake(u, device, ns[LS_SLEPT / 2], seen);
}

/* What a task waits for, as one activity if there is more than the one before it on its lane. */
static ls_status begin(ls_unroller *u, const ls_step_program *p, const ls_task *task,
                       ls_unroll_task *w)
{
    const ls_step_run *run = u->what->run;
    const int component = run->components.component[task->lane];
    *w = (ls_unroll_task){.device = device_of(u, run->plan.lanes.items[task->lane].member),
                          .tail = u->tail[task->lane],
                          .lane = task->lane,
                          .microbatch = task->microbatch,
                          .name = task->verb};
    if (!task->waits.count && !task->begins)
        return LS_OK;
    LS_TRY(ls_unroll_flush(u, w, true));
    for (size_t i = 0; i < task->waits.count; i++) {
        const size_t number = p->waits[task->waits.first + i];
        uint32_t seen = u->done[number];
        LS_TRY(hand_on(u, p->tasks[number].lane, w->device, &seen));
        LS_TRY(ls_play_wait(&u->out->graph, seen, w->tail));
    }
    if (!task->begins)
        return LS_OK;
    uint32_t begun = u->begun[component];
    if (run->components.items[component].driver != task->lane)
        LS_TRY(hand_on(u, run->components.items[component].driver, w->device, &begun));
    return ls_play_wait(&u->out->graph, begun, w->tail);
}

static ls_status check_count(uint64_t count)
{
    return count <= LS_ACTIVITIES_MOST
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "predict", "activities",
                         "the simulation has more than %d activities (computations and "
                         "messages); use --collectives flows, fewer --devices or --steps",
                         LS_ACTIVITIES_MOST);
}

static ls_status add_task(ls_unroller *u, const ls_step_program *p, const ls_task *task)
{
    ls_unroll_task w;
    LS_TRY(begin(u, p, task, &w));
    LS_TRY(add_ops(u, p, task, &w));
    LS_TRY(add_copy(u, &task->copy, &w));
    LS_TRY(ls_unroll_flush(u, &w, w.tail == LS_PLAY_NONE));
    u->done[task - p->tasks] = u->tail[task->lane] = w.tail;
    if (strcmp(task->verb, "end") == 0) {
        LS_TRY(ls_grow("predict", &u->out->ends, u->out->end_count, sizeof *u->out->ends));
        u->out->ends[u->out->end_count++] = w.tail;
    }
    return check_count(u->out->graph.count);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static ls_status add_step(ls_unroller *u)
{
    const ls_step_run *run = u->what->run;
    const ls_step_program *p = &run->program[ls_kind_of_step(run->base.job, LS_FULL, u->step)];
    ls_status status = ls_allocate("predict", &u->done, p->task_count + 1, sizeof *u->done);
    for (size_t t = 0; t < p->task_count && !status; t++)
        status = ls_interrupted() ? ls_engine_interrupted() : add_task(u, p, &p->tasks[t]);
    free(u->done);
    u->done = NULL;
    LS_TRY(status);
    if (u->waiting)
        return ls_fail(
            LS_CODE_CHECK, "predict", "messages",
            "in a step of this strategy %zu sends or receives have no counterpart, so no "
            "simulation is possible; this is a bug of the strategy: lockstep verify shows where",
            u->waiting);
    u->pending_count = 0; /* all have met */
    for (int c = 0; c < run->components.count; c++)
        u->begun[c] = u->tail[run->components.items[c].driver];
    return LS_OK;
}

/* What followed the lanes' latest activities `before` the second period follows, a period later,
 * their latest ones now. */
static ls_status repeat(ls_unroller *u, const uint32_t *before, size_t begin)
{
    ls_play_graph *g = &u->out->graph;
    ls_auto uint32_t *lane_of = NULL; /* [begin] from 1 */
    const size_t edges = g->edge_count;
    LS_TRY(ls_allocate("predict", &lane_of, begin + 1, sizeof *lane_of));
    for (int l = 0; l < u->what->run->plan.lanes.count; l++)
        if (before[l] != LS_PLAY_NONE)
            lane_of[before[l]] = (uint32_t)l + 1;
    g->repeated = g->count - begin;
    for (size_t e = 0; e < edges; e++) {
        const ls_play_edge edge = g->edges[e];
        if (edge.before < begin && edge.after >= begin)
            LS_TRY(ls_play_wait(g, u->tail[lane_of[edge.before] - 1],
                                edge.after + (uint32_t)g->repeated));
    }
    return LS_OK;
}

/* Unrolls all steps; or two periods of them, of which the second is repeated. */
static ls_status add_steps(ls_unroller *u, uint32_t period)
{
    const ls_unroll *what = u->what;
    ls_auto uint32_t *before = NULL;
    const size_t lanes = (size_t)what->run->plan.lanes.count;
    const bool repeats = !what->whole && what->steps > 2 * period;
    const uint64_t times = repeats ? what->steps / period - 2 : 0;
    size_t begin = 0;
    u->counted = repeats ? period : (uint32_t)what->warmup;
    LS_TRY(ls_allocate("predict", &before, lanes, sizeof *before));
    for (; u->step < (repeats ? 2 * period : what->steps); u->step++) {
        if (u->step == period) {
            memcpy(before, u->tail, lanes * sizeof *before);
            begin = u->out->graph.count;
        }
        LS_TRY(add_step(u));
    }
    if (repeats) {
        const uint64_t counted = (what->steps - what->warmup) / period;
        u->out->graph.steps = period;
        u->out->sent.bytes_sent *= counted;
        u->out->sent.messages_sent *= counted;
        LS_TRY(repeat(u, before, begin));
    }
    LS_TRY(check_count(u->out->graph.count + times * u->out->graph.repeated));
    return ls_play_seal(&u->out->graph, times);
}

static ls_status unroll(ls_unroller *u)
{
    const ls_step_run *run = u->what->run;
    const size_t lanes = (size_t)run->plan.lanes.count, components = (size_t)run->components.count;
    const int devices = (int)run->base.job->device_count, per_host = u->what->devices_per_host;
    const int cores = ls_durations_cores(u->what->durations, per_host);
    if (cores)
        u->times = ls_durations_messages(
            u->what->durations, ((devices < per_host ? devices : per_host) + cores - 1) / cores);
    LS_TRY(ls_allocate("predict", &u->tail, lanes, sizeof *u->tail));
    LS_TRY(ls_allocate("predict", &u->begun, components, sizeof *u->begun));
    memset(u->tail, 0xff, lanes * sizeof *u->tail); /* LS_PLAY_NONE */
    memset(u->begun, 0xff, components * sizeof *u->begun);
    const int64_t period = run->base.job->update.period;
    return add_steps(u, period ? (uint32_t)period : 1);
}

ls_status ls_unroll_steps(const ls_unroll *what, ls_unrolled *out)
{
    ls_unroller u = {.what = what, .out = out};
    const bool on_hosts =
        what->level == LS_EXPAND_FORMULA && what->platform->kind != LS_PLATFORM_FLAT;
    *out = (ls_unrolled){
        .graph = {.labelled = what->labelled},
        .all = {.level = what->level, .devices_per_host = on_hosts ? what->devices_per_host : 0}};
    ls_status status = unroll(&u);
    free(u.tail);
    free(u.begun);
    free(u.channels);
    free(u.pending);
    return status;
}

void ls_unrolled_close(ls_unrolled *unrolled)
{
    ls_play_close(&unrolled->graph);
    free(unrolled->ends);
    ls_expansions_close(&unrolled->all);
    *unrolled = (ls_unrolled){0};
}
