/* SPDX-License-Identifier: MIT */
/* One model over several places: building and closing; see divided.h. */
#include "impl/divided.h"

#include <stdlib.h>

static ls_divided *divided(const ls_run *run)
{
    return (ls_divided *)run;
}

static size_t real_bytes(const ls_replicated *run)
{
    return run->members[0].replica->kernels->table->real_bytes;
}

/* ---- Building ------------------------------------------------------------------------------- */

ls_schedule ls_divided_schedule(const ls_job *job, int stages, int microbatches)
{
    return (ls_schedule){stages, microbatches, job->one_f_one_b};
}

/* Pieces of a pipeline's stage that are at work at once: those of the micro-batches in flight. */
static int slots_of(const ls_spread *s, int d, int place)
{
    const ls_job *job = s->run->shared.base.job;
    int most = 1;
    for (int b = 0; b < LS_BATCHES && s->run->staged; b++) {
        const int pieces = ls_divided_pieces(job, d, b);
        const int m = job->microbatches < pieces ? job->microbatches : pieces;
        if (!m)
            continue;
        const ls_schedule schedule = ls_divided_schedule(job, s->run->parts.count, m);
        int slots = (pieces + m - 1) / m * ls_schedule_in_flight(&schedule, place);
        slots = slots < pieces ? slots : pieces;
        most = slots > most ? slots : most;
    }
    return most;
}

int ls_divided_microbatches(const ls_spread *s, int which)
{
    int asked = s->run->shared.base.job->microbatches, pieces = (int)s->piece_count[which];
    return asked < pieces ? asked : pieces;
}

bool ls_spread_has(const ls_spread *s, int place)
{
    return place >= s->first && place < s->first + s->here;
}

ls_member *ls_spread_member(const ls_spread *s, int place)
{
    return ls_spread_has(s, place) ? &s->members[place - s->first] : NULL;
}

ls_device *ls_spread_device(const ls_spread *s, int place)
{
    return ls_spread_has(s, place) ? s->devices[place - s->first] : NULL;
}

static ls_status open_place(ls_spread *s, int place)
{
    const ls_job *job = s->run->shared.base.job;
    const int places = s->run->parts.count;
    const int d = ls_job_replica_on(job, (size_t)(s->number * s->here));
    ls_member *m = ls_spread_member(s, place);
    ls_device *device = ls_spread_device(s, place);
    const ls_replica_options options = {.job = job,
                                        .device = device,
                                        .number = d * places + place,
                                        .rows = job->batch,
                                        .sums = ls_replicated_sums(job, d),
                                        .part = &s->run->parts.parts[place]};
    m->slots = slots_of(s, d, place);
    LS_TRY(ls_replica_open(&options, &m->replica));
    LS_TRY(ls_replicated_open_slices(job, d, m));
    for (int b = 0; b < LS_BATCHES && !s->run->mirrors; b++)
        if (m->slice[b])
            LS_TRY(ls_replica_update(m->replica, 0, m->replica->owned, &m->update[b]));
    LS_TRY(ls_event_open(device, &s->updated[place]));
    return ls_event_open(device, &s->left[place - s->first]);
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
static ls_status build_sums(ls_spread *s, ls_net *const *nets, ls_divided_piece *piece)
{
    piece->sums = calloc(s->run->parts.copy_count + 1, sizeof *piece->sums);
    if (!piece->sums)
        return ls_fail_memory("placement", s->run->parts.copy_count * sizeof *piece->sums);
    for (size_t i = 0; i < s->run->parts.copy_count; i++) {
        const ls_variable_copy *c = &s->run->parts.copies[i];
        if (!ls_spread_has(s, c->owner))
            continue;
        const ls_replica *owner = ls_spread_member(s, c->owner)->replica;
        char *sum =
            (char *)ls_net_gradients(nets[c->owner]) + c->at_owner * real_bytes(&s->run->shared);
        const ls_add_args add = {
            .count = (int64_t)c->count, .a = sum, .b = s->arrived[i], .y = sum};
        ls_op *op;
        LS_TRY(owner->kernels->table->add(owner->kernels, &add, &op));
        LS_TRY(ls_op_list_add(&piece->sums[i], op));
    }
    return LS_OK;
}

/* Who notes that something has gone from place to place: the one that has it, or, of another
 * process, the one that gets it. */
static ls_device *noting(const ls_spread *s, int from, int to)
{
    return ls_spread_has(s, from) ? ls_spread_device(s, from) : ls_spread_device(s, to);
}

static ls_status open_piece(ls_spread *s, ls_net *const *nets, ls_divided_piece *piece)
{
    const ls_graph_parts *parts = &s->run->parts;
    size_t most = parts->border_count + parts->copy_count + (size_t)parts->count + 1;
    ls_device **from = calloc(most, sizeof *from), **back = calloc(most, sizeof *back);
    ls_device **holders = calloc(most, sizeof *holders), **places = calloc(most, sizeof *places);
    ls_status status = from && back && holders && places
                           ? LS_OK
                           : ls_fail_memory("placement", most * sizeof *from);
    for (size_t i = 0; i < parts->border_count && !status; i++) {
        const ls_border *b = &parts->borders[i];
        from[i] = noting(s, b->from, b->to);
        back[i] = b->gradient ? noting(s, b->to, b->from) : NULL;
    }
    for (size_t i = 0; i < parts->copy_count && !status; i++)
        holders[i] = noting(s, parts->copies[i].holder, parts->copies[i].owner);
    for (int p = 0; p < parts->count && !status; p++)
        places[p] = ls_spread_device(s, p);
    if (!status)
        status = open_events(from, parts->border_count, &piece->output);
    if (!status)
        status = open_events(back, parts->border_count, &piece->gradient);
    if (!status)
        status = open_events(holders, parts->copy_count, &piece->shared);
    if (!status)
        status = open_events(places, (size_t)parts->count, &piece->used);
    if (!status && s->ends)
        status = ls_transfers_piece(s, nets, piece);
    free(from);
    free(back);
    free(holders);
    free(places);
    return status ? status : build_sums(s, nets, piece);
}

static ls_status open_pieces(ls_spread *s, int which)
{
    ls_net **nets = calloc((size_t)s->run->parts.count, sizeof *nets);
    const ls_slice_part *part;
    size_t pieces = 0;
    ls_slice *const first = s->members[0].slice[which];
    for (size_t i = 0; first && (part = ls_slice_part_at(first, i)); i++)
        pieces += part->net != NULL;
    s->pieces[which] = calloc(pieces + 1, sizeof *s->pieces[which]);
    ls_status status = nets && s->pieces[which]
                           ? LS_OK
                           : ls_fail_memory("placement", pieces * sizeof *s->pieces[which]);
    for (size_t i = 0; first && !status && (part = ls_slice_part_at(first, i)); i++) {
        if (!part->net)
            continue;
        for (int p = 0; p < s->here; p++)
            nets[s->first + p] = ls_slice_part_at(s->members[p].slice[which], i)->net;
        ls_divided_piece *piece = &s->pieces[which][s->piece_count[which]++];
        piece->part = i;
        status = open_piece(s, nets, piece);
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

static ls_status take_staging(ls_spread *s)
{
    s->arrived = calloc(s->run->parts.copy_count + 1, sizeof *s->arrived);
    if (!s->arrived)
        return ls_fail_memory("placement", s->run->parts.copy_count * sizeof *s->arrived);
    for (size_t i = 0; i < s->run->parts.copy_count; i++) {
        const ls_variable_copy *c = &s->run->parts.copies[i];
        if (ls_spread_has(s, c->owner))
            LS_TRY(ls_device_allocate(ls_spread_device(s, c->owner), LS_MEMORY_COMMUNICATION,
                                      c->count * real_bytes(&s->run->shared), &s->arrived[i]));
    }
    return LS_OK;
}

/* Every place of one replica that is here. */
static ls_status open_spread(ls_divided *me, int number)
{
    const ls_job *job = me->shared.base.job;
    const size_t places = (size_t)me->parts.count, here = (size_t)me->shared.places;
    ls_spread *s = &me->spreads[number];
    *s = (ls_spread){.run = me,
                     .number = number,
                     .first = ls_job_place_of(job, (size_t)number * here),
                     .here = (int)here,
                     .members = me->shared.members + (size_t)number * here,
                     .devices = job->devices + (size_t)number * here,
                     .updated = calloc(places, sizeof *s->updated),
                     .left = calloc(places, sizeof *s->left)};
    if (!s->updated || !s->left)
        return ls_fail_memory("placement", places * sizeof *s->updated);
    for (int p = s->first; p < s->first + s->here; p++)
        LS_TRY(open_place(s, p));
    LS_TRY(ls_event_open(s->devices[0], &s->begun));
    return take_staging(s);
}

static ls_status open_spreads(ls_divided *me)
{
    for (int d = 0; d < me->shared.count; d++)
        LS_TRY(open_spread(me, d));
    return LS_OK;
}

/* What belongs to the pieces, and what goes between processes. */
static ls_status open_ways(ls_spread *s)
{
    const bool apart = s->here < s->run->parts.count;
    if (apart)
        LS_TRY(ls_transfers_open(s));
    for (int b = 0; b < LS_BATCHES; b++)
        LS_TRY(open_pieces(s, b));
    return apart ? ls_transfers_values(s) : LS_OK;
}

/* What a place owns, over all replicas. */
static ls_status open_mirror(ls_divided *me, int place)
{
    int n = 0;
    ls_member **members = calloc((size_t)me->shared.count, sizeof *members);
    if (!members)
        return ls_fail_memory("placement", (size_t)me->shared.count * sizeof *members);
    for (int i = 0; i < me->shared.count; i++)
        if (ls_spread_has(&me->spreads[i], place))
            members[n++] = ls_spread_member(&me->spreads[i], place);
    const ls_mirror_options options = {.job = me->shared.base.job,
                                       .graph = me->parts.parts[place].graph,
                                       .elements = me->parts.parts[place].owned,
                                       .place = place,
                                       .members = members,
                                       .count = n};
    ls_status status = ls_mirror_open(&options, &me->mirrors[place]);
    free(members);
    return status;
}

ls_status ls_divided_open(ls_divided *me, const ls_strategy *strategy, const ls_job *job,
                          bool mirrored)
{
    ls_replicated *run = &me->shared;
    const size_t places = (size_t)ls_job_places(job);
    const size_t here = places < job->device_count ? places : job->device_count;
    const size_t count = job->device_count / here;
    const int *place = job->place;
    run->base = (ls_run){strategy, job};
    run->put_step = ls_divided_put_step;
    run->holder = -1;
    run->losses = place[job->model->graph->count - 1];
    me->staged = job->microbatches > 0;
    LS_TRY(ls_graph_parts_open(job->model->graph, place, (int)places, &me->parts));
    LS_TRY(find_first_uses(me));
    run->members = calloc(count * here, sizeof *run->members);
    me->spreads = calloc(count, sizeof *me->spreads);
    me->mirrors = mirrored ? calloc(places, sizeof *me->mirrors) : NULL;
    if (!run->members || !me->spreads || (mirrored && !me->mirrors))
        return ls_fail_memory("placement", count * places * sizeof *run->members);
    run->count = (int)count;
    run->places = (int)here;
    run->total = (int)(count * here);
    LS_TRY(ls_job_agree(job, open_spreads(me)));
    for (int d = 0; d < run->count; d++)
        LS_TRY(open_ways(&me->spreads[d]));
    for (int p = 0; p < me->parts.count && mirrored; p++) {
        LS_TRY(open_mirror(me, p));
        run->together |= ls_mirror_together(&me->mirrors[p]);
    }
    return ls_replicated_capture(run);
}

ls_status ls_divided_start(const ls_strategy *strategy, const ls_job *job, bool mirrored,
                           ls_run **out)
{
    ls_divided *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory(strategy->name, sizeof *me);
    me->shared.base.job = job;
    ls_status status = ls_divided_open(me, strategy, job, mirrored);
    if (status)
        ls_divided_close(&me->shared.base);
    else
        *out = &me->shared.base;
    return status;
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void close_events(ls_event **events, size_t count)
{
    for (size_t i = 0; events && i < count; i++)
        ls_event_close(events[i]);
    free(events);
}

static void close_piece(const ls_spread *s, ls_divided_piece *piece)
{
    const ls_graph_parts *parts = &s->run->parts;
    ls_transfers_close_piece(s, piece);
    close_events(piece->output, parts->border_count);
    close_events(piece->gradient, parts->border_count);
    close_events(piece->shared, parts->copy_count);
    close_events(piece->used, (size_t)parts->count);
    for (size_t i = 0; piece->sums && i < parts->copy_count; i++)
        ls_op_list_clear(&piece->sums[i]);
    free(piece->sums);
}

static void close_spread(ls_spread *s)
{
    const ls_graph_parts *parts = &s->run->parts;
    for (int b = 0; b < LS_BATCHES; b++) {
        for (size_t i = 0; i < s->piece_count[b]; i++)
            close_piece(s, &s->pieces[b][i]);
        free(s->pieces[b]);
    }
    for (size_t i = 0; s->arrived && i < parts->copy_count; i++)
        if (ls_spread_has(s, parts->copies[i].owner))
            ls_device_release(ls_spread_device(s, parts->copies[i].owner), s->arrived[i]);
    free(s->arrived);
    ls_transfers_close(s);
    ls_event_close(s->begun);
    close_events(s->updated, (size_t)parts->count);
    close_events(s->left, (size_t)s->here);
}

/* The places first: a reducer's own queue has nothing to wait for that they have not put. */
ls_status ls_divided_sync(ls_run *run)
{
    ls_divided *me = divided(run);
    ls_status status = ls_replicated_sync(run);
    for (int d = 0; d < me->shared.count; d++)
        for (int p = 0; me->spreads[d].transfer && p < me->spreads[d].here; p++)
            if (me->spreads[d].transfer[p])
                status = ls_status_first(status, ls_queue_sync(me->spreads[d].transfer[p]));
    for (int p = 0; p < me->parts.count && me->mirrors; p++)
        status = ls_status_first(status, ls_mirror_sync(&me->mirrors[p]));
    return status;
}

void ls_divided_close(ls_run *run)
{
    ls_divided *me = divided(run);
    ls_status_free(ls_divided_sync(run));
    ls_replicated_close_programs(&me->shared);
    for (int p = 0; p < me->parts.count && me->mirrors; p++)
        ls_mirror_close(&me->mirrors[p]);
    free(me->mirrors);
    for (int d = 0; d < me->shared.count; d++)
        if (me->spreads[d].run)
            close_spread(&me->spreads[d]);
    free(me->spreads);
    free(me->first_use);
    for (int i = 0; i < me->shared.total; i++) /* before the graphs that they are made of */
        ls_member_close(&me->shared.members[i]);
    me->shared.total = 0;
    ls_graph_parts_close(&me->parts);
    ls_replicated_close(run);
}
