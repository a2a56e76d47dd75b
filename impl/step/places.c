/* SPDX-License-Identifier: MIT */
/*
 * A model over several places (graph_parts.h): a node's work is a task of its place, and its
 * outputs for other places are carried there.
 *
 * In one process that is a copy by the place that has it. Between processes it is a transfer: one
 * exchange of a communicator of all devices, on a lane that each place has for this alone, so that
 * a place computes on while it travels. Every process appends the transfers that concern it in the
 * same order of the whole step, so that transfers which wait for their peers cannot lock up.
 */
#include "impl/step/step_private.h"

#include <stdlib.h>

static const ls_range nothing = {0, 0};

static const ls_graph_parts *parts_of(const ls_step *s)
{
    return &s->run->parts;
}

/* The replica's member at a place; -1: it is of another process. */
static int member_at(const ls_stepped *r, int replica, int place)
{
    const int here = place - r->first;
    return here >= 0 && here < r->places ? replica * r->places + here : -1;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static size_t real_bytes(const ls_stepped *r)
{
    return r->members[0].replica->kernels->table->real_bytes;
}

/* The owners' memory for gradients of copies, of as many pieces as are at work at once. */
static ls_status take_memory(ls_stepped *run)
{
    const size_t copies = run->parts.copy_count, all = (size_t)run->count * copies;
    const size_t devices = run->base.job->device_count;
    run->divided.arrived = calloc(all + 1, sizeof *run->divided.arrived);
    if (run->places < run->parts.count)
        run->divided.ends = calloc(devices, sizeof *run->divided.ends);
    if (!run->divided.arrived || (run->places < run->parts.count && !run->divided.ends))
        return ls_fail_memory("placement", (all + devices) * sizeof *run->divided.arrived);
    for (size_t i = 0; i < all; i++) {
        const ls_variable_copy *c = &run->parts.copies[i % copies];
        const int owner = member_at(run, (int)(i / copies), c->owner);
        const int slots = owner >= 0 ? run->members[owner].slots : 0;
        if (owner >= 0)
            LS_TRY(ls_held_take(run, owner, NULL,
                                (size_t)(slots > 1 ? slots : 1) * c->count * real_bytes(run),
                                &run->divided.arrived[i]));
    }
    return LS_OK;
}

static ls_status open_transfers(ls_stepped *run)
{
    const ls_job *job = run->base.job;
    run->divided.transfers = run->lane_count;
    for (int m = 0; m < (int)job->device_count; m++) {
        int lane;
        LS_TRY(ls_lane_open(run, m, "transfer", true, &lane));
    }
    return LS_OK;
}

ls_status ls_places_open(ls_stepped *run)
{
    if (!run->parts.count)
        return LS_OK;
    const ls_job *job = run->base.job;
    LS_TRY(ls_job_agree(job, take_memory(run)));
    if (!run->divided.ends)
        return LS_OK;
    int members[LS_JOB_REPLICAS];
    for (int m = 0; m < (int)job->device_count; m++)
        members[m] = m;
    LS_TRY(ls_held_connect(run, members, (int)job->device_count, false, run->divided.ends));
    return ls_job_agree(job, open_transfers(run));
}

void ls_places_close(ls_stepped *run)
{
    ls_step_close(&run->divided.test);
    free(run->divided.arrived);
    free(run->divided.ends);
}

/* ---- Questions ------------------------------------------------------------------------------- */

int ls_places(const ls_step *s)
{
    return parts_of(s)->count;
}

int ls_nodes(const ls_step *s)
{
    return parts_of(s)->whole->count;
}

ls_schedule ls_schedule_of(const ls_step *s, int replica)
{
    const ls_job *job = ls_step_job(s);
    const size_t device = (size_t)(replica * s->run->places);
    return ls_replicated_schedule(job, ls_job_replica_on(job, device), s->batch_kind);
}

static bool is_input(const ls_step *s, int n)
{
    return parts_of(s)->whole->nodes[n].layer->role == LS_LAYER_INPUT;
}

static int local(const ls_step *s, int place, int n)
{
    return parts_of(s)->parts[place].local[n];
}

static ls_net *net_of(const ls_step *s, int member, int piece)
{
    return ls_slice_piece_net(ls_step_member(s, member)->slice[s->batch_kind], piece);
}

/* ---- From place to place --------------------------------------------------------------------- */

/* Appends one end of a transfer, in the process that has it. */
static void say_transfer(ls_step *s, int member, int peer, ls_span memory, bool sends)
{
    ls_comm *end = s->run->divided.ends[member];
    const int device = end->rank - ls_place_of(s, member) + peer; /* ranks are devices, in order */
    const size_t count = memory.bytes / sizeof(float);
    const ls_exchange exchange = {.to = sends ? device : -1,
                                  .send = sends ? memory.memory : NULL,
                                  .send_count = sends ? count : 0,
                                  .from = sends ? -1 : device,
                                  .receive = sends ? NULL : memory.memory,
                                  .receive_count = sends ? 0 : count};
    ls_op *op = NULL;
    ls_status status = ls_comm_exchange(end, &exchange, &op);
    if (!status)
        op->use = LS_TIME_COMMUNICATION;
    ls_task_of_op(s, sends ? "send" : "receive", s->run->divided.transfers + member, nothing, op,
                  status);
    s->copied.bytes_sent += sends ? memory.bytes : 0;
    s->copied.messages_sent += sends;
}

/* Carries from places[0] to places[1]; ends[i] is the memory of each that is in this process. */
static void carry(ls_step *s, const int places[2], const ls_span ends[2])
{
    if (s->status)
        return;
    if (ends[0].member >= 0 && ends[1].member >= 0)
        ls_send(s, ends[1], ends[0]);
    else if (ends[0].member >= 0)
        say_transfer(s, ends[0].member, places[1], ends[0], true);
    else if (ends[1].member >= 0)
        say_transfer(s, ends[1].member, places[0], ends[1], false);
}

/* A border's output or its gradient, as a place has it. */
static ls_span border_at(const ls_step *s, const ls_border *b, int member, int piece, bool gradient)
{
    ls_span span = {.member = member};
    if (member < 0)
        return span;
    const ls_net *net = net_of(s, member, piece);
    const int node = local(s, ls_place_of(s, member), b->node);
    span.memory = gradient ? ls_net_node_gradient(net, node) : ls_net_node_output(net, node);
    span.bytes = (size_t)ls_net_rows(net) * b->samples * real_bytes(s->run);
    return span;
}

static void cross(ls_step *s, int replica, int piece, const ls_border *b, bool gradient)
{
    const int places[] = {gradient ? b->to : b->from, gradient ? b->from : b->to};
    ls_span ends[2];
    for (int i = 0; i < 2; i++)
        ends[i] = border_at(s, b, member_at(s->run, replica, places[i]), piece, gradient);
    carry(s, places, ends);
}

/* A part of a flat buffer. */
static ls_span elements(const ls_step *s, int member, void *flat, size_t first, size_t count)
{
    const size_t real = real_bytes(s->run);
    return (ls_span){member, (char *)flat + first * real, count * real};
}

/* ---- Shared variables ------------------------------------------------------------------------ */

/* The owner's memory for the gradient of a copy. */
static ls_span arrived(const ls_step *s, int replica, int piece, size_t copy)
{
    const ls_variable_copy *c = &parts_of(s)->copies[copy];
    const int owner = member_at(s->run, replica, c->owner);
    if (owner < 0)
        return (ls_span){.member = -1};
    const int slots = ls_step_member(s, owner)->slots;
    void *memory = s->run->divided.arrived[(size_t)replica * parts_of(s)->copy_count + copy];
    return elements(s, owner, memory, slots > 1 ? (size_t)(piece % slots) * c->count : 0, c->count);
}

/* The gradient of a copy goes to the owner. */
static void send_shared(ls_step *s, int replica, int piece, size_t copy)
{
    const ls_variable_copy *c = &parts_of(s)->copies[copy];
    const int places[] = {c->user, c->owner};
    const int user = member_at(s->run, replica, c->user);
    ls_span ends[] = {{.member = -1}, arrived(s, replica, piece, copy)};
    if (user >= 0)
        ends[0] = elements(s, user, ls_net_gradients(net_of(s, user, piece)), c->at_user, c->count);
    carry(s, places, ends);
}

/* The owner's addition of it, into the buffer of the piece. */
static void add_shared(ls_step *s, int replica, int piece, size_t copy)
{
    const ls_variable_copy *c = &parts_of(s)->copies[copy];
    const ls_span from = arrived(s, replica, piece, copy);
    if (from.member < 0 || s->status)
        return;
    ls_kernels *kernels = ls_step_replica(s, from.member)->kernels;
    const ls_span sum = elements(s, from.member, ls_net_gradients(net_of(s, from.member, piece)),
                                 c->at_owner, c->count);
    const ls_add_args args = {
        .count = (int64_t)c->count, .a = sum.memory, .b = from.memory, .y = sum.memory};
    ls_op *op = NULL;
    ls_status status = kernels->table->add(kernels, &args, &op);
    ls_task_of_op(s, "add up", from.member, nothing, op, status);
}

void ls_share_values(ls_step *s, int replica)
{
    for (size_t i = 0; i < parts_of(s)->copy_count; i++) {
        const ls_variable_copy *c = &parts_of(s)->copies[i];
        const int places[] = {c->owner, c->user};
        const size_t at[] = {c->at_owner, c->at_user};
        ls_span ends[2];
        for (int k = 0; k < 2; k++) {
            ends[k].member = member_at(s->run, replica, places[k]);
            if (ends[k].member >= 0)
                ends[k] = elements(s, ends[k].member,
                                   ls_step_replica(s, ends[k].member)->parameters, at[k], c->count);
        }
        carry(s, places, ends);
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Gathers a piece's inputs on a place, once. */
static void gather(ls_step *s, int member, int piece)
{
    if (s->said[member] > (size_t)piece)
        return;
    s->said[member] = (size_t)piece + 1;
    ls_step_say_acts(s, "gather", member, piece, 1U << LS_ACT_FEED, -1);
}

/* A node of evaluation's forward pass. */
static void predict(ls_step *s, int member, int piece, int node)
{
    const ls_op_list *lists[LS_NET_LISTS];
    ls_net_node_lists(net_of(s, member, piece), node, LS_NET_PREDICT, lists);
    ls_task_begin(s, "predict", member, nothing);
    for (int l = 0; l < LS_NET_LISTS; l++)
        ls_task_add_ops(s, lists[l]);
    ls_task_end(s);
}

void ls_forward_node(ls_step *s, int replica, int piece, int n)
{
    const int place = parts_of(s)->place[n], member = member_at(s->run, replica, place);
    if (is_input(s, n))
        return;
    if (member >= 0 && s == &s->run->divided.test) {
        predict(s, member, piece, local(s, place, n));
    } else if (member >= 0) {
        gather(s, member, piece);
        ls_step_say_acts(s, "forward", member, piece, 1U << LS_ACT_FORWARD, local(s, place, n));
    }
    for (size_t i = 0; i < parts_of(s)->border_count; i++)
        if (parts_of(s)->borders[i].node == n)
            cross(s, replica, piece, &parts_of(s)->borders[i], false);
}

/* Whether a node is the first of its place. */
static bool is_first(const ls_step *s, int n)
{
    const int place = parts_of(s)->place[n];
    while (n-- > 0)
        if (parts_of(s)->place[n] == place && !is_input(s, n))
            return false;
    return true;
}

void ls_backward_node(ls_step *s, int replica, int piece, int n)
{
    const ls_graph_parts *parts = parts_of(s);
    const int place = parts->place[n], member = member_at(s->run, replica, place);
    if (is_input(s, n))
        return;
    if (member >= 0)
        ls_step_say_acts(s, "backward", member, piece, 1U << LS_ACT_BACKWARD, local(s, place, n));
    for (size_t i = 0; i < parts->border_count; i++)
        if (parts->borders[i].first_use == n && parts->borders[i].gradient)
            cross(s, replica, piece, &parts->borders[i], true);
    for (size_t i = 0; i < parts->copy_count; i++)
        if (parts->copies[i].node == n)
            send_shared(s, replica, piece, i);
    for (size_t i = 0; i < parts->copy_count; i++) /* the first use comes last: it adds all up */
        if (parts->whole->nodes[parts->copies[i].node].shares == n)
            add_shared(s, replica, piece, i);
    if (member >= 0 && is_first(s, n))
        ls_step_say_acts(s, "add up", member, piece,
                         1U << LS_ACT_SUM | 1U << LS_ACT_LOSS | 1U << LS_ACT_FAULT, -1);
}

/* ---- Stages ---------------------------------------------------------------------------------- */

/* Where the pieces of a micro-batch begin. */
static int begin_of(const ls_step *s, int replica, int microbatch)
{
    const ls_schedule schedule = ls_schedule_of(s, replica);
    return (int)ls_comm_share((size_t)ls_pieces(s, replica), microbatch, schedule.microbatches);
}

void ls_forward_stage(ls_step *s, int replica, int stage, int microbatch)
{
    const int last = begin_of(s, replica, microbatch + 1), loss = ls_nodes(s) - 1;
    for (int p = begin_of(s, replica, microbatch); p < last; p++)
        for (int n = 0; n < loss; n++)
            if (parts_of(s)->place[n] == stage)
                ls_forward_node(s, replica, p, n);
}

void ls_backward_stage(ls_step *s, int replica, int stage, int microbatch)
{
    const int last = begin_of(s, replica, microbatch + 1), loss = ls_nodes(s) - 1;
    for (int p = begin_of(s, replica, microbatch); p < last; p++) {
        if (parts_of(s)->place[loss] == stage)
            ls_forward_node(s, replica, p, loss);
        for (int n = loss; n >= 0; n--)
            if (parts_of(s)->place[n] == stage)
                ls_backward_node(s, replica, p, n);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Every process tells all what its place number i owns, one i after the other. */
ls_status ls_places_gather(ls_stepped *run, float *parameters)
{
    const ls_job *job = run->base.job;
    const int places = run->parts.count, mine = ls_job_replica_on(job, 0);
    size_t most = 1;
    for (int p = 0; p < places; p++)
        most = run->parts.parts[p].elements > most ? run->parts.parts[p].elements : most;
    float *here = calloc(most, sizeof *here);
    float *all = calloc(most * (size_t)job->comm->size, sizeof *all);
    ls_status status = here && all ? LS_OK : ls_fail_memory("parameters", most * sizeof *all);
    status = ls_comm_agree(job->comm, status);
    for (int i = 0; i < run->places && !status; i++) {
        status = ls_comm_bring(job->comm, ls_replica_gather(run->members[i].replica, here), here,
                               most * sizeof *here, all);
        for (int k = 0; k < job->comm->size && !status; k++) {
            const int device = k * run->places + i;
            if (device / places == mine)
                ls_members_move(&run->parts, device % places, parameters, all + (size_t)k * most,
                                true);
        }
    }
    free(here);
    free(all);
    return status;
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* The first replica's, of the first piece of a full batch. */
static ls_status build_test(ls_stepped *run)
{
    ls_step *s = &run->divided.test;
    if (s->task_count)
        return LS_OK;
    ls_status status = ls_step_open(run, LS_FULL, s);
    for (int n = 0; n + 1 < ls_nodes(s) && !status; n++) {
        ls_forward_node(s, 0, 0, n);
        status = s->status;
    }
    if (status) {
        ls_step_close(s);
        *s = (ls_step){0};
    }
    return status;
}

/* One batch after the other; the host waits at every border, for nothing is timed here. */
static ls_status evaluate_here(ls_stepped *run, uint64_t most, ls_evaluation *out)
{
    ls_member *members = run->members;
    const int judge = run->loss_place - run->first;
    const bool judges = judge >= 0 && judge < run->places;
    const uint64_t samples = ls_replica_test_samples(run->base.job, most);
    const uint64_t rows = (uint64_t)ls_net_rows(ls_slice_piece_net(members[0].slice[LS_FULL], 0));
    LS_TRY(build_test(run));
    for (int m = 0; m < run->places; m++) {
        LS_TRY(ls_replica_average_in(members[m].replica));
        LS_TRY(ls_replica_test_begin(members[m].replica,
                                     ls_slice_piece_net(members[m].slice[LS_FULL], 0)));
    }
    for (uint64_t at = 0; at < samples; at += rows) {
        for (int m = 0; m < run->places; m++)
            LS_TRY(ls_replica_test_feed(members[m].replica, at));
        LS_TRY(ls_step_enqueue_serially(&run->divided.test));
        if (judges)
            LS_TRY(ls_replica_test_count(members[judge].replica));
    }
    *out = (ls_evaluation){.accuracy = -1};
    if (judges)
        LS_TRY(ls_replica_test_end(members[judge].replica, out));
    for (int m = 0; m < run->places; m++)
        LS_TRY(ls_replica_average_out(members[m].replica));
    return LS_OK;
}

ls_status ls_places_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out)
{
    ls_comm **ends = run->divided.ends;
    ls_status status = evaluate_here(run, most, out);
    for (int m = 0; status && ends && m < run->places; m++)
        ends[m]->backend->abandon(ends[m]); /* for who waits at a border for this one */
    return ends ? ls_stepped_tell(run->base.job, status, out) : status;
}

/* ---- Traffic ---------------------------------------------------------------------- */

/* Every output over a border, its gradient back, of all rows once; gradients of copies once a
 * piece, their values once. */
ls_traffic ls_border_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const ls_graph_parts *parts = &s->run->parts;
    const uint64_t batch = (uint64_t)ls_replicated_batch(job, s->batch_kind);
    const int n = ls_job_replicas(job);
    uint64_t pieces = 0;
    ls_traffic sum = {0};
    for (int d = 0; d < n; d++)
        pieces += (uint64_t)ls_replicated_pieces(job, d, s->batch_kind);
    for (size_t i = 0; i < parts->border_count; i++) {
        const uint64_t ways = parts->borders[i].gradient ? 2 : 1;
        sum.messages_sent += ways * pieces;
        sum.bytes_sent += ways * batch * parts->borders[i].samples * sizeof(float);
    }
    for (size_t i = 0; i < parts->copy_count; i++) {
        const ls_variable_copy *c = &parts->copies[i];
        const uint64_t times = c->owner == c->user ? 0 : pieces + (uint64_t)n;
        sum.messages_sent += times;
        sum.bytes_sent += times * c->count * sizeof(float);
    }
    return sum;
}
