/* SPDX-License-Identifier: MIT */
/* The verbs of a member's own work, and of copies between members; see step.h. */
#include "impl/step/step_private.h"

#include "common/base/grow.h"

#include <stdlib.h>

static const ls_range nothing = {0, 0};

static const ls_act *acts_of(const ls_step *s, int member, size_t *count)
{
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    *count = 0;
    return slice ? ls_slice_acts(slice, count) : NULL;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void add_act(ls_step *s, const ls_act *act)
{
    for (int l = 0; l < LS_NET_LISTS; l++)
        ls_task_add_ops(s, act->lists[l]);
}

/* Appends the next acts, up to number `end`, as one task. */
static void say_acts(ls_step *s, const char *verb, int member, size_t end, ls_range range)
{
    size_t count;
    const ls_act *acts = acts_of(s, member, &count);
    if (s->status || s->said[member] >= end)
        return;
    ls_task_begin(s, verb, member, range);
    for (; s->said[member] < end; s->said[member]++)
        add_act(s, &acts[s->said[member]]);
    ls_task_end(s);
}

/* Appends weight decay's part of the loss, on a member that gets its variables in each step. */
static void say_decay(ls_step *s, int member)
{
    const ls_replica *r = ls_step_replica(s, member);
    if (!r || r->decays != LS_DECAY_HERE || !r->decay_loss.count)
        return;
    ls_task_begin(s, "decay", member, nothing);
    ls_task_add_ops(s, &r->decay_loss);
    ls_task_end(s);
}

void ls_forward(ls_step *s, int member)
{
    size_t count, end = 0;
    say_decay(s, member);
    const ls_act *acts = acts_of(s, member, &count);
    while (end < count && acts[end].kind != LS_ACT_BACKWARD)
        end++;
    say_acts(s, "forward", member, end, nothing);
}

/* Number of acts until all of the range is final. */
static size_t acts_until(const ls_act *acts, size_t count, ls_range range)
{
    size_t final = 0, end = 0;
    while (end < count && final < range.count)
        final += ls_range_common(acts[end++].final, range).count;
    return end;
}

void ls_backward(ls_step *s, int member, ls_range range)
{
    size_t count;
    const ls_act *acts = acts_of(s, member, &count);
    say_acts(s, "backward", member, acts_until(acts, count, range), range);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

int ls_pieces(const ls_step *s, int replica)
{
    return ls_replicated_pieces(ls_step_job(s), replica, s->batch_kind);
}

/* The piece's first act; *end is behind the last act of all. */
static const ls_act *find_piece(const ls_step *s, int member, int piece, const ls_act **end)
{
    size_t high, low = 0;
    const ls_act *acts = acts_of(s, member, &high);
    *end = acts + high;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (acts[middle].piece < piece)
            low = middle + 1;
        else
            high = middle;
    }
    return acts + low;
}

static bool has_ops(const ls_act *act)
{
    for (int l = 0; l < LS_NET_LISTS; l++)
        if (act->lists[l] && act->lists[l]->count)
            return true;
    return false;
}

void ls_step_say_acts(ls_step *s, const char *verb, int member, int piece, unsigned kinds, int node)
{
    const ls_act *end, *act = find_piece(s, member, piece, &end);
    bool begun = false;
    for (; act < end && act->piece == piece && !s->status; act++) {
        if (!(kinds >> act->kind & 1U) || (node >= 0 && act->node != node) || !has_ops(act))
            continue;
        ls_task *task = begun ? NULL : ls_task_begin(s, verb, member, nothing);
        if (task)
            task->node = node;
        begun = true;
        add_act(s, act);
    }
    if (begun)
        ls_task_end(s);
}

void ls_forward_piece(ls_step *s, int member, int piece)
{
    ls_step_say_acts(
        s, "forward", member, piece,
        1U << LS_ACT_DELAY | 1U << LS_ACT_FEED | 1U << LS_ACT_FORWARD | 1U << LS_ACT_LOSS, -1);
}

void ls_backward_piece(ls_step *s, int member, int piece)
{
    ls_step_say_acts(s, "backward", member, piece,
                     1U << LS_ACT_BACKWARD | 1U << LS_ACT_SUM | 1U << LS_ACT_FAULT, -1);
}

bool ls_kept(const ls_step *s, int member, int piece, size_t index, ls_span *out)
{
    const ls_net *net = ls_slice_piece_net(ls_step_member(s, member)->slice[s->batch_kind], piece);
    out->member = member;
    return ls_net_kept(net, index, &out->memory, &out->bytes);
}

/* ---- Updates --------------------------------------------------------------------------------- */

void ls_update(ls_step *s, int member, ls_range range)
{
    ls_replica *r = ls_step_replica(s, member);
    ls_op_list ops = {0};
    if (s->status || !r || !range.count)
        return;
    const ls_range own = {ls_step_place(s, member, range), range.count};
    const ls_status status = ls_replica_update(r, own, true, &ops);
    ls_task_of(s, "update", member, range, &ops, status);
}

void ls_end(ls_step *s, int member)
{
    ls_replica *r = ls_step_replica(s, member);
    ls_op_list ops = {0};
    if (s->status || !r)
        return;
    const ls_status status =
        ls_replica_finish(r, ls_replicated_batch(ls_step_job(s), s->batch_kind), &ops);
    ls_task_of(s, "end", member, nothing, &ops, status);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Whether a copy can be made; if not, says why. */
static bool can_copy(ls_step *s, ls_span to, ls_span from)
{
    const bool reads = ls_step_replica(s, from.member), writes = ls_step_replica(s, to.member);
    const char *name = s->run->base.strategy->name;
    if (s->status || (!reads && !writes))
        return false;
    if (!reads || !writes)
        ls_step_fail(s, ls_fail(LS_CODE_USAGE, "strategy", name,
                                "copies between members of two processes; ls_message and "
                                "ls_all_reduce go between processes"));
    else if (to.bytes != from.bytes || (to.bytes && (!to.memory || !from.memory)))
        ls_step_fail(s, ls_fail(LS_CODE_USAGE, "strategy", name,
                                "copies %zu bytes to %zu%s; both spans must be of one size, in "
                                "memory",
                                from.bytes, to.bytes,
                                to.memory && from.memory ? "" : ", one of which is nowhere"));
    return !s->status;
}

void ls_step_copy(ls_step *s, const char *verb, int lane, ls_span to, ls_span from)
{
    if (!can_copy(s, to, from))
        return;
    if (ls_apart(s, to.member, from.member)) {
        s->copied.bytes_sent += to.bytes;
        s->copied.messages_sent++; /* counts buffers, even empty ones */
    }
    ls_task *task = to.bytes ? ls_task_begin(s, verb, lane, nothing) : NULL;
    if (!task)
        return;
    task->to = to;
    task->from = from;
    ls_task_touch(s, from.memory, to.bytes, false);
    ls_task_touch(s, to.memory, to.bytes, true);
    ls_task_end(s);
}

void ls_fetch(ls_step *s, ls_span to, ls_span from)
{
    ls_step_copy(s, "fetch", to.member, to, from);
}

void ls_send(ls_step *s, ls_span to, ls_span from)
{
    ls_step_copy(s, "send", from.member, to, from);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

void ls_step_add(ls_step *s, const char *verb, ls_span sum, ls_span more)
{
    ls_kernels *kernels = ls_step_replica(s, sum.member)->kernels;
    const ls_add_args args = {.count = (int64_t)(sum.bytes / kernels->table->real_bytes),
                              .a = sum.memory,
                              .b = more.memory,
                              .y = sum.memory};
    ls_op *op = NULL;
    const ls_status status = s->status ? LS_OK : kernels->table->add(kernels, &args, &op);
    if (!s->status)
        ls_task_of_op(s, verb, sum.member, nothing, op, status);
}

/* Makes a member's sum number `index` readable by the holder; `only`: there is no other sum. */
static ls_span bring(ls_step *s, int member, size_t index, bool only)
{
    ls_replica *holder = ls_step_replica(s, ls_holder(s));
    const ls_span sum = ls_gradient(s, member, index, ls_all(s));
    ls_span here = {ls_holder(s), holder->gradients, sum.bytes};
    if (!ls_apart(s, member, here.member) && !only)
        return sum;
    if (!only)
        ls_step_fail(s, ls_replica_take(holder, "staging", LS_MEMORY_COMMUNICATION, sum.bytes,
                                        &here.memory));
    if (!s->status && here.memory != sum.memory)
        ls_step_copy(s, "send", member, here, sum);
    return here;
}

static ls_status make_sums(const ls_replica *r, const ls_span *parts, const ls_tree_sum *sums,
                           size_t count, void *out, ls_op_list *ops)
{
    for (size_t i = 0; i < count; i++) {
        const ls_span *left = &parts[sums[i].left];
        const ls_add_args args = {.count = (int64_t)(left->bytes / r->kernels->table->real_bytes),
                                  .a = left->memory,
                                  .b = parts[sums[i].right].memory,
                                  .y = i + 1 == count ? out : left->memory};
        ls_op *op;
        LS_TRY(r->kernels->table->add(r->kernels, &args, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

void ls_step_sum(ls_step *s, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out)
{
    const ls_job *job = ls_step_job(s);
    ls_op_list ops = {0};
    ls_tree_sum *sums = NULL;
    size_t count = 0;
    if (s->status)
        return;
    ls_status status =
        ls_slice_tree(job, ls_replicated_batch(job, s->batch_kind), replicas, &sums, &count);
    if (!status)
        status = make_sums(ls_step_replica(s, member), parts, sums, count, out, &ops);
    if (count || status)
        ls_task_of(s, "add up", member, range, &ops, status);
    free(sums);
}

void ls_add_up(ls_step *s, const int *members, int count)
{
    const int holder = ls_holder(s);
    size_t parts = 0, at = 0;
    for (int i = 0; i < count; i++)
        parts += ls_sums(s, i);
    ls_span *spans;
    ls_step_fail(s, ls_allocate("step", &spans, parts, sizeof *spans));
    for (int i = 0; i < count && !s->status; i++)
        for (size_t k = 0; k < ls_sums(s, i) && !s->status; k++)
            spans[at++] = bring(s, members[i], k, parts == 1);
    ls_step_sum(s, holder, nothing, spans, count, ls_step_replica(s, holder)->gradients);
    free(spans);
}
