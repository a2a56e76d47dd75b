/* SPDX-License-Identifier: MIT */
/*
 * Repeated forward passes (common/nn/repeat.h) of divided replicas: which, by the order of passes.
 * A window has a unit of a piece: what passed last. A stage has a window for all pieces; where they
 * run node by node, one for each.
 */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

/* The part of the model that a node is in; places that have parts of the positions share one. */
static int stage_of(const ls_step *s, int n)
{
    return s->plan->parts.place[n] / ls_step_plan_each(s->plan);
}

/* What the window has that a node's unit of a piece uses. */
static int *window_of(const ls_step *s, int replica, int piece, int n)
{
    const int each = ls_step_by_node(s) ? ls_step_most_pieces(s) : 1;
    const int stage = replica * s->plan->parts.count + stage_of(s, n);
    return &s->in_windows[stage * each + (each > 1 ? piece : 0)];
}

static int number_of(const ls_step *s, int piece, int n)
{
    return (piece + 1) * ls_nodes(s) + s->plan->repeats.whole[n].unit;
}

void ls_step_fill_window(ls_step *s, int replica, int piece, int n)
{
    const ls_repeat *all = s->plan->repeats.whole;
    if (all && all[n].unit && s->kind != LS_EVALUATION)
        *window_of(s, replica, piece, n) = number_of(s, piece, n);
}

void ls_step_repeat_unit(ls_step *s, int replica, int piece, int n)
{
    const ls_repeat *all = s->plan->repeats.whole, *repeated = all ? &all[n] : NULL;
    if (!repeated || !repeated->unit || repeated->last != n ||
        *window_of(s, replica, piece, n) == number_of(s, piece, n))
        return;
    ls_step_fill_window(s, replica, piece, n);
    for (int m = repeated->first; m <= repeated->last; m++)
        if (all[m].unit == repeated->unit && all[m].again)
            ls_step_forward_node(s, replica, piece, m, LS_ACT_AGAIN);
}

/* ---- Closed forms ---------------------------------------------------------------------------- */

/* Whether a pass of a part is a micro-batch's backward pass, directly behind its forward pass. */
static bool follows_at_once(const ls_schedule *schedule, int part, int microbatch)
{
    const int stage = part % schedule->stages, chunk = part / schedule->stages;
    ls_auto ls_pass *passes = NULL;
    ls_pass before = {.microbatch = -1};
    size_t count = 0;
    bool follows = false;
    ls_status_free(ls_schedule_order(schedule, &passes, &count));
    for (size_t i = 0; i < count; i++) {
        const ls_pass *pass = &passes[i];
        if (pass->stage != stage || pass->chunk != chunk)
            continue;
        follows |= pass->kind == LS_PASS_BACKWARD && pass->microbatch == microbatch &&
                   before.kind == LS_PASS_FORWARD && before.microbatch == microbatch;
        before = *pass;
    }
    return follows;
}

/* Whether a later unit of the part is in the window behind the forward pass. */
static bool is_overwritten(const ls_step *s, int n)
{
    const ls_repeat *all = s->plan->repeats.whole;
    for (int later = all[n].last + 1; later < ls_nodes(s); later++)
        if (all[later].unit && stage_of(s, later) == stage_of(s, n))
            return true;
    return false;
}

bool ls_step_is_repeated(const ls_step *s, int replica, int piece, int n)
{
    const ls_job *job = ls_step_job(s);
    const ls_repeat *all = s->plan->repeats.whole;
    if (!all || !all[n].again || is_overwritten(s, n))
        return all && all[n].again;
    if (!ls_step_is_staged(s) || ls_step_by_node(s))
        return false; /* a piece's backward pass is behind its forward pass, or it has a window */
    const ls_schedule schedule = ls_replicated_schedule(job, replica, s->batch_kind);
    int microbatch = 0;
    while (ls_step_pieces_of(s, replica, microbatch + 1).first <= (size_t)piece)
        microbatch++;
    return ls_step_pieces_of(s, replica, microbatch).count > 1 ||
           !follows_at_once(&schedule, stage_of(s, n), microbatch);
}
