/* SPDX-License-Identifier: MIT */
/* What a slice does, in order: acts, with the operations that its parts have made; see slice.h. */
#include "impl/slice_private.h"

#include <stdlib.h>

ls_status ls_slice_act(ls_slice *s, const ls_act *act)
{
    if (s->act_count == s->act_capacity) {
        const size_t capacity = s->act_capacity ? 2 * s->act_capacity : 64;
        ls_act *acts = realloc(s->acts, capacity * sizeof *acts);
        if (!acts)
            return ls_fail_memory("slice", capacity * sizeof *acts);
        s->acts = acts;
        s->act_capacity = capacity;
    }
    s->acts[s->act_count++] = *act;
    return LS_OK;
}

ls_status ls_slice_act_node(ls_slice *s, const ls_act *act, const ls_net *net, ls_net_pass pass)
{
    ls_act node = *act;
    ls_net_node_lists(net, act->node, pass, node.lists);
    return ls_slice_act(s, &node);
}

/* Whether gradients are final node by node: one piece is the whole slice, and no fault is to be
 * injected behind it. */
static bool is_final_by_node(const ls_slice *s)
{
    return s->part_count == 1 && !s->flip.count && !s->options.together;
}

static ls_status act_piece(ls_slice *s, const ls_slice_part *p, int piece)
{
    const int nodes = s->options.replica->graph->count;
    const ls_act feed = {.kind = LS_ACT_FEED, .piece = piece, .lists = {&p->ops}};
    LS_TRY(ls_slice_act(s, &feed));
    ls_act act = {.kind = LS_ACT_FORWARD, .piece = piece};
    for (act.node = 0; act.node < nodes; act.node++)
        LS_TRY(ls_slice_act_node(s, &act, p->net, LS_NET_FORWARD));
    act.kind = LS_ACT_BACKWARD;
    for (act.node = nodes - 1; act.node >= 0; act.node--) {
        act.final = (ls_range){0};
        if (is_final_by_node(s))
            ls_net_node_final(p->net, act.node, &act.final.first, &act.final.count);
        LS_TRY(ls_slice_act_node(s, &act, p->net, LS_NET_BACKWARD));
    }
    return LS_OK;
}

ls_status ls_slice_act_sum(ls_slice *s, const ls_slice_part *sum, int piece)
{
    const ls_act gradients = {.kind = LS_ACT_SUM, .piece = piece, .lists = {&sum->ops}};
    const ls_act losses = {.kind = LS_ACT_LOSS, .piece = piece, .lists = {&sum->loss}};
    LS_TRY(ls_slice_act(s, &gradients));
    return ls_slice_act(s, &losses);
}

static ls_status act_alone(ls_slice *s)
{
    int piece = 0;
    for (size_t i = 0; i < s->part_count; i++) {
        const ls_slice_part *p = &s->parts[i];
        LS_TRY(p->net ? act_piece(s, p, piece++) : ls_slice_act_sum(s, p, piece - 1));
    }
    return LS_OK;
}

ls_status ls_slice_build_acts(ls_slice *s)
{
    const ls_act delay = {.kind = LS_ACT_DELAY, .lists = {&s->delay}};
    const ls_act fault = {
        .kind = LS_ACT_FAULT, .piece = (int)s->piece_count - 1, .lists = {&s->flip}};
    if (s->delay.count)
        LS_TRY(ls_slice_act(s, &delay));
    LS_TRY(s->options.together ? ls_slice_act_together(s) : act_alone(s));
    if (s->flip.count)
        LS_TRY(ls_slice_act(s, &fault));
    if (s->sums && !is_final_by_node(s))
        s->acts[s->act_count - 1].final = (ls_range){0, s->options.replica->elements};
    return LS_OK;
}

const ls_act *ls_slice_acts(const ls_slice *slice, size_t *count)
{
    *count = slice->act_count;
    return slice->acts;
}
