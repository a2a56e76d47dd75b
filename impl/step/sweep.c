/* SPDX-License-Identifier: MIT */
/* The sweep over the tasks of consecutive steps; see sweep.h. */
#include "impl/step/sweep.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* A task that read a piece after its last writer. */
struct ls_sweep_reader {
    size_t task;
    size_t next; /* the piece's next reader, from 1; 0: none */
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
    for (size_t s = 0; s < w->step_count; s++) {
        for (size_t a = 0; a < w->steps[s]->access_count; a++) {
            const ls_access *access = &w->steps[s]->accesses[a];
            w->cuts[cuts++] = (uintptr_t)access->memory;
            w->cuts[cuts++] = (uintptr_t)access->memory + access->bytes;
        }
    }
    qsort(w->cuts, cuts, sizeof *w->cuts, compare_addresses);
    for (size_t i = 0; i < cuts; i++)
        if (!w->cut_count || w->cuts[i] != w->cuts[w->cut_count - 1])
            w->cuts[w->cut_count++] = w->cuts[i];
}

static size_t clock_size(const ls_stepped *run, const ls_task *task)
{
    return run->component ? (size_t)run->components[run->component[task->lane]].lanes : 0;
}

ls_status ls_sweep_open(const ls_stepped *run, const ls_step *const *steps, size_t count,
                        ls_sweep *w)
{
    size_t accesses = 1, tasks = 0, words = 1;
    *w = (ls_sweep){.run = run, .steps = steps, .step_count = count};
    for (size_t s = 0; s < count; s++) {
        accesses += steps[s]->access_count;
        tasks += steps[s]->task_count;
    }
    LS_TRY(ls_allocate("step", &w->latest, (size_t)run->lane_count, sizeof *w->latest));
    LS_TRY(ls_allocate("step", &w->first, tasks, sizeof *w->first));
    LS_TRY(ls_allocate("step", &w->cuts, 2 * accesses, sizeof *w->cuts));
    LS_TRY(ls_allocate("step", &w->writer, 2 * accesses, sizeof *w->writer));
    LS_TRY(ls_allocate("step", &w->readers, 2 * accesses, sizeof *w->readers));
    for (size_t t = 0; t < tasks; t++) {
        const ls_step *step;
        w->first[t] = words;
        words += clock_size(run, ls_sweep_task(w, t, &step));
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

const ls_task *ls_sweep_task(const ls_sweep *w, size_t number, const ls_step **step)
{
    size_t s = 0;
    for (; number >= w->steps[s]->task_count; s++)
        number -= w->steps[s]->task_count;
    *step = w->steps[s];
    return &w->steps[s]->tasks[number];
}

const ls_task *ls_sweep_next(ls_sweep *w)
{
    const ls_step *step;
    const ls_task *task = ls_sweep_task(w, w->next, &step);
    w->task = w->next++;
    w->before = w->latest[task->lane];
    w->latest[task->lane] = w->next;
    w->size = clock_size(w->run, task);
    w->clock = w->clocks + w->first[w->task];
    if (w->before && w->size)
        memcpy(w->clock, w->clocks + w->first[w->before - 1], w->size * sizeof *w->clock);
    if (w->size)
        w->clock[w->run->rank_in_component[task->lane]] = w->next;
    return task;
}

void ls_sweep_hear(ls_sweep *w, size_t earlier)
{
    const size_t *its = w->clocks + w->first[earlier];
    for (size_t l = 0; l < w->size; l++)
        w->clock[l] = its[l] > w->clock[l] ? its[l] : w->clock[l];
}

bool ls_sweep_knows(const ls_sweep *w, size_t earlier)
{
    const ls_step *step;
    const int own = ls_sweep_task(w, w->task, &step)->lane;
    const int lane = ls_sweep_task(w, earlier, &step)->lane;
    return w->run->component[lane] == w->run->component[own] &&
           w->clock[w->run->rank_in_component[lane]] > earlier;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int lane_of(const ls_sweep *w, size_t number)
{
    const ls_step *step;
    return ls_sweep_task(w, number, &step)->lane;
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
    const ls_step *s;
    const ls_task *task = ls_sweep_task(w, w->task, &s);
    for (size_t a = task->access; a < task->access + task->access_count; a++) {
        const uintptr_t begin = (uintptr_t)s->accesses[a].memory,
                        end = begin + s->accesses[a].bytes;
        size_t p = ls_count_up_to(begin, w->cuts, w->cut_count, sizeof *w->cuts) - 1;
        for (; w->cuts[p] < end; p++) {
            const ls_access piece = {(const void *)w->cuts[p], w->cuts[p + 1] - w->cuts[p], true};
            if (w->writer[p])
                visit(context, w->writer[p] - 1, piece);
            if (!s->accesses[a].writes) {
                LS_TRY(note_reader(w, p));
                continue;
            }
            for (size_t r = w->readers[p]; r; r = w->pool[r - 1].next)
                visit(context, w->pool[r - 1].task, piece);
            w->readers[p] = 0;
            w->writer[p] = w->task + 1;
        }
    }
    return LS_OK;
}
