/* SPDX-License-Identifier: MIT */
/*
 * Which task waits for which: every conflict between lanes becomes a wait, unless others imply it.
 *
 * Lanes between which there is a wait, or a call, are a component: one program. Each task has a
 * vector clock: for every lane of its component, how many of the step's tasks have ended when it
 * begins. A wait for what the clock implies is left out. Two kinds of waits are added: a lane
 * without any waits for the step's beginning, and the last task waits for the last task of every
 * lane. So a step ends before the next one begins, and one capture holds all lanes.
 */
#include "impl/step/conflicts.h"

#include <stdlib.h>
#include <string.h>

/* ---- Conflicts ------------------------------------------------------------------------------- */

/* The latest task of each lane that one task waits for. */
typedef struct latest {
    ls_step *step;
    size_t *task; /* [lanes] from 1; 0: none */
    int *lanes;   /* of those that are there */
    int count;
} latest;

static void note(void *context, size_t earlier)
{
    latest *l = context;
    const int lane = l->step->tasks[earlier].lane;
    if (!l->task[lane])
        l->lanes[l->count++] = lane;
    if (earlier + 1 > l->task[lane])
        l->task[lane] = earlier + 1;
}

static void add_wait(ls_step *s, size_t earlier)
{
    s->waits = ls_step_grow(&s->status, s->waits, s->wait_count, sizeof *s->waits);
    if (!s->status)
        s->waits[s->wait_count++] = earlier;
}

static ls_status find_waits(ls_step *s, latest *l)
{
    ls_conflicts *conflicts = NULL;
    const ls_step *const steps[] = {s};
    LS_TRY(ls_conflicts_open(steps, 1, &conflicts));
    for (size_t t = 0; t < s->task_count && !s->status; t++) {
        s->tasks[t].wait = s->wait_count;
        ls_step_fail(s, ls_conflicts_next(conflicts, note, l));
        for (int i = 0; i < l->count; i++) {
            add_wait(s, l->task[l->lanes[i]] - 1);
            l->task[l->lanes[i]] = 0;
        }
        s->tasks[t].wait_count = s->wait_count - s->tasks[t].wait;
        l->count = 0;
    }
    ls_conflicts_close(conflicts);
    return s->status;
}

/* ---- Components ------------------------------------------------------------------------------ */

static int root(int *parent, int lane)
{
    while (parent[lane] != lane)
        lane = parent[lane] = parent[parent[lane]];
    return lane;
}

static void join_lanes(const ls_step *s, int *parent)
{
    for (size_t t = 0; t < s->task_count; t++) {
        const ls_task *task = &s->tasks[t];
        for (size_t w = 0; w < task->wait_count; w++)
            parent[root(parent, s->tasks[s->waits[task->wait + w]].lane)] =
                root(parent, task->lane);
        if (t && task->call >= 0 && task[-1].call == task->call)
            parent[root(parent, task[-1].lane)] = root(parent, task->lane);
    }
}

/* Lanes with tasks, each in a set of its own that is not numbered yet. */
static void count_lanes(const ls_step *s, int *component)
{
    for (size_t t = 0; t < s->task_count; t++)
        component[s->tasks[t].lane] = 0;
}

/* Sets each component's driver: the lane of its last task, which must be the same in every step. */
static void find_driver(ls_stepped *run, const ls_step *s)
{
    for (size_t t = 0; t < s->task_count; t++) {
        ls_component *c = &run->components[run->component[s->tasks[t].lane]];
        c->driver = s->tasks[t].lane;
        if (s == &run->step[s->kind])
            c->has[s->kind] = true;
    }
}

static ls_status find_components(ls_stepped *run, int *parent)
{
    const int lanes = run->lane_count;
    const ls_step *const steps[] = {&run->before,
                                    &run->after,
                                    &run->step[LS_TAIL + LS_LAST],
                                    &run->step[LS_FULL + LS_LAST],
                                    &run->step[LS_TAIL],
                                    &run->step[LS_FULL]};
    const size_t count = sizeof steps / sizeof *steps;
    run->component = calloc((size_t)lanes + 1, sizeof *run->component);
    run->place = calloc((size_t)lanes + 1, sizeof *run->place);
    run->components = calloc((size_t)lanes + 1, sizeof *run->components);
    if (!run->component || !run->place || !run->components)
        return ls_fail_memory("step", (size_t)lanes * sizeof *run->components);
    for (int l = 0; l < lanes; l++)
        run->component[l] = -1;
    for (size_t i = 0; i < count; i++) {
        join_lanes(steps[i], parent);
        count_lanes(steps[i], run->component);
    }
    for (int l = 0; l < lanes; l++)
        if (run->component[l] >= 0 && root(parent, l) == l)
            run->component[l] = run->component_count++;
    for (int l = 0; l < lanes; l++)
        if (run->component[l] >= 0) {
            run->component[l] = run->component[root(parent, l)];
            run->place[l] = run->components[run->component[l]].lanes++;
        }
    for (size_t i = 0; i < count; i++)
        find_driver(run, steps[i]);
    return LS_OK;
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* A clock has, for each lane of its component, the last task that has ended, from 1; 0: none. */
typedef struct sweep {
    const ls_stepped *run;
    ls_step *step;
    size_t *last;   /* [components] its last task, from 1 */
    size_t *latest; /* [lanes] its task at hand, from 1 */
    size_t *first;  /* [tasks] where its clock begins in `clocks`: when it has ended */
    size_t *clocks;
    size_t *wanted; /* [lanes + 1] what the task at hand waits for */
} sweep;

static int compare_later_first(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

/* Appends the waits that advance the clock, the latest first. */
static void keep_waits(sweep *w, size_t *clock, size_t size, size_t count)
{
    qsort(w->wanted, count, sizeof *w->wanted, compare_later_first);
    for (size_t i = 0; i < count; i++) {
        const size_t earlier = w->wanted[i];
        const size_t *its = w->clocks + w->first[earlier];
        if (clock[w->run->place[w->step->tasks[earlier].lane]] > earlier)
            continue;
        for (size_t l = 0; l < size; l++)
            clock[l] = its[l] > clock[l] ? its[l] : clock[l];
        add_wait(w->step, earlier);
    }
}

/* Collects a task's waits from `raw`; for a component's last task also the last ones of all lanes.
 */
static size_t want(sweep *w, const size_t *raw, size_t t)
{
    const ls_task *task = &w->step->tasks[t];
    const int component = w->run->component[task->lane];
    if (task->wait_count)
        memcpy(w->wanted, raw + task->wait, task->wait_count * sizeof *raw);
    if (w->last[component] != t + 1)
        return task->wait_count;
    size_t count = 0;
    for (int l = 0; l < w->run->lane_count; l++)
        if (w->run->component[l] == component && l != task->lane && w->latest[l])
            w->wanted[count++] = w->latest[l] - 1;
    return count;
}

static void sweep_task(sweep *w, const size_t *raw, size_t t)
{
    ls_task *task = &w->step->tasks[t];
    const int component = w->run->component[task->lane];
    const size_t size = (size_t)w->run->components[component].lanes, count = want(w, raw, t);
    size_t *clock = w->clocks + w->first[t];
    if (w->latest[task->lane])
        memcpy(clock, w->clocks + w->first[w->latest[task->lane] - 1], size * sizeof *clock);
    task->wait = w->step->wait_count;
    keep_waits(w, clock, size, count);
    task->wait_count = w->step->wait_count - task->wait;
    task->begins = !w->latest[task->lane] && !task->wait_count &&
                   task->lane != w->run->components[component].driver;
    clock[w->run->place[task->lane]] = w->latest[task->lane] = t + 1;
}

static ls_status check_driver(const sweep *w, int component)
{
    const size_t last = w->last[component];
    if (!last || w->step->tasks[last - 1].lane == w->run->components[component].driver)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "step", w->step->tasks[last - 1].verb,
                   "ends the smaller batch on another queue than the full one; end both on one");
}

static ls_status open_sweep(sweep *w)
{
    const ls_step *s = w->step;
    size_t words = 1;
    for (size_t t = 0; t < s->task_count; t++)
        words += (size_t)w->run->components[w->run->component[s->tasks[t].lane]].lanes;
    w->clocks = calloc(words, sizeof *w->clocks);
    w->first = calloc(s->task_count + 1, sizeof *w->first);
    if (!w->clocks || !w->first)
        return ls_fail_memory("step", words * sizeof *w->clocks);
    size_t at = 0;
    for (size_t t = 0; t < s->task_count; t++) {
        const int component = w->run->component[s->tasks[t].lane];
        w->first[t] = at;
        at += (size_t)w->run->components[component].lanes;
        w->last[component] = t + 1;
    }
    for (int c = 0; c < w->run->component_count; c++)
        LS_TRY(check_driver(w, c));
    return LS_OK;
}

/* Replaces the step's waits by those that others do not imply. */
static ls_status prune(sweep *w)
{
    ls_step *s = w->step;
    size_t *raw = s->waits;
    s->waits = NULL;
    s->wait_count = 0;
    ls_step_fail(s, open_sweep(w));
    for (size_t t = 0; t < s->task_count && !s->status; t++)
        sweep_task(w, raw, t);
    free(raw);
    free(w->clocks);
    free(w->first);
    return s->status;
}

static ls_status prune_step(const ls_stepped *run, ls_step *s)
{
    const size_t lanes = (size_t)run->lane_count + 1;
    sweep w = {.run = run,
               .step = s,
               .last = calloc(lanes, sizeof *w.last),
               .latest = calloc(lanes, sizeof *w.latest),
               .wanted = calloc(2 * lanes, sizeof *w.wanted)};
    ls_status status =
        w.last && w.latest && w.wanted ? LS_OK : ls_fail_memory("step", lanes * sizeof *w.wanted);
    if (!status)
        status = prune(&w);
    free(w.last);
    free(w.latest);
    free(w.wanted);
    return status;
}

ls_status ls_steps_order(ls_stepped *run)
{
    const size_t lanes = (size_t)run->lane_count + 1;
    size_t *latest_task = calloc(lanes, sizeof *latest_task);
    int *latest_lanes = calloc(lanes, sizeof *latest_lanes),
        *parent = calloc(lanes, sizeof *parent);
    ls_status status = latest_task && latest_lanes && parent
                           ? LS_OK
                           : ls_fail_memory("step", lanes * sizeof *latest_task);
    for (int b = 0; b < LS_KINDS && !status; b++) {
        latest l = {&run->step[b], latest_task, latest_lanes, 0};
        status = find_waits(&run->step[b], &l);
    }
    for (int l = 0; l < run->lane_count && !status; l++)
        parent[l] = l;
    if (!status)
        status = find_components(run, parent);
    for (int b = 0; b < LS_KINDS && !status; b++)
        status = prune_step(run, &run->step[b]);
    free(latest_task);
    free(latest_lanes);
    free(parent);
    return status;
}
