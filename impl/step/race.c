/* SPDX-License-Identifier: MIT */
/*
 * The race check: what must hold of steps, by their tasks alone; see ls_stepped_check.
 *
 * Any two tasks that touch the same bytes, one of them writing, must be ordered: by their lane, by
 * waits, or by the beginning of a step after its driver. It looks at two steps in a row, of each
 * size. Communicators order nothing. Each task has a vector clock: for every lane of its component,
 * the last task that is known to have ended.
 *
 * Besides, no step may have an operation more often than it is to be done, and all ends that wait
 * for each other must meet (meetings.c).
 */
#include "impl/step/conflicts.h"
#include "impl/step/names.h"
#include "impl/step/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- Words ----------------------------------------------------------------------------------- */

static void say_task(const ls_step *s, const ls_task *task, FILE *out)
{
    fprintf(out, "task %zu (", (size_t)(task - s->tasks));
    ls_names_lane(s->run, task->lane, out);
    fputs(": ", out);
    ls_names_task(s, task, out);
    fputc(')', out);
}

/* What both touch, one of them writing. */
static ls_access common_to(const ls_step *a, const ls_task *x, const ls_step *b, const ls_task *y)
{
    for (size_t i = 0; i < x->access_count; i++) {
        const ls_access *one = &a->accesses[x->access + i];
        for (size_t k = 0; k < y->access_count; k++) {
            const ls_access *other = &b->accesses[y->access + k];
            const char *begin = one->memory, *end = begin + one->bytes, *its = other->memory;
            const char *its_end = its + other->bytes;
            begin = its > begin ? its : begin;
            end = its_end < end ? its_end : end;
            if (begin < end && (one->writes || other->writes))
                return (ls_access){begin, (size_t)(end - begin), true};
        }
    }
    return (ls_access){0};
}

/* Two tasks: x of `a`, then y of `b`, the same step or the next one. */
typedef struct pair {
    const ls_step *a, *b;
    const ls_task *x, *y;
    bool next;
} pair;

static ls_status say_race(const pair *p, FILE *out)
{
    const ls_access both = common_to(p->a, p->x, p->b, p->y);
    ls_names *names = NULL;
    LS_TRY(ls_names_open(p->b->run, &names));
    say_task(p->b, p->y, out);
    fputs(" and ", out);
    say_task(p->a, p->x, out);
    fprintf(out, "%s touch ", p->next ? " of the step before" : "");
    ls_status status = ls_names_accesses(names, p->b, p->y, &both, 1, true, out);
    ls_names_close(names);
    return status;
}

static ls_status fail_race(const pair *p)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return ls_fail_memory("step", BUFSIZ);
    ls_status status = say_race(p, out);
    const bool whole = !fclose(out);
    if (!status)
        status = whole ? ls_fail(LS_CODE_CHECK, "race", NULL,
                                 "%s, in no order; operations say what they touch", text)
                       : ls_fail_memory("step", size);
    free(text);
    return status;
}

/* ---- Races ----------------------------------------------------------------------------------- */

/* Tasks are numbered through both steps, from 1; 0 stands for none. */
typedef struct sweep {
    const ls_stepped *run;
    const ls_step *steps[2];
    size_t *latest; /* [lanes] the lane's latest task */
    size_t *begun;  /* [components] the driver's latest when the present step begins */
    size_t *first;  /* [tasks] where its clock is: what has ended when it has */
    size_t *clocks;
    size_t *clock;    /* of the present task */
    size_t task, met; /* the present task, from 0; the one that it races with, or 0 */
} sweep;

static const ls_task *task_of(const sweep *w, size_t number, const ls_step **step)
{
    const size_t first = w->steps[0]->task_count;
    *step = w->steps[number >= first];
    return &(*step)->tasks[number - (number >= first ? first : 0)];
}

static void meet(void *context, size_t earlier)
{
    sweep *w = context;
    const ls_step *step;
    const int lane = task_of(w, earlier, &step)->lane;
    const int own = task_of(w, w->task, &step)->lane;
    const bool tied = w->run->component[lane] == w->run->component[own];
    if (!w->met && (!tied || w->clock[w->run->place[lane]] <= earlier))
        w->met = earlier + 1;
}

static void hear(sweep *w, size_t size, size_t earlier)
{
    for (size_t l = 0; earlier && l < size; l++) {
        const size_t its = w->clocks[w->first[earlier - 1] + l];
        w->clock[l] = its > w->clock[l] ? its : w->clock[l];
    }
}

static void begin_step(sweep *w)
{
    for (int c = 0; c < w->run->component_count; c++)
        w->begun[c] = w->latest[w->run->components[c].driver];
}

static ls_status take(sweep *w, ls_conflicts *conflicts)
{
    const ls_step *s;
    const ls_task *task = task_of(w, w->task, &s);
    const int component = w->run->component[task->lane];
    const size_t size = (size_t)w->run->components[component].lanes,
                 before = w->task - (size_t)(task - s->tasks);
    if (task == s->tasks)
        begin_step(w);
    w->clock = w->clocks + w->first[w->task];
    hear(w, size, w->latest[task->lane]);
    hear(w, size, task->begins ? w->begun[component] : 0);
    for (size_t i = 0; i < task->wait_count; i++)
        hear(w, size, before + s->waits[task->wait + i] + 1);
    LS_TRY(ls_conflicts_next(conflicts, meet, w));
    w->clock[w->run->place[task->lane]] = w->latest[task->lane] = w->task + 1;
    if (!w->met)
        return LS_OK;
    pair p = {.b = s, .y = task, .next = w->met <= before};
    p.x = task_of(w, w->met - 1, &p.a);
    return fail_race(&p);
}

static ls_status open_clocks(sweep *w, size_t tasks)
{
    size_t words = 0;
    const ls_step *s;
    for (size_t t = 0; t < tasks; t++) {
        w->first[t] = words;
        words += (size_t)w->run->components[w->run->component[task_of(w, t, &s)->lane]].lanes;
    }
    w->clocks = calloc(words + 1, sizeof *w->clocks);
    return w->clocks ? LS_OK : ls_fail_memory("step", words * sizeof *w->clocks);
}

static ls_status check_races(sweep *w, size_t tasks)
{
    ls_conflicts *conflicts = NULL;
    LS_TRY(open_clocks(w, tasks));
    LS_TRY(ls_conflicts_open(w->steps, 2, &conflicts));
    ls_status status = LS_OK;
    for (w->task = 0; w->task < tasks && !status; w->task++)
        status = take(w, conflicts);
    ls_conflicts_close(conflicts);
    return status;
}

static ls_status check_pair(const ls_stepped *run, const ls_step *a, const ls_step *b)
{
    const size_t lanes = (size_t)run->lane_count + 1, tasks = a->task_count + b->task_count;
    sweep w = {.run = run,
               .steps = {a, b},
               .latest = calloc(lanes, sizeof *w.latest),
               .begun = calloc(lanes, sizeof *w.begun),
               .first = calloc(tasks + 1, sizeof *w.first)};
    ls_status status = w.latest && w.begun && w.first
                           ? check_races(&w, tasks)
                           : ls_fail_memory("step", tasks * sizeof *w.first);
    free(w.latest);
    free(w.begun);
    free(w.first);
    free(w.clocks);
    return status;
}

/* ---- Operations ------------------------------------------------------------------------------ */

typedef struct ops {
    ls_op **items;
    size_t count;
    ls_status status;
} ops;

static int compare_ops(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t) * (ls_op *const *)a, y = (uintptr_t) * (ls_op *const *)b;
    return (x > y) - (x < y);
}

static void add_ops(ops *all, ls_op *const *items, size_t count)
{
    for (size_t i = 0; i < count && !all->status; i++) {
        all->items = ls_step_grow(&all->status, all->items, all->count, sizeof *all->items);
        if (!all->status)
            all->items[all->count++] = items[i];
    }
}

/* Adds the operations of the slices' acts. */
static void add_acts(const ls_step *s, ops *all)
{
    const ls_stepped *run = s->run;
    for (int m = 0; m < run->shared.all; m++) {
        const ls_slice *slice = ls_step_member(s, m)->slice[s->which];
        size_t count = 0;
        const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
        for (size_t i = 0; i < count * LS_NET_LISTS; i++) {
            const ls_op_list *list = acts[i / LS_NET_LISTS].lists[i % LS_NET_LISTS];
            add_ops(all, list ? list->items : NULL, list ? list->count : 0);
        }
    }
}

/* Both sorted: no operation is in `said` more often than in `acts`, or (if in none) once. */
static ls_status compare_lists(const ops *said, const ops *acts)
{
    size_t its = 0;
    for (size_t i = 0, times = 1; i < said->count; i++) {
        times = i && said->items[i] == said->items[i - 1] ? times + 1 : 1;
        while (its < acts->count && compare_ops(&acts->items[its], &said->items[i]) < 0)
            its++;
        const bool there = its < acts->count && acts->items[its] == said->items[i];
        its += there;
        if (!there && times > 1)
            return ls_fail(LS_CODE_CHECK, "step", said->items[i]->name,
                           "is once too often in it; what is to be done is said once");
    }
    return LS_OK;
}

/* No operation is twice in a step; a net that computes several shards in turn has its own that
 * often. */
static ls_status check_once(const ls_step *s)
{
    ops said = {0}, acts = {0};
    for (size_t t = 0; t < s->task_count; t++)
        add_ops(&said, s->ops + s->tasks[t].op, s->tasks[t].op_count);
    add_acts(s, &acts);
    ls_status status = ls_status_first(said.status, acts.status);
    if (said.count)
        qsort(said.items, said.count, sizeof(ls_op *), compare_ops);
    if (acts.count)
        qsort(acts.items, acts.count, sizeof(ls_op *), compare_ops);
    if (!status)
        status = compare_lists(&said, &acts);
    free(said.items);
    free(acts.items);
    return status;
}

static ls_status check_step(const ls_step *s)
{
    LS_TRY(check_once(s));
    return ls_step_check_meetings(s);
}

/* Checks pairs of steps in a row, of all kinds, except two smaller batches. */
ls_status ls_stepped_check(const ls_run *run)
{
    const ls_stepped *me = (const ls_stepped *)run;
    for (int kind = 0; kind < LS_KINDS; kind++)
        LS_TRY(check_step(&me->step[kind]));
    for (int a = 0; a < LS_KINDS; a++)
        for (int b = 0; b < LS_KINDS; b++)
            if (me->step[a].task_count && me->step[b].task_count &&
                a % LS_BATCHES + b % LS_BATCHES < 2)
                LS_TRY(check_pair(me, &me->step[a], &me->step[b]));
    return LS_OK;
}
