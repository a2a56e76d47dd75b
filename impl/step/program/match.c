/* SPDX-License-Identifier: MIT */
/*
 * Checks that the ends of messages and all-reduces match, as MPI matches sends with receives. It
 * plays a step without times: a task runs once the tasks before it on its lane, and the tasks that
 * it waits for, have run. An end of a message runs together with its other end, of the same size;
 * an end of an all-reduce together with all other ends. Nothing is buffered, so a step that
 * completes here completes with any communicator. A peer without tasks (ls_channel.arrivals)
 * serves each request; a member has one at a time. Also, the last task, except copies, of a lane on
 * which a member's step ends must be that end.
 *
 * Leaves out: ends in other processes, which are assumed to match.
 */
#include "impl/step/program/program.h"

#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

/* Elements that a peer still has to send to a member, or receive, for the current request. */
typedef struct owed {
    size_t sends, receives;
} owed;

typedef struct play {
    const ls_step_program *program;
    size_t *next; /* [lanes] the lane's next task, from 1; 0 if none */
    size_t *then; /* [tasks] the next task on its lane, from 1; 0 if none */
    bool *done;   /* [tasks] whether it has run */
    owed *owed;   /* [members, members] by member and peer */
} play;

static const ls_channel *channel_of(const play *p, const ls_task *task)
{
    return &p->program->lanes->channels[task->end.channel];
}

static int member_of(const play *p, const ls_task *task)
{
    return p->program->lanes->items[task->lane].member;
}

static const ls_task *next_on(const play *p, int lane)
{
    return p->next[lane] ? &p->program->tasks[p->next[lane] - 1] : NULL;
}

static bool is_free(const play *p, const ls_task *task)
{
    for (size_t w = 0; w < task->waits.count; w++)
        if (!p->done[p->program->waits[task->waits.first + w]])
            return false;
    return true;
}

static void run(play *p, const ls_task *task)
{
    const size_t t = (size_t)(task - p->program->tasks);
    p->done[t] = true;
    p->next[task->lane] = p->then[t];
}

/* NULL means the task's peer serves no requests. */
static owed *owed_of(const play *p, const ls_task *task)
{
    const ls_channel *c = task->end.peer < 0 ? NULL : channel_of(p, task);
    if (!c || task->end.peer < c->arrivals)
        return NULL;
    return &p->owed[(size_t)member_of(p, task) * (size_t)c->members + (size_t)task->end.peer];
}

/* Whether a peer still serves the member's previous request: it waits for the member, which must
 * not wait for another peer meanwhile. */
static bool is_owed(const play *p, const ls_task *task)
{
    const size_t members = (size_t)channel_of(p, task)->members;
    const owed *o = &p->owed[(size_t)member_of(p, task) * members];
    for (size_t i = 0; i < members; i++)
        if (o[i].sends || o[i].receives)
            return true;
    return false;
}

/* Runs a task with a peer that serves requests. */
static bool serve(play *p, const ls_task *task, owed *o)
{
    const ls_task_end *end = &task->end;
    if (end->announces && is_owed(p, task))
        return false;
    if (end->announces)
        *o = (owed){end->received, end->sent};
    else if (o->sends < end->received || o->receives < end->sent)
        return false;
    else
        *o = (owed){o->sends - end->received, o->receives - end->sent};
    run(p, task);
    return true;
}

static bool exchange(play *p, const ls_task *task)
{
    const int lane = channel_of(p, task)->lane[task->end.peer];
    if (lane < 0) { /* the peer is in another process */
        run(p, task);
        return true;
    }
    const ls_task *other = next_on(p, lane);
    if (!other || other->end.channel != task->end.channel ||
        other->end.peer != member_of(p, task) || !is_free(p, other) ||
        other->end.sent != task->end.received || other->end.received != task->end.sent)
        return false;
    run(p, other);
    run(p, task);
    return true;
}

static bool reduce(play *p, const ls_task *task)
{
    const ls_channel *c = channel_of(p, task);
    for (int m = 0; m < c->members; m++) {
        const ls_task *other = c->lane[m] < 0 ? task : next_on(p, c->lane[m]);
        if (!other || other->end.channel != task->end.channel || !is_free(p, other) ||
            strcmp(other->verb, task->verb) != 0 || other->range.first != task->range.first ||
            other->range.count != task->range.count)
            return false;
    }
    for (int m = 0; m < c->members; m++)
        if (c->lane[m] >= 0)
            run(p, next_on(p, c->lane[m]));
    return true;
}

/* Runs a task if it can run; returns whether it ran. */
static bool try_task(play *p, const ls_task *task)
{
    owed *o = owed_of(p, task);
    if (next_on(p, task->lane) != task || !is_free(p, task))
        return false;
    if (o)
        return serve(p, task, o);
    if (task->end.channel >= 0)
        return task->end.peer >= 0 ? exchange(p, task) : reduce(p, task);
    run(p, task);
    return true;
}

static ls_status refuse(const play *p, const ls_task *task, const char *why)
{
    return ls_fail(LS_CODE_CHECK, "step", task->verb, "task %zu %s",
                   (size_t)(task - p->program->tasks), why);
}

/* Whether it is the last task, except copies, of a lane on which a member's step ends. */
static bool is_last(const play *p, size_t t)
{
    const ls_task *tasks = p->program->tasks;
    size_t next = p->then[t];
    while (next && tasks[next - 1].copy.to)
        next = p->then[next - 1];
    return !next && !tasks[t].copy.to && p->program->lanes->items[tasks[t].lane].ends;
}

/* The first task that has not run is an end: all that it waits for has run. */
static ls_status judge(const play *p)
{
    const ls_step_program *s = p->program;
    for (size_t t = 0; t < s->task_count; t++) {
        const ls_task *task = &s->tasks[t];
        const owed *o = owed_of(p, task);
        if (!p->done[t])
            return refuse(
                p, task,
                "cannot finish: the other members of this operation have another size, "
                "range or order of operations; let the strategy's build function describe "
                "the same operations in one order for every member");
        if (o && (o->sends || o->receives))
            return refuse(p, task,
                          "announces messages that do not follow in this step; call "
                          "ls_message for the complete shard after ls_request in the strategy's "
                          "build function");
        if (is_last(p, t) && strcmp(task->verb, "end") != 0)
            return refuse(p, task,
                          "is this device's last task, but the last task must be the task named "
                          "end; remove what the strategy's build function appends after it");
    }
    return LS_OK;
}

static size_t count_pairs(const ls_lanes *lanes)
{
    const ls_channel *c = lanes->channels;
    const bool serves = lanes->channel_count && c->arrivals < c->members;
    return serves ? (size_t)c->members * (size_t)c->members : 0;
}

static void close(play *p)
{
    free(p->next);
    free(p->then);
    free(p->done);
    free(p->owed);
}

ls_status ls_step_program_match(const ls_step_program *s)
{
    ls_closing(close) play p = {.program = s};
    LS_TRY(ls_allocate("step", &p.next, (size_t)s->lanes->count, sizeof *p.next));
    LS_TRY(ls_allocate("step", &p.then, s->task_count, sizeof *p.then));
    LS_TRY(ls_allocate("step", &p.done, s->task_count, sizeof *p.done));
    LS_TRY(ls_allocate("step", &p.owed, count_pairs(s->lanes), sizeof *p.owed));
    for (size_t t = s->task_count; t-- > 0;) {
        const int lane = s->tasks[t].lane;
        p.then[t] = p.next[lane];
        p.next[lane] = t + 1;
    }
    /* all tasks that can run: in the order of `build`, so most steps need one round */
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t t = 0; t < s->task_count; t++)
            moved |= !p.done[t] && try_task(&p, &s->tasks[t]);
    }
    return judge(&p);
}
