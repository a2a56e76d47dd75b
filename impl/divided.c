/* SPDX-License-Identifier: MIT */
/* One model over several places: building, values in and out; see divided.h. */
#include "impl/divided.h"

#include <stdlib.h>
#include <string.h>

static ls_divided *divided(const ls_run *run)
{
    return (ls_divided *)run;
}

static size_t real_bytes(const ls_replicated *run)
{
    return run->members[0].replica->kernels->table->real_bytes;
}

/* ---- Building ------------------------------------------------------------------------------- */

/* Pieces of replica d's slice of a batch; 0: it is empty. */
static int pieces_of(const ls_job *job, int d, int which)
{
    const int64_t batch = ls_replicated_batch(job, which), n = ls_job_replicas(job);
    if (job->exact) {
        const int64_t shards = job->micro_shards < batch ? job->micro_shards : batch;
        return (int)(ls_slice_begin(shards, d + 1, n) - ls_slice_begin(shards, d, n));
    }
    const int64_t m = job->microbatches > 1 ? job->microbatches : 1;
    int pieces = 0;
    for (int64_t i = d * m; i < (d + 1) * m; i++)
        pieces += ls_slice_begin(batch, i + 1, n * m) > ls_slice_begin(batch, i, n * m);
    return pieces;
}

int ls_divided_in_flight(const ls_job *job, int stages, int stage, int microbatches)
{
    int most = job->one_f_one_b ? stages - stage : microbatches;
    return most < microbatches ? most : microbatches;
}

/* Pieces of a pipeline's stage that are at work at once: those of the micro-batches in flight. */
static int slots_of(const ls_spread *s, int d, int place)
{
    const ls_job *job = s->run->shared.base.job;
    int most = 1;
    for (int b = 0; b < LS_BATCHES && s->run->staged; b++) {
        const int pieces = pieces_of(job, d, b);
        const int m = job->microbatches < pieces ? job->microbatches : pieces;
        if (!m)
            continue;
        int slots = (pieces + m - 1) / m * ls_divided_in_flight(job, s->run->parts.count, place, m);
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

static ls_status open_place(ls_spread *s, int place)
{
    const ls_job *job = s->run->shared.base.job;
    const int places = s->run->parts.count, index = s->number * places + place;
    const int d = ls_job_replica_on(job, (size_t)index);
    ls_member *m = &s->members[place];
    const ls_replica_options options = {.job = job,
                                        .device = s->devices[place],
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
    LS_TRY(ls_event_open(s->devices[place], &s->updated[place]));
    return ls_event_open(s->devices[place], &s->left[place]);
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
static ls_status build_sums(ls_spread *s, const ls_net *const *nets, ls_divided_piece *piece)
{
    piece->sums = calloc(s->run->parts.copy_count + 1, sizeof *piece->sums);
    if (!piece->sums)
        return ls_fail_memory("placement", s->run->parts.copy_count * sizeof *piece->sums);
    for (size_t i = 0; i < s->run->parts.copy_count; i++) {
        const ls_variable_copy *c = &s->run->parts.copies[i];
        const ls_replica *owner = s->members[c->owner].replica;
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

static ls_status open_piece(ls_spread *s, const ls_net *const *nets, ls_divided_piece *piece)
{
    const ls_graph_parts *parts = &s->run->parts;
    size_t most = parts->border_count + parts->copy_count + 1;
    ls_device **from = calloc(most, sizeof *from), **back = calloc(most, sizeof *back);
    ls_device **holders = calloc(most, sizeof *holders);
    ls_status status =
        from && back && holders ? LS_OK : ls_fail_memory("placement", most * sizeof *from);
    for (size_t i = 0; i < parts->border_count && !status; i++) {
        from[i] = s->devices[parts->borders[i].from];
        back[i] = parts->borders[i].gradient ? s->devices[parts->borders[i].to] : NULL;
    }
    for (size_t i = 0; i < parts->copy_count && !status; i++)
        holders[i] = s->devices[parts->copies[i].holder];
    if (!status)
        status = open_events(from, parts->border_count, &piece->output);
    if (!status)
        status = open_events(back, parts->border_count, &piece->gradient);
    if (!status)
        status = open_events(holders, parts->copy_count, &piece->shared);
    if (!status)
        status = open_events(s->devices, (size_t)parts->count, &piece->used);
    free(from);
    free(back);
    free(holders);
    return status ? status : build_sums(s, nets, piece);
}

static ls_status open_pieces(ls_spread *s, int which)
{
    const ls_net **nets = calloc((size_t)s->run->parts.count, sizeof *nets);
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
        for (int p = 0; p < s->run->parts.count; p++)
            nets[p] = ls_slice_part_at(s->members[p].slice[which], i)->net;
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
    for (size_t i = 0; i < s->run->parts.copy_count; i++)
        LS_TRY(ls_device_allocate(
            s->devices[s->run->parts.copies[i].owner], LS_MEMORY_COMMUNICATION,
            s->run->parts.copies[i].count * real_bytes(&s->run->shared), &s->arrived[i]));
    return LS_OK;
}

/* Every place and what belongs to the pieces of one replica. */
static ls_status open_spread(ls_divided *me, int number)
{
    const size_t places = (size_t)me->parts.count;
    ls_spread *s = &me->spreads[number];
    *s = (ls_spread){.run = me,
                     .number = number,
                     .members = me->shared.members + (size_t)number * places,
                     .devices = me->shared.base.job->devices + (size_t)number * places,
                     .updated = calloc(places, sizeof *s->updated),
                     .left = calloc(places, sizeof *s->left)};
    if (!s->updated || !s->left)
        return ls_fail_memory("placement", places * sizeof *s->updated);
    for (int p = 0; p < me->parts.count; p++)
        LS_TRY(open_place(s, p));
    LS_TRY(ls_event_open(s->devices[0], &s->begun));
    LS_TRY(take_staging(s));
    for (int b = 0; b < LS_BATCHES; b++)
        LS_TRY(open_pieces(s, b));
    return LS_OK;
}

/* What a place owns, over all replicas. */
static ls_status open_mirror(ls_divided *me, int place)
{
    const int n = me->shared.count;
    ls_member **members = calloc((size_t)n, sizeof *members);
    if (!members)
        return ls_fail_memory("placement", (size_t)n * sizeof *members);
    for (int i = 0; i < n; i++)
        members[i] = &me->spreads[i].members[place];
    const ls_mirror_options options = {.job = me->shared.base.job,
                                       .graph = me->parts.parts[place].graph,
                                       .elements = me->parts.parts[place].owned,
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
    const size_t places = (size_t)ls_job_places(job), count = job->device_count / places;
    const int *place = job->place;
    run->base = (ls_run){strategy, job};
    run->put_step = ls_divided_put_step;
    run->holder = -1;
    run->losses = place[job->model->graph->count - 1];
    me->staged = job->microbatches > 0;
    LS_TRY(ls_graph_parts_open(job->model->graph, place, (int)places, &me->parts));
    LS_TRY(find_first_uses(me));
    run->members = calloc(count * places, sizeof *run->members);
    me->spreads = calloc(count, sizeof *me->spreads);
    me->mirrors = mirrored ? calloc(places, sizeof *me->mirrors) : NULL;
    if (!run->members || !me->spreads || (mirrored && !me->mirrors))
        return ls_fail_memory("placement", count * places * sizeof *run->members);
    run->count = (int)count;
    run->places = (int)places;
    run->total = (int)(count * places);
    for (int d = 0; d < run->count; d++)
        LS_TRY(open_spread(me, d));
    for (int p = 0; p < run->places && mirrored; p++) {
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

static void close_piece(const ls_graph_parts *parts, ls_divided_piece *piece)
{
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
            close_piece(parts, &s->pieces[b][i]);
        free(s->pieces[b]);
    }
    for (size_t i = 0; s->arrived && i < parts->copy_count; i++)
        ls_device_release(s->devices[parts->copies[i].owner], s->arrived[i]);
    free(s->arrived);
    ls_event_close(s->begun);
    close_events(s->updated, (size_t)parts->count);
    close_events(s->left, (size_t)parts->count);
}

/* The places first: a reducer's own queue has nothing to wait for that they have not put. */
ls_status ls_divided_sync(ls_run *run)
{
    ls_divided *me = divided(run);
    ls_status status = ls_replicated_sync(run);
    for (int p = 0; p < me->shared.places && me->mirrors; p++)
        status = ls_status_first(status, ls_mirror_sync(&me->mirrors[p]));
    return status;
}

void ls_divided_close(ls_run *run)
{
    ls_divided *me = divided(run);
    ls_status_free(ls_divided_sync(run));
    ls_replicated_close_programs(&me->shared);
    for (int p = 0; p < me->shared.places && me->mirrors; p++)
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

/* ---- Values in and out ---------------------------------------------------------------------- */

void ls_divided_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out)
{
    const ls_graph_part *part = &parts->parts[place];
    for (size_t v = 0; v < part->graph->variables.count; v++) {
        const ls_variable *mine = &part->graph->variables.items[v];
        const ls_variable *all = &parts->whole->variables.items[part->variable[v]];
        if (!out)
            memcpy(here + mine->offset, whole + all->offset, mine->count * sizeof *here);
        else if (mine->offset < part->owned)
            memcpy(whole + all->offset, here + mine->offset, mine->count * sizeof *here);
    }
}

/* Parameters from (or, `out`, to) the whole flat buffer, of the places of replica `index`. */
static ls_status each_place(ls_divided *me, int index, float *whole, bool out)
{
    ls_status status = LS_OK;
    for (int p = 0; p < me->parts.count && !status; p++) {
        ls_replica *replica = me->spreads[index].members[p].replica;
        float *here = calloc(replica->elements + 1, sizeof *here);
        if (!here)
            return ls_fail_memory("placement", replica->elements * sizeof *here);
        if (out) {
            status = ls_replica_gather(replica, here);
            ls_divided_move(&me->parts, p, whole, here, true);
        } else {
            ls_divided_move(&me->parts, p, whole, here, false);
            status = ls_replica_load(replica, here);
        }
        free(here);
    }
    return status;
}

ls_status ls_divided_load(ls_run *run, const float *parameters)
{
    for (int d = 0; d < divided(run)->shared.count; d++)
        LS_TRY(each_place(divided(run), d, (float *)parameters, false));
    return LS_OK;
}

ls_status ls_divided_gather_replica(ls_run *run, int index, float *parameters)
{
    return each_place(divided(run), index, parameters, true);
}

ls_status ls_divided_gather(ls_run *run, float *parameters)
{
    return ls_divided_gather_replica(run, 0, parameters);
}

ls_memory_formula ls_divided_memory(const ls_run *run, size_t index)
{
    const ls_divided *me = divided(run);
    const size_t place = index % (size_t)me->parts.count, d = index / (size_t)me->parts.count;
    ls_memory_formula formula = ls_replicated_memory(run, index);
    for (size_t i = 0; i < me->parts.copy_count; i++)
        if (me->parts.copies[i].owner == (int)place)
            formula.bytes[LS_MEMORY_COMMUNICATION] +=
                me->parts.copies[i].count * real_bytes(&me->shared);
    if (me->mirrors && me->mirrors[place].count)
        ls_reducer_memory(&me->mirrors[place].reducers[d], &formula);
    return formula;
}

/* What the splits of all processes put in a full step. */
static ls_status add_sent(const ls_divided *me, ls_traffic *sent)
{
    ls_comm *comm = me->shared.base.job->comm;
    const size_t processes = comm ? (size_t)comm->size : 1;
    ls_traffic mine = {0}, *all = calloc(processes, sizeof *all);
    if (!all)
        return ls_fail_memory("placement", processes * sizeof *all);
    for (int d = 0; d < me->shared.count; d++) {
        mine.bytes_sent += me->spreads[d].sent[LS_FULL].bytes_sent;
        mine.messages_sent += me->spreads[d].sent[LS_FULL].messages_sent;
    }
    ls_status status = ls_comm_collect(comm, &mine, sizeof mine, all);
    for (size_t p = 0; p < processes && !status; p++) {
        sent->bytes_sent += all[p].bytes_sent;
        sent->messages_sent += all[p].messages_sent;
    }
    free(all);
    return status;
}

/* Rows of a step: every output over a border, its gradient back; gradients of copies once a piece,
 * their values once. Of several replicas all their pieces, and what the mirrors send. */
ls_status ls_divided_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_divided *me = divided(run);
    const ls_job *job = run->job;
    const uint64_t n = (uint64_t)ls_job_replicas(job);
    uint64_t pieces = 0;
    for (int d = 0; d < (int)n; d++)
        pieces += (uint64_t)pieces_of(job, d, LS_FULL);
    *formula = *sent = (ls_traffic){0};
    LS_TRY(add_sent(me, sent));
    for (size_t i = 0; i < me->parts.border_count; i++) {
        const uint64_t ways = me->parts.borders[i].gradient ? 2 : 1;
        formula->messages_sent += ways * pieces;
        formula->bytes_sent +=
            ways * (uint64_t)job->batch * me->parts.borders[i].samples * sizeof(float);
    }
    for (size_t i = 0; i < me->parts.copy_count; i++) {
        const ls_variable_copy *c = &me->parts.copies[i];
        if (c->owner == c->holder)
            continue;
        formula->messages_sent += pieces + n;
        formula->bytes_sent += (pieces + n) * c->count * sizeof(float);
    }
    for (int p = 0; p < me->parts.count && me->mirrors; p++)
        LS_TRY(ls_mirror_traffic(&me->mirrors[p], job, me->shared.steps, sent, formula));
    return LS_OK;
}
