/* SPDX-License-Identifier: MIT */
/*
 * The race check: if two tasks touch the same bytes and one writes them, they must be ordered: by
 * their lane, by the waits that will be enqueued, or by a wait for the beginning of the step. This
 * is checked over two consecutive steps. Communicators do not order tasks.
 */
#include "common/base/grow.h"
#include "impl/step/program/sweep.h"

#include <stdlib.h>

typedef struct race_check {
    ls_sweep sweep; /* over two steps */
    size_t *begun;  /* [components] the driver's latest task when the current step begins, from 1 */
    size_t first;   /* number of the current step's first task */
    size_t found;   /* what the current task races with, from 1; 0 if nothing */
    ls_access both; /* bytes that both touch */
} race_check;

static void meet(void *context, size_t earlier, ls_access both)
{
    race_check *r = context;
    if (r->found || ls_sweep_knows(&r->sweep, earlier))
        return;
    r->found = earlier + 1;
    r->both = both;
}

static ls_status check_next(race_check *r)
{
    ls_sweep *w = &r->sweep;
    const ls_step_program *p;
    const ls_task *task = ls_sweep_next(w);
    const size_t begun = r->begun[w->components->component[task->lane]];
    ls_sweep_task(w, w->task, &p);
    if (task->begins && begun)
        ls_sweep_hear(w, begun - 1);
    for (size_t i = 0; i < task->waits.count; i++)
        ls_sweep_hear(w, r->first + p->waits[task->waits.first + i]);
    return ls_sweep_meet(w, meet, r);
}

static void close(race_check *r)
{
    ls_sweep_close(&r->sweep);
    free(r->begun);
}

ls_status ls_step_programs_race(const ls_step_program *a, const ls_step_program *b,
                                const ls_components *components, ls_race *out)
{
    const ls_step_program *const programs[] = {a, b};
    ls_closing(close) race_check r = {.found = 0};
    *out = (ls_race){0};
    LS_TRY(ls_allocate("step", &r.begun, (size_t)a->lanes->count, sizeof *r.begun));
    LS_TRY(ls_sweep_open(programs, 2, components, &r.sweep));
    for (size_t s = 0; s < 2; r.first += programs[s++]->task_count) {
        for (int c = 0; c < components->count; c++)
            r.begun[c] = r.sweep.latest[components->items[c].driver];
        for (size_t t = 0; t < programs[s]->task_count && !r.found; t++)
            LS_TRY(check_next(&r));
        if (r.found)
            break;
    }
    if (r.found) {
        out->task = ls_sweep_task(&r.sweep, r.sweep.task, &out->program);
        out->earlier = ls_sweep_task(&r.sweep, r.found - 1, &out->earlier_program);
        out->step_before = r.found <= r.first;
        out->both = r.both;
    }
    return LS_OK;
}
