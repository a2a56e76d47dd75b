/* SPDX-License-Identifier: MIT */
/* What crosses the borders of a model's parts (graph_parts.h): outputs, and their gradients. */
#include "impl/step/verbs/build.h"

static const ls_graph_parts *parts_of(const ls_step *s)
{
    return &s->plan->parts;
}

/* What crosses a boundary. */
typedef enum crossing { OUTPUT, GRADIENT } crossing;

/* The output or its gradient at a boundary, in the memory of the member that has a part. */
static ls_span border_at(const ls_step *s, const ls_border *b, int replica, int part, int piece,
                         crossing what)
{
    ls_span span = {.member = ls_step_member_at(s->plan, replica, part)};
    if (!ls_step_replica(s, span.member))
        return span;
    const int node = ls_graph_parts_local(parts_of(s), part, b->node);
    const ls_net *net = ls_step_net_of(s, span.member, piece, node);
    span.memory =
        what == GRADIENT ? ls_net_node_gradient(net, node) : ls_net_node_output(net, node);
    span.bytes = ls_net_node_bytes(net, node);
    return span;
}

static bool lands(const ls_step *s, const ls_border *b)
{
    const int across = parts_of(s)->across;
    return ls_step_lands(s) && b->from / across != b->to / across;
}

/* Where the messages of an output land, if they have a lane of their own; memory for the pieces of
 * one micro-batch is taken with the first one. Else the output's own place. */
static ls_span landing_at(ls_step *s, const ls_border *b, int replica, int piece)
{
    const ls_graph_parts *parts = parts_of(s);
    const size_t at = (size_t)replica * parts->border_count + (size_t)(b - parts->borders);
    ls_span span = border_at(s, b, replica, b->to, piece, OUTPUT);
    ls_landing *l = &s->resources->landings[at];
    if (!span.memory || !lands(s, b) || s->program->status)
        return span;
    if (l->each < span.bytes) {
        const int all = ls_replicated_pieces(ls_step_job(s), replica, s->batch_kind);
        const int m = ls_replicated_schedule(ls_step_job(s), replica, s->batch_kind).microbatches;
        l->pieces = (all + m - 1) / m;
        l->each = border_at(s, b, replica, b->to, all - 1, OUTPUT).bytes; /* the last is largest */
        const bool narrow =
            ls_net_element_bytes(parts->whole, b->node, ls_step_job(s)->kernels.precision) ==
            sizeof(uint16_t);
        const ls_memory_use use =
            LS_MEMORY_AS(LS_MEMORY_COMMUNICATION, narrow ? LS_MEMORY_BF16 : LS_MEMORY_FLOAT32);
        ls_step_fail(s, ls_replica_take(ls_step_replica(s, span.member), "landings", use,
                                        (size_t)l->pieces * l->each, &l->memory));
    }
    span.memory = (char *)l->memory + (size_t)(piece % l->pieces) * l->each;
    return span;
}

static void cross(ls_step *s, int replica, int piece, const ls_border *b, crossing what)
{
    const int from = what == GRADIENT ? b->to : b->from;
    ls_message(s,
               what == GRADIENT ? border_at(s, b, replica, b->from, piece, what)
                                : landing_at(s, b, replica, piece),
               border_at(s, b, replica, from, piece, what), LS_REPLACE);
}

void ls_step_cross_output(ls_step *s, int replica, int piece, const ls_border *b)
{
    cross(s, replica, piece, b, OUTPUT);
}

void ls_step_fetch_outputs(ls_step *s, int replica, int piece, int part)
{
    for (size_t i = 0; i < parts_of(s)->border_count; i++) {
        const ls_border *b = &parts_of(s)->borders[i];
        if (b->to / parts_of(s)->across == part && b->from / parts_of(s)->across != part)
            ls_step_copy(s, "fetch", ls_step_member_at(s->plan, replica, b->to),
                         border_at(s, b, replica, b->to, piece, OUTPUT),
                         ls_step_lands(s) ? landing_at(s, b, replica, piece)
                                          : border_at(s, b, replica, b->from, piece, OUTPUT));
    }
}

void ls_step_cross(ls_step *s, int replica, int piece, int n, ls_act_kind pass)
{
    const ls_graph_parts *parts = parts_of(s);
    const bool backward = pass == LS_ACT_BACKWARD;
    const ls_border *b;
    if (pass == LS_ACT_FORWARD && ls_step_fetches(s))
        return;
    for (size_t i = parts->border_count ? parts->border_of[backward][n] : 0; i;
         i = b->next[backward]) {
        b = &parts->borders[i - 1];
        if (backward ? b->gradient : ls_step_has_room(s, b->to))
            cross(s, replica, piece, b, backward ? GRADIENT : OUTPUT);
    }
}
