/* SPDX-License-Identifier: MIT */
/*
 * Models divided over places (graph_parts.h): a node's passes are tasks of its place, and outputs
 * that another place needs are sent there.
 *
 * In one process, the sending place copies them. Between processes they are messages (message.c),
 * on a lane of each place for messages only, so that a place computes meanwhile. All processes
 * append their messages in the same order of the whole step, so that waiting ends cannot deadlock.
 */
#include "common/base/grow.h"
#include "impl/step/verbs/build.h"

/* The replica's member that has a part. */
int ls_step_member_at(const ls_step_plan *plan, int replica, int part)
{
    return replica * plan->mesh.places + part % plan->mesh.places;
}

/* Pieces of a part for which its member has memory at once. */
static int slots_at(const ls_step_plan *plan, int replica, int part)
{
    const ls_planned_member *m = &plan->members[ls_step_member_at(plan, replica, part)];
    const int slots = m->slots[part / plan->mesh.places];
    return slots > 1 ? slots : 1;
}

static size_t real_bytes(const ls_resources *r)
{
    return r->members[ls_step_plan_first_local(r->plan)].replica->kernels->table->real_bytes;
}

/* ---- Queries --------------------------------------------------------------------------------- */

int ls_nodes(const ls_step *s)
{
    return ls_step_parts(s)->count ? ls_step_parts(s)->whole->count : 0;
}

static bool is_input(const ls_step *s, int n)
{
    return ls_step_parts(s)->whole->nodes[n].layer->role == LS_LAYER_INPUT;
}

static int local(const ls_step *s, int part, int n)
{
    return ls_graph_parts_local(ls_step_parts(s), part, n);
}

ls_net *ls_step_net_of(const ls_step *s, int member, int piece, int node)
{
    return ls_slice_node_net(ls_step_member(s, member)->slice[s->batch_kind], piece, node);
}

/* ---- Messages between places ----------------------------------------------------------------- */

/* Elements, of so many bytes, of a flat buffer, or of windows of it; `flat` is NULL for a member in
 * another process.
 */
static ls_span elements(int member, void *flat, const ls_windows *windows, size_t each,
                        ls_range range)
{
    const size_t first = ls_windows_at(windows, range.first);
    return (ls_span){member, flat ? (char *)flat + first * each : NULL, range.count * each};
}

static ls_span gradients_of(const ls_step *s, int member, int piece, size_t first, size_t count)
{
    const bool is_local = ls_step_replica(s, member);
    return (ls_span){member,
                     is_local ? ls_net_gradient(ls_step_net_of(s, member, piece, 0), first) : NULL,
                     count * real_bytes(s->resources)};
}

/* Bytes of a parameter of every member, also of members in other processes. */
static size_t parameter_bytes(const ls_step *s)
{
    return ls_replica_parameter_bytes(
        s->resources->members[ls_step_plan_first_local(s->plan)].replica);
}

static ls_span parameters_of(const ls_step *s, int member, size_t first, size_t count)
{
    const ls_replica *r = ls_step_replica(s, member);
    return elements(member, r ? r->windows.whole_parameters : NULL,
                    r ? r->windows.parameters : NULL, parameter_bytes(s), (ls_range){first, count});
}

/* ---- Shared variables ------------------------------------------------------------------------ */

/* The owner's buffer for a copy's gradient, for all pieces in flight; it is taken with the first.
 */
static ls_span arrived(ls_step *s, int replica, int piece, size_t copy)
{
    const ls_variable_copy *c = &ls_step_parts(s)->copies[copy];
    const int owner = ls_step_member_at(s->plan, replica, c->owner);
    const int slots = slots_at(s->plan, replica, c->owner);
    void **memory = &s->resources->arrived[(size_t)replica * ls_step_parts(s)->copy_count + copy];
    if (!*memory && ls_step_replica(s, owner) && !s->program->status)
        ls_step_fail(s,
                     ls_replica_take(ls_step_replica(s, owner), NULL, LS_MEMORY_COMMUNICATION,
                                     (size_t)slots * c->count * real_bytes(s->resources), memory));
    return elements(owner, *memory, NULL, real_bytes(s->resources),
                    (ls_range){(size_t)(piece % slots) * c->count, c->count});
}

/* Values go from the owner of a variable to the other places that use it: behind the updates or, of
 * parameters in windows, in the next step behind the first gather. */
void ls_step_share_values(ls_step *s, int place, ls_range range)
{
    const size_t copies =
        place < 0 && s->plan->parameters.windows ? 0 : ls_step_parts(s)->copy_count;
    for (size_t i = 0; i < (size_t)ls_replicas(s) * copies; i++) {
        const ls_variable_copy *c = &ls_step_parts(s)->copies[i % copies];
        const ls_range elements = {c->at_owner, c->count};
        const int owner = ls_step_member_at(s->plan, (int)(i / copies), c->owner);
        const int user = ls_step_member_at(s->plan, (int)(i / copies), c->user);
        if (place < 0 || (c->owner == place && ls_range_common(elements, range).count))
            ls_message(s, parameters_of(s, user, c->at_user, c->count),
                       parameters_of(s, owner, c->at_owner, c->count), LS_REPLACE);
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Finds the next part, from number *part on, that has a node of a replica in this process, and the
 * member that has it. */
static bool next_part(const ls_step *s, int replica, int n, int *part, int *member)
{
    for (; *part < ls_step_parts(s)->count; ++*part) {
        *member = ls_step_member_at(s->plan, replica, *part);
        if (ls_graph_parts_have(ls_step_parts(s), *part, n) && ls_step_replica(s, *member))
            return true;
    }
    return false;
}

/* Gathers a piece's inputs for a part, unless that is done. */
static void gather(ls_step *s, int member, int piece, int node)
{
    const int chunk = ls_graph_part_chunk(ls_step_plan_part(s->plan, member), node);
    size_t *appended = &s->appended[member + chunk * s->plan->all];
    if (*appended > (size_t)piece)
        return;
    *appended = (size_t)piece + 1;
    ls_step_append_acts(s, "gather", member, piece, 1U << LS_ACT_FEED, chunk, -1);
}

void ls_step_predict(ls_step *s, const char *verb, int member, int piece, int node,
                     ls_net_pass pass)
{
    const ls_op_list *lists[LS_NET_LISTS];
    ls_net_node_lists(ls_step_net_of(s, member, piece, node), node, pass, lists);
    if (!lists[0] && !lists[1]->count)
        return;
    ls_task *task = ls_task_begin(s->program, verb, member, ls_no_range);
    if (task)
        task->node = node;
    for (int l = 0; l < LS_NET_LISTS; l++)
        ls_task_add_ops(s->program, lists[l]);
    ls_task_finish(s->program);
}

/* A node's forward pass over its parts, or repeated one. In a repeated pass other places get only
 * an output that they have dropped. */
void ls_step_forward_node(ls_step *s, int replica, int piece, int n, ls_act_kind pass)
{
    const bool again = pass == LS_ACT_AGAIN;
    for (int p = 0, m; next_part(s, replica, n, &p, &m); p++) {
        const int node = local(s, p, n);
        if (s->kind == LS_EVALUATION) {
            const ls_graph *graph = ls_step_replica(s, m)->graph;
            const bool halves = graph->slices.places > 1 && !graph->nodes[node].layer->predict;
            ls_step_predict(s, "predict", m, piece, node,
                            halves ? LS_NET_FORWARD_HALF : LS_NET_PREDICT);
            continue;
        }
        gather(s, m, piece, node);
        ls_step_append_acts(s, again ? ls_verb_again : "forward", m, piece, 1U << pass,
                            LS_ALL_CHUNKS, node);
    }
    if (!ls_step_is_summed(s, n, false) && (!again || s->plan->repeats.whole[n].drops_output))
        ls_step_cross(s, replica, piece, n, pass);
    ls_step_sum_places(s, replica, piece, n, pass);
}

static void forward_node(ls_step *s, int replica, int piece, int n)
{
    ls_step_fill_window(s, replica, piece, n);
    ls_step_forward_node(s, replica, piece, n, LS_ACT_FORWARD);
}

/* Additions of gradients, which follow the backward passes, or weight passes, that make them final.
 * The fault follows the last addition, for one node (all nodes if it is negative). */
static unsigned additions_of(const ls_step *s, int member, int piece, int node, bool weights)
{
    const bool separate = node >= 0 ? ls_net_splits(ls_step_net_of(s, member, piece, node), node)
                                    : ls_step_job(s)->division.weights_apart;
    return 1U << (weights ? LS_ACT_SUM_WEIGHTS : LS_ACT_SUM) |
           (separate == weights ? 1U << LS_ACT_FAULT : 0);
}

/* Whether other places' copies of a node's variables have it as their first use. */
static bool is_copied(const ls_graph_parts *parts, int n)
{
    for (size_t i = 0; i < parts->copy_count; i++)
        if (parts->whole->nodes[parts->copies[i].node].shares == n)
            return true;
    return false;
}

/* Whether a node is the first of a part. */
static bool is_first(const ls_step *s, int part, int n)
{
    while (n-- > 0)
        if (ls_graph_parts_have(ls_step_parts(s), part, n) && !is_input(s, n))
            return false;
    return true;
}

/* Pieces that run node by node add up each node's gradients before the next node's: with the node's
 * pass, or behind the gradients of other places' uses (`copied`). Other pieces add up all that a
 * part's pass makes final behind its first node. */
static void backward_node(ls_step *s, int replica, int piece, int n)
{
    const ls_graph_parts *parts = ls_step_parts(s);
    const bool copied = is_copied(parts, n), by_node = ls_step_by_node(s);
    const char *verb = ls_step_job(s)->division.weights_apart ? "backward data" : "backward";
    ls_step_repeat_unit(s, replica, piece, n);
    for (int p = 0, m; next_part(s, replica, n, &p, &m); p++) {
        const int node = local(s, p, n);
        ls_step_append_acts(s, verb, m, piece,
                            1U << LS_ACT_BACKWARD |
                                (by_node && !copied ? additions_of(s, m, piece, node, false) : 0),
                            LS_ALL_CHUNKS, node);
    }
    if (!ls_step_is_summed(s, n, true))
        ls_step_cross(s, replica, piece, n, LS_ACT_BACKWARD);
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *c = &parts->copies[i];
        const int user = ls_step_member_at(s->plan, replica, c->user);
        if (c->node == n)
            ls_message(s, arrived(s, replica, piece, i),
                       gradients_of(s, user, piece, c->at_user, c->count), LS_REPLACE);
    }
    for (size_t i = 0; i < parts->copy_count; i++) { /* the first use, last here, adds all */
        const ls_variable_copy *c = &parts->copies[i];
        const ls_span more = arrived(s, replica, piece, i);
        if (parts->whole->nodes[c->node].shares == n && more.memory && !s->program->status)
            ls_step_add(s, "add up", gradients_of(s, more.member, piece, c->at_owner, c->count),
                        more);
    }
    for (int p = 0, m; copied && by_node && next_part(s, replica, n, &p, &m); p++)
        ls_step_append_acts(s, "add up", m, piece, additions_of(s, m, piece, local(s, p, n), false),
                            LS_ALL_CHUNKS, local(s, p, n));
    for (int p = 0, m; next_part(s, replica, n, &p, &m); p++)
        if (is_first(s, p, n))
            ls_step_append_acts(s, "add up", m, piece,
                                1U << LS_ACT_LOSS |
                                    (by_node ? 0 : additions_of(s, m, piece, -1, false)),
                                p / s->plan->mesh.places, -1);
    ls_step_sum_places(s, replica, piece, n, LS_ACT_BACKWARD);
}

static void weights_node(ls_step *s, int replica, int piece, int n)
{
    const bool by_node = ls_step_by_node(s);
    for (int p = 0, m; next_part(s, replica, n, &p, &m); p++) {
        const unsigned sums = by_node ? additions_of(s, m, piece, local(s, p, n), true) : 0;
        ls_step_append_acts(s, "backward weights", m, piece, 1U << LS_ACT_WEIGHTS | sums,
                            LS_ALL_CHUNKS, local(s, p, n));
        if (is_first(s, p, n) && !by_node)
            ls_step_append_acts(s, "add up", m, piece, additions_of(s, m, piece, -1, true),
                                LS_ALL_CHUNKS, -1);
    }
}

void ls_run_node(ls_step *s, int replica, size_t piece, int n, ls_pass_kind kind)
{
    static void (*const passes[])(ls_step *, int, int, int) = {[LS_PASS_FORWARD] = forward_node,
                                                               [LS_PASS_BACKWARD] = backward_node,
                                                               [LS_PASS_WEIGHTS] = weights_node};
    if (!ls_step_can_pass(s, "ls_run_node") || is_input(s, n))
        return;
    ls_step_enter_piece(s, kind == LS_PASS_WEIGHTS ? -1 : replica, (int)piece);
    passes[kind](s, replica, (int)piece, n);
    ls_step_enter_piece(s, -1, -1);
}

/* ---- Traffic ---------------------------------------------------------------------- */

/* Each output at a boundary, and its gradient, is sent once for all rows; gradients of copies are
 * sent once per piece, values once. */
ls_traffic ls_step_border_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const ls_graph_parts *parts = &s->plan->parts;
    const int n = ls_job_replicas(job);
    uint64_t pieces = 0;
    ls_traffic sum = {0};
    for (int d = 0; d < n; d++)
        pieces += (uint64_t)ls_replicated_pieces(job, d, s->batch_kind);
    for (size_t i = 0; i < parts->border_count; i++) {
        const ls_border *b = &parts->borders[i];
        if (ls_step_member_at(s->plan, 0, b->from) == ls_step_member_at(s->plan, 0, b->to))
            continue;
        const size_t each = ls_net_element_bytes(parts->whole, b->node, job->kernels.precision);
        const ls_traffic once = {(uint64_t)s->batch * b->samples * each, pieces};
        ls_traffic_add(&sum, once, b->gradient ? 2 : 1);
    }
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *c = &parts->copies[i];
        if (ls_step_member_at(s->plan, 0, c->owner) != ls_step_member_at(s->plan, 0, c->user)) {
            ls_traffic_add(&sum, (ls_traffic){c->count * sizeof(float), 1}, pieces);
            ls_traffic_add(&sum, (ls_traffic){c->count * parameter_bytes(s), 1}, (uint64_t)n);
        }
    }
    return sum;
}
