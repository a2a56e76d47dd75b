/* SPDX-License-Identifier: MIT */
/*
 * The step of a model over several places; see divided.h.
 *
 *     for each piece: every place gathers its inputs; forward, node by node, outputs over borders;
 *     backward, node by node from the last, gradients back over them; owners add up the gradients
 *     of shared variables. Then every place updates what it owns, and sends copies of it
 *
 * In a pipeline several micro-batches are on their way at once, and each stage takes its passes in
 * the order of the schedule (pipeline_schedule.h).
 *
 * Order of summation: that of `single`, over the pieces in order.
 */
#include "impl/divided.h"

#include "common/base/hooks.h"

#include <stdlib.h>

static size_t real_bytes(const ls_spread *me)
{
    return me->members->replica->kernels->table->real_bytes;
}

static ls_queue *queue_of(const ls_spread *me, int place)
{
    return ls_spread_member(me, place)->replica->queue;
}

static const ls_graph_parts *parts_of(const ls_spread *me)
{
    return &me->run->parts;
}

/* One piece on its way through the places. */
typedef struct passage {
    ls_spread *me;
    int which;
    size_t index; /* of the piece */
} passage;

static ls_divided_piece *piece_of(const passage *p)
{
    return &p->me->pieces[p->which][p->index];
}

/* Waits on `queue` until a place is done with the piece whose memory this one gets. */
static ls_status await_memory(const passage *p, ls_queue *queue, int place)
{
    const int slots = ls_spread_member(p->me, place)->slots;
    if (p->index < (size_t)slots)
        return LS_OK;
    return ls_queue_wait(queue, p->me->pieces[p->which][p->index - (size_t)slots].used[place]);
}

static ls_net *net_of(const passage *p, int place)
{
    return ls_slice_part_at(ls_spread_member(p->me, place)->slice[p->which], piece_of(p)->part)
        ->net;
}

static int local(const passage *p, int place, int node)
{
    return parts_of(p->me)->parts[place].local[node];
}

static void count_sent(const passage *p, size_t bytes)
{
    p->me->sent[p->which].messages_sent++;
    p->me->sent[p->which].bytes_sent += bytes;
}

/* A copy over a border between places, on the queue of the one that has the data. */
static ls_status put_copy(const passage *p, int from, int to, void *const ends[2], size_t bytes)
{
    const ls_replica *sender = ls_spread_member(p->me, from)->replica;
    const ls_replica *receiver = ls_spread_member(p->me, to)->replica;
    if (from != to)
        count_sent(p, bytes);
    return ls_queue_copy(sender->queue, ends[1], receiver->device, ends[0], sender->device, bytes);
}

static bool has(const passage *p, int place)
{
    return ls_spread_has(p->me, place);
}

static ls_queue *transfer_of(const ls_spread *me, int place)
{
    return me->transfer[place - me->first];
}

/* ---- Forward -------------------------------------------------------------------------------- */

/* Bytes of a piece over a border, of which `place` is an end that is here. */
static size_t border_bytes(const passage *p, const ls_border *b, int place)
{
    return (size_t)ls_net_rows(net_of(p, place)) * b->samples * real_bytes(p->me);
}

/* The node's output goes to the places that take it, when they are done with the piece before. */
static ls_status send_output(const passage *p, size_t border)
{
    const ls_border *b = &parts_of(p->me)->borders[border];
    if (ls_spread_crosses(p->me, b->from, b->to)) {
        if (has(p, b->to))
            LS_TRY(await_memory(p, transfer_of(p->me, b->to), b->to));
        else
            count_sent(p, border_bytes(p, b, b->from));
        return ls_transfers_put(p->me, piece_of(p), ls_transfer_output(p->me, border),
                                (const int[]){b->from, b->to}, piece_of(p)->output[border]);
    }
    if (!has(p, b->from))
        return LS_OK;
    ls_net *from = net_of(p, b->from), *to = net_of(p, b->to);
    void *const ends[] = {ls_net_node_output(from, local(p, b->from, b->node)),
                          ls_net_node_output(to, local(p, b->to, b->node))};
    ls_queue *queue = queue_of(p->me, b->from);
    LS_TRY(await_memory(p, queue, b->to));
    LS_TRY(put_copy(p, b->from, b->to, ends, border_bytes(p, b, b->from)));
    return ls_queue_record(queue, piece_of(p)->output[border]);
}

/* Node n, when what it takes from elsewhere is here; `last`: also the loss. */
static ls_status put_forward(const passage *p, int n)
{
    const ls_graph_parts *parts = parts_of(p->me);
    const int place = parts->place[n];
    if (parts->whole->nodes[n].layer->role == LS_LAYER_INPUT)
        return LS_OK;
    for (size_t i = 0; i < parts->border_count && has(p, place); i++)
        if (p->me->run->first_use[i] == n && !LS_PLANTED(border_wait))
            LS_TRY(ls_queue_wait(queue_of(p->me, place), piece_of(p)->output[i]));
    if (has(p, place))
        LS_TRY(ls_net_node_forward(net_of(p, place), local(p, place, n), queue_of(p->me, place)));
    for (size_t i = 0; i < parts->border_count; i++)
        if (parts->borders[i].node == n)
            LS_TRY(send_output(p, i));
    return LS_OK;
}

/* ---- Backward ------------------------------------------------------------------------------- */

/* The gradient of what came over a border goes back, and whoever comes next there waits for it. */
static ls_status send_gradient(const passage *p, size_t border)
{
    const ls_border *b = &parts_of(p->me)->borders[border];
    ls_event *event = piece_of(p)->gradient[border];
    if (ls_spread_crosses(p->me, b->from, b->to)) {
        if (has(p, b->to))
            count_sent(p, border_bytes(p, b, b->to));
        LS_TRY(ls_transfers_put(p->me, piece_of(p), ls_transfer_gradient(p->me, border),
                                (const int[]){b->to, b->from}, event));
        return has(p, b->from) && !p->me->run->staged
                   ? ls_queue_wait(queue_of(p->me, b->from), event)
                   : LS_OK;
    }
    if (!has(p, b->from))
        return LS_OK;
    ls_net *from = net_of(p, b->from), *to = net_of(p, b->to);
    void *const ends[] = {ls_net_node_gradient(to, local(p, b->to, b->node)),
                          ls_net_node_gradient(from, local(p, b->from, b->node))};
    LS_TRY(put_copy(p, b->to, b->from, ends, border_bytes(p, b, b->to)));
    LS_TRY(ls_queue_record(queue_of(p->me, b->to), event));
    return p->me->run->staged ? LS_OK /* its stage may take a forward pass first */
                              : ls_queue_wait(queue_of(p->me, b->from), event);
}

/* A stage's backward pass begins when the gradients of all that it sent are there. */
static ls_status await_gradients(const passage *p, int stage)
{
    const ls_graph_parts *parts = parts_of(p->me);
    for (size_t i = 0; i < parts->border_count; i++)
        if (parts->borders[i].from == stage && parts->borders[i].gradient)
            LS_TRY(ls_queue_wait(queue_of(p->me, stage), piece_of(p)->gradient[i]));
    return LS_OK;
}

/* The gradient of a copy goes to the owner, when that has added the piece before's. */
static ls_status send_shared(const passage *p, size_t copy)
{
    const ls_variable_copy *c = &parts_of(p->me)->copies[copy];
    if (ls_spread_crosses(p->me, c->holder, c->owner)) {
        if (has(p, c->holder))
            count_sent(p, c->count * real_bytes(p->me));
        else if (p->index > 0)
            LS_TRY(ls_queue_wait(transfer_of(p->me, c->owner), piece_of(p)[-1].used[c->owner]));
        return ls_transfers_put(p->me, piece_of(p), ls_transfer_shared(p->me, copy),
                                (const int[]){c->holder, c->owner}, piece_of(p)->shared[copy]);
    }
    if (!has(p, c->holder))
        return LS_OK;
    ls_queue *queue = queue_of(p->me, c->holder);
    char *gradient = ls_net_gradients(net_of(p, c->holder));
    void *const ends[] = {gradient + c->at_holder * real_bytes(p->me), p->me->arrived[copy]};
    if (p->index > 0 && c->owner != c->holder)
        LS_TRY(ls_queue_wait(queue, piece_of(p)[-1].used[c->owner]));
    LS_TRY(put_copy(p, c->holder, c->owner, ends, c->count * real_bytes(p->me)));
    return ls_queue_record(queue, piece_of(p)->shared[copy]);
}

/* A bug that the tests plant. */
static bool is_left_out(const ls_spread *me, int place)
{
    return LS_PLANTED(place_not_reduced) && place + 1 == parts_of(me)->count;
}

/* Of several replicas: the gradients of the variables that the node owns are final. */
static ls_status report_final(const passage *p, int n)
{
    const int place = parts_of(p->me)->place[n];
    const ls_node *whole = &parts_of(p->me)->whole->nodes[n];
    const ls_graph *graph = parts_of(p->me)->parts[place].graph;
    const ls_node *node = &graph->nodes[local(p, place, n)];
    if (!p->me->run->mirrors || !whole->variable_count || whole->shares >= 0 ||
        is_left_out(p->me, place) ||
        !ls_slice_reports(ls_spread_member(p->me, place)->slice[p->which]))
        return LS_OK;
    const ls_variable *first = &graph->variables.items[node->variables[0]];
    const ls_variable *last = &graph->variables.items[node->variables[node->variable_count - 1]];
    return ls_mirror_final(&p->me->run->mirrors[place], p->me->number, p->which, first->offset,
                           last->offset + last->count - first->offset);
}

static ls_status put_backward(const passage *p, int n)
{
    const ls_graph_parts *parts = parts_of(p->me);
    const int place = parts->place[n];
    if (parts->whole->nodes[n].layer->role == LS_LAYER_INPUT)
        return LS_OK;
    if (has(p, place))
        LS_TRY(ls_net_node_backward(net_of(p, place), local(p, place, n), queue_of(p->me, place)));
    for (size_t i = 0; i < parts->border_count; i++)
        if (p->me->run->first_use[i] == n && parts->borders[i].gradient)
            LS_TRY(send_gradient(p, i));
    for (size_t i = 0; i < parts->copy_count; i++)
        if (parts->copies[i].node == n)
            LS_TRY(send_shared(p, i));
    if (!has(p, place))
        return LS_OK;
    for (size_t i = 0; i < parts->copy_count; i++) { /* the first use comes last: it adds all up */
        const ls_variable_copy *c = &parts->copies[i];
        if (parts->whole->nodes[c->node].shares != n)
            continue;
        LS_TRY(ls_queue_wait(queue_of(p->me, place), piece_of(p)->shared[i]));
        if (!LS_PLANTED(branch_left_out))
            LS_TRY(ls_op_list_put(&piece_of(p)->sums[i], queue_of(p->me, place)));
    }
    return report_final(p, n);
}

/* ---- Pieces, one after the other ------------------------------------------------------------ */

static ls_status put_feed(const passage *p, int place)
{
    if (!has(p, place))
        return LS_OK;
    const ls_slice *slice = ls_spread_member(p->me, place)->slice[p->which];
    const size_t slots = (size_t)ls_spread_member(p->me, place)->slots;
    if (p->me->ends && p->index >= slots)
        LS_TRY(ls_transfers_await(p->me, piece_of(p) - slots, place));
    return ls_op_list_put(&ls_slice_part_at(slice, piece_of(p)->part)->ops, queue_of(p->me, place));
}

/* The place is done with the piece: the sums that it completes follow. */
static ls_status put_sums(const passage *p, int place)
{
    const ls_graph_parts *parts = parts_of(p->me);
    if (!has(p, place))
        return LS_OK;
    const ls_slice *slice = ls_spread_member(p->me, place)->slice[p->which];
    const ls_slice_part *part;
    ls_queue *queue = queue_of(p->me, place);
    for (size_t i = 0; i < parts->copy_count; i++) /* the next piece's gradients go there, too */
        if (parts->copies[i].holder == place &&
            ls_spread_crosses(p->me, place, parts->copies[i].owner))
            LS_TRY(ls_queue_wait(queue, piece_of(p)->sent[ls_transfer_shared(p->me, i)]));
    LS_TRY(ls_queue_record(queue, piece_of(p)->used[place]));
    if (LS_PLANTED(micro_left_out) && p->index + 1 == p->me->piece_count[p->which])
        return LS_OK;
    for (size_t i = piece_of(p)->part + 1; (part = ls_slice_part_at(slice, i)) && !part->net; i++) {
        LS_TRY(ls_op_list_put(&part->ops, queue));
        LS_TRY(ls_op_list_put(&part->loss, queue));
    }
    return LS_OK;
}

static ls_status put_piece(const passage *p)
{
    const ls_spread *me = p->me;
    const int nodes = parts_of(me)->whole->count;
    for (int place = 0; place < parts_of(me)->count; place++)
        LS_TRY(put_feed(p, place));
    for (int n = 0; n < nodes; n++)
        LS_TRY(put_forward(p, n));
    for (int n = nodes - 1; n >= 0; n--)
        LS_TRY(put_backward(p, n));
    for (int place = 0; place < parts_of(me)->count; place++)
        LS_TRY(put_sums(p, place));
    return LS_OK;
}

/* ---- A pipeline's schedule ------------------------------------------------------------------ */

/* Pieces [first, last) of micro-batch m. */
static size_t piece_begin(const ls_spread *me, int which, int m)
{
    return ls_comm_share(me->piece_count[which], m, ls_divided_microbatches(me, which));
}

/* A stage's forward of a micro-batch. The loss goes with backward: its place is the piece's sum's.
 */
static ls_status put_stage_forward(ls_spread *me, int which, int stage, int m)
{
    const int nodes = parts_of(me)->whole->count;
    for (size_t i = piece_begin(me, which, m); i < piece_begin(me, which, m + 1); i++) {
        const passage p = {me, which, i};
        LS_TRY(put_feed(&p, stage));
        for (int n = 0; n + 1 < nodes; n++)
            if (parts_of(me)->place[n] == stage)
                LS_TRY(put_forward(&p, n));
    }
    return LS_OK;
}

static ls_status put_stage_backward(ls_spread *me, int which, int stage, int m)
{
    const int nodes = parts_of(me)->whole->count;
    for (size_t i = piece_begin(me, which, m); i < piece_begin(me, which, m + 1); i++) {
        const passage p = {me, which, i};
        if (parts_of(me)->place[nodes - 1] == stage)
            LS_TRY(put_forward(&p, nodes - 1));
        if (has(&p, stage))
            LS_TRY(await_gradients(&p, stage));
        for (int n = nodes - 1; n >= 0; n--)
            if (parts_of(me)->place[n] == stage)
                LS_TRY(put_backward(&p, n));
        LS_TRY(put_sums(&p, stage));
    }
    return LS_OK;
}

typedef struct schedule_target {
    ls_spread *me;
    int which;
} schedule_target;

static ls_status put_pass(void *context, const ls_pass *pass)
{
    const schedule_target *to = context;
    return (pass->backward ? put_stage_backward : put_stage_forward)(to->me, to->which, pass->stage,
                                                                     pass->microbatch);
}

static ls_status put_schedule(ls_spread *me, int which)
{
    const ls_schedule schedule = ls_divided_schedule(me->run->shared.base.job, parts_of(me)->count,
                                                     ls_divided_microbatches(me, which));
    return ls_schedule_each(&schedule, put_pass, &(schedule_target){me, which});
}

/* ---- The step ------------------------------------------------------------------------------- */

static ls_status put_pieces(ls_spread *me, int which)
{
    if (me->run->staged)
        return put_schedule(me, which);
    for (size_t i = 0; i < me->piece_count[which]; i++) {
        const passage p = {me, which, i};
        LS_TRY(put_piece(&p));
    }
    return LS_OK;
}

/* Updated values go to the places that have copies of them. */
static ls_status put_values(ls_spread *me, int which)
{
    const passage p = {.me = me, .which = which};
    for (size_t i = 0; i < parts_of(me)->copy_count && !LS_PLANTED(copy_stale); i++) {
        const ls_variable_copy *c = &parts_of(me)->copies[i];
        if (ls_spread_crosses(me, c->owner, c->holder)) {
            const int place = ls_spread_has(me, c->owner) ? c->owner : c->holder;
            if (place == c->owner)
                count_sent(&p, c->count * real_bytes(me));
            LS_TRY(ls_queue_wait(transfer_of(me, place), me->updated[place]));
            LS_TRY(ls_queue_put(transfer_of(me, place), me->values[i]));
            continue;
        }
        if (!ls_spread_has(me, c->owner))
            continue;
        const ls_replica *owner = ls_spread_member(me, c->owner)->replica;
        const ls_replica *holder = ls_spread_member(me, c->holder)->replica;
        void *const ends[] = {(char *)owner->parameters + c->at_owner * real_bytes(me),
                              (char *)holder->parameters + c->at_holder * real_bytes(me)};
        LS_TRY(put_copy(&p, c->owner, c->holder, ends, c->count * real_bytes(me)));
    }
    return LS_OK;
}

/* One replica's gradients, and the all-reduces of them that are not put together. */
static ls_status put_gradients(ls_spread *me, int which)
{
    ls_mirror *mirrors = me->run->mirrors;
    const int last = me->first + me->here;
    for (int p = me->first; p < last && mirrors; p++)
        LS_TRY(ls_mirror_begin(&mirrors[p], me->number, which));
    LS_TRY(put_pieces(me, which));
    for (int p = me->first; p < last; p++) {
        const ls_member *m = ls_spread_member(me, p);
        LS_TRY(ls_slice_put_fault(m->slice[which]));
        if (mirrors && !ls_slice_reports(m->slice[which]) &&
            !is_left_out(me, p)) /* everything is final now */
            LS_TRY(ls_mirror_final(&mirrors[p], me->number, which, 0, m->replica->owned));
    }
    return LS_OK;
}

/* Each place's own variables, and the copies of them. */
static ls_status put_updates(ls_spread *me, int which)
{
    const ls_graph_parts *parts = parts_of(me);
    ls_mirror *mirrors = me->run->mirrors;
    for (int p = me->first; p < me->first + me->here; p++) {
        if (!LS_PLANTED(stage_stale) || p + 1 < parts->count)
            LS_TRY(mirrors
                       ? ls_mirror_update(&mirrors[p], me->number)
                       : ls_op_list_put(&ls_spread_member(me, p)->update[which], queue_of(me, p)));
        LS_TRY(ls_queue_record(queue_of(me, p), me->updated[p]));
    }
    /* A copy is overwritten when its holder has no more use for it. */
    for (size_t i = 0; i < parts->copy_count; i++)
        if (parts->copies[i].owner != parts->copies[i].holder &&
            ls_spread_has(me, parts->copies[i].owner) && ls_spread_has(me, parts->copies[i].holder))
            LS_TRY(ls_queue_wait(queue_of(me, parts->copies[i].owner),
                                 me->updated[parts->copies[i].holder]));
    return put_values(me, which);
}

/* The driver's queue begins and ends the step of its replica, or of all. */
ls_status ls_divided_put_step(ls_replicated *run, ls_member *driver, int which)
{
    ls_divided *me = (ls_divided *)run;
    ls_queue *queue = driver->replica->queue;
    const int first = (int)(driver - run->members), count = run->together ? run->count : 1;
    const int last = first + count * run->places;
    ls_spread *spreads = &me->spreads[first / run->places];
    LS_TRY(ls_queue_record(queue, spreads->begun));
    for (int i = first + 1; i < last; i++)
        LS_TRY(ls_queue_wait(run->members[i].replica->queue, spreads->begun));
    for (int p = 0; p < run->places && spreads->ends; p++)
        LS_TRY(ls_queue_wait(spreads->transfer[p], spreads->begun));
    for (int d = 0; d < count; d++) {
        spreads[d].sent[which] = (ls_traffic){0};
        LS_TRY(put_gradients(&spreads[d], which));
    }
    for (int p = 0; p < parts_of(spreads)->count && run->together; p++)
        LS_TRY(ls_mirror_put(&me->mirrors[p], which));
    for (int d = 0; d < count; d++)
        LS_TRY(put_updates(&spreads[d], which));
    for (int i = first + 1; i < last; i++) {
        ls_event *left = spreads[(i - first) / run->places].left[i % run->places];
        LS_TRY(ls_op_list_put(&run->members[i].finish[which], run->members[i].replica->queue));
        LS_TRY(ls_queue_record(run->members[i].replica->queue, left));
        LS_TRY(ls_queue_wait(queue, left));
    }
    for (int p = 0; p < run->places && spreads->ends; p++) {
        LS_TRY(ls_queue_record(spreads->transfer[p], spreads->idle[p]));
        LS_TRY(ls_queue_wait(queue, spreads->idle[p]));
    }
    return ls_op_list_put(&driver->finish[which], queue);
}
