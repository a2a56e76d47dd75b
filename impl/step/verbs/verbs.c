/* SPDX-License-Identifier: MIT */
/* The verbs of a member's own work, and the ends of steps; see step.h. */
#include "impl/step/verbs/build.h"

#include <string.h>

/* A member's acts; [*first, *end): up to the exchange of gradients that the step has come to. */
static const ls_act *acts_of(const ls_step *s, int member, size_t *first, size_t *end)
{
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    size_t count;
    *first = *end = 0;
    if (!slice)
        return NULL;
    ls_slice_exchange_acts(slice, s->exchange, first, end);
    return ls_slice_acts(slice, &count);
}

int ls_step_exchange(const ls_step *s, int i)
{
    const ls_job *job = ls_step_job(s);
    const int all = ls_slice_exchanges(job);
    int e = 0;
    for (; e < all; e++)
        if (ls_slice_has_exchange(job, s->batch, s->plan->mesh.replicas, e) && !i--)
            break;
    return e;
}

bool ls_next_exchange(ls_step *s, int i)
{
    const int e = ls_step_exchange(s, i), all = ls_slice_exchanges(ls_step_job(s));
    s->exchange = e < all ? e : 0;
    s->exchanged = i;
    return e < all;
}

bool ls_step_last_exchange(const ls_step *s)
{
    return ls_step_exchange(s, s->exchanged + 1) == ls_slice_exchanges(ls_step_job(s));
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void add_act(ls_step *s, const ls_act *act)
{
    const bool passes = act->kind >= LS_ACT_FORWARD && act->kind <= LS_ACT_WEIGHTS;
    s->program->node = passes ? act->node + 1 : 0;
    for (int l = 0; l < LS_NET_LISTS; l++)
        ls_task_add_ops(s->program, act->lists[l]);
    s->program->node = 0;
}

static bool has_ops(const ls_act *act)
{
    for (int l = 0; l < LS_NET_LISTS; l++)
        if (act->lists[l] && act->lists[l]->count)
            return true;
    return false;
}

/* The direction of a pass. Sums belong to backward; other acts, or acts without operations, to
 * either. */
typedef enum direction { EITHER, FORWARD, BACKWARD, AGAIN } direction;

static direction direction_of(const ls_act *act)
{
    static const direction of[] = {[LS_ACT_FEED] = FORWARD,
                                   [LS_ACT_FORWARD] = FORWARD,
                                   [LS_ACT_FORWARD_REST] = FORWARD,
                                   [LS_ACT_BACKWARD] = BACKWARD,
                                   [LS_ACT_BACKWARD_REST] = BACKWARD,
                                   [LS_ACT_AGAIN] = AGAIN,
                                   [LS_ACT_AGAIN_REST] = AGAIN,
                                   [LS_ACT_WEIGHTS] = BACKWARD,
                                   [LS_ACT_SUM] = BACKWARD,
                                   [LS_ACT_SUM_WEIGHTS] = BACKWARD,
                                   [LS_ACT_FAULT] = EITHER};
    return has_ops(act) ? of[act->kind] : EITHER;
}

static bool accumulates(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    return job->accumulation.pieces > 1 && !ls_step_is_staged(s);
}

void ls_step_enter_piece(ls_step *s, int replica, int piece)
{
    const ls_job *job = ls_step_job(s);
    const int64_t pieces = job->accumulation.pieces, shards = ls_step_shards(s);
    s->program->piece = 0;
    if (!accumulates(s) || replica < 0)
        return;
    if (ls_step_folds(job))
        piece = s->exchange;
    else if (shards) { /* it is a shard: the accumulated piece is the one that has it */
        const int64_t count = ls_replicas(s) * pieces;
        const int64_t shard = ls_slice_begin(shards, replica, ls_replicas(s)) + piece;
        piece = 0;
        while (ls_slice_begin(shards, replica * pieces + piece + 1, count) <= shard)
            piece++;
    }
    s->program->piece = piece + 1;
}

/* The end of the acts that are one task: a repeated unit's or, with several pieces, the acts in one
 * direction for one piece. *what is the first act with a direction; NULL if all go in either. */
static size_t task_end(const ls_step *s, const ls_act *acts, size_t first, size_t end,
                       const ls_act **what)
{
    const bool pieces = accumulates(s);
    *what = NULL;
    for (; first < end; first++) {
        const ls_act *act = &acts[first];
        const direction to = direction_of(act), was = *what ? direction_of(*what) : EITHER;
        const bool other = pieces && (act->piece != (*what ? (*what)->piece : 0) || to != was);
        if (was && to && (other || (to == AGAIN) != (was == AGAIN)))
            return first;
        *what = was || !to ? *what : act;
    }
    return end;
}

/* Appends the next acts, up to number `end`: a task, and one of each unit that is repeated; where
 * gradients are accumulated, a task for each piece's forward and backward pass. */
static void append_acts(ls_step *s, const char *verb, int member, size_t end, ls_range range)
{
    size_t first, last, *at = &s->appended[member];
    const ls_act *acts = acts_of(s, member, &first, &last), *what;
    while (!s->program->status && *at < end) {
        const size_t until = task_end(s, acts, *at, end, &what);
        const direction to = what ? direction_of(what) : EITHER;
        const bool again = to == AGAIN, ahead = to == FORWARD && strcmp(verb, "backward") == 0;
        if (what)
            ls_step_enter_piece(s, ls_step_replica(s, member)->number, what->piece);
        ls_task *task =
            ls_task_begin(s->program,
                          again                     ? ls_verb_again
                          : ahead && accumulates(s) ? "forward"
                                                    : verb,
                          member, again || (ahead && accumulates(s)) ? ls_no_range : range);
        if (task && again)
            task->node = what->node;
        for (; *at < until; ++*at)
            add_act(s, &acts[*at]);
        ls_task_finish(s->program);
    }
    s->program->piece = 0;
}

/* Appends weight decay's part of the loss, on a member that gets its variables in each step. */
static void append_decay(ls_step *s, int member)
{
    const ls_replica *r = ls_step_replica(s, member);
    if (!r || r->loss.decays != LS_DECAY_HERE || !r->loss.decay_loss.count)
        return;
    ls_task_begin(s->program, "decay", member, ls_no_range);
    ls_task_add_ops(s->program, &r->loss.decay_loss);
    ls_task_finish(s->program);
}

void ls_forward(ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_windows *windows = r ? r->windows.parameters : NULL;
    const size_t last = range.first + range.count - 1;
    const int b = windows && range.count ? ls_windows_unit(windows->buckets, last) : 0;
    size_t count, end;
    const ls_act *acts = acts_of(s, member, &end, &count);
    if (!s->exchanged && s->appended[member] == end)
        append_decay(s, member);
    end = s->appended[member] > end ? s->appended[member] : end;
    while (end < count && acts[end].kind != LS_ACT_BACKWARD &&
           (!windows || acts[end].kind != LS_ACT_FORWARD ||
            ls_windows_need(windows, acts[end].node) >= b))
        end++;
    append_acts(s, "forward", member, end, windows ? range : ls_no_range);
}

void ls_backward(ls_step *s, int member, ls_range range)
{
    size_t count, end;
    const ls_act *acts = acts_of(s, member, &end, &count);
    /* Number of acts until all of the range is final. */
    size_t final = 0;
    while (end < count && final < range.count)
        final += ls_range_common(acts[end++].final, range).count;
    append_acts(s, "backward", member, end, range);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

ls_range ls_pieces(const ls_step *s, int replica)
{
    const ls_job *job = ls_step_job(s);
    const int first = ls_replicated_before(job, replica, s->batch_kind, s->exchange);
    const int end = ls_replicated_before(job, replica, s->batch_kind, s->exchange + 1);
    return (ls_range){(size_t)first, (size_t)(end - first)};
}

/* The acts among which the piece's are: its own or, if pieces run node by node, the acts up to the
 * exchange. */
static const ls_act *find_piece(const ls_step *s, int member, int piece, const ls_act **end)
{
    size_t low, high;
    const ls_act *acts = acts_of(s, member, &low, &high);
    const size_t last = high;
    *end = acts + last;
    if (ls_step_by_node(s))
        return acts + low;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (acts[middle].piece < piece)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < last && acts[high].piece == piece;)
        high++;
    *end = acts + high;
    return acts + low;
}

void ls_step_append_acts(ls_step *s, const char *verb, int member, int piece, unsigned kinds,
                         int chunk, int node)
{
    const ls_act *end, *act = find_piece(s, member, piece, &end);
    bool begun = false;
    for (; act < end && !s->program->status; act++) {
        if (act->piece != piece || !(kinds >> act->kind & 1U) || (node >= 0 && act->node != node) ||
            (chunk >= 0 && act->chunk != chunk) || !has_ops(act))
            continue;
        ls_task *task = begun ? NULL : ls_task_begin(s->program, verb, member, ls_no_range);
        if (task)
            task->node = node;
        begun = true;
        add_act(s, act);
    }
    if (begun)
        ls_task_finish(s->program);
}

void ls_run_piece(ls_step *s, int member, size_t piece, ls_pass_kind kind)
{
    static const unsigned forward =
        1U << LS_ACT_DELAY | 1U << LS_ACT_FEED | 1U << LS_ACT_FORWARD | 1U << LS_ACT_LOSS;
    static const unsigned backward = 1U << LS_ACT_BACKWARD | 1U << LS_ACT_SUM | 1U << LS_ACT_FAULT;
    const ls_replica *r = ls_step_replica(s, member);
    const bool ahead = kind == LS_PASS_FORWARD;
    ls_step_enter_piece(s, r ? r->number : -1, (int)piece);
    ls_step_append_acts(s, ahead ? "forward" : "backward", member, (int)piece,
                        ahead ? forward : backward, LS_ALL_CHUNKS, -1);
    ls_step_enter_piece(s, -1, -1);
}

bool ls_kept(const ls_step *s, int member, size_t piece, size_t index, ls_span *out)
{
    const ls_net *net =
        ls_slice_piece_net(ls_step_member(s, member)->slice[s->batch_kind], (int)piece);
    out->member = member;
    return ls_net_kept(net, index, &out->memory, &out->bytes);
}

/* ---- Updates --------------------------------------------------------------------------------- */

void ls_update(ls_step *s, int member, ls_range range)
{
    ls_replica *r = ls_step_replica(s, member);
    ls_op_list ops = {0};
    if (r && s->plan->parts.count)
        range = ls_range_common(range, (ls_range){0, r->updated.owned});
    if (s->program->status || !r || !range.count)
        return;
    const ls_range own = {ls_step_offset(s, member, range), range.count};
    const ls_status status = ls_replica_update(r, own, LS_DECAY_TO_ADD, &ops);
    ls_task_of(s->program, "update", member, range, &ops, status);
}

void ls_refresh(ls_step *s, int member, ls_range range)
{
    ls_replica *r = ls_step_replica(s, member);
    ls_op_list ops = {0};
    if (s->program->status || !r || !r->masters || !range.count)
        return;
    const ls_status status = ls_replica_round(r, range, &ops);
    ls_task_of(s->program, "round", member, range, &ops, status);
}

/* Records time and loss, and advances the member's position in the data. */
static void append_end(ls_step *s, int member)
{
    ls_replica *r = ls_step_replica(s, member);
    ls_op_list ops = {0};
    if (s->program->status || !r)
        return;
    const ls_status status = ls_replica_finish(r, s->batch, &ops);
    ls_task_of(s->program, "end", member, ls_no_range, &ops, status);
}

/* Moves the latest task before the copies at the end of its lane. */
static void move_before_copies(ls_step_program *p)
{
    const ls_task task = p->tasks[p->task_count - 1];
    size_t to = p->task_count - 1;
    for (size_t t = to; t-- > 0;) {
        if (p->tasks[t].lane != task.lane)
            continue;
        if (!p->tasks[t].copy.to)
            break;
        to = t;
    }
    memmove(&p->tasks[to + 1], &p->tasks[to], (p->task_count - 1 - to) * sizeof task);
    p->tasks[to] = task;
}

/*
 * Why in this order: the lane of the last end drives all lanes that wait for each other (order.c):
 * the others begin after it, and it ends after them. It has to be the same lane for both sizes of a
 * batch, and the one whose time is the step's. Owners that are not replicas update last, so they
 * end last; of a divided replica it is the first place, where the batch enters. Members that serve
 * requests as they arrive are in no step. A holder waits for its towers' copies; so towers end
 * before them, or it would wait for the ends, too.
 */
void ls_step_append_ends(ls_step *s)
{
    const ls_step_plan *plan = s->plan;
    const bool divided = plan->parts.count, held = plan->holder >= 0;
    for (int i = 0; i < plan->total; i++) {
        const int member = divided ? plan->total - 1 - i : i;
        if (member == plan->holder || !plan->lanes.items[member].ends)
            continue;
        append_end(s, member);
        if (held && !s->program->status)
            move_before_copies(s->program);
    }
    if (held)
        append_end(s, plan->holder);
}
