/* SPDX-License-Identifier: MIT */
/* Conflicts of tasks over memory; see conflicts.h. */
#include "impl/step/conflicts.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>

/* A reader of a piece since its last writer. */
typedef struct reader {
    size_t task;
    size_t next; /* the one after it, from 1; 0: none */
} reader;

struct ls_conflicts {
    const ls_step *const *steps;
    size_t step, at; /* the next task: number `at` of that step */
    size_t taken;    /* tasks */
    int *lane;       /* [tasks] */
    uintptr_t *cuts; /* [cut_count] in order: piece i is [cuts[i], cuts[i + 1]) */
    size_t cut_count;
    size_t *writer;  /* [cut_count] the piece's last, from 1; 0: none */
    size_t *readers; /* [cut_count] the first of the piece's, from 1 */
    reader *pool;
    size_t pool_count;
    size_t spare; /* the first that is free again */
    void (*visit)(void *context, size_t earlier);
    void *context;
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static void cut(ls_conflicts *c, size_t steps)
{
    size_t cuts = 0;
    for (size_t s = 0; s < steps; s++) {
        for (size_t a = 0; a < c->steps[s]->access_count; a++) {
            const ls_access *access = &c->steps[s]->accesses[a];
            c->cuts[cuts++] = (uintptr_t)access->memory;
            c->cuts[cuts++] = (uintptr_t)access->memory + access->bytes;
        }
    }
    qsort(c->cuts, cuts, sizeof *c->cuts, compare_addresses);
    for (size_t i = 0; i < cuts; i++)
        if (!c->cut_count || c->cuts[i] != c->cuts[c->cut_count - 1])
            c->cuts[c->cut_count++] = c->cuts[i];
}

ls_status ls_conflicts_open(const ls_step *const *steps, size_t count, ls_conflicts **out)
{
    size_t accesses = 1, tasks = 1;
    for (size_t s = 0; s < count; s++) {
        accesses += steps[s]->access_count;
        tasks += steps[s]->task_count;
    }
    ls_conflicts *c = calloc(1, sizeof *c);
    if (!c)
        return ls_fail_memory("step", sizeof *c);
    c->steps = steps;
    c->cuts = calloc(2 * accesses, sizeof *c->cuts);
    c->writer = calloc(2 * accesses, sizeof *c->writer);
    c->readers = calloc(2 * accesses, sizeof *c->readers);
    c->lane = calloc(tasks, sizeof *c->lane);
    if (!c->cuts || !c->writer || !c->readers || !c->lane) {
        ls_conflicts_close(c);
        return ls_fail_memory("step", 2 * accesses * sizeof *c->cuts);
    }
    cut(c, count);
    *out = c;
    return LS_OK;
}

void ls_conflicts_close(ls_conflicts *c)
{
    if (!c)
        return;
    free(c->cuts);
    free(c->writer);
    free(c->readers);
    free(c->lane);
    free(c->pool);
    free(c);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The piece that begins at this address. */
static size_t find(const ls_conflicts *c, uintptr_t address)
{
    return ls_count_up_to(address, c->cuts, c->cut_count, sizeof *c->cuts) - 1;
}

static void meet(const ls_conflicts *c, size_t task, size_t earlier)
{
    if (c->lane[task] != c->lane[earlier])
        c->visit(c->context, earlier);
}

static ls_status take_reader(ls_conflicts *c, size_t *out)
{
    *out = c->spare;
    if (c->spare) {
        c->spare = c->pool[c->spare - 1].next;
        return LS_OK;
    }
    LS_TRY(ls_grow("step", &c->pool, c->pool_count, sizeof *c->pool));
    *out = ++c->pool_count;
    return LS_OK;
}

/* Notes a reader, in place of earlier ones of the same lane. */
static ls_status note_reader(ls_conflicts *c, size_t piece, size_t task)
{
    size_t new;
    for (size_t r = c->readers[piece]; r; r = c->pool[r - 1].next) {
        if (c->lane[c->pool[r - 1].task] != c->lane[task])
            continue;
        c->pool[r - 1].task = task;
        return LS_OK;
    }
    LS_TRY(take_reader(c, &new));
    c->pool[new - 1] = (reader){task, c->readers[piece]};
    c->readers[piece] = new;
    return LS_OK;
}

static void note_writer(ls_conflicts *c, size_t piece, size_t task)
{
    size_t last = 0;
    for (size_t r = c->readers[piece]; r; r = c->pool[r - 1].next) {
        meet(c, task, c->pool[r - 1].task);
        last = r;
    }
    if (last) {
        c->pool[last - 1].next = c->spare;
        c->spare = c->readers[piece];
        c->readers[piece] = 0;
    }
    c->writer[piece] = task + 1;
}

static ls_status take(ls_conflicts *c, size_t task, const ls_access *access)
{
    const uintptr_t end = (uintptr_t)access->memory + access->bytes;
    for (size_t p = find(c, (uintptr_t)access->memory); c->cuts[p] < end; p++) {
        if (c->writer[p])
            meet(c, task, c->writer[p] - 1);
        if (access->writes)
            note_writer(c, p, task);
        else
            LS_TRY(note_reader(c, p, task));
    }
    return LS_OK;
}

ls_status ls_conflicts_next(ls_conflicts *c, void (*visit)(void *context, size_t earlier),
                            void *context)
{
    while (c->at == c->steps[c->step]->task_count) {
        c->step++;
        c->at = 0;
    }
    const ls_step *s = c->steps[c->step];
    const ls_task *task = &s->tasks[c->at++];
    const size_t number = c->taken++;
    c->lane[number] = task->lane;
    c->visit = visit;
    c->context = context;
    for (size_t a = 0; a < task->access_count; a++)
        LS_TRY(take(c, number, &s->accesses[task->access + a]));
    return LS_OK;
}
