/* SPDX-License-Identifier: MIT */
/*
 * A replica whose places are on several processes; see divided.h.
 *
 * What crosses a border between processes is a transfer: the operation of one exchange of a
 * communicator of all devices, on a queue that each place has for this alone, so that a place
 * computes on while it travels. Every process puts the transfers that concern it in the order in
 * which one process would put all copies: an order that all have in common, so that transfers
 * which wait for their peers cannot lock up.
 */
#include "impl/divided.h"

#include <stdlib.h>

bool ls_spread_crosses(const ls_spread *s, int from, int to)
{
    return ls_spread_has(s, from) != ls_spread_has(s, to);
}

size_t ls_transfer_output(const ls_spread *s, size_t border)
{
    (void)s;
    return border;
}

size_t ls_transfer_gradient(const ls_spread *s, size_t border)
{
    return s->run->parts.border_count + border;
}

size_t ls_transfer_shared(const ls_spread *s, size_t copy)
{
    return 2 * s->run->parts.border_count + copy;
}

static size_t count_transfers(const ls_spread *s)
{
    return 2 * s->run->parts.border_count + s->run->parts.copy_count;
}

/* ---- Opening -------------------------------------------------------------------------------- */

ls_status ls_transfers_open(ls_spread *s)
{
    const ls_job *job = s->run->shared.base.job;
    const size_t here = (size_t)s->here;
    s->ends = calloc(here, sizeof *s->ends);
    s->transfer = calloc(here, sizeof *s->transfer);
    s->idle = calloc(here, sizeof *s->idle);
    s->values = calloc(s->run->parts.copy_count + 1, sizeof *s->values);
    if (!s->ends || !s->transfer || !s->idle || !s->values)
        return ls_fail_memory("placement", here * sizeof *s->ends);
    LS_TRY(ls_comm_open(job->transport, job->comm, s->devices, s->here, s->ends));
    for (int i = 0; i < s->here; i++) {
        LS_TRY(ls_queue_open(s->devices[i], "transfer", &s->transfer[i]));
        LS_TRY(ls_event_open(s->devices[i], &s->idle[i]));
    }
    return LS_OK;
}

/* What goes from one place to another: as many elements, where the end that is here has them. */
typedef struct cargo {
    int from, to; /* places */
    float *data;
    size_t count;
} cargo;

static ls_status make_transfer(const ls_spread *s, const cargo *c, ls_op **out)
{
    const bool sends = ls_spread_has(s, c->from);
    ls_comm *end = s->ends[(sends ? c->from : c->to) - s->first];
    const int base = end->rank - (sends ? c->from : c->to); /* ranks are devices, in order */
    const ls_exchange exchange = {.to = sends ? base + c->to : -1,
                                  .send = sends ? c->data : NULL,
                                  .send_count = sends ? c->count : 0,
                                  .from = sends ? -1 : base + c->from,
                                  .receive = sends ? NULL : c->data,
                                  .receive_count = sends ? 0 : c->count};
    LS_TRY(ls_comm_exchange(end, &exchange, out));
    (*out)->use = LS_TIME_COMMUNICATION;
    return LS_OK;
}

/* One more of a piece, and the event that the sender waits for. */
static ls_status add_transfer(const ls_spread *s, const cargo *c, size_t number,
                              ls_divided_piece *piece)
{
    LS_TRY(make_transfer(s, c, &piece->transfers[number]));
    return ls_spread_has(s, c->from)
               ? ls_event_open(ls_spread_device(s, c->from), &piece->sent[number])
               : LS_OK;
}

static ls_status add_border(const ls_spread *s, size_t border, ls_net *const *nets,
                            ls_divided_piece *piece)
{
    const ls_border *b = &s->run->parts.borders[border];
    const int place = ls_spread_has(s, b->from) ? b->from : b->to;
    const int node = s->run->parts.parts[place].local[b->node];
    cargo c = {.from = b->from,
               .to = b->to,
               .data = ls_net_node_output(nets[place], node),
               .count = (size_t)ls_net_rows(nets[place]) * b->samples};
    LS_TRY(add_transfer(s, &c, ls_transfer_output(s, border), piece));
    if (!b->gradient)
        return LS_OK;
    c.from = b->to;
    c.to = b->from;
    c.data = ls_net_node_gradient(nets[place], node);
    return add_transfer(s, &c, ls_transfer_gradient(s, border), piece);
}

ls_status ls_transfers_piece(ls_spread *s, ls_net *const *nets, ls_divided_piece *piece)
{
    const ls_graph_parts *parts = &s->run->parts;
    piece->transfers = calloc(count_transfers(s) + 1, sizeof *piece->transfers);
    piece->sent = calloc(count_transfers(s) + 1, sizeof(ls_event *));
    if (!piece->transfers || !piece->sent)
        return ls_fail_memory("placement", count_transfers(s) * sizeof *piece->transfers);
    for (size_t i = 0; i < parts->border_count; i++)
        if (ls_spread_crosses(s, parts->borders[i].from, parts->borders[i].to))
            LS_TRY(add_border(s, i, nets, piece));
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *v = &parts->copies[i];
        if (!ls_spread_crosses(s, v->holder, v->owner))
            continue;
        const cargo c = {.from = v->holder,
                         .to = v->owner,
                         .data = ls_spread_has(s, v->holder)
                                     ? (float *)ls_net_gradients(nets[v->holder]) + v->at_holder
                                     : s->arrived[i],
                         .count = v->count};
        LS_TRY(add_transfer(s, &c, ls_transfer_shared(s, i), piece));
    }
    return LS_OK;
}

ls_status ls_transfers_values(ls_spread *s)
{
    const ls_graph_parts *parts = &s->run->parts;
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *v = &parts->copies[i];
        if (!ls_spread_crosses(s, v->owner, v->holder))
            continue;
        const bool owns = ls_spread_has(s, v->owner);
        const ls_member *m = ls_spread_member(s, owns ? v->owner : v->holder);
        const cargo c = {.from = v->owner,
                         .to = v->holder,
                         .data =
                             (float *)m->replica->parameters + (owns ? v->at_owner : v->at_holder),
                         .count = v->count};
        LS_TRY(make_transfer(s, &c, &s->values[i]));
    }
    return LS_OK;
}

/* ---- The step ------------------------------------------------------------------------------- */

ls_status ls_transfers_put(const ls_spread *s, const ls_divided_piece *piece, size_t number,
                           const int ends[2], ls_event *event)
{
    const bool sends = ls_spread_has(s, ends[0]);
    const int place = ends[sends ? 0 : 1];
    ls_queue *queue = s->transfer[place - s->first];
    if (sends) {
        LS_TRY(ls_queue_record(ls_spread_member(s, place)->replica->queue, event));
        LS_TRY(ls_queue_wait(queue, event));
    }
    LS_TRY(ls_queue_put(queue, piece->transfers[number]));
    return ls_queue_record(queue, sends ? piece->sent[number] : event);
}

ls_status ls_transfers_await(const ls_spread *s, const ls_divided_piece *piece, int place)
{
    const ls_graph_parts *parts = &s->run->parts;
    ls_queue *queue = ls_spread_member(s, place)->replica->queue;
    for (size_t i = 0; i < parts->border_count; i++) {
        const ls_border *b = &parts->borders[i];
        const size_t number =
            b->from == place ? ls_transfer_output(s, i) : ls_transfer_gradient(s, i);
        if ((b->from == place || b->to == place) && piece->sent[number])
            LS_TRY(ls_queue_wait(queue, piece->sent[number]));
    }
    return LS_OK;
}

/* ---- Closing -------------------------------------------------------------------------------- */

void ls_transfers_close_piece(const ls_spread *s, ls_divided_piece *piece)
{
    for (size_t i = 0; i < count_transfers(s); i++) {
        if (piece->transfers)
            ls_op_free(piece->transfers[i]);
        if (piece->sent)
            ls_event_close(piece->sent[i]);
    }
    free(piece->transfers);
    free(piece->sent);
}

void ls_transfers_close(ls_spread *s)
{
    for (size_t i = 0; s->values && i < s->run->parts.copy_count; i++)
        ls_op_free(s->values[i]);
    free(s->values);
    for (int i = 0; i < s->here; i++) {
        if (s->transfer)
            ls_queue_close(s->transfer[i]);
        if (s->idle)
            ls_event_close(s->idle[i]);
        if (s->ends)
            ls_comm_close(s->ends[i]);
    }
    free(s->transfer);
    free(s->idle);
    free(s->ends);
}

/* ---- Gathering ------------------------------------------------------------------------------ */

/* Every process tells all what its place number i owns, one i after the other. */
ls_status ls_transfers_gather(const ls_divided *run, float *parameters)
{
    const ls_spread *s = run->spreads;
    const ls_job *job = run->shared.base.job;
    const int places = run->parts.count, mine = job->comm->rank * s->here / places;
    size_t most = 1;
    for (int p = 0; p < places; p++)
        most = run->parts.parts[p].elements > most ? run->parts.parts[p].elements : most;
    float *here = calloc(most, sizeof *here);
    float *all = calloc(most * (size_t)job->comm->size, sizeof *all);
    ls_status status = here && all ? LS_OK : ls_fail_memory("parameters", most * sizeof *all);
    status = ls_comm_agree(job->comm, status);
    for (int i = 0; i < s->here && !status; i++) {
        status = ls_comm_bring(job->comm, ls_replica_gather(s->members[i].replica, here), here,
                               most * sizeof *here, all);
        for (int r = 0; r < job->comm->size && !status; r++) {
            const int device = r * s->here + i;
            if (device / places == mine)
                ls_divided_move(&run->parts, device % places, parameters, all + (size_t)r * most,
                                true);
        }
    }
    free(here);
    free(all);
    return status;
}
