/* SPDX-License-Identifier: MIT */
/*
 * The list of passes of divided replicas: over pieces, one after the other, or in a pipeline by its
 * stages over micro-batches in the order of the job's schedule (pipeline_schedule.h). An output is
 * sent behind the pass that computes it or, if the part that needs it has no memory for the
 * micro-batch then, behind the pass that frees some. Where the sender's compute lane would wait for
 * that memory, in a process with several chunks, the part fetches it before its pass. Messages
 * with a lane of their own land in memory for one micro-batch, and the part fetches them from
 * there: else each would arrive late by the time it takes, as the memory that it needs is free only
 * when the part is ready for it.
 */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* Number of a pass's first piece. */
static int begin_of(const ls_step *s, int replica, int pass)
{
    if (ls_step_by_node(s))
        return ls_replicated_before(ls_step_job(s), replica, s->batch_kind,
                                    ls_step_exchange(s, pass));
    if (!ls_step_is_staged(s))
        return pass;
    const ls_schedule schedule = ls_replicated_schedule(ls_step_job(s), replica, s->batch_kind);
    return (int)ls_comm_share(ls_pieces(s, replica).count, pass, schedule.microbatches);
}

ls_range ls_step_pieces_of(const ls_step *s, int replica, int pass)
{
    const int first = begin_of(s, replica, pass), end = begin_of(s, replica, pass + 1);
    return (ls_range){(size_t)first, (size_t)(end - first)};
}

static bool is_on(const ls_step *s, int n, int part)
{
    return !ls_step_is_staged(s) || ls_step_parts(s)->place[n] / ls_step_parts(s)->across == part;
}

bool ls_step_can_pass(ls_step *s, const char *verb)
{
    return ls_step_can(s, ls_step_parts(s)->count, verb,
                       "cannot be called in this strategy, since the job's mesh has no stages, "
                       "slices or positions; set their number in the strategy's .resolve()");
}

/* ---- What crosses the borders of parts (graph_parts.h) --------------------------------------- */

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

/* Whether a member sends copies on a lane of their own; false for members of other processes. */
static bool sends_apart(const ls_step *s, int member)
{
    return s->plan->members[member].sends != member;
}

static bool lands(const ls_step *s, int replica, const ls_border *b)
{
    const int across = ls_step_parts(s)->across;
    const int sender = ls_step_member_at(s->plan, replica, b->from);
    const ls_planned_member *from = &s->plan->members[sender],
                            *to = &s->plan->members[ls_step_member_at(s->plan, replica, b->to)];
    return s->flow && b->from / across != b->to / across &&
           (sends_apart(s, sender) || from->process != to->process);
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
    if (!span.memory || !lands(s, replica, b) || s->program->status)
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

/* Whether parts fetch other parts' outputs, which are then not sent. */
static bool fetches(const ls_step *s)
{
    return s->flow && ls_step_parts(s)->merged && !ls_step_plan_has_ends(s->plan) &&
           !sends_apart(s, ls_step_plan_first_local(s->plan));
}

/* Whether a part fetches another stage's output: from its landing or, if no output is sent, from
 * the part that computes it. */
static bool is_fetched(const ls_step *s, int replica, const ls_border *b)
{
    const int across = ls_step_parts(s)->across;
    return lands(s, replica, b) || (fetches(s) && b->from / across != b->to / across);
}

static void fetch_outputs(ls_step *s, int replica, int piece, int part)
{
    for (size_t i = 0; i < ls_step_parts(s)->border_count; i++) {
        const ls_border *b = &ls_step_parts(s)->borders[i];
        if (b->to / ls_step_parts(s)->across == part && is_fetched(s, replica, b))
            ls_step_copy(s, "fetch", ls_step_member_at(s->plan, replica, b->to),
                         border_at(s, b, replica, b->to, piece, OUTPUT),
                         fetches(s) ? border_at(s, b, replica, b->from, piece, OUTPUT)
                                    : landing_at(s, b, replica, piece));
    }
}

/* The first micro-batch for whose inputs a part has no memory yet: no landings, or no slots. */
static int room_of(const ls_part_flow *flow, bool landings)
{
    return landings ? flow->fetched + 1 : flow->freed + flow->held;
}

static bool has_room(const ls_step *s, int replica, const ls_border *b)
{
    const ls_part_flow *flow = s->flow ? &s->flow[b->to / ls_step_parts(s)->across] : NULL;
    return !flow || s->program->microbatch - 1 < room_of(flow, lands(s, replica, b));
}

void ls_step_cross(ls_step *s, int replica, int piece, int n, ls_act_kind pass)
{
    const ls_graph_parts *parts = ls_step_parts(s);
    const bool backward = pass == LS_ACT_BACKWARD;
    const ls_border *b;
    if (pass == LS_ACT_FORWARD && fetches(s))
        return;
    for (size_t i = parts->border_count ? parts->border_of[backward][n] : 0; i;
         i = b->next[backward]) {
        b = &parts->borders[i - 1];
        if (backward ? b->gradient : has_room(s, replica, b))
            cross(s, replica, piece, b, backward ? GRADIENT : OUTPUT);
    }
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static ls_status open_order(ls_step *s, const ls_schedule *schedule)
{
    const int chunks = ls_schedule_chunks(schedule);
    LS_TRY(ls_schedule_order(schedule, &s->passes, &s->pass_count));
    LS_TRY(ls_allocate("step", &s->flow, (size_t)(chunks * schedule->stages), sizeof *s->flow));
    for (int part = 0; part < chunks * schedule->stages; part++) {
        ls_schedule_most most;
        LS_TRY(
            ls_schedule_count(schedule, part % schedule->stages, part / schedule->stages, &most));
        s->flow[part].held = most.held;
    }
    return LS_OK;
}

void ls_step_close_order(ls_step *s)
{
    free(s->passes);
    free(s->flow);
    s->passes = NULL;
    s->flow = NULL;
}

/* Pass number `i` of the ones through all stages: forward, and backward at once. */
static bool whole_pass(const ls_step *s, int replica, size_t i, ls_pass *out)
{
    const ls_range all =
        ls_step_by_node(s)
            ? (ls_range){0, (size_t)ls_replicated_exchanges(ls_step_job(s), s->batch_kind)}
            : ls_pieces(s, replica);
    *out = (ls_pass){.kind = i % 2 ? LS_PASS_BACKWARD : LS_PASS_FORWARD,
                     .microbatch = (int)(all.first + i / 2)};
    return i / 2 < all.count;
}

bool ls_next_pass(ls_step *s, int replica, size_t i, ls_pass *out)
{
    if (!ls_step_can_pass(s, "ls_next_pass"))
        return false;
    if (!ls_step_is_staged(s))
        return whole_pass(s, replica, i, out);
    if (!i) {
        const int of = replica == LS_EVERY_REPLICA ? 0 : replica; /* all are alike */
        const ls_schedule schedule = ls_replicated_schedule(ls_step_job(s), of, s->batch_kind);
        ls_step_close_order(s);
        const ls_status status = open_order(s, &schedule);
        if (status) {
            ls_step_fail(s, status);
            return false;
        }
    }
    if (i < s->pass_count)
        *out = s->passes[i];
    else
        ls_step_close_order(s);
    return s->flow;
}

/* Behind what frees a part's memory for a micro-batch's inputs, landings or slots: messages of
 * replicas [first, end) that waited for it. */
static void admit(ls_step *s, int first, int end, int part, bool landings)
{
    const ls_graph_parts *parts = ls_step_parts(s);
    const int microbatch = room_of(&s->flow[part], landings) - 1, now = s->program->microbatch;
    for (size_t i = 0; i < parts->border_count && !fetches(s); i++) {
        const ls_border *b = &parts->borders[i];
        if (b->to / parts->across != part || s->flow[b->from / parts->across].ran <= microbatch)
            continue;
        s->program->microbatch = microbatch + 1;
        for (int r = first; r < end; r++)
            for (int p = begin_of(s, r, microbatch);
                 lands(s, r, b) == landings && p < begin_of(s, r, microbatch + 1); p++)
                cross(s, r, p, b, OUTPUT);
    }
    s->program->microbatch = now;
}

/* Whether a node's pass of this kind is the last one that its gradients on a place wait for. */
static bool is_last(const ls_step *s, int place, int node, ls_pass_kind kind)
{
    const bool *waits = ls_step_planned_group(s->plan, place)->gradient_windows.waits;
    const bool weights = waits && waits[ls_graph_parts_at(ls_step_parts(s), place)->local[node]];
    return kind == (weights ? LS_PASS_WEIGHTS : LS_PASS_BACKWARD);
}

/* The node with whose backward pass a bucket of a divided model becomes final. */
static int bucket_node(const ls_step *s, int b)
{
    const ls_range bucket = ls_bucket(s, b);
    const ls_graph_part *part = ls_graph_parts_at(ls_step_parts(s), ls_step_set_of(s->plan, &b));
    for (int n = 0; n < ls_nodes(s); n++) {
        const ls_node *node = part->local[n] < 0 ? NULL : &part->graph->nodes[part->local[n]];
        for (int v = 0; node && v < node->variable_count && node->shares < 0; v++) {
            const ls_variable *variable = &part->graph->variables.items[node->variables[v]];
            if (ls_range_common(bucket, (ls_range){variable->offset, variable->count}).count)
                return n;
        }
    }
    return ls_nodes(s);
}

/* The last bucket, in the order of the forward pass, that nodes before number `end` need. */
static int need_before(const ls_step *s, int place, int end)
{
    const ls_windows *windows = &ls_step_planned_group(s->plan, place)->windows;
    int least = (int)windows->buckets->count;
    for (int n = 0; n < end; n++) {
        const int node = ls_step_parts(s)->count
                             ? ls_graph_parts_at(ls_step_parts(s), place)->local[n]
                             : n,
                  need = node < 0 ? least : ls_windows_need(windows, node);
        least = need < least ? need : least;
    }
    return least;
}

void ls_step_gather_for(ls_step *s, int place, int n, ls_pass_kind kind)
{
    const ls_planned_group *g = ls_step_planned_group(s->plan, place);
    const bool backward = kind == LS_PASS_BACKWARD;
    const int before = g->before, end = before + (int)g->buckets.count;
    if (!g->windows.buckets)
        return;
    for (int b = need_before(s, place, n); !backward && b-- > need_before(s, place, n + 1);) {
        ls_need(s, before + b, LS_PASS_FORWARD);
        if (!s->exchanged)
            ls_step_share_values(s, place, ls_bucket(s, before + b));
    }
    for (int b = before; b < end && backward; b++)
        if (n + 1 == (b > before ? bucket_node(s, b - 1) : ls_nodes(s)))
            ls_need(s, b, LS_PASS_BACKWARD);
}

/* A node's pass over its pieces in all replicas. Before it: gathers of parameters that this node is
 * the first to need. Behind it: sums of gradients that it makes final. */
static void run_node(ls_step *s, int pass, int node, ls_pass_kind kind)
{
    for (int place = 0; place < s->plan->mesh.places && kind != LS_PASS_WEIGHTS; place++)
        ls_step_gather_for(s, place, node, kind);
    for (int r = 0; r < ls_replicas(s); r++)
        for (int p = begin_of(s, r, pass); p < begin_of(s, r, pass + 1); p++)
            ls_run_node(s, r, (size_t)p, node, kind);
    for (int b = 0; b < ls_bucket_count(s) && kind != LS_PASS_FORWARD; b++) {
        int at = b;
        if (bucket_node(s, b) == node && is_last(s, ls_step_set_of(s->plan, &at), node, kind))
            ls_give(s, b);
    }
}

/* Gathers the last buckets of a chunk, where a backward pass begins, unless the pass before has
 * left them in their windows. */
static void gather_last(ls_step *s, const ls_pass *pass)
{
    const int across = ls_step_parts(s)->across;
    const ls_pass_before before = ls_pass_before_of(pass, &s->flow[pass->stage].last);
    for (int place = pass->stage * across; place < (pass->stage + 1) * across; place++) {
        const ls_planned_group *g = ls_step_planned_group(s->plan, place);
        const ls_windows *windows = &g->windows;
        for (int b = 0; windows->buckets && b < (int)windows->buckets->count; b++)
            if (ls_bucket_chunk(windows->buckets, b) == pass->chunk &&
                ls_windows_lost(windows, b, before))
                ls_need(s, g->before + b, LS_PASS_FORWARD);
    }
}

/* A node's pass over a pass's pieces: of all replicas, or of one. */
static void run_on(ls_step *s, int replica, int piece, int node, ls_pass_kind kind)
{
    if (replica == LS_EVERY_REPLICA)
        run_node(s, piece, node, kind);
    else
        ls_run_node(s, replica, (size_t)piece, node, kind);
}

/* A part's nodes; of a pipeline, the loss belongs to the backward pass. */
static void run_nodes(ls_step *s, int replica, int piece, int part, ls_pass_kind kind)
{
    const int loss = ls_nodes(s) - 1;
    const bool staged = ls_step_is_staged(s);
    for (int n = 0; n <= loss - staged && kind == LS_PASS_FORWARD; n++)
        if (is_on(s, n, part))
            run_on(s, replica, piece, n, LS_PASS_FORWARD);
    if (staged && kind == LS_PASS_BACKWARD && is_on(s, loss, part))
        run_on(s, replica, piece, loss, LS_PASS_FORWARD);
    for (int n = loss; n >= 0 && kind != LS_PASS_FORWARD; n--)
        if (is_on(s, n, part))
            run_on(s, replica, piece, n, kind);
}

/* Before a forward pass of replicas [first, end): outputs of other parts that it reads. */
static void fetch(ls_step *s, int first, int end, const ls_pass *pass, int part)
{
    for (int r = first; r < end; r++)
        for (int p = begin_of(s, r, pass->microbatch); p < begin_of(s, r, pass->microbatch + 1);
             p++)
            fetch_outputs(s, r, p, part);
}

void ls_run_pass(ls_step *s, int replica, const ls_pass *pass)
{
    if (!ls_step_can_pass(s, "ls_run_pass"))
        return;
    const int part = pass->chunk * s->plan->mesh.size[LS_STAGE] + pass->stage;
    const bool every = replica == LS_EVERY_REPLICA;
    const int first = every ? 0 : replica, end = every ? ls_replicas(s) : replica + 1;
    const ls_schedule schedule = {.rule = ls_schedule_rule_of(&ls_step_job(s)->options)};
    s->program->microbatch = ls_step_is_staged(s) ? pass->microbatch + 1 : 0;
    if (pass->kind == LS_PASS_FORWARD && s->flow) {
        fetch(s, first, end, pass, part);
        s->flow[part].fetched++;
        admit(s, first, end, part, true);
    }
    if (every) {
        ls_next_exchange(s, pass->microbatch);
        if (pass->kind == LS_PASS_BACKWARD && s->flow)
            gather_last(s, pass);
        run_nodes(s, replica, pass->microbatch, part, pass->kind);
    }
    for (int p = every ? 0 : begin_of(s, replica, pass->microbatch);
         !every && p < begin_of(s, replica, pass->microbatch + 1); p++)
        run_nodes(s, replica, p, part, pass->kind);
    if (s->flow) {
        s->flow[part].ran += pass->kind == LS_PASS_FORWARD;
        s->flow[pass->stage].last = *pass;
    }
    if (s->flow && ls_schedule_frees(&schedule, pass)) {
        s->flow[part].freed++;
        admit(s, first, end, part, false);
    }
    s->program->microbatch = 0;
}
