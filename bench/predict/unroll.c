/* SPDX-License-Identifier: MIT */
/* Unrolled steps; see unroll.h. */
#include "bench/predict/unroll.h"

#include "bench/play/engine.h"
#include "bench/predict/virtual.h"
#include "bench/train/interrupt.h"
#include "common/base/digest.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ends that wait for their other end ------------------------------------------------------ */

/* One end of a message. */
typedef struct message_end {
    uint32_t ready, join; /* the end is there after `ready`; `join` waits for the message */
    int device;
    size_t count, added; /* elements */
    uint32_t rounds;
} message_end;

typedef struct pending_end {
    message_end end;
    size_t next; /* of the same channel, from 1; 0 if none */
} pending_end;

/* Ends of one direction between two ranks of a communicator. */
typedef struct channel {
    const void *group; /* NULL if the slot is free */
    int from, to;
    bool sends;         /* what waits are sends */
    size_t first, last; /* in pending, from 1; 0 if none */
} channel;

/* An all-reduce by formula: the ranks of a group that are there, each for the k-th time. */
typedef struct formula_group {
    const void *group;
    size_t *seen;     /* [size] all-reduces that each rank has come to in this step */
    uint32_t *joined; /* [count] the activity that waits for all */
    size_t *formula;  /* [count] number of the formula of each */
    size_t count;
    int size;
} formula_group;

typedef struct unroller {
    const ls_unroll *what;
    ls_unrolled *out;
    ls_expansions expansions;
    uint32_t step;
    uint32_t *tail;    /* [lanes] the lane's latest activity */
    uint32_t *begun;   /* [components] the end of its previous step */
    uint32_t *done;    /* [tasks] of the step's program */
    channel *channels; /* [channel_count] hash table */
    size_t channel_count, channels_used;
    pending_end *pending;
    size_t pending_count, waiting;
    formula_group *groups; /* [group_count] */
    size_t group_count;
} unroller;

static channel *find(const unroller *u, const void *group, int from, int to)
{
    struct {
        const void *group;
        int from, to;
    } key = {group, from, to};
    size_t s = (size_t)ls_hash64(&key, sizeof key) & (u->channel_count - 1);
    while (u->channels[s].group && (u->channels[s].group != group || u->channels[s].from != from ||
                                    u->channels[s].to != to))
        s = (s + 1) & (u->channel_count - 1);
    return &u->channels[s];
}

static ls_status enlarge(unroller *u)
{
    if (2 * (u->channels_used + 1) <= u->channel_count)
        return LS_OK;
    channel *old = u->channels;
    const size_t count = u->channel_count;
    u->channel_count = count ? 2 * count : 256;
    ls_status status = ls_allocate("predict", &u->channels, u->channel_count, sizeof *u->channels);
    for (size_t i = 0; i < count && !status; i++)
        if (old[i].group)
            *find(u, old[i].group, old[i].from, old[i].to) = old[i];
    free(old);
    return status;
}

static void count_sent(unroller *u, size_t bytes, size_t messages)
{
    if (u->step < u->what->warmup)
        return;
    u->out->sent.bytes_sent += bytes;
    u->out->sent.messages_sent += messages;
}

/* Both ends are there. */
static ls_status meet(unroller *u, const message_end *send, const message_end *receive)
{
    ls_play_graph *g = &u->out->graph;
    const ls_durations *d = u->what->durations;
    uint32_t message, taken;
    if (send->count != receive->count)
        return ls_fail(LS_CODE_CHECK, "predict", "message", "%zu bytes are sent and %zu received",
                       send->count, receive->count);
    if (send->device == receive->device) {
        LS_TRY(ls_play_delay(g, u->step, receive->device, d->copy_ns * (double)send->count,
                             send->ready, &message));
    } else {
        LS_TRY(ls_play_message(g, u->step, send->device, receive->device, (double)send->count,
                               send->rounds, send->ready, &message));
        count_sent(u, send->count, send->rounds);
    }
    LS_TRY(ls_play_wait(g, receive->ready, message));
    const double ns = d->add_ns * (double)receive->added + d->message_ns * receive->rounds;
    taken = message;
    if (ns > 0)
        LS_TRY(ls_play_delay(g, u->step, receive->device, ns, message, &taken));
    LS_TRY(ls_play_wait(g, taken, send->join));
    return send->join == receive->join ? LS_OK : ls_play_wait(g, taken, receive->join);
}

/* An end of a message arrives: meets the other end, or waits for it. */
static ls_status arrive(unroller *u, const void *group, int from, int to, bool sends,
                        const message_end *end)
{
    LS_TRY(enlarge(u));
    channel *c = find(u, group, from, to);
    if (!c->group) {
        *c = (channel){.group = group, .from = from, .to = to};
        u->channels_used++;
    }
    if (c->first && c->sends != sends) {
        const pending_end *other = &u->pending[c->first - 1];
        const message_end its = other->end;
        c->first = other->next;
        u->waiting--;
        return sends ? meet(u, end, &its) : meet(u, &its, end);
    }
    LS_TRY(ls_grow("predict", &u->pending, u->pending_count, sizeof *u->pending));
    u->pending[u->pending_count++] = (pending_end){.end = *end};
    if (c->first)
        u->pending[c->last - 1].next = u->pending_count;
    else
        c->first = u->pending_count;
    c->last = u->pending_count;
    c->sends = sends;
    u->waiting++;
    return LS_OK;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* A task at work: the device and the latest activity. */
typedef struct at_work {
    int device;
    uint32_t tail;
    double ns; /* of operations that are not in an activity yet */
    int lane, use;
    const char *name; /* of the task */
} at_work;

/* Makes one activity of the operations so far; `always`: even if there are none. */
static ls_status flush(unroller *u, at_work *w, bool always)
{
    if (!always && !(w->ns > 0))
        return LS_OK;
    LS_TRY(ls_play_delay(&u->out->graph, u->step, w->device, w->ns, w->tail, &w->tail));
    if (w->ns > 0)
        ls_play_show(&u->out->graph, w->tail,
                     (ls_play_label){w->name, w->lane, w->use, LS_PLAY_NONE});
    w->ns = 0;
    return LS_OK;
}

static ls_status move(unroller *u, at_work *w, const ls_virtual_comm *comm, const ls_move *m)
{
    w->ns += m->summed * u->what->durations->add_ns;
    LS_TRY(flush(u, w, false));
    if (m->to < 0 && m->from < 0)
        return LS_OK;
    message_end end = {.ready = w->tail, .device = w->device};
    LS_TRY(ls_play_delay(&u->out->graph, u->step, w->device, 0, w->tail, &end.join));
    ls_play_show(&u->out->graph, end.join,
                 (ls_play_label){w->name, w->lane, LS_TIME_COMMUNICATION, w->tail});
    w->tail = end.join;
    if (m->to >= 0) {
        end.count = m->sent * (m->bytes ? 1 : sizeof(float));
        end.rounds = m->sent_rounds;
        LS_TRY(arrive(u, comm->group, comm->rank, m->to, true, &end));
    }
    if (m->from < 0)
        return LS_OK;
    end.count = m->received * (m->bytes ? 1 : sizeof(float));
    end.added = m->added;
    end.rounds = m->came_rounds;
    return arrive(u, comm->group, m->from, comm->rank, false, &end);
}

/* ---- All-reduces by formula ------------------------------------------------------------------ */

/* What an all-reduce takes by itself if its ranks begin together, and what they send. */
static ls_status make_formula(const unroller *u, const ls_virtual_comm *comm, ls_formula *out)
{
    ls_unrolled alone = {0};
    unroller inner = {.what = u->what, .out = &alone, .step = (uint32_t)u->what->warmup};
    ls_status status = LS_OK;
    for (int rank = 0; rank < comm->size && !status; rank++) {
        ls_virtual_comm its = *comm;
        at_work w = {.device = ls_virtual_number(comm->devices[rank]), .tail = LS_PLAY_NONE};
        its.rank = rank;
        status = flush(&inner, &w, true);
        for (size_t i = out->of->first[rank]; i < out->of->first[rank + 1] && !status; i++)
            status = move(&inner, &w, &its, &out->of->moves[i]);
        if (!status)
            status = flush(&inner, &w, false);
    }
    if (!status)
        status = ls_play_seal(&alone.graph);
    out->alone = alone.graph;
    out->sent = alone.sent;
    free(inner.channels);
    free(inner.pending);
    return status ? status : ls_formula_time(out, u->what->platform, u->what->devices_per_host);
}

static int host_of(const unroller *u, const ls_virtual_comm *comm, int rank)
{
    const int host = ls_virtual_number(comm->devices[rank]) / u->what->devices_per_host;
    return host - ls_virtual_number(comm->devices[0]) / u->what->devices_per_host;
}

static bool is_formula(const unroller *u, const ls_formula *f, const ls_expanded *all,
                       const ls_virtual_comm *comm)
{
    if (f->of != all || (f->nccl && (f->nccl->extent.count != comm->extent.count ||
                                     f->nccl->half != comm->half || f->nccl->size != comm->size)))
        return false;
    for (int r = 0; r < comm->size && u->what->platform->kind != LS_PLATFORM_FLAT; r++)
        if (f->hosts[r] != host_of(u, comm, r))
            return false;
    return true;
}

static ls_status find_formula(unroller *u, const ls_virtual_comm *comm, const ls_expanded *all,
                              size_t *number)
{
    ls_formulas *known = &u->out->formulas;
    for (*number = known->count; (*number)-- > 0;)
        if (is_formula(u, &known->items[*number], all, comm))
            return LS_OK;
    *number = known->count;
    LS_TRY(ls_grow("predict", &known->items, known->count, sizeof *known->items));
    ls_formula *f = &known->items[known->count++];
    *f = (ls_formula){.of = all, .nccl = all ? NULL : comm};
    LS_TRY(ls_allocate("predict", &f->hosts, (size_t)comm->size, sizeof *f->hosts));
    for (int r = 0; r < comm->size; r++)
        f->hosts[r] = host_of(u, comm, r);
    return all ? make_formula(u, comm, f)
               : ls_formula_time(f, u->what->platform, u->what->devices_per_host);
}

static ls_status find_group(unroller *u, const ls_virtual_comm *comm, formula_group **out)
{
    for (size_t i = 0; i < u->group_count; i++) {
        *out = &u->groups[i];
        if ((*out)->group == comm->group)
            return LS_OK;
    }
    LS_TRY(ls_grow("predict", &u->groups, u->group_count, sizeof *u->groups));
    *out = &u->groups[u->group_count];
    **out = (formula_group){.group = comm->group, .size = comm->size};
    LS_TRY(ls_allocate("predict", &(*out)->seen, (size_t)comm->size, sizeof *(*out)->seen));
    u->group_count++;
    return LS_OK;
}

static ls_status by_formula(unroller *u, at_work *w, const ls_virtual_comm *comm)
{
    const ls_expanded *all = NULL;
    formula_group *f;
    ls_play_graph *g = &u->out->graph;
    if (!u->what->by_nccl)
        LS_TRY(ls_expand(&u->expansions, u->what->algorithm, comm, &all));
    LS_TRY(find_group(u, comm, &f));
    LS_TRY(flush(u, w, false));
    const size_t k = f->seen[comm->rank]++;
    if (k == f->count) {
        LS_TRY(ls_grow("predict", &f->joined, f->count, sizeof *f->joined));
        LS_TRY(ls_grow("predict", &f->formula, f->count, sizeof *f->formula));
        LS_TRY(find_formula(u, comm, all, &f->formula[k]));
        const ls_traffic sent = u->out->formulas.items[f->formula[k]].sent;
        count_sent(u, sent.bytes_sent, sent.messages_sent);
        LS_TRY(ls_play_delay(g, u->step, w->device, 0, LS_PLAY_NONE, &f->joined[k]));
        f->count++;
    }
    LS_TRY(ls_play_wait(g, w->tail, f->joined[k]));
    ls_play_label label = {w->name, w->lane, LS_TIME_COMMUNICATION, w->tail};
    LS_TRY(ls_play_delay(g, u->step, w->device, u->out->formulas.items[f->formula[k]].ns,
                         f->joined[k], &w->tail));
    ls_play_show(g, w->tail, label);
    g->nodes[w->tail].rounds = 1;
    ls_formulas *all_of = &u->out->formulas;
    LS_TRY(ls_grow("predict", &all_of->uses, all_of->use_count, sizeof *all_of->uses));
    all_of->uses[all_of->use_count++] = (ls_formula_use){w->tail, f->formula[k]};
    return LS_OK;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static ls_status exchange(unroller *u, at_work *w, const ls_virtual_comm *comm)
{
    const ls_exchange *x = &comm->exchange;
    if (!comm->whole)
        return move(u, w, comm,
                    &(ls_move){.to = x->to,
                               .from = x->from,
                               .bytes = x->bytes,
                               .sent = x->send_count,
                               .received = x->receive_count,
                               .added = x->add ? x->receive_count : 0,
                               .sent_rounds = x->to >= 0,
                               .came_rounds = x->from >= 0});
    if (u->what->level == LS_EXPAND_FORMULA)
        return by_formula(u, w, comm);
    const ls_expanded *all;
    LS_TRY(ls_expand(&u->expansions, u->what->algorithm, comm, &all));
    for (size_t i = all->first[comm->rank]; i < all->first[comm->rank + 1]; i++)
        LS_TRY(move(u, w, comm, &all->moves[i]));
    return LS_OK;
}

static ls_status add_ops(unroller *u, const ls_step_program *p, const ls_task *task, at_work *w)
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

/* Of a member, on the platform. */
static int device_of(const unroller *u, int member)
{
    return ls_virtual_number(ls_step_plan_device(&u->what->run->plan, member));
}

static ls_status add_copy(unroller *u, const ls_task_copy *copy, at_work *w)
{
    if (!copy->to)
        return LS_OK;
    const int from = device_of(u, copy->from_member), to = device_of(u, copy->to_member);
    if (from == to) {
        w->ns += u->what->durations->copy_ns * (double)copy->bytes;
        return LS_OK;
    }
    LS_TRY(flush(u, w, false));
    count_sent(u, copy->bytes, 1);
    const uint32_t before = w->tail;
    LS_TRY(ls_play_message(&u->out->graph, u->step, from, to, (double)copy->bytes, 1, w->tail,
                           &w->tail));
    ls_play_show(&u->out->graph, w->tail, (ls_play_label){w->name, w->lane, LS_TIME_COPY, before});
    w->ns += u->what->durations->message_ns;
    return LS_OK;
}

/* What a task waits for, as one activity if there is more than the one before it on its lane. */
static ls_status begin(unroller *u, const ls_step_program *p, const ls_task *task, at_work *w)
{
    const ls_step_run *run = u->what->run;
    const int component = run->components.of[task->lane];
    *w = (at_work){.device = device_of(u, run->plan.lanes.items[task->lane].member),
                   .tail = u->tail[task->lane],
                   .lane = task->lane,
                   .name = task->verb};
    if (!task->waits.count && !task->begins)
        return LS_OK;
    LS_TRY(flush(u, w, true));
    for (size_t i = 0; i < task->waits.count; i++)
        LS_TRY(ls_play_wait(&u->out->graph, u->done[p->waits[task->waits.first + i]], w->tail));
    return task->begins ? ls_play_wait(&u->out->graph, u->begun[component], w->tail) : LS_OK;
}

static ls_status add_task(unroller *u, const ls_step_program *p, const ls_task *task)
{
    at_work w;
    LS_TRY(begin(u, p, task, &w));
    LS_TRY(add_ops(u, p, task, &w));
    LS_TRY(add_copy(u, &task->copy, &w));
    LS_TRY(flush(u, &w, w.tail == LS_PLAY_NONE));
    u->done[task - p->tasks] = u->tail[task->lane] = w.tail;
    if (strcmp(task->verb, "end") == 0) {
        LS_TRY(ls_grow("predict", &u->out->ends, u->out->end_count, sizeof *u->out->ends));
        u->out->ends[u->out->end_count++] = w.tail;
    }
    if (u->out->graph.count > u->what->most)
        return ls_fail(LS_CODE_USAGE, "predict", "activities",
                       "are more than %llu, in step %u of %llu; use --collectives flows, fewer "
                       "--devices or --steps",
                       (unsigned long long)u->what->most, u->step + 1,
                       (unsigned long long)u->what->steps);
    return LS_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static ls_status add_step(unroller *u)
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
        return ls_fail(LS_CODE_CHECK, "predict", "messages",
                       "%zu ends have no other end in the step", u->waiting);
    u->pending_count = 0; /* all have met */
    for (size_t i = 0; i < u->group_count; i++) {
        memset(u->groups[i].seen, 0, (size_t)u->groups[i].size * sizeof *u->groups[i].seen);
        u->groups[i].count = 0;
    }
    for (int c = 0; c < run->components.count; c++)
        u->begun[c] = u->tail[run->components.items[c].driver];
    return LS_OK;
}

static ls_status unroll(unroller *u)
{
    const ls_step_run *run = u->what->run;
    const size_t lanes = (size_t)run->plan.lanes.count, components = (size_t)run->components.count;
    LS_TRY(ls_allocate("predict", &u->tail, lanes, sizeof *u->tail));
    LS_TRY(ls_allocate("predict", &u->begun, components, sizeof *u->begun));
    memset(u->tail, 0xff, lanes * sizeof *u->tail); /* LS_PLAY_NONE */
    memset(u->begun, 0xff, components * sizeof *u->begun);
    for (; u->step < u->what->steps; u->step++)
        LS_TRY(add_step(u));
    return ls_play_seal(&u->out->graph);
}

ls_status ls_unroll_steps(const ls_unroll *what, ls_unrolled *out)
{
    unroller u = {.what = what, .out = out, .expansions = {.level = what->level}};
    *out = (ls_unrolled){.graph = {.labelled = what->labelled}};
    ls_status status = unroll(&u);
    ls_expansions_close(&u.expansions);
    for (size_t i = 0; i < u.group_count; i++) {
        free(u.groups[i].seen);
        free(u.groups[i].joined);
        free(u.groups[i].formula);
    }
    free(u.groups);
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
    ls_formulas_close(&unrolled->formulas);
    *unrolled = (ls_unrolled){0};
}
