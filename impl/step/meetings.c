/* SPDX-License-Identifier: MIT */
/*
 * Checks that all ends of messages and all-reduces match; part of the check of steps (race.c). It
 * simulates a step: a task runs once the tasks before it on its lane, and those that it waits for,
 * have run. An end of a message runs together with its other end, of the same size; an end of an
 * all-reduce together with all other ends. Nothing is buffered, so a step that completes here
 * completes with any communicator. A server that serves requests as they arrive serves each. Also,
 * every member that computes must end its step.
 *
 * Leaves out: ends in other processes, which are assumed to match.
 */
#include "impl/step/names.h"
#include "impl/step/served.h"

#include <stdlib.h>
#include <string.h>

/* Elements that a server has yet to send to a worker, or receive, for the current request. */
typedef struct told {
    size_t sends, receives;
} told;

typedef struct play {
    const ls_step *step;
    size_t *next; /* [lanes] the lane's next task, from 1; 0: none */
    size_t *then; /* [tasks] the next task on its lane, from 1; 0: none */
    bool *gone;   /* [tasks] whether it has run */
    told *told;   /* [members, members] by worker and server; NULL: no requests are sent */
} play;

static const ls_task *next_on(const play *p, int lane)
{
    return p->next[lane] ? &p->step->tasks[p->next[lane] - 1] : NULL;
}

static bool is_free(const play *p, const ls_task *task)
{
    for (size_t w = 0; w < task->wait_count; w++)
        if (!p->gone[p->step->waits[task->wait + w]])
            return false;
    return true;
}

static void go(play *p, const ls_task *task)
{
    const size_t t = (size_t)(task - p->step->tasks);
    p->gone[t] = true;
    p->next[task->lane] = p->then[t];
}

static told *told_of(const play *p, const ls_task *task)
{
    const ls_stepped *run = p->step->run;
    const int member = run->lanes[task->lane].member;
    return &p->told[(size_t)member * (size_t)run->total + (size_t)task->peer];
}

/* Runs a worker's task with a server that serves requests as they arrive. */
static bool serve(play *p, const ls_task *task)
{
    told *t = told_of(p, task);
    if (task->announces && (t->sends || t->receives))
        return false; /* the server still serves the previous request */
    if (task->announces)
        *t = (told){task->received, task->sent};
    else if (t->sends < task->received || t->receives < task->sent)
        return false;
    else
        *t = (told){t->sends - task->received, t->receives - task->sent};
    go(p, task);
    return true;
}

static bool pass_message(play *p, const ls_task *task)
{
    const ls_stepped *run = p->step->run;
    const ls_message_end *end = &run->ends[task->peer];
    if (end->control)
        return serve(p, task);
    if (!end->comm) { /* the peer is in another process */
        go(p, task);
        return true;
    }
    const ls_task *other = next_on(p, end->lane);
    if (!other || other->peer != run->lanes[task->lane].member || !is_free(p, other) ||
        other->sent != task->received || other->received != task->sent)
        return false;
    go(p, other);
    go(p, task);
    return true;
}

static const ls_group *group_of(const ls_stepped *run, const ls_task *task)
{
    int g = 0;
    while (run->groups[g].comms != task->ends)
        g++;
    return &run->groups[g];
}

static bool reduce(play *p, const ls_task *task)
{
    const ls_group *group = group_of(p->step->run, task);
    for (int i = 0; i < group->count; i++) {
        const ls_task *other = next_on(p, group->ends[i].lane);
        if (!other || other->ends != task->ends || !is_free(p, other) ||
            strcmp(other->verb, task->verb) != 0 || other->range.first != task->range.first ||
            other->range.count != task->range.count)
            return false;
    }
    for (int i = 0; i < group->count; i++)
        go(p, next_on(p, group->ends[i].lane));
    return true;
}

/* Runs a task if it can run; returns whether it ran. */
static bool take(play *p, const ls_task *task)
{
    if (next_on(p, task->lane) != task || !is_free(p, task))
        return false;
    if (task->peer >= 0)
        return pass_message(p, task);
    if (task->ends)
        return reduce(p, task);
    go(p, task);
    return true;
}

/* Runs all tasks that can run. They are in the order of `build`, so most steps need one round. */
static void take_all(play *p)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t t = 0; t < p->step->task_count; t++)
            moved |= !p->gone[t] && take(p, &p->step->tasks[t]);
    }
}

static ls_status fail_task(const ls_task *task, size_t number, const char *why)
{
    return ls_fail(LS_CODE_CHECK, "step", task->verb, "task %zu %s", number, why);
}

/* The last task of a member that owns variables, or of a server that takes part in the step, must
 * be its end, which advances its step number. */
static ls_status check_end(const play *p, const ls_task *task)
{
    const ls_step *s = p->step;
    const int members = s->run->served ? s->run->total : ls_members(s);
    const size_t t = (size_t)(task - s->tasks);
    if (ls_holder(s) >= 0 || p->then[t] || task->lane >= members || strcmp(task->verb, "end") == 0)
        return LS_OK;
    return fail_task(task, t, "is the last of its device, whose step has no end");
}

static ls_status judge(const play *p)
{
    const ls_step *s = p->step;
    for (size_t t = 0; t < s->task_count; t++) {
        const ls_task *task = &s->tasks[t];
        if (!p->gone[t] && next_on(p, task->lane) == task && (task->ends || task->peer >= 0))
            return fail_task(task, t,
                             "waits in vain: its other ends say something else, or in another "
                             "order; all say the same in one order");
        if (p->gone[t] && task->peer >= 0 && p->told &&
            (told_of(p, task)->sends || told_of(p, task)->receives))
            return fail_task(task, t, "is to be followed by messages that are not said");
    }
    for (size_t t = 0; t < s->task_count; t++) {
        if (!p->gone[t])
            return fail_task(&s->tasks[t], t, "waits for one that never comes");
        LS_TRY(check_end(p, &s->tasks[t]));
    }
    return LS_OK;
}

static void put_in_lanes(play *p)
{
    for (size_t t = p->step->task_count; t-- > 0;) {
        const int lane = p->step->tasks[t].lane;
        p->then[t] = p->next[lane];
        p->next[lane] = t + 1;
    }
}

ls_status ls_step_check_meetings(const ls_step *s)
{
    const ls_stepped *run = s->run;
    const size_t members = (size_t)run->total,
                 pairs =
                     run->served && ls_ps_by_arrival(&run->base.job->ps) ? members * members : 0;
    play p = {.step = s,
              .next = calloc((size_t)run->lane_count + 1, sizeof *p.next),
              .then = calloc(s->task_count + 1, sizeof *p.then),
              .gone = calloc(s->task_count + 1, sizeof *p.gone),
              .told = pairs ? calloc(pairs, sizeof *p.told) : NULL};
    ls_status status = p.next && p.then && p.gone && (p.told || !pairs)
                           ? LS_OK
                           : ls_fail_memory("step", s->task_count * sizeof *p.then);
    if (!status) {
        put_in_lanes(&p);
        take_all(&p);
        status = judge(&p);
    }
    free(p.next);
    free(p.then);
    free(p.gone);
    free(p.told);
    return status;
}
