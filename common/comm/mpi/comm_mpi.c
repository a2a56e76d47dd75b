/* SPDX-License-Identifier: MIT */
/*
 * MPI back end: operations on queues. Ranks are devices of any number of processes.
 * exchange  Both sides cut the data into the same pieces and keep a few in flight: no count is too
 *           large for MPI, a piece to be added is still in the cache, and on a network one piece
 *           travels while the next is announced. Data to be added is received into the member's
 *           scratch, other data in place.
 * hosts     Between hosts an empty piece goes first: it tells a late peer from a slow network.
 * links     (link.h) Pieces are sent at once. An empty one follows when the link's time is over at
 *           the sender; the receiver then books its own port and waits until the message has
 *           arrived. A wait never sleeps while its other direction could progress.
 * library   MPI_Iallreduce, MPI_Ireduce_scatter and MPI_Iallgatherv in place, over processes.
 * giving up A failed exchange cancels its pieces in flight; nobody receives in this communicator
 *           any more (comm_mpi_wait.c).
 * Leaves out single copies between members of one process, which shared memory could do better;
 * `direct` does (comm_mpi_shared.c).
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 65536,         /* elements */
    WINDOW = 4,            /* pieces in flight */
    LIBRARY_MOST = 1 << 30 /* elements per call */
};

static const uint64_t cancel_ns = 100000000;

/* ---- Exchange ------------------------------------------------------------------------------- */

/* The pieces of one direction. Pieces `done` to `posted` are in flight; piece k uses request k
 * modulo WINDOW. */
typedef struct flow {
    size_t count; /* elements */
    size_t pieces, posted, done;
    int process, tag;
    size_t leads;    /* 1 if an empty first piece shows a ready peer, else 0 */
    bool linked;     /* an empty last piece shows that the link's time is over */
    uint64_t due_ns; /* linked: when the last piece is due, or all has arrived */
    MPI_Request request[WINDOW];
} flow;

typedef struct exchange_op {
    ls_op op;
    mpi_comm *comm;
    ls_exchange what;
    flow out, in; /* count 0 if nothing is sent; received */
    mpi_turns turns;
} exchange_op;

static int slot_of(size_t piece)
{
    return (int)(piece % WINDOW);
}

/* The first element of a nonempty piece. */
static size_t first_of(const flow *f, size_t piece)
{
    return (piece - f->leads) * PIECE;
}

static int elements_of(const flow *f, size_t piece)
{
    const size_t first = piece < f->leads ? f->count : first_of(f, piece);
    return first >= f->count ? 0 : f->count - first < PIECE ? (int)(f->count - first) : PIECE;
}

static bool has_room(const flow *f)
{
    return f->posted < f->pieces && f->posted - f->done < WINDOW;
}

/* Whether only a link's last piece is left, so that nothing can happen before `due_ns`. */
static bool is_held(const flow *f)
{
    return f->linked && f->done + 1 >= f->pieces && ls_clock_ns() < f->due_ns;
}

static bool is_through(const flow *f)
{
    return f->done == f->pieces && !is_held(f);
}

/* Where a piece is received. */
static void *arrival(const exchange_op *x, size_t piece)
{
    if (!elements_of(&x->in, piece))
        return NULL;
    return x->what.add
               ? (char *)(x->comm->scratch + (size_t)slot_of(piece - x->in.leads) * PIECE)
               : (char *)x->what.receive + ls_exchange_bytes(&x->what, first_of(&x->in, piece));
}

static MPI_Datatype type_of(const exchange_op *x)
{
    return x->what.bytes ? MPI_BYTE : MPI_FLOAT;
}

static ls_status post_pieces(exchange_op *x)
{
    MPI_Comm comm = x->comm->group->comm;
    for (flow *f = &x->in; has_room(f); f->posted++)
        LS_TRY(ls_comm_mpi_check(MPI_Irecv(arrival(x, f->posted), elements_of(f, f->posted),
                                           type_of(x), f->process, f->tag, comm,
                                           &f->request[slot_of(f->posted)]),
                                 "MPI_Irecv"));
    for (flow *f = &x->out; has_room(f); f->posted++) {
        const int count = elements_of(f, f->posted);
        if (!count && ls_clock_ns() < f->due_ns)
            break;
        LS_TRY(ls_comm_mpi_check(
            MPI_Isend(count ? (const char *)x->what.send +
                                  ls_exchange_bytes(&x->what, first_of(f, f->posted))
                            : NULL,
                      count, type_of(x), f->process, f->tag, comm, &f->request[slot_of(f->posted)]),
            "MPI_Isend"));
    }
    return LS_OK;
}

/* The sender's end of a link is done: books the receiver's port, from when both ends were ready or
 * the port is free. */
static void book_arrival(exchange_op *x)
{
    flow *f = &x->in;
    const size_t bytes = ls_exchange_bytes(&x->what, f->count);
    const uint64_t takes_ns = ls_device_transfer_ns(x->comm->base.device, bytes);
    const uint64_t came_ns = ls_clock_ns(); /* at least `due_ns`, and when this end was ready */
    const uint64_t since_ns = (came_ns > f->due_ns ? came_ns : f->due_ns) - takes_ns;
    f->due_ns = ls_device_receive(x->comm->base.device, bytes, since_ns);
}

/* Completes the oldest piece in flight, which MPI returned with this error. */
static ls_status take_piece(exchange_op *x, int error, const MPI_Status *arrived)
{
    flow *f = &x->in;
    int class = MPI_SUCCESS, count = 0, wanted = elements_of(f, f->done);
    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE)
        return ls_comm_mismatch(&x->comm->base, f->count, f->count, x->what.from, true);
    LS_TRY(ls_comm_mpi_check(error, "MPI_Irecv"));
    MPI_Get_count(arrived, type_of(x), &count);
    if (count != wanted)
        return ls_comm_mismatch(&x->comm->base, f->count, first_of(f, f->done) + (size_t)count,
                                x->what.from, false);
    if (x->what.add && count)
        ls_loop_add(x->what.receive + first_of(f, f->done), arrival(x, f->done), (size_t)count);
    ls_comm_has(&x->comm->base, &x->what, (size_t)count);
    f->done++;
    if (f->linked && f->done == f->pieces)
        book_arrival(x);
    return LS_OK;
}

/* Completes pieces in order, the oldest first; *moved: there was one. */
static ls_status test_pieces(exchange_op *x, bool *moved)
{
    int flag = 1;
    MPI_Status arrived;
    for (flow *f = &x->in; f->done < f->posted; *moved = true) {
        int error = MPI_Test(&f->request[slot_of(f->done)], &flag, &arrived);
        if (error == MPI_SUCCESS && !flag)
            break;
        LS_TRY(take_piece(x, error, &arrived));
    }
    for (flow *f = &x->out; f->done < f->posted; *moved = true) {
        LS_TRY(ls_comm_mpi_check(MPI_Test(&f->request[slot_of(f->done)], &flag, MPI_STATUS_IGNORE),
                                 "MPI_Isend"));
        if (!flag)
            break;
        f->done++;
    }
    return LS_OK;
}

/* After a failure: cancels receives and waits briefly for them, since their memory may be freed
 * next. Sends that nobody will receive are left to the library. */
static void drop_pieces(exchange_op *x)
{
    const uint64_t end_ns = ls_clock_ns() + cancel_ns;
    for (size_t at = x->in.done; at < x->in.posted; at++) {
        MPI_Request *request = &x->in.request[slot_of(at)];
        int flag = 0;
        if (*request == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(request);
        while (MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag &&
               ls_clock_ns() < end_ns)
            sched_yield();
        if (*request != MPI_REQUEST_NULL)
            MPI_Request_free(request);
    }
    for (size_t at = x->out.done; at < x->out.posted; at++)
        if (x->out.request[slot_of(at)] != MPI_REQUEST_NULL)
            MPI_Request_free(&x->out.request[slot_of(at)]);
}

/* The time before which nothing can happen; 0 means something may happen now. */
static uint64_t idle_until(const exchange_op *x)
{
    const flow *in = &x->in, *out = &x->out;
    const bool comes = !is_through(in), goes = !is_through(out);
    if ((comes && !is_held(in)) || (goes && !is_held(out)))
        return 0;
    return comes && (!goes || in->due_ns < out->due_ns) ? in->due_ns : out->due_ns;
}

static ls_status move_pieces(exchange_op *x, ls_queue *queue)
{
    flow *in = &x->in, *out = &x->out;
    mpi_wait wait = {.comm = x->comm, .turns = &x->turns, .since_ns = ls_clock_ns()};
    const flow *awaited = in->count ? in : out; /* until a piece moves, it waits for the peer */
    uint64_t begin_ns = ls_queue_wait_begin(queue);
    while (!is_through(in) || !is_through(out)) {
        const size_t before = in->done;
        bool moved = false;
        LS_TRY(post_pieces(x));
        LS_TRY(test_pieces(x, &moved));
        if (begin_ns && awaited->done > (awaited == out ? out->leads : 0)) {
            ls_queue_wait_end(queue, begin_ns);
            begin_ns = 0;
        }
        if (moved) {
            wait.since_ns = ls_clock_ns();
            wait.looks = 0;
            if (in->done > before)
                ls_comm_mpi_heard(x->comm->group, in->process, wait.since_ns);
            continue;
        }
        const bool comes = in->done < in->pieces;
        wait.what = comes ? "an exchange to come" : "an exchange to be taken";
        wait.peer = comes ? x->what.from : x->what.to;
        wait.bytes = ls_exchange_bytes(&x->what, comes ? in->count : out->count);
        LS_TRY(ls_comm_mpi_pause_until(&wait, idle_until(x)));
    }
    return LS_OK;
}

/* Starts both directions and books links. */
static void begin_flows(exchange_op *x)
{
    flow *in = &x->in, *out = &x->out;
    const ls_device *device = x->comm->base.device;
    in->posted = in->done = out->posted = out->done = 0;
    if (!in->linked && !out->linked)
        return;
    const uint64_t now_ns = ls_clock_ns();
    if (in->linked)
        in->due_ns = now_ns + ls_device_transfer_ns(device, ls_exchange_bytes(&x->what, in->count));
    if (out->linked)
        out->due_ns = ls_device_send(device, ls_exchange_bytes(&x->what, out->count), now_ns);
}

static ls_status run_exchange(ls_op *op, ls_queue *queue)
{
    exchange_op *x = (exchange_op *)op;
    if (ls_comm_mpi_is_abandoned(x->comm->group))
        return ls_comm_mpi_abandoned(x->comm);
    ls_comm_mpi_turn(x->comm->group, &x->turns);
    begin_flows(x);
    if (x->out.count && !x->what.inside)
        ls_comm_sent(&x->comm->base, 1, ls_exchange_bytes(&x->what, x->out.count));
    ls_status status = move_pieces(x, queue);
    ls_comm_mpi_end_wait(x->comm->group);
    if (status)
        drop_pieces(x);
    return status;
}

static void abandon_exchange(ls_op *op)
{
    ls_comm_mpi_abandon(&((exchange_op *)op)->comm->base);
}

/* Allocates scratch for the pieces in flight of the largest exchange that adds. */
static ls_status take_scratch(mpi_comm *comm, size_t count)
{
    const size_t most = (size_t)PIECE * WINDOW, need = count < most ? count : most;
    void *memory;
    if (need <= comm->scratch_elements)
        return LS_OK;
    if (comm->scratch) /* frees first, so that both are never held at once */
        ls_device_release(comm->base.device, comm->scratch);
    comm->scratch = NULL;
    comm->scratch_elements = 0;
    LS_TRY(ls_device_allocate(comm->base.device, LS_MEMORY_COMMUNICATION, need * sizeof(float),
                              &memory));
    comm->scratch = memory;
    comm->scratch_elements = need;
    return LS_OK;
}

/* What is sent to or received from a peer; `from`, `to`: member indices in their processes. */
static flow open_flow(const exchange_op *x, int peer, int from, int to, size_t count)
{
    const mpi_group *group = x->comm->group;
    const bool linked = x->comm->base.linked && !x->what.inside && peer != x->comm->base.rank;
    const int process = group->members[peer].process, *hosts = group->life->hosts;
    const bool leads = !linked && hosts && hosts[process] != hosts[group->process];
    return (flow){.count = count,
                  .pieces = count ? leads + (count + PIECE - 1) / PIECE + linked : 0,
                  .leads = leads,
                  .process = process,
                  .tag = ls_comm_mpi_tag(group, from, to),
                  .linked = linked && count};
}

static ls_status make_exchange(ls_comm *base, const ls_exchange *exchange, ls_op **out)
{
    mpi_comm *comm = (mpi_comm *)base;
    const mpi_group *group = comm->group;
    const int own_local = group->members[base->rank].local;
    if (exchange->from >= 0 && exchange->add)
        LS_TRY(take_scratch(comm, exchange->receive_count));
    exchange_op *x;
    LS_TRY(ls_allocate("communicator", &x, 1, sizeof *x));
    *x = (exchange_op){.op = {.name = exchange->add ? "exchange.add" : "exchange.copy",
                              .run = run_exchange,
                              .abandon = abandon_exchange,
                              .use = LS_TIME_COMMUNICATION},
                       .comm = comm,
                       .what = *exchange};
    if (exchange->to >= 0)
        x->out = open_flow(x, exchange->to, own_local, group->members[exchange->to].local,
                           exchange->send_count);
    if (exchange->from >= 0)
        x->in = open_flow(x, exchange->from, group->members[exchange->from].local, own_local,
                          exchange->receive_count);
    *out = &x->op;
    return LS_OK;
}

/* ---- Library -------------------------------------------------------------------------------- */

typedef struct library_op {
    ls_op op;
    mpi_comm *comm;
    ls_half half;
    float *data;
    size_t count;
    mpi_turns turns;
    int parts[]; /* [size] elements of each rank's share; then [size] their offsets */
} library_op;

static const char *const library_calls[] = {
    [LS_HALVES] = "MPI_Iallreduce",
    [LS_REDUCE_SCATTER] = "MPI_Ireduce_scatter",
    [LS_ALL_GATHER] = "MPI_Iallgatherv",
};

/* Begins the MPI call for `count` elements; of a half, for the parts of all shares in them. */
static int begin_call(library_op *l, float *data, int count, MPI_Request *request)
{
    const MPI_Comm comm = l->comm->group->comm;
    int *counts = l->parts, *begins = l->parts + l->comm->base.size;
    if (l->half == LS_REDUCE_SCATTER)
        return MPI_Ireduce_scatter(MPI_IN_PLACE, data, counts, MPI_FLOAT, MPI_SUM, comm, request);
    if (l->half == LS_ALL_GATHER)
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts, begins, MPI_FLOAT,
                               comm, request);
    return MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, comm, request);
}

/* Where rank q's share begins, from the beginning of a range; at its end, if behind it. */
static int begin_in(const library_op *l, ls_range range, int q)
{
    const size_t begin = ls_comm_share(l->count, q, l->comm->base.size);
    const size_t into = begin > range.first ? begin - range.first : 0;
    return (int)(into < range.count ? into : range.count);
}

/* The parts of all shares in a range. */
static void cut_range(library_op *l, ls_range range)
{
    const int ranks = l->comm->base.size;
    for (int q = 0; q < ranks; q++) {
        l->parts[ranks + q] = begin_in(l, range, q);
        l->parts[q] = begin_in(l, range, q + 1) - l->parts[ranks + q];
    }
}

/* One MPI call for at most LIBRARY_MOST elements; waits for it. */
static ls_status add_up(library_op *l, size_t first, int count, mpi_wait *wait)
{
    MPI_Request request;
    const int rank = l->comm->base.rank, ranks = l->comm->base.size;
    float *data = l->data + first;
    cut_range(l, (ls_range){first, (size_t)count});
    LS_TRY(ls_comm_mpi_check(begin_call(l, data, count, &request), wait->what));
    wait->since_ns = ls_clock_ns();
    wait->looks = 0;
    wait->bytes = ls_comm_bytes(1, (size_t)count);
    for (int flag = 0; !flag;) {
        LS_TRY(ls_comm_mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), wait->what));
        if (!flag)
            LS_TRY(ls_comm_mpi_pause(wait));
    }
    if (l->half == LS_REDUCE_SCATTER) /* MPI leaves it at the beginning */
        memmove(data + l->parts[ranks + rank], data, (size_t)l->parts[rank] * sizeof *data);
    return LS_OK;
}

static ls_status run_library(ls_op *op, ls_queue *queue)
{
    library_op *l = (library_op *)op;
    mpi_wait wait = {
        .comm = l->comm, .what = library_calls[l->half], .peer = -1, .turns = &l->turns};
    ls_status status = LS_OK;
    (void)queue;
    if (ls_comm_mpi_is_abandoned(l->comm->group))
        return ls_comm_mpi_abandoned(l->comm);
    ls_comm_mpi_turn(l->comm->group, &l->turns);
    for (size_t done = 0; done < l->count && !status; done += LIBRARY_MOST) {
        const size_t left = l->count - done;
        status = add_up(l, done, left < LIBRARY_MOST ? (int)left : LIBRARY_MOST, &wait);
    }
    ls_comm_mpi_end_wait(l->comm->group);
    const uint64_t now_ns = ls_clock_ns();
    for (int p = 0; p < l->comm->group->processes && !status; p++)
        ls_comm_mpi_heard(l->comm->group, p, now_ns);
    return status;
}

static void abandon_library(ls_op *op)
{
    ls_comm_mpi_abandon(&((library_op *)op)->comm->base);
}

static ls_status make_library(ls_comm *base, ls_half half, float *data, size_t count, ls_op **out)
{
    static const char *const names[] = {[LS_HALVES] = "allreduce.library",
                                        [LS_REDUCE_SCATTER] = "reducescatter.library",
                                        [LS_ALL_GATHER] = "allgather.library"};
    mpi_comm *comm = (mpi_comm *)base;
    if (comm->group->size != comm->group->processes)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "library",
                       "MPI's own all-reduce sums one device of each rank, but here %d devices "
                       "belong to %d ranks; use one device for each rank, or --allreduce auto",
                       comm->group->size, comm->group->processes);
    library_op *l;
    const bool adds = half != LS_ALL_GATHER;
    LS_TRY(ls_allocate("communicator", &l, 1,
                       sizeof *l + 2 * (size_t)comm->group->size * sizeof *l->parts));
    *l = (library_op){.op = {.name = names[half],
                             .run = run_library,
                             .abandon = abandon_library,
                             .use = LS_TIME_COMMUNICATION,
                             .flops = adds ? (double)count : 0,
                             .bytes = (double)ls_comm_bytes(adds ? 3 : 2, count)},
                      .comm = comm,
                      .half = half,
                      .data = data,
                      .count = count};
    *out = &l->op;
    return LS_OK;
}

/* ---- The table ------------------------------------------------------------------------------ */

static size_t held_memory(const ls_comm *base)
{
    return ((const mpi_comm *)base)->scratch_elements * sizeof(float);
}

static void close_comm(ls_comm *base)
{
    mpi_comm *comm = (mpi_comm *)base;
    mpi_group *group = comm->group;
    if (comm->scratch)
        ls_device_release(base->device, comm->scratch);
    free(comm);
    pthread_mutex_lock(&group->mutex);
    bool last = --group->open == 0;
    pthread_mutex_unlock(&group->mutex);
    if (last)
        ls_comm_mpi_close_group(group);
}

const ls_comm_backend ls_comm_mpi = {
    .name = "mpi",
    .help = "ranks are devices of the processes that mpirun or srun started",
    .exchange = make_exchange,
    .direct = ls_comm_mpi_direct,
    .library = make_library,
    .memory = held_memory,
    .send = ls_comm_mpi_send,
    .receive = ls_comm_mpi_receive,
    .receive_any = ls_comm_mpi_receive_any,
    .open = ls_comm_mpi_open,
    .abandon = ls_comm_mpi_abandon,
    .close = close_comm,
};
