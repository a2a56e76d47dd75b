/* SPDX-License-Identifier: MIT */
/*
 * The race check: what must hold of every step, found from its tasks alone; see ls_stepped_check.
 *
 * If two tasks touch the same bytes and one writes them, they must be ordered: by their lane, by
 * the waits that will be enqueued, or by a wait for the beginning of the step. This is checked over
 * two consecutive steps, of each size. Communicators do not order tasks.
 *
 * Also, a step must not have an operation more often than its slices do, and all ends that wait for
 * each other must match (meetings.c).
 */
#include "common/base/grow.h"
#include "impl/step/names.h"
#include "impl/step/run.h"
#include "impl/step/sweep.h"

#include <stdlib.h>

/* ---- Reports --------------------------------------------------------------------------------- */

static void say_task(const ls_step *s, const ls_task *task, FILE *out)
{
    fprintf(out, "task %zu (", (size_t)(task - s->tasks));
    ls_names_lane(s->run, task->lane, out);
    fputs(": ", out);
    ls_names_task(s, task, out);
    fputc(')', out);
}

typedef struct race_check {
    ls_sweep sweep; /* over two steps */
    size_t *begun;  /* [components] the driver's latest task when the current step begins, from 1 */
    size_t met;     /* what the current task races with, from 1; 0: nothing */
    ls_access both; /* bytes that both touch */
} race_check;

/* `first`: number of the first task of the step, counted over both. */
static ls_status say_race(const race_check *r, size_t first, FILE *out)
{
    const ls_step *earlier, *s;
    const ls_task *other = ls_sweep_task(&r->sweep, r->met - 1, &earlier);
    const ls_task *task = ls_sweep_task(&r->sweep, r->sweep.task, &s);
    ls_names *names = NULL;
    LS_TRY(ls_names_open(s->run, &names));
    say_task(s, task, out);
    fputs(" and ", out);
    say_task(earlier, other, out);
    fprintf(out, "%s touch ", r->met <= first ? " of the step before" : "");
    ls_status status = ls_names_accesses(names, s, task, &r->both, 1, true, out);
    ls_names_close(names);
    return status;
}

static ls_status fail_race(const race_check *r, size_t first)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return ls_fail_memory("step", BUFSIZ);
    ls_status status = say_race(r, first, out);
    const bool whole = !fclose(out);
    if (!status)
        status = whole ? ls_fail(LS_CODE_CHECK, "race", NULL,
                                 "%s, in no order; operations say what they touch", text)
                       : ls_fail_memory("step", size);
    free(text);
    return status;
}

/* ---- Races ----------------------------------------------------------------------------------- */

static void meet(void *context, size_t earlier, ls_access both)
{
    race_check *r = context;
    if (r->met || ls_sweep_knows(&r->sweep, earlier))
        return;
    r->met = earlier + 1;
    r->both = both;
}

/* Checks the next task; the tasks of its step are numbered from `first`. */
static ls_status take(race_check *r, size_t first)
{
    ls_sweep *w = &r->sweep;
    const ls_step *s;
    const ls_task *task = ls_sweep_next(w);
    const size_t begun = r->begun[w->run->component[task->lane]];
    ls_sweep_task(w, w->task, &s);
    if (task->begins && begun)
        ls_sweep_hear(w, begun - 1);
    for (size_t i = 0; i < task->wait_count; i++)
        ls_sweep_hear(w, first + s->waits[task->wait + i]);
    LS_TRY(ls_sweep_meet(w, meet, r));
    return r->met ? fail_race(r, first) : LS_OK;
}

static ls_status check_pair(const ls_stepped *run, const ls_step *a, const ls_step *b)
{
    const ls_step *const steps[] = {a, b};
    race_check r = {.met = 0};
    ls_status status = ls_allocate("step", &r.begun, (size_t)run->lane_count, sizeof *r.begun);
    if (!status)
        status = ls_sweep_open(run, steps, 2, &r.sweep);
    for (size_t s = 0, first = 0; s < 2 && !status; first += steps[s++]->task_count) {
        for (int c = 0; c < run->component_count; c++)
            r.begun[c] = r.sweep.latest[run->components[c].driver];
        for (size_t t = 0; t < steps[s]->task_count && !status; t++)
            status = take(&r, first);
    }
    ls_sweep_close(&r.sweep);
    free(r.begun);
    return status;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* An operation of a task (`said`), or of an act of a slice. */
typedef struct use {
    const ls_op *op;
    bool said;
} use;

typedef struct uses {
    use *items;
    size_t count;
    ls_status status;
} uses;

static int compare_uses(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const use *)a)->op, y = (uintptr_t)((const use *)b)->op;
    return (x > y) - (x < y);
}

static void add_uses(uses *all, ls_op *const *ops, size_t count, bool said)
{
    for (size_t i = 0; i < count && !all->status; i++) {
        all->status = ls_grow("step", &all->items, all->count, sizeof *all->items);
        if (!all->status)
            all->items[all->count++] = (use){ops[i], said};
    }
}

static void add_acts(const ls_step *s, int member, uses *all)
{
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    size_t count = 0;
    const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
    for (size_t i = 0; i < count * LS_NET_LISTS; i++) {
        const ls_op_list *list = acts[i / LS_NET_LISTS].lists[i % LS_NET_LISTS];
        if (list)
            add_uses(all, list->items, list->count, false);
    }
}

/* An operation may be in tasks as often as in acts (a net that runs several shards has it once for
 * each); an operation of no act, once. */
static ls_status judge_uses(uses *all)
{
    LS_TRY(all->status);
    if (all->count)
        qsort(all->items, all->count, sizeof *all->items, compare_uses);
    size_t said = 0, acts = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (i && all->items[i].op != all->items[i - 1].op)
            said = acts = 0;
        *(all->items[i].said ? &said : &acts) += 1;
        const bool ends = i + 1 == all->count || all->items[i].op != all->items[i + 1].op;
        if (ends && said > 1 && said > acts)
            return ls_fail(LS_CODE_CHECK, "step", all->items[i].op->name,
                           "is once too often in it; what is to be done is said once");
    }
    return LS_OK;
}

static ls_status check_step(const ls_step *s)
{
    uses all = {0};
    for (size_t t = 0; t < s->task_count; t++)
        add_uses(&all, s->ops + s->tasks[t].op, s->tasks[t].op_count, true);
    for (int m = 0; m < s->run->all; m++)
        add_acts(s, m, &all);
    ls_status status = judge_uses(&all);
    free(all.items);
    return status ? status : ls_step_check_meetings(s);
}

/* Checks consecutive pairs of all kinds of steps, except two tail steps. */
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
