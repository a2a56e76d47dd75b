/* SPDX-License-Identifier: MIT */
/*
 * Which task waits for which: each conflict between lanes becomes a wait, unless others imply it.
 * And the race check.
 *
 * A sweep visits the tasks of some steps in program order. For each it finds the earlier tasks that
 * conflict with it: both touch the same bytes, and one of them writes. A vector clock keeps which
 * tasks have ended when it begins: the latest of each lane of its component. Memory is split at
 * every address where an access begins or ends. Each piece keeps its last writer and each lane's
 * last reader since. So the work grows with accesses, not with pairs of tasks.
 *
 * Lanes connected by a wait or a joint call form a component, which is one program. A wait is
 * dropped if the task's clock implies it. Two kinds are added: a lane without a wait waits for the
 * beginning of the step, and the last task waits for the last task of every lane. So a step ends
 * before the next one begins, and one capture has all lanes.
 *
 * Two tasks that conflict must be ordered: by their lane, by the waits that will be enqueued, or by
 * a wait for the beginning of the step. This is checked over two consecutive steps. Communicators
 * do not order tasks.
 */
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/program/program.h"

#include <stdlib.h>
#include <string.h>

/* ---- The sweep ------------------------------------------------------------------------------- */

/* A task that read a piece after its last writer. */
typedef struct reader {
    size_t task;
    size_t next; /* the piece's next reader, from 1; 0 if none */
} reader;

typedef struct sweep {
    const ls_components *components;        /* NULL if there are no clocks */
    const ls_step_program *const *programs; /* [count] tasks are numbered through, from 0 */
    size_t count;
    size_t task;    /* the current one */
    size_t before;  /* the previous one on its lane, from 1; 0 if none */
    size_t next;    /* the number after the current task's */
    size_t *latest; /* [lanes] the latest task so far, from 1; 0 if none */
    size_t *first;  /* [tasks] index of its clock in `clocks`; empty without clocks */
    size_t *clocks;
    size_t *clock, size; /* the current task's */
    uintptr_t *cuts;     /* [cut_count] ascending; piece i is [cuts[i], cuts[i + 1]) */
    size_t cut_count;
    size_t *writer;  /* [cut_count] the piece's last writer, from 1; 0 if none */
    size_t *readers; /* [cut_count] the piece's first reader in `pool`, from 1; 0 if none */
    reader *pool;
    size_t pool_count;
} sweep;

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static void cut(sweep *w)
{
    size_t cuts = 0;
    for (size_t s = 0; s < w->count; s++) {
        for (size_t a = 0; a < w->programs[s]->access_count; a++) {
            const ls_access *access = &w->programs[s]->accesses[a];
            w->cuts[cuts++] = (uintptr_t)access->memory;
            w->cuts[cuts++] = (uintptr_t)access->memory + access->bytes;
        }
    }
    qsort(w->cuts, cuts, sizeof *w->cuts, compare_addresses);
    for (size_t i = 0; i < cuts; i++)
        if (!w->cut_count || w->cuts[i] != w->cuts[w->cut_count - 1])
            w->cuts[w->cut_count++] = w->cuts[i];
}

/* Returns a task by its number, and its program. */
static const ls_task *sweep_task(const sweep *w, size_t number, const ls_step_program **program)
{
    size_t s = 0;
    for (; number >= w->programs[s]->task_count; s++)
        number -= w->programs[s]->task_count;
    *program = w->programs[s];
    return &w->programs[s]->tasks[number];
}

static size_t clock_size(const sweep *w, const ls_task *task)
{
    const ls_components *c = w->components;
    return c ? (size_t)c->items[c->component[task->lane]].lanes : 0;
}

/* Over programs [count] of the same lanes; with clocks if there are components. Close it also on
 * failure. */
static ls_status sweep_open(const ls_step_program *const *programs, size_t count,
                            const ls_components *components, sweep *w)
{
    size_t accesses = 1, tasks = 0, words = 1;
    *w = (sweep){.components = components, .programs = programs, .count = count};
    for (size_t s = 0; s < count; s++) {
        accesses += programs[s]->access_count;
        tasks += programs[s]->task_count;
    }
    LS_TRY(ls_allocate("step", &w->latest, (size_t)programs[0]->lanes->count, sizeof *w->latest));
    LS_TRY(ls_allocate("step", &w->first, tasks, sizeof *w->first));
    LS_TRY(ls_allocate("step", &w->cuts, 2 * accesses, sizeof *w->cuts));
    LS_TRY(ls_allocate("step", &w->writer, 2 * accesses, sizeof *w->writer));
    LS_TRY(ls_allocate("step", &w->readers, 2 * accesses, sizeof *w->readers));
    for (size_t t = 0; t < tasks; t++) {
        const ls_step_program *program;
        w->first[t] = words;
        words += clock_size(w, sweep_task(w, t, &program));
    }
    LS_TRY(ls_allocate("step", &w->clocks, words, sizeof *w->clocks));
    cut(w);
    return LS_OK;
}

static void sweep_close(sweep *w)
{
    free(w->latest);
    free(w->first);
    free(w->clocks);
    free(w->cuts);
    free(w->writer);
    free(w->readers);
    free(w->pool);
}

/* Advances to the next task; its clock begins as the previous task's on its lane. */
static const ls_task *sweep_next(sweep *w)
{
    const ls_step_program *program;
    const ls_task *task = sweep_task(w, w->next, &program);
    w->task = w->next++;
    w->before = w->latest[task->lane];
    w->latest[task->lane] = w->next;
    w->size = clock_size(w, task);
    w->clock = w->clocks + w->first[w->task];
    if (w->before && w->size)
        memcpy(w->clock, w->clocks + w->first[w->before - 1], w->size * sizeof *w->clock);
    if (w->size)
        w->clock[w->components->rank[task->lane]] = w->next;
    return task;
}

/* The current task waits for an earlier one of its component: merges that one's clock into its. */
static void sweep_hear(sweep *w, size_t earlier)
{
    const size_t *clock = w->clocks + w->first[earlier];
    for (size_t l = 0; l < w->size; l++)
        w->clock[l] = clock[l] > w->clock[l] ? clock[l] : w->clock[l];
}

/* Whether the earlier task has ended, by the current one's clock. */
static bool sweep_knows(const sweep *w, size_t earlier)
{
    const ls_step_program *program;
    const int own = sweep_task(w, w->task, &program)->lane;
    const int lane = sweep_task(w, earlier, &program)->lane;
    return w->components->component[lane] == w->components->component[own] &&
           w->clock[w->components->rank[lane]] > earlier;
}

static int lane_of(const sweep *w, size_t number)
{
    const ls_step_program *program;
    return sweep_task(w, number, &program)->lane;
}

/* Adds the current task as a reader; it replaces earlier readers on its lane, which it follows. */
static ls_status note_reader(sweep *w, size_t piece)
{
    for (size_t r = w->readers[piece]; r; r = w->pool[r - 1].next) {
        if (lane_of(w, w->pool[r - 1].task) != lane_of(w, w->task))
            continue;
        w->pool[r - 1].task = w->task;
        return LS_OK;
    }
    LS_TRY(ls_grow("step", &w->pool, w->pool_count, sizeof *w->pool));
    w->pool[w->pool_count++] = (reader){w->task, w->readers[piece]};
    w->readers[piece] = w->pool_count;
    return LS_OK;
}

/* Visits earlier tasks that conflict with the current one, each with a piece of memory that both
 * touch; to be called once for each task. Tasks that precede a visited one on its lane may be
 * skipped; some tasks are visited twice. */
static ls_status sweep_meet(sweep *w, void (*visit)(void *context, size_t earlier, ls_access both),
                            void *context)
{
    const ls_step_program *p;
    const ls_task *task = sweep_task(w, w->task, &p);
    for (size_t a = 0; a < task->accesses.count; a++) {
        const ls_access *access = &p->accesses[task->accesses.first + a];
        const uintptr_t begin = (uintptr_t)access->memory, end = begin + access->bytes;
        size_t i = ls_count_up_to(begin, w->cuts, w->cut_count, sizeof *w->cuts) - 1;
        for (; w->cuts[i] < end; i++) {
            const ls_access piece = {(const void *)w->cuts[i], w->cuts[i + 1] - w->cuts[i], true};
            if (w->writer[i])
                visit(context, w->writer[i] - 1, piece);
            if (!access->writes) {
                LS_TRY(note_reader(w, i));
                continue;
            }
            for (size_t r = w->readers[i]; r; r = w->pool[r - 1].next)
                visit(context, w->pool[r - 1].task, piece);
            w->readers[i] = 0;
            w->writer[i] = w->task + 1;
        }
    }
    return LS_OK;
}

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
    ls_closing(sweep_close) sweep w = {0};
    union_of_lanes u = {.program = p, .parent = parent};
    LS_TRY(sweep_open(&p, 1, NULL, &w));
    for (size_t t = 0; t < p->task_count; t++) {
        const ls_task *task = sweep_next(&w);
        u.lane = task->lane;
        LS_TRY(sweep_meet(&w, join, &u));
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
    sweep sweep;
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
    LS_TRY(sweep_meet(&o->sweep, want, o));
    for (int l = 0; l < p->lanes->count && o->last[component] == o->sweep.next; l++)
        if (all->component[l] == component && o->sweep.latest[l])
            want(o, o->sweep.latest[l] - 1, (ls_access){0});
    o->wanted[task->lane] = 0;
    task->waits.first = p->wait_count;
    for (size_t wanted = take_wanted(o); wanted; wanted = take_wanted(o)) {
        if (sweep_knows(&o->sweep, wanted - 1))
            continue;
        sweep_hear(&o->sweep, wanted - 1);
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
        "another queue; end both steps with the same operation in the strategy's build function");
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
        sweep_next(&o->sweep);
        LS_TRY(order_task(o));
    }
    return LS_OK;
}

static void close_ordering(ordering *o)
{
    sweep_close(&o->sweep);
    free(o->last);
    free(o->wanted);
    free(o->lanes);
}

static ls_status order_program(ls_step_program *p, const ls_components *components)
{
    const size_t lanes = (size_t)p->lanes->count;
    const ls_step_program *const one = p;
    ls_closing(close_ordering) ordering o = {.program = p};
    LS_TRY(ls_allocate("step", &o.last, lanes, sizeof *o.last));
    LS_TRY(ls_allocate("step", &o.wanted, lanes, sizeof *o.wanted));
    LS_TRY(ls_allocate("step", &o.lanes, lanes + 1, sizeof *o.lanes));
    LS_TRY(sweep_open(&one, 1, components, &o.sweep));
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

/* ---- Races ----------------------------------------------------------------------------------- */

typedef struct race_check {
    sweep sweep;    /* over two steps */
    size_t *begun;  /* [components] the driver's latest task when the current step begins, from 1 */
    size_t first;   /* number of the current step's first task */
    size_t found;   /* what the current task races with, from 1; 0 if nothing */
    ls_access both; /* bytes that both touch */
} race_check;

static void meet(void *context, size_t earlier, ls_access both)
{
    race_check *r = context;
    if (r->found || sweep_knows(&r->sweep, earlier))
        return;
    r->found = earlier + 1;
    r->both = both;
}

static ls_status check_next(race_check *r)
{
    sweep *w = &r->sweep;
    const ls_step_program *p;
    const ls_task *task = sweep_next(w);
    const size_t begun = r->begun[w->components->component[task->lane]];
    sweep_task(w, w->task, &p);
    if (task->begins && begun)
        sweep_hear(w, begun - 1);
    for (size_t i = 0; i < task->waits.count; i++)
        sweep_hear(w, r->first + p->waits[task->waits.first + i]);
    return sweep_meet(w, meet, r);
}

static void close_race(race_check *r)
{
    sweep_close(&r->sweep);
    free(r->begun);
}

ls_status ls_step_programs_race(const ls_step_program *a, const ls_step_program *b,
                                const ls_components *components, ls_race *out)
{
    const ls_step_program *const programs[] = {a, b};
    ls_closing(close_race) race_check r = {.found = 0};
    *out = (ls_race){0};
    LS_TRY(ls_allocate("step", &r.begun, (size_t)a->lanes->count, sizeof *r.begun));
    LS_TRY(sweep_open(programs, 2, components, &r.sweep));
    for (size_t s = 0; s < 2; r.first += programs[s++]->task_count) {
        for (int c = 0; c < components->count; c++)
            r.begun[c] = r.sweep.latest[components->items[c].driver];
        for (size_t t = 0; t < programs[s]->task_count && !r.found; t++)
            LS_TRY(check_next(&r));
        if (r.found)
            break;
    }
    if (r.found) {
        out->task = sweep_task(&r.sweep, r.sweep.task, &out->program);
        out->earlier = sweep_task(&r.sweep, r.found - 1, &out->earlier_program);
        out->step_before = r.found <= r.first;
        out->both = r.both;
    }
    return LS_OK;
}
