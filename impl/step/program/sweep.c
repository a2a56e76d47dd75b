/* SPDX-License-Identifier: MIT */
/* The sweep over the tasks of consecutive steps; see sweep.h. */
#include "impl/step/program/sweep.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* A task that read a piece after its last writer. */
struct ls_sweep_reader {
    size_t task;
    size_t next; /* the piece's next reader, from 1; 0 if none */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static void cut(ls_sweep *w)
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

static size_t clock_size(const ls_sweep *w, const ls_task *task)
{
    const ls_components *c = w->components;
    return c ? (size_t)c->items[c->component[task->lane]].lanes : 0;
}

ls_status ls_sweep_open(const ls_step_program *const *programs, size_t count,
                        const ls_components *components, ls_sweep *w)
{
    size_t accesses = 1, tasks = 0, words = 1;
    *w = (ls_sweep){.components = components, .programs = programs, .count = count};
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
        words += clock_size(w, ls_sweep_task(w, t, &program));
    }
    LS_TRY(ls_allocate("step", &w->clocks, words, sizeof *w->clocks));
    cut(w);
    return LS_OK;
}

void ls_sweep_close(ls_sweep *w)
{
    free(w->latest);
    free(w->first);
    free(w->clocks);
    free(w->cuts);
    free(w->writer);
    free(w->readers);
    free(w->pool);
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

const ls_task *ls_sweep_task(const ls_sweep *w, size_t number, const ls_step_program **program)
{
    size_t s = 0;
    for (; number >= w->programs[s]->task_count; s++)
        number -= w->programs[s]->task_count;
    *program = w->programs[s];
    return &w->programs[s]->tasks[number];
}

const ls_task *ls_sweep_next(ls_sweep *w)
{
    const ls_step_program *program;
    const ls_task *task = ls_sweep_task(w, w->next, &program);
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

void ls_sweep_hear(ls_sweep *w, size_t earlier)
{
    const size_t *clock = w->clocks + w->first[earlier];
    for (size_t l = 0; l < w->size; l++)
        w->clock[l] = clock[l] > w->clock[l] ? clock[l] : w->clock[l];
}

bool ls_sweep_knows(const ls_sweep *w, size_t earlier)
{
    const ls_step_program *program;
    const int own = ls_sweep_task(w, w->task, &program)->lane;
    const int lane = ls_sweep_task(w, earlier, &program)->lane;
    return w->components->component[lane] == w->components->component[own] &&
           w->clock[w->components->rank[lane]] > earlier;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int lane_of(const ls_sweep *w, size_t number)
{
    const ls_step_program *program;
    return ls_sweep_task(w, number, &program)->lane;
}

/* Adds the current task as a reader; it replaces earlier readers on its lane, which it follows. */
static ls_status note_reader(ls_sweep *w, size_t piece)
{
    for (size_t r = w->readers[piece]; r; r = w->pool[r - 1].next) {
        if (lane_of(w, w->pool[r - 1].task) != lane_of(w, w->task))
            continue;
        w->pool[r - 1].task = w->task;
        return LS_OK;
    }
    LS_TRY(ls_grow("step", &w->pool, w->pool_count, sizeof *w->pool));
    w->pool[w->pool_count++] = (struct ls_sweep_reader){w->task, w->readers[piece]};
    w->readers[piece] = w->pool_count;
    return LS_OK;
}

ls_status ls_sweep_meet(ls_sweep *w, ls_sweep_visit visit, void *context)
{
    const ls_step_program *p;
    const ls_task *task = ls_sweep_task(w, w->task, &p);
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
