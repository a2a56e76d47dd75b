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
#include "impl/step/program/sweep.h"

#include <stdlib.h>

/* ---- Components ------------------------------------------------------------------------------ */

/* Union-find: lanes of one component have the same root. */
typedef struct union_of_lanes {
    const ls_step_program *program;
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
    u->parent[root(u->parent, u->program->tasks[earlier].lane)] = root(u->parent, u->lane);
}

static ls_status join_lanes(const ls_step_program *p, int *parent)
{
    ls_closing(ls_sweep_close) ls_sweep w = {0};
    union_of_lanes u = {.program = p, .parent = parent};
    LS_TRY(ls_sweep_open(&p, 1, NULL, &w));
    for (size_t t = 0; t < p->task_count; t++) {
        const ls_task *task = ls_sweep_next(&w);
        u.lane = task->lane;
        LS_TRY(ls_sweep_meet(&w, join, &u));
        if (t && task->call >= 0 && task[-1].call == task->call)
            join(&u, t - 1, (ls_access){0});
    }
    return LS_OK;
}

static ls_status find_components(const ls_step_program *programs, int count, int *parent,
                                 ls_components *all)
{
    const int lanes = programs->lanes->count;
    for (int l = 0; l < lanes; l++)
        parent[l] = l;
    for (int kind = 0; kind < count; kind++)
        LS_TRY(join_lanes(&programs[kind], parent));
    LS_TRY(ls_allocate("step", &all->component, (size_t)lanes, sizeof *all->component));
    LS_TRY(ls_allocate("step", &all->rank, (size_t)lanes, sizeof *all->rank));
    LS_TRY(ls_allocate("step", &all->items, (size_t)lanes, sizeof *all->items));
    for (int l = 0; l < lanes; l++)
        all->component[l] = -1;
    for (int kind = 0; kind < count; kind++) {
        /* lanes that have tasks, to be numbered by component */
        for (size_t t = 0; t < programs[kind].task_count; t++)
            all->component[programs[kind].tasks[t].lane] = 0;
    }
    for (int l = 0; l < lanes; l++)
        if (all->component[l] >= 0 && root(parent, l) == l)
            all->component[l] = all->count++;
    for (int l = 0; l < lanes; l++)
        if (all->component[l] >= 0) {
            all->component[l] = all->component[root(parent, l)];
            all->rank[l] = all->items[all->component[l]].lanes++;
        }
    for (int c = 0; c < all->count; c++)
        LS_TRY(ls_allocate("step", &all->items[c].has, (size_t)count, sizeof(bool)));
    for (int kind = count; kind-- > 0;) {
        /* its driver is the lane of its last task, which must be the same in all steps */
        for (size_t t = 0; t < programs[kind].task_count; t++) {
            ls_component *c = &all->items[all->component[programs[kind].tasks[t].lane]];
            c->driver = programs[kind].tasks[t].lane;
            c->has[kind] = true;
        }
    }
    return LS_OK;
}

/* ---- Waits ----------------------------------------------------------------------------------- */

typedef struct ordering {
    ls_sweep sweep;
    ls_step_program *program;
    size_t *last;   /* [components] its last task, from 1; 0 if none */
    size_t *wanted; /* [lanes] the latest task to wait for, from 1; 0 if none */
    int *lanes;     /* [lane_count] lanes with a wait, and maybe the task's own */
    int lane_count;
} ordering;

static void want(void *context, size_t earlier, ls_access both)
{
    (void)both;
    ordering *o = context;
    const int lane = o->program->tasks[earlier].lane;
    size_t *wanted = &o->wanted[lane];
    if (!*wanted)
        o->lanes[o->lane_count++] = lane;
    *wanted = earlier + 1 > *wanted ? earlier + 1 : *wanted;
}

/* Removes the latest task from `wanted` and returns it; 0 if none is left. */
static size_t take_wanted(ordering *o)
{
    int latest = 0;
    if (!o->lane_count)
        return 0;
    for (int i = 1; i < o->lane_count; i++)
        latest = o->wanted[o->lanes[i]] > o->wanted[o->lanes[latest]] ? i : latest;
    const int lane = o->lanes[latest];
    const size_t taken = o->wanted[lane];
    o->wanted[lane] = 0;
    o->lanes[latest] = o->lanes[--o->lane_count];
    return taken;
}

static ls_status order_task(ordering *o)
{
    const ls_components *all = o->sweep.components;
    ls_step_program *p = o->program;
    ls_task *task = &p->tasks[o->sweep.task];
    const int component = all->component[task->lane];
    LS_TRY(ls_sweep_meet(&o->sweep, want, o));
    for (int l = 0; l < p->lanes->count && o->last[component] == o->sweep.next; l++)
        if (all->component[l] == component && o->sweep.latest[l])
            want(o, o->sweep.latest[l] - 1, (ls_access){0});
    o->wanted[task->lane] = 0;
    task->waits.first = p->wait_count;
    for (size_t wanted = take_wanted(o); wanted; wanted = take_wanted(o)) {
        if (ls_sweep_knows(&o->sweep, wanted - 1))
            continue;
        ls_sweep_hear(&o->sweep, wanted - 1);
        LS_TRY(ls_grow("step", &p->waits, p->wait_count, sizeof *p->waits));
        p->waits[p->wait_count++] = wanted - 1;
    }
    task->waits.count = p->wait_count - task->waits.first;
    task->begins =
        !o->sweep.before && !task->waits.count && task->lane != all->items[component].driver;
    return LS_OK;
}

static ls_status check_driver(const ordering *o, int component)
{
    const size_t last = o->last[component];
    if (!last || o->program->tasks[last - 1].lane == o->sweep.components->items[component].driver)
        return LS_OK;
    return ls_fail(
        LS_CODE_USAGE, "step", o->program->tasks[last - 1].verb,
        "this task ends the step of an epoch's smaller last batch, but a full batch's step ends on "
        "another queue; let the strategy's build end both steps with the same operation");
}

static ls_status order_step(ordering *o)
{
    const ls_components *all = o->sweep.components;
    const ls_step_program *p = o->program;
    for (size_t t = 0; t < p->task_count; t++)
        o->last[all->component[p->tasks[t].lane]] = t + 1;
    for (int c = 0; c < all->count; c++)
        LS_TRY(check_driver(o, c));
    for (size_t t = 0; t < p->task_count; t++) {
        ls_sweep_next(&o->sweep);
        LS_TRY(order_task(o));
    }
    return LS_OK;
}

static void close(ordering *o)
{
    ls_sweep_close(&o->sweep);
    free(o->last);
    free(o->wanted);
    free(o->lanes);
}

static ls_status order_program(ls_step_program *p, const ls_components *components)
{
    const size_t lanes = (size_t)p->lanes->count;
    const ls_step_program *const one = p;
    ls_closing(close) ordering o = {.program = p};
    LS_TRY(ls_allocate("step", &o.last, lanes, sizeof *o.last));
    LS_TRY(ls_allocate("step", &o.wanted, lanes, sizeof *o.wanted));
    LS_TRY(ls_allocate("step", &o.lanes, lanes + 1, sizeof *o.lanes));
    LS_TRY(ls_sweep_open(&one, 1, components, &o.sweep));
    return order_step(&o);
}

ls_status ls_step_programs_order(ls_step_program *programs, int kinds, ls_components *out)
{
    ls_auto int *parent = NULL;
    *out = (ls_components){0};
    LS_TRY(ls_allocate("step", &parent, (size_t)programs->lanes->count, sizeof *parent));
    LS_TRY(find_components(programs, kinds + LS_UNORDERED, parent, out));
    for (int kind = 0; kind < kinds; kind++)
        LS_TRY(order_program(&programs[kind], out));
    return LS_OK;
}

void ls_components_close(ls_components *components)
{
    for (int c = 0; c < components->count; c++)
        free(components->items[c].has);
    free(components->component);
    free(components->rank);
    free(components->items);
}
