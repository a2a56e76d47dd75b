/* SPDX-License-Identifier: MIT */
/*
 * Which task waits for which: each conflict between lanes becomes a wait, unless others imply it.
 *
 * Lanes connected by a wait or a joint call form a component, which is one program. A wait is
 * dropped if the task's vector clock (sweep.h) implies it. Two kinds are added: a lane without a
 * wait waits for the beginning of the step, and the last task waits for the last task of every
 * lane. So a step ends before the next one begins, and one capture has all lanes.
 */
#include "common/base/grow.h"
#include "impl/step/sweep.h"

#include <stdlib.h>

/* ---- Components ------------------------------------------------------------------------------ */

/* Union-find: lanes of one component have the same root. */
typedef struct union_of_lanes {
    const ls_step *step;
    int *parent; /* [lanes] */
    int lane;    /* of the current task */
} union_of_lanes;

static int root(int *parent, int lane)
{
    while (parent[lane] != lane)
        lane = parent[lane] = parent[parent[lane]];
    return lane;
}

static void join(void *context, size_t earlier, ls_access both)
{
    (void)both;
    const union_of_lanes *u = context;
    u->parent[root(u->parent, u->step->tasks[earlier].lane)] = root(u->parent, u->lane);
}

static ls_status join_lanes(const ls_step *s, int *parent)
{
    ls_sweep w;
    union_of_lanes u = {.step = s, .parent = parent};
    ls_status status = ls_sweep_open(s->run, &s, 1, &w);
    for (size_t t = 0; t < s->task_count && !status; t++) {
        const ls_task *task = ls_sweep_next(&w);
        u.lane = task->lane;
        status = ls_sweep_meet(&w, join, &u);
        if (t && task->call >= 0 && task[-1].call == task->call)
            join(&u, t - 1, (ls_access){0});
    }
    ls_sweep_close(&w);
    return status;
}

/* Marks lanes that have tasks, to be numbered by component. */
static void count_lanes(const ls_step *s, int *component)
{
    for (size_t t = 0; t < s->task_count; t++)
        component[s->tasks[t].lane] = 0;
}

/* Sets each component's driver: the lane of its last task, which must be the same in all steps. */
static void find_driver(ls_stepped *run, const ls_step *s)
{
    for (size_t t = 0; t < s->task_count; t++) {
        ls_component *c = &run->components[run->component[s->tasks[t].lane]];
        c->driver = s->tasks[t].lane;
        c->has[s->kind] = true;
    }
}

static ls_status find_components(ls_stepped *run, int *parent)
{
    const int lanes = run->lane_count;
    for (int l = 0; l < lanes; l++)
        parent[l] = l;
    for (int kind = 0; kind < LS_STEPS; kind++)
        LS_TRY(join_lanes(&run->step[kind], parent));
    LS_TRY(ls_allocate("step", &run->component, (size_t)lanes, sizeof *run->component));
    LS_TRY(ls_allocate("step", &run->rank_in_component, (size_t)lanes, sizeof(int)));
    LS_TRY(ls_allocate("step", &run->components, (size_t)lanes, sizeof *run->components));
    for (int l = 0; l < lanes; l++)
        run->component[l] = -1;
    for (int kind = 0; kind < LS_STEPS; kind++)
        count_lanes(&run->step[kind], run->component);
    for (int l = 0; l < lanes; l++)
        if (run->component[l] >= 0 && root(parent, l) == l)
            run->component[l] = run->component_count++;
    for (int l = 0; l < lanes; l++)
        if (run->component[l] >= 0) {
            run->component[l] = run->component[root(parent, l)];
            run->rank_in_component[l] = run->components[run->component[l]].lanes++;
        }
    for (int kind = LS_STEPS; kind-- > 0;)
        find_driver(run, &run->step[kind]);
    return LS_OK;
}

/* ---- Waits ----------------------------------------------------------------------------------- */

typedef struct ordering {
    ls_sweep sweep;
    ls_step *step;
    size_t *last;   /* [components] its last task, from 1; 0: none */
    size_t *wanted; /* [lanes] the latest task to wait for, from 1; 0: none */
} ordering;

static void want(void *context, size_t earlier, ls_access both)
{
    (void)both;
    ordering *o = context;
    size_t *wanted = &o->wanted[o->step->tasks[earlier].lane];
    *wanted = earlier + 1 > *wanted ? earlier + 1 : *wanted;
}

/* Removes the latest task from `wanted` and returns it; 0: none is left. */
static size_t take_wanted(ordering *o)
{
    int latest = 0;
    for (int l = 1; l < o->sweep.run->lane_count; l++)
        latest = o->wanted[l] > o->wanted[latest] ? l : latest;
    const size_t taken = o->wanted[latest];
    o->wanted[latest] = 0;
    return taken;
}

static ls_status order_task(ordering *o)
{
    const ls_stepped *run = o->sweep.run;
    ls_step *s = o->step;
    ls_task *task = &s->tasks[o->sweep.task];
    const int component = run->component[task->lane];
    LS_TRY(ls_sweep_meet(&o->sweep, want, o));
    for (int l = 0; l < run->lane_count && o->last[component] == o->sweep.next; l++)
        if (run->component[l] == component)
            o->wanted[l] = o->sweep.latest[l];
    o->wanted[task->lane] = 0;
    task->wait = s->wait_count;
    for (size_t wanted = take_wanted(o); wanted; wanted = take_wanted(o)) {
        if (ls_sweep_knows(&o->sweep, wanted - 1))
            continue;
        ls_sweep_hear(&o->sweep, wanted - 1);
        LS_TRY(ls_grow("step", &s->waits, s->wait_count, sizeof *s->waits));
        s->waits[s->wait_count++] = wanted - 1;
    }
    task->wait_count = s->wait_count - task->wait;
    task->begins =
        !o->sweep.before && !task->wait_count && task->lane != run->components[component].driver;
    return LS_OK;
}

static ls_status check_driver(const ordering *o, int component)
{
    const size_t last = o->last[component];
    if (!last || o->step->tasks[last - 1].lane == o->sweep.run->components[component].driver)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "step", o->step->tasks[last - 1].verb,
                   "ends the smaller batch on another queue than the full one; end both on one");
}

static ls_status order_step(ordering *o)
{
    const ls_stepped *run = o->sweep.run;
    ls_step *s = o->step;
    for (size_t t = 0; t < s->task_count; t++)
        o->last[run->component[s->tasks[t].lane]] = t + 1;
    for (int c = 0; c < run->component_count; c++)
        LS_TRY(check_driver(o, c));
    for (size_t t = 0; t < s->task_count; t++) {
        ls_sweep_next(&o->sweep);
        LS_TRY(order_task(o));
    }
    return LS_OK;
}

ls_status ls_steps_order(ls_stepped *run)
{
    const size_t lanes = (size_t)run->lane_count + 1;
    int *parent;
    LS_TRY(ls_allocate("step", &parent, lanes, sizeof *parent));
    ls_status status = find_components(run, parent);
    free(parent);
    for (int kind = 0; kind < LS_KINDS && !status; kind++) {
        const ls_step *s = &run->step[kind];
        ordering o = {.step = &run->step[kind],
                      .last = calloc(lanes, sizeof *o.last),
                      .wanted = calloc(lanes, sizeof *o.wanted)};
        status = o.last && o.wanted ? ls_sweep_open(run, &s, 1, &o.sweep)
                                    : ls_fail_memory("step", lanes * sizeof *o.last);
        if (!status)
            status = order_step(&o);
        ls_sweep_close(&o.sweep);
        free(o.last);
        free(o.wanted);
    }
    return status;
}
