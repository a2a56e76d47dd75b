/* SPDX-License-Identifier: MIT */
/* What crosses the borders of a model's parts (graph_parts.h): outputs, and their gradients. */
#include "impl/step/verbs/build.h"

/* What crosses a boundary. */
typedef enum crossing { OUTPUT, GRADIENT } crossing;

/* The output or its gradient at a boundary, in the memory of the member that has a part. */
static ls_span border_at(const ls_step *s, const ls_border *b, int replica, int part, int piece,
                         crossing what)
{
    ls_span span = {.member = ls_step_member_at(s->plan, replica, part)};
    if (!ls_step_replica(s, span.member))
        return span;
    const int node = ls_graph_parts_local(ls_step_parts(s), part, b->node);
    const ls_net *net = ls_step_net_of(s, span.member, piece, node);
    span.memory =
        what == GRADIENT ? ls_net_node_gradient(net, node) : ls_net_node_output(net, node);
    span.bytes = ls_net_node_bytes(net, node);
    return span;
}

bool ls_step_lands(const ls_step *s, int replica, const ls_border *b)
{
    const int across = ls_step_parts(s)->across;
    const int sender = ls_step_member_at(s->plan, replica, b->from);
    const ls_planned_member *from = &s->plan->members[sender],
                            *to = &s->plan->members[ls_step_member_at(s->plan, replica, b->to)];
    return s->flow && b->from / across != b->to / across &&
           (ls_step_sends_apart(s, sender) || from->process != to->process);
}

/* The size of a landing: of a replica's largest piece, and for most pieces of a micro-batch, over
 * full and smaller batches. */
static void measure(const ls_step *s, const ls_border *b, int replica, ls_landing *l)
{
    ls_step of = *s;
    for (of.batch_kind = 0; of.batch_kind < LS_BATCHES; of.batch_kind++) {
        of.batch = ls_replicated_batch(ls_step_job(s), of.batch_kind);
        const int pieces = ls_replicated_pieces(ls_step_job(s), replica, of.batch_kind);
        const int passes =
            pieces ? ls_replicated_schedule(ls_step_job(s), replica, of.batch_kind).microbatches
                   : 0;
        for (int p = 0; p < pieces; p++) {
            const size_t bytes = border_at(&of, b, replica, b->to, p, OUTPUT).bytes;
            l->each = bytes > l->each ? bytes : l->each;
        }
        for (int m = 0; m < passes; m++) {
            const int count = (int)ls_step_pieces_of(&of, replica, m).count;
            l->pieces = count > l->pieces ? count : l->pieces;
        }
    }
}

/* Where the messages of an output land, if they do; memory for the pieces of one micro-batch is
 * taken with the first one. Else the output's own place. */
static ls_span landing_at(ls_step *s, const ls_border *b, int replica, int piece)
{
    const ls_graph_parts *parts = ls_step_parts(s);
    const size_t at = (size_t)replica * parts->border_count + (size_t)(b - parts->borders);
    ls_span span = border_at(s, b, replica, b->to, piece, OUTPUT);
    ls_landing *l = &s->resources->landings[at];
    if (!span.memory || !ls_step_lands(s, replica, b) || s->program->status)
        return span;
    if (!l->memory) {
        measure(s, b, replica, l);
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

/* Whether a part fetches another stage's output: from its landing or, if no output is sent, from
 * the part that computes it. */
static bool is_fetched(const ls_step *s, int replica, const ls_border *b)
{
    const int across = ls_step_parts(s)->across;
    return ls_step_lands(s, replica, b) ||
           (ls_step_fetches(s) && b->from / across != b->to / across);
}

void ls_step_fetch_outputs(ls_step *s, int replica, int piece, int part)
{
    for (size_t i = 0; i < ls_step_parts(s)->border_count; i++) {
        const ls_border *b = &ls_step_parts(s)->borders[i];
        if (b->to / ls_step_parts(s)->across == part && is_fetched(s, replica, b))
            ls_step_copy(s, "fetch", ls_step_member_at(s->plan, replica, b->to),
                         border_at(s, b, replica, b->to, piece, OUTPUT),
                         ls_step_fetches(s) ? border_at(s, b, replica, b->from, piece, OUTPUT)
                                            : landing_at(s, b, replica, piece));
    }
}

void ls_step_cross(ls_step *s, int replica, int piece, int n, ls_act_kind pass)
{
    const ls_graph_parts *parts = ls_step_parts(s);
    const bool backward = pass == LS_ACT_BACKWARD;
    const ls_border *b;
    if (pass == LS_ACT_FORWARD && ls_step_fetches(s))
        return;
    for (size_t i = parts->border_count ? parts->border_of[backward][n] : 0; i;
         i = b->next[backward]) {
        b = &parts->borders[i - 1];
        if (backward ? b->gradient : ls_step_has_room(s, replica, b))
            cross(s, replica, piece, b, backward ? GRADIENT : OUTPUT);
    }
}
