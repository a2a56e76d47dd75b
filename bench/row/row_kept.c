/* SPDX-License-Identifier: MIT */
/* What of a run's state was saved or moved, for its row; see row.h. */
#include "bench/row/row.h"

#include "bench/rows/put.h"

static void put_checkpoint(const ls_row_facts *f, json_t *row)
{
    const ls_saved *saved = f->trial ? &f->trial->saved : NULL;
    if (saved && saved->count) {
        ls_put_checkpoint_step(row, saved->step);
        ls_put_checkpoint_bytes(row, saved->bytes);
        ls_put_checkpoint_count(row, saved->count);
        ls_put_checkpoint_blocked_ms(row, (double)saved->time_ns * 1e-6);
    }
    if (ls_plan_resumes(f->workplace))
        ls_put_checkpoint_resumed_step(row, f->plan->job.start);
}

/* Changes of members. */
static void put_elastic(const ls_row_facts *f, json_t *row)
{
    const ls_elastic *all = f->plan->elastic;
    const ls_changes *changes = f->trial ? &f->trial->changes : NULL;
    uint64_t moved = 0;
    if (!changes || !changes->end)
        return;
    for (size_t i = changes->begin; i < changes->end; i++) {
        json_t *event = ls_row_make(row, LS_G_elastic_events);
        ls_put_elastic_events_step(event, all->events[i].step);
        ls_put_elastic_events_kind(event, ls_elastic_words[all->events[i].kind]);
        ls_put_elastic_events_replica(event, all->events[i].replica);
        ls_put_elastic_events_members(event, changes->members[i]);
        ls_put_elastic_events_moved_bytes(event, changes->moved_bytes[i]);
        moved += changes->moved_bytes[i];
    }
    ls_put_elastic_moved_bytes(row, moved);
    ls_put_elastic_paused_ms(row, (double)changes->paused_ns * 1e-6);
    ls_put_elastic_void_steps(row, changes->void_steps);
}

void ls_row_put_kept(const ls_row_facts *f, json_t *row)
{
    put_checkpoint(f, row);
    put_elastic(f, row);
}
