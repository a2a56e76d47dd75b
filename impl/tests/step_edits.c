/* SPDX-License-Identifier: MIT */
/*
 * Edits of steps, in builds with LOCKSTEP_HOOKS: a task or a wait is changed, as a bug in a
 * strategy or in the derivation would, and checks must detect it. Set by the environment:
 *     LOCKSTEP_EDIT=KIND:NUMBER    drop, double: that task. swap: it and the next one of its lane.
 *                                  turn: it and the next one described. drop-wait: that wait.
 *                                  drop-begin: that task's, for the step's beginning
 *                  KIND:NUMBER?    not applied; a refusal says whether the step would be equivalent
 *     LOCKSTEP_PLANT=BUG           the bugs of hooks.txt that are edits, in a table here
 * Numbers count from 0 through the full batch's step, then through the smaller one's. Tasks are
 * edited as described, before the waits are derived.
 */
#include "common/base/grow.h"
#include "common/base/tests/hooks.h"
#include "impl/step/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Of tasks -------------------------------------------------------------------------------- */

static void drop(ls_step_program *s, size_t t)
{
    s->task_count--;
    memmove(&s->tasks[t], &s->tasks[t + 1], (s->task_count - t) * sizeof *s->tasks);
}

static void insert(ls_step_program *s, size_t t, ls_task task)
{
    if (!s->status)
        s->status = ls_grow("step", &s->tasks, s->task_count, sizeof *s->tasks);
    if (s->status)
        return;
    memmove(&s->tasks[t + 1], &s->tasks[t], (s->task_count - t) * sizeof *s->tasks);
    s->task_count++;
    s->tasks[t] = task;
}

static void repeat(ls_step_program *s, size_t t)
{
    ls_task again = s->tasks[t];
    if (again.call >= 0)
        again.call = s->calls++;
    insert(s, t + 1, again);
}

static void swap(ls_step_program *s, size_t t, size_t other)
{
    const ls_task keep = s->tasks[t];
    s->tasks[t] = s->tasks[other];
    s->tasks[other] = keep;
}

/* The task to exchange with in a swap or turn; the task's own number if there is none. */
static size_t partner(const ls_step_program *s, size_t t, bool lane)
{
    size_t other = t + 1;
    while (lane && other < s->task_count && s->tasks[other].lane != s->tasks[t].lane)
        other++;
    return other < s->task_count ? other : t;
}

static const ls_replica *replica_of(const ls_step_run *run, const ls_task *task)
{
    return run->resources.members[run->plan.lanes.items[task->lane].member].replica;
}

static bool meets(const ls_access *a, const void *memory, size_t bytes)
{
    return (const char *)a->memory < (const char *)memory + bytes &&
           (const char *)memory < (const char *)a->memory + a->bytes;
}

/* ---- Swaps that change nothing, though memory orders the tasks ------------------------------- */

/* Messages of one end with different peers: they do not wait for each other, and in steps that the
 * check accepts each has a buffer of its own. */
static bool are_apart(const ls_step_run *run, const ls_task *x, const ls_task *y,
                      const ls_access *a)
{
    const int member = run->plan.lanes.items[x->lane].member;
    return x->end.peer >= 0 && y->end.peer >= 0 && x->end.peer != y->end.peer &&
           !x->end.announces && !y->end.announces &&
           a->memory == run->resources.ends[x->end.channel].items[member].comm;
}

/* An announced gradient is sent once it is there, so the edit only delays it. */
static bool is_promised(const ls_step_run *run, const ls_task *task, const ls_access *a)
{
    const ls_replica *r = replica_of(run, task);
    return task->end.announces && meets(a, r->gradients, r->elements * sizeof(float));
}

/* A loss of a divided replica's place, of which another one's is the step's (records.c). */
static bool is_loss_of_none(const ls_step_run *run, const ls_task *task, const ls_access *a)
{
    const ls_step_plan *plan = &run->plan;
    const ls_replica *r = replica_of(run, task);
    return plan->parts.count && !plan->context &&
           plan->members[plan->lanes.items[task->lane].member].place != plan->loss_place &&
           (const double *)a->memory >= r->loss.parts &&
           (const char *)a->memory + a->bytes <= (const char *)(r->loss.parts + LS_REPLICA_LOSSES);
}

/* The node whose backward pass writes a part of its input's gradient; NULL: none. */
static const ls_node *part_writer(const ls_step_run *run, const ls_task *task)
{
    const ls_node *nodes = replica_of(run, task)->graph->nodes;
    return task->node >= 0 && strcmp(task->verb, "backward") == 0 &&
                   nodes[task->node].layer->writes_part
               ? &nodes[task->node]
               : NULL;
}

/* Different parts of one gradient. */
static bool write_parts(const ls_step_run *run, const ls_task *x, const ls_task *y)
{
    const ls_node *a = part_writer(run, x), *b = part_writer(run, y);
    return a && b && a != b && a->inputs[0] == b->inputs[0];
}

/* A copy to where no task of a step reads: all that touch it are copies, too. */
static bool is_copy_for_none(const ls_step_run *run, const ls_task *copy)
{
    for (int kind = 0; kind < run->kinds && copy->copy.to; kind++) {
        const ls_step_program *p = &run->program[kind];
        for (size_t t = 0; t < p->task_count; t++) {
            const ls_task *task = &p->tasks[t];
            for (size_t i = 0; i < task->accesses.count; i++) {
                const ls_access *a = &p->accesses[task->accesses.first + i];
                if (meets(a, copy->copy.to, copy->copy.bytes) &&
                    !(a->writes && task->copy.to == copy->copy.to))
                    return false;
            }
        }
    }
    return copy->copy.to;
}

/* Why it does not matter which of two tasks, x or y, is first to access `a`, of x; NULL: it does.
 */
static const char *spare(const ls_step_run *run, const ls_task *x, const ls_task *y,
                         const ls_access *a)
{
    if (is_promised(run, x, a) || are_apart(run, x, y, a))
        return "messages in another order, which all meet";
    if (is_loss_of_none(run, x, a))
        return "a loss that is not the step's";
    if (write_parts(run, x, y))
        return "each writes a part of its own";
    return is_copy_for_none(run, x) || is_copy_for_none(run, y) ? "a copy that nothing reads"
                                                                : NULL;
}

/* Whether the order of two tasks matters; *why: they are judged by that, too, and it is why not. */
static bool touch(const ls_step_run *run, const ls_step_program *s, const ls_task *x,
                  const ls_task *y, const char **why)
{
    for (size_t i = 0; i < x->accesses.count; i++) {
        const ls_access *a = &s->accesses[x->accesses.first + i];
        for (size_t k = 0; k < y->accesses.count; k++) {
            const ls_access *b = &s->accesses[y->accesses.first + k];
            if ((!a->writes && !b->writes) || !meets(a, b->memory, b->bytes))
                continue;
            const char *spared = why ? spare(run, x, y, a) : NULL;
            if (why && !spared)
                spared = spare(run, y, x, b);
            if (!spared)
                return true;
            *why = spared;
        }
    }
    return false;
}

/* Whether they can be exchanged: neither conflicts with a task between them. */
static bool can_swap(const ls_step_run *run, const ls_step_program *s, size_t t, size_t other,
                     const char **why)
{
    for (size_t i = t; i <= other; i++)
        if ((i != t && touch(run, s, &s->tasks[t], &s->tasks[i], why)) ||
            (i != other && touch(run, s, &s->tasks[i], &s->tasks[other], why)))
            return false;
    return true;
}

/* ---- The edit that is asked for -------------------------------------------------------------- */

typedef struct edit {
    char kind[16];
    size_t number;
    bool asks; /* only describes the edit */
} edit;

static bool find_edit(edit *e)
{
    const char *text = ls_hooks_edit();
    char end = 0;
    if (!text || sscanf(text, "%15[a-z-]:%zu%c", e->kind, &e->number, &end) < 2)
        return false;
    e->asks = end == '?';
    return true;
}

static bool is(const edit *e, const char *kind)
{
    return strcmp(e->kind, kind) == 0;
}

static ls_status answer(const char *text)
{
    return ls_fail(LS_CODE_USAGE, "LOCKSTEP_EDIT", ls_hooks_edit(), "%s", text);
}

static ls_status answer_same(const char *why)
{
    return ls_fail(LS_CODE_USAGE, "LOCKSTEP_EDIT", ls_hooks_edit(), "is equivalent: %s", why);
}

static ls_status answer_none(const char *what, size_t there)
{
    return ls_fail(LS_CODE_USAGE, "LOCKSTEP_EDIT", ls_hooks_edit(), "no such %s; there are %zu",
                   what, there);
}

static size_t count_all(const ls_step_run *run, bool waits)
{
    size_t all = 0;
    for (int kind = 0; kind < run->kinds; kind++)
        all += waits ? run->program[kind].wait_count : run->program[kind].task_count;
    return all;
}

static ls_status edit_task(const ls_step_run *run, ls_step_program *s, size_t t, const edit *e)
{
    const bool swaps = is(e, "swap") || is(e, "turn");
    const size_t other = swaps ? partner(s, t, is(e, "swap")) : t;
    const char *why = NULL;
    if (swaps && other == t)
        return answer_same("nothing follows");
    if (swaps && is(e, "turn") && s->tasks[t].lane == s->tasks[other].lane)
        return answer_same("to the swap on their lane");
    if (!swaps && !s->tasks[t].ops.count && !s->tasks[t].copy.to)
        return answer_same("it does nothing");
    if (swaps && can_swap(run, s, t, other, NULL))
        return answer_same("neither touches what the other does");
    if (swaps && e->asks && can_swap(run, s, t, other, &why))
        return answer_same(why);
    if (e->asks)
        return answer("is another step");
    if (swaps)
        swap(s, t, other);
    else if (is(e, "drop"))
        drop(s, t);
    else
        repeat(s, t);
    return s->status;
}

/* ---- Bugs that are edits --------------------------------------------------------------------- */

enum { DROP = 1, DOUBLE, EARLY, DROP_LAST_OP, DROP_WAIT, DROP_BEGIN };
enum { ALL, LAST, LAST_RANGE, LAST_MEMBER, BEHIND };

/* The tasks of a verb: all, the last ones, or those after the other verb's; or the waits for it. */
static const struct planted {
    int bug, kind, which;
    const char *verb, *on;
    bool tail; /* of the smaller batch only */
} table[] = {
    {LS_PLANT_bucket_left_out, DROP, LAST_RANGE, "all-reduce", NULL, false},
    {LS_PLANT_bucket_early, EARLY, LAST_RANGE, "all-reduce", "backward", false},
    {LS_PLANT_no_sync_ever, DROP, ALL, "all-reduce", NULL, false},
    {LS_PLANT_tail_not_reduced, DROP, ALL, "all-reduce", NULL, true},
    {LS_PLANT_stale_variables, DROP, ALL, "fetch", NULL, false},
    {LS_PLANT_fetched_twice, DOUBLE, ALL, "fetch", NULL, false},
    {LS_PLANT_tower_left_out, DROP_LAST_OP, ALL, "add up", NULL, false},
    {LS_PLANT_applied_twice, DOUBLE, ALL, "update", NULL, false},
    {LS_PLANT_update_left_out, DROP, LAST_MEMBER, "update", NULL, false},
    {LS_PLANT_done_wait, DROP_WAIT, ALL, "add up", "", false},
    {LS_PLANT_ready_wait, DROP_BEGIN, ALL, "fetch", NULL, false},
    {LS_PLANT_final_wait, DROP_WAIT, ALL, "all-reduce", "backward", false},
    {LS_PLANT_reduced_wait, DROP_WAIT, ALL, "update", "all-reduce", false},
    {LS_PLANT_push_early, DROP_WAIT, ALL, "", "backward", false},
    {LS_PLANT_push_overwrites, EARLY, ALL, "add", "receive", false},
    {LS_PLANT_pull_wait, DROP_WAIT, ALL, "forward", "receive", false},
    {LS_PLANT_branch_left_out, DROP, ALL, "add up", NULL, false},
    {LS_PLANT_copy_stale, DROP, BEHIND, "send", "update", false},
    {LS_PLANT_stage_stale, DROP, LAST_MEMBER, "update", NULL, false},
    {LS_PLANT_micro_left_out, DROP, LAST, "add up", NULL, false},
    {LS_PLANT_border_wait, DROP_WAIT, ALL, "", "send", false},
    {LS_PLANT_share_not_summed, DROP, LAST_RANGE, "reduce-scatter", NULL, false},
    {LS_PLANT_scatter_early, EARLY, LAST_RANGE, "reduce-scatter", "backward", false},
    {LS_PLANT_gather_left_out, DROP, LAST_RANGE, "all-gather", NULL, false},
    {LS_PLANT_gather_stale, EARLY, LAST_RANGE, "all-gather", "update", false},
    {LS_PLANT_shared_wait, DROP_WAIT, ALL, "update", "reduce-scatter", false},
    {LS_PLANT_window_early, DROP_WAIT, ALL, "all-gather", "", false},
    {LS_PLANT_window_not_refilled, DROP, BEHIND, "all-gather", "backward", false},
    {LS_PLANT_place_not_reduced, DROP, LAST_RANGE, "all-reduce", NULL, false},
    {LS_PLANT_outputs_not_summed, DROP, ALL, "sum outputs", NULL, false},
    {LS_PLANT_dx_not_summed, DROP, ALL, "sum gradients", NULL, false},
    {LS_PLANT_norm_partial, DROP, ALL, "sum variables", NULL, false},
    {LS_PLANT_clip_late, EARLY, ALL, "update", "clip", false},
};

static const struct planted *find_planted(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (ls_hooks_planted(table[i].bug))
            return &table[i];
    return NULL;
}

static bool says(const ls_task *task, const char *verb)
{
    return !*verb || strcmp(task->verb, verb) == 0;
}

/* The last task of the verb. */
static const ls_task *last_of(const ls_step_program *s, const char *verb)
{
    const ls_task *last = NULL;
    for (size_t t = 0; t < s->task_count; t++)
        last = says(&s->tasks[t], verb) ? &s->tasks[t] : last;
    return last;
}

static bool is_meant(const struct planted *p, const ls_task *task, const ls_task *last, bool behind)
{
    if (!says(task, p->verb))
        return false;
    if (p->which == LAST)
        return task->ops.first == last->ops.first;
    if (p->which == LAST_RANGE)
        return task->range.first == last->range.first && task->range.count == last->range.count;
    return p->which == ALL || (p->which == LAST_MEMBER && task->lane == last->lane) ||
           (p->which == BEHIND && behind);
}

/* Moves it before the latest task of the other verb on its member's lane. */
static void move_early(ls_step_program *s, size_t t, const char *verb)
{
    const ls_task task = s->tasks[t];
    const int member = s->lanes->items[task.lane].member;
    size_t to = t;
    for (size_t i = 0; i < t; i++)
        if (says(&s->tasks[i], verb) && s->lanes->items[s->tasks[i].lane].member == member)
            to = i;
    memmove(&s->tasks[to + 1], &s->tasks[to], (t - to) * sizeof task);
    s->tasks[to] = task;
}

static void plant(ls_step_program *s, const struct planted *p)
{
    const ls_task *found = last_of(s, p->verb);
    const ls_task last = found ? *found : (ls_task){0};
    bool behind = false;
    for (size_t t = 0; t < s->task_count && !s->status; t++) {
        behind = behind || (p->on && says(&s->tasks[t], p->on));
        if (!is_meant(p, &s->tasks[t], &last, behind))
            continue;
        if (p->kind == DROP)
            drop(s, t--);
        else if (p->kind == DOUBLE)
            repeat(s, t++);
        else if (p->kind == EARLY)
            move_early(s, t, p->on);
        else if (p->kind == DROP_LAST_OP)
            s->tasks[t].ops.count--;
        if (p->which == LAST_MEMBER)
            return;
    }
}

ls_status ls_steps_edit_tasks(ls_step_run *run)
{
    const struct planted *p = find_planted();
    edit e;
    if (!ls_hooks_edits())
        return LS_OK;
    for (int b = p && p->tail ? LS_TAIL : LS_FULL; p && b < run->kinds; b++)
        plant(&run->program[b], p);
    if (!find_edit(&e) || is(&e, "drop-wait") || is(&e, "drop-begin"))
        return LS_OK;
    for (int b = 0; b < run->kinds; b++) {
        if (e.number < run->program[b].task_count)
            return edit_task(run, &run->program[b], e.number, &e);
        e.number -= run->program[b].task_count;
    }
    return answer_none("task", count_all(run, false));
}

/* ---- Of waits -------------------------------------------------------------------------------- */

static void drop_wait(ls_step_program *s, ls_task *task, size_t at)
{
    size_t *waits = s->waits + task->waits.first;
    task->waits.count--;
    memmove(waits + at, waits + at + 1, (task->waits.count - at) * sizeof *waits);
}

static void plant_wait(ls_step_program *s, const struct planted *p)
{
    for (size_t t = 0; t < s->task_count; t++) {
        ls_task *task = &s->tasks[t];
        if (!says(task, p->verb))
            continue;
        if (p->kind == DROP_BEGIN)
            task->begins = false;
        for (size_t w = task->waits.count; w-- > 0 && p->kind == DROP_WAIT;)
            if (says(&s->tasks[s->waits[task->waits.first + w]], p->on))
                drop_wait(s, task, w);
    }
}

/* The task of the numbered wait; *at: which of its waits. */
static ls_task *find_wait(ls_step_run *run, size_t number, ls_step_program **s, size_t *at)
{
    for (int b = 0; b < run->kinds; b++) {
        *s = &run->program[b];
        for (size_t t = 0; t < (*s)->task_count; t++) {
            *at = number;
            if (number < (*s)->tasks[t].waits.count)
                return &(*s)->tasks[t];
            number -= (*s)->tasks[t].waits.count;
        }
    }
    return NULL;
}

static ls_task *find_begin(ls_step_run *run, size_t number)
{
    for (int b = 0; b < run->kinds; number -= run->program[b++].task_count)
        if (number < run->program[b].task_count)
            return &run->program[b].tasks[number];
    return NULL;
}

/* The answer to KIND:NUMBER?: is anything unordered without it? Only fences are redundant. */
static ls_status judge(const ls_step_run *run)
{
    ls_status raced = ls_steps_check(&run->base);
    const bool spared = !raced;
    ls_status_free(raced);
    return spared ? answer_same("a fence that no memory asks for") : answer("is another step");
}

static ls_status edit_waits(ls_step_run *run)
{
    const struct planted *p = find_planted();
    edit e;
    size_t at = 0;
    ls_step_program *s = NULL;
    if (!ls_hooks_edits())
        return LS_OK;
    for (int b = 0; p && b < run->kinds; b++)
        plant_wait(&run->program[b], p);
    if (!find_edit(&e) || (!is(&e, "drop-wait") && !is(&e, "drop-begin")))
        return LS_OK;
    ls_task *task =
        is(&e, "drop-wait") ? find_wait(run, e.number, &s, &at) : find_begin(run, e.number);
    if (!task)
        return answer_none("wait", count_all(run, true));
    if (is(&e, "drop-wait"))
        drop_wait(s, task, at);
    else if (task->begins)
        task->begins = false;
    else
        return answer_same("it does not wait for the beginning");
    return e.asks ? judge(run) : LS_OK;
}

/* Steps are checked whenever they are built, except edited steps of a strategy that the gate
 * compares: there the gate must find the edit. */
ls_status ls_steps_edit_waits(ls_step_run *run)
{
    LS_TRY(edit_waits(run));
    const bool edited = ls_hooks_edits() && (ls_hooks_edit() || find_planted());
    return edited && !ls_strategy_alone(run->base.strategy) ? LS_OK : ls_steps_check(&run->base);
}
