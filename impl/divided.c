/* SPDX-License-Identifier: MIT */
/* One model over several places: building, values in and out; see divided.h. */
#include "impl/divided.h"

#include <stdlib.h>
#include <string.h>

static ls_divided *divided(const ls_run *run)
{
    return (ls_divided *)run;
}

static size_t real_bytes(const ls_divided *me)
{
    return me->shared.members[0].replica->kernels->table->real_bytes;
}

/* ---- Building ------------------------------------------------------------------------------- */

/* Pieces of the largest batch. */
static int64_t most_pieces(const ls_job *job)
{
    if (!job->exact)
        return job->microbatches > 1 ? job->microbatches : 1;
    return job->micro_shards < job->batch ? job->micro_shards : job->batch;
}

int ls_divided_in_flight(const ls_job *job, int stages, int stage, int microbatches)
{
    int most = job->one_f_one_b ? stages - stage : microbatches;
    return most < microbatches ? most : microbatches;
}

/* Pieces of a pipeline's stage that are at work at once: those of the micro-batches in flight. */
static int slots_of(const ls_divided *me, int place)
{
    const ls_job *job = me->shared.base.job;
    if (!me->staged)
        return 1;
    int64_t pieces = most_pieces(job), m = job->microbatches;
    int64_t each = (pieces + m - 1) / m;
    int64_t slots = each * ls_divided_in_flight(job, me->shared.total, place, (int)m);
    return (int)(slots < pieces ? slots : pieces);
}

int ls_divided_microbatches(const ls_divided *me, int which)
{
    int asked = me->shared.base.job->microbatches, pieces = (int)me->piece_count[which];
    return asked < pieces ? asked : pieces;
}

static ls_status open_place(ls_divided *me, int place)
{
    const ls_job *job = me->shared.base.job;
    ls_member *m = &me->shared.members[place];
    const ls_replica_options options = {.job = job,
                                        .device = job->devices[place],
                                        .number = place,
                                        .rows = job->batch,
                                        .sums = 1,
                                        .part = &me->parts.parts[place]};
    m->slots = slots_of(me, place);
    LS_TRY(ls_replica_open(&options, &m->replica));
    LS_TRY(ls_replicated_open_slices(&me->shared, 0, m));
    for (int b = 0; b < LS_BATCHES; b++)
        if (m->slice[b])
            LS_TRY(ls_replica_update(m->replica, 0, m->replica->owned, &m->update[b]));
    LS_TRY(ls_event_open(job->devices[place], &me->updated[place]));
    return ls_event_open(job->devices[place], &me->left[place]);
}

static ls_status open_events(ls_device *const *devices, size_t count, ls_event ***out)
{
    *out = calloc(count + 1, sizeof **out);
    if (!*out)
        return ls_fail_memory("placement", count * sizeof **out);
    for (size_t i = 0; i < count; i++)
        if (devices[i])
            LS_TRY(ls_event_open(devices[i], &(*out)[i]));
    return LS_OK;
}

/* The owner's addition of each copy's gradient, into the buffer of the piece. */
static ls_status build_sums(ls_divided *me, const ls_net *const *nets, ls_divided_piece *piece)
{
    piece->sums = calloc(me->parts.copy_count + 1, sizeof *piece->sums);
    if (!piece->sums)
        return ls_fail_memory("placement", me->parts.copy_count * sizeof *piece->sums);
    for (size_t i = 0; i < me->parts.copy_count; i++) {
        const ls_variable_copy *c = &me->parts.copies[i];
        const ls_replica *owner = me->shared.members[c->owner].replica;
        char *sum = (char *)ls_net_gradients(nets[c->owner]) + c->at_owner * real_bytes(me);
        const ls_add_args add = {
            .count = (int64_t)c->count, .a = sum, .b = me->arrived[i], .y = sum};
        ls_op *op;
        LS_TRY(owner->kernels->table->add(owner->kernels, &add, &op));
        LS_TRY(ls_op_list_add(&piece->sums[i], op));
    }
    return LS_OK;
}

static ls_status open_piece(ls_divided *me, const ls_net *const *nets, ls_divided_piece *piece)
{
    const ls_job *job = me->shared.base.job;
    const ls_graph_parts *parts = &me->parts;
    size_t most = parts->border_count + parts->copy_count + 1;
    ls_device **from = calloc(most, sizeof *from), **back = calloc(most, sizeof *back);
    ls_device **holders = calloc(most, sizeof *holders);
    ls_status status =
        from && back && holders ? LS_OK : ls_fail_memory("placement", most * sizeof *from);
    for (size_t i = 0; i < parts->border_count && !status; i++) {
        from[i] = job->devices[parts->borders[i].from];
        back[i] = parts->borders[i].gradient ? job->devices[parts->borders[i].to] : NULL;
    }
    for (size_t i = 0; i < parts->copy_count && !status; i++)
        holders[i] = job->devices[parts->copies[i].holder];
    if (!status)
        status = open_events(from, parts->border_count, &piece->output);
    if (!status)
        status = open_events(back, parts->border_count, &piece->gradient);
    if (!status)
        status = open_events(holders, parts->copy_count, &piece->shared);
    if (!status)
        status = open_events(job->devices, (size_t)parts->count, &piece->used);
    free(from);
    free(back);
    free(holders);
    return status ? status : build_sums(me, nets, piece);
}

static ls_status open_pieces(ls_divided *me, int which)
{
    const ls_net **nets = calloc((size_t)me->parts.count, sizeof *nets);
    const ls_slice_part *part;
    size_t pieces = 0;
    ls_slice *const first = me->shared.members[0].slice[which];
    for (size_t i = 0; first && (part = ls_slice_part_at(first, i)); i++)
        pieces += part->net != NULL;
    me->pieces[which] = calloc(pieces + 1, sizeof *me->pieces[which]);
    ls_status status = nets && me->pieces[which]
                           ? LS_OK
                           : ls_fail_memory("placement", pieces * sizeof *me->pieces[which]);
    for (size_t i = 0; first && !status && (part = ls_slice_part_at(first, i)); i++) {
        if (!part->net)
            continue;
        for (int p = 0; p < me->parts.count; p++)
            nets[p] = ls_slice_part_at(me->shared.members[p].slice[which], i)->net;
        ls_divided_piece *piece = &me->pieces[which][me->piece_count[which]++];
        piece->part = i;
        status = open_piece(me, nets, piece);
    }
    free(nets);
    return status;
}

/* The first node that takes each border's output. */
static ls_status find_first_uses(ls_divided *me)
{
    const ls_graph *whole = me->parts.whole;
    me->first_use = calloc(me->parts.border_count + 1, sizeof *me->first_use);
    if (!me->first_use)
        return ls_fail_memory("placement", me->parts.border_count * sizeof *me->first_use);
    for (size_t i = 0; i < me->parts.border_count; i++) {
        const ls_border *b = &me->parts.borders[i];
        for (int n = whole->count - 1; n > b->node; n--)
            for (int k = 0; k < whole->nodes[n].input_count; k++)
                if (whole->nodes[n].inputs[k] == b->node && me->parts.place[n] == b->to)
                    me->first_use[i] = n;
    }
    return LS_OK;
}

static ls_status take_staging(ls_divided *me)
{
    const ls_job *job = me->shared.base.job;
    me->arrived = calloc(me->parts.copy_count + 1, sizeof *me->arrived);
    if (!me->arrived)
        return ls_fail_memory("placement", me->parts.copy_count * sizeof *me->arrived);
    for (size_t i = 0; i < me->parts.copy_count; i++)
        LS_TRY(ls_device_allocate(job->devices[me->parts.copies[i].owner], LS_MEMORY_COMMUNICATION,
                                  me->parts.copies[i].count * real_bytes(me), &me->arrived[i]));
    return LS_OK;
}

ls_status ls_divided_open(ls_divided *me, const ls_strategy *strategy, const ls_job *job,
                          const int *place)
{
    ls_replicated *run = &me->shared;
    const size_t places = job->device_count;
    run->base = (ls_run){strategy, job};
    run->put_step = ls_divided_put_step;
    run->holder = 0;
    run->count = 1;
    LS_TRY(ls_graph_parts_open(job->model->graph, place, (int)places, &me->parts));
    run->members = calloc(places, sizeof *run->members);
    me->updated = calloc(places, sizeof(ls_event *));
    me->left = calloc(places, sizeof(ls_event *));
    if (!run->members || !me->updated || !me->left)
        return ls_fail_memory("placement", places * sizeof *run->members);
    run->total = (int)places;
    for (int p = 0; p < run->total; p++)
        LS_TRY(open_place(me, p));
    LS_TRY(ls_event_open(job->devices[0], &me->begun));
    LS_TRY(find_first_uses(me));
    LS_TRY(take_staging(me));
    for (int b = 0; b < LS_BATCHES; b++)
        LS_TRY(open_pieces(me, b));
    return ls_replicated_capture(run);
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void close_events(ls_event **events, size_t count)
{
    for (size_t i = 0; events && i < count; i++)
        ls_event_close(events[i]);
    free(events);
}

static void close_piece(const ls_divided *me, ls_divided_piece *piece)
{
    close_events(piece->output, me->parts.border_count);
    close_events(piece->gradient, me->parts.border_count);
    close_events(piece->shared, me->parts.copy_count);
    close_events(piece->used, (size_t)me->parts.count);
    for (size_t i = 0; piece->sums && i < me->parts.copy_count; i++)
        ls_op_list_clear(&piece->sums[i]);
    free(piece->sums);
}

void ls_divided_close(ls_run *run)
{
    ls_divided *me = divided(run);
    ls_replicated_close_programs(&me->shared);
    for (int b = 0; b < LS_BATCHES; b++) {
        for (size_t i = 0; i < me->piece_count[b]; i++)
            close_piece(me, &me->pieces[b][i]);
        free(me->pieces[b]);
    }
    for (size_t i = 0; me->arrived && i < me->parts.copy_count; i++)
        ls_device_release(run->job->devices[me->parts.copies[i].owner], me->arrived[i]);
    free(me->arrived);
    free(me->first_use);
    ls_event_close(me->begun);
    close_events(me->updated, (size_t)me->shared.total);
    close_events(me->left, (size_t)me->shared.total);
    for (int p = 0; p < me->shared.total; p++) /* before the graphs that they are made of */
        ls_member_close(&me->shared.members[p]);
    me->shared.total = 0;
    ls_graph_parts_close(&me->parts);
    ls_replicated_close(run);
}

/* ---- Values in and out ---------------------------------------------------------------------- */

/* Copies a place's variables from (or, `out`, the ones that it owns to) the whole flat buffer. */
static void move_values(const ls_divided *me, int place, float *whole, float *here, bool out)
{
    const ls_graph_part *part = &me->parts.parts[place];
    for (size_t v = 0; v < part->graph->variables.count; v++) {
        const ls_variable *mine = &part->graph->variables.items[v];
        const ls_variable *all = &me->parts.whole->variables.items[part->variable[v]];
        if (!out)
            memcpy(here + mine->offset, whole + all->offset, mine->count * sizeof *here);
        else if (mine->offset < part->owned)
            memcpy(whole + all->offset, here + mine->offset, mine->count * sizeof *here);
    }
}

static ls_status each_place(ls_divided *me, float *whole, bool out)
{
    ls_status status = LS_OK;
    for (int p = 0; p < me->shared.total && !status; p++) {
        ls_replica *replica = me->shared.members[p].replica;
        float *here = calloc(replica->elements + 1, sizeof *here);
        if (!here)
            return ls_fail_memory("placement", replica->elements * sizeof *here);
        if (out) {
            status = ls_replica_gather(replica, here);
            move_values(me, p, whole, here, true);
        } else {
            move_values(me, p, whole, here, false);
            status = ls_replica_load(replica, here);
        }
        free(here);
    }
    return status;
}

ls_status ls_divided_load(ls_run *run, const float *parameters)
{
    return each_place(divided(run), (float *)parameters, false);
}

ls_status ls_divided_gather(ls_run *run, float *parameters)
{
    return each_place(divided(run), parameters, true);
}

/* The end of a step is the last place's; its loss is known where the loss node is. */
ls_status ls_divided_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    ls_divided *me = divided(run);
    const int losses = me->parts.place[me->parts.whole->count - 1];
    ls_step_record *records = calloc(count + 1, sizeof *records);
    ls_status status = records ? LS_OK : ls_fail_memory("records", count * sizeof *records);
    *mark_ns = 0;
    memset(out, 0, count * sizeof *out);
    for (int p = 0; p < me->shared.total && !status; p++) {
        uint64_t mine = 0;
        status = ls_replica_records(me->shared.members[p].replica, first, count, records, &mine);
        *mark_ns = mine > *mark_ns ? mine : *mark_ns;
        for (uint64_t k = 0; k < count && !status; k++) {
            out[k].end_ns = records[k].end_ns > out[k].end_ns ? records[k].end_ns : out[k].end_ns;
            out[k].loss = p == losses ? records[k].loss : out[k].loss;
        }
    }
    if (!status) /* the parts' weight decay, added up before it is added to the loss */
        memset(records, 0, count * sizeof *records);
    for (int p = 0; p < me->shared.total && !status; p++)
        status = ls_replica_add_decay(me->shared.members[p].replica, first, count, records);
    for (uint64_t k = 0; k < count && !status; k++)
        out[k].loss += records[k].loss;
    free(records);
    return status;
}

ls_memory_formula ls_divided_memory(const ls_run *run, size_t index)
{
    const ls_divided *me = divided(run);
    ls_memory_formula formula = ls_replicated_memory(run, index);
    for (size_t i = 0; i < me->parts.copy_count; i++)
        if (me->parts.copies[i].owner == (int)index)
            formula.bytes[LS_MEMORY_COMMUNICATION] += me->parts.copies[i].count * real_bytes(me);
    return formula;
}

/* Rows of a step: every output over a border, its gradient back; gradients of copies once a piece,
 * their values once. */
ls_status ls_divided_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_divided *me = divided(run);
    const uint64_t pieces = me->piece_count[LS_FULL];
    *sent = me->sent[LS_FULL];
    *formula = (ls_traffic){0};
    for (size_t i = 0; i < me->parts.border_count; i++) {
        const uint64_t ways = me->parts.borders[i].gradient ? 2 : 1;
        formula->messages_sent += ways * pieces;
        formula->bytes_sent +=
            ways * (uint64_t)run->job->batch * me->parts.borders[i].samples * sizeof(float);
    }
    for (size_t i = 0; i < me->parts.copy_count; i++) {
        const ls_variable_copy *c = &me->parts.copies[i];
        if (c->owner == c->holder)
            continue;
        formula->messages_sent += pieces + 1;
        formula->bytes_sent += (pieces + 1) * c->count * sizeof(float);
    }
    return LS_OK;
}
