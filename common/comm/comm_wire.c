/* SPDX-License-Identifier: MIT */
/* Means over a wire of fewer bits; see comm_wire.h. */
#include "common/comm/comm_wire.h"

#include "common/comm/comm_parts.h"
#include "common/comm/comm_wire_loops.h"

enum { LINE = 64 }; /* parts begin on a cache line */

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Where a rank's part of the elements is; int8: and of the rows. */
typedef struct part_of {
    ls_range elements;
    size_t row, rows;
} part_of;

static part_of find_part(ls_wire_form wire, ls_extent extent, int rank, int ranks)
{
    part_of part = {.elements = ls_comm_parts(extent, rank, 1, ranks)};
    if (wire == LS_WIRE_INT8) {
        part.row = ls_comm_share(extent.blocks, rank, ranks);
        part.rows = ls_comm_share(extent.blocks, rank + 1, ranks) - part.row;
    }
    return part;
}

static size_t bytes_of(ls_wire_form wire, const part_of *part)
{
    return wire == LS_WIRE_INT8 ? part->rows * sizeof(float) + part->elements.count
                                : part->elements.count * sizeof(uint16_t);
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Sets a rank's part of the elements to the mean of what these blocks hold, and packs it into
 * `out`; ranks 0: only packs, out NULL: only sets. */
static void work_on(const ls_wired_args *a, const part_of *p, const unsigned char *const *in,
                    int ranks, unsigned char *out)
{
    ls_wire_loop(&(ls_wire_work){.rows = {.wire = a->wire,
                                          .count = p->elements.count,
                                          .rows = p->rows,
                                          .begin = p->rows ? a->extent.begin + p->row : NULL},
                                 .in = in,
                                 .ranks = ranks,
                                 .values = a->data + p->elements.first,
                                 .out = out,
                                 .error = a->error});
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Packed parts of all owners, then what the others send to this one. */
static unsigned char *packed_at(const ls_wired_args *a, int owner, int ranks)
{
    unsigned char *at = a->room;
    for (int d = 0; d < owner; d++) {
        const part_of part = find_part(a->wire, a->extent, d, ranks);
        at += lines(bytes_of(a->wire, &part));
    }
    return at;
}

static unsigned char *arrived_at(const ls_wired_args *a, int rank, int ranks, int from)
{
    const part_of own = find_part(a->wire, a->extent, rank, ranks);
    return packed_at(a, ranks, ranks) +
           (size_t)(from < rank ? from : from - 1) * lines(bytes_of(a->wire, &own));
}

size_t ls_wired_room(ls_wire_form wire, int rank, int ranks, ls_extent extent)
{
    const ls_wired_args a = {.wire = wire, .extent = extent};
    return (size_t)(arrived_at(&a, rank, ranks, ranks) - a.room);
}

/* ---- Operations ------------------------------------------------------------------------------ */

typedef struct wired_op {
    ls_op op;
    ls_wired_args args;
    int rank, ranks;
    const unsigned char *blocks[]; /* [ranks] that its mean is of */
} wired_op;

static ls_status run_pack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    (void)queue;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        work_on(&w->args, &part, NULL, 0, packed_at(&w->args, d, w->ranks));
    }
    return LS_OK;
}

/* The owner's mean, packed where its own addend was. */
static ls_status run_mean(ls_op *op, ls_queue *queue)
{
    wired_op *w = (wired_op *)op;
    const ls_wired_args *a = &w->args;
    const part_of own = find_part(a->wire, a->extent, w->rank, w->ranks);
    unsigned char *packed = packed_at(a, w->rank, w->ranks);
    (void)queue;
    for (int d = 0; d < w->ranks; d++)
        w->blocks[d] = d == w->rank ? packed : arrived_at(a, w->rank, w->ranks, d);
    work_on(a, &own, w->blocks, w->ranks, packed);
    return LS_OK;
}

static ls_status run_unpack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    (void)queue;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        const unsigned char *const packed = packed_at(&w->args, d, w->ranks);
        work_on(&w->args, &part, &packed, 1, NULL);
    }
    return LS_OK;
}

static ls_status add_op(const ls_comm *comm, const ls_wired_args *a, const char *name,
                        ls_status (*run)(ls_op *op, ls_queue *queue), ls_op_list *ops)
{
    const size_t room = ls_wired_room(a->wire, comm->rank, comm->size, a->extent);
    const ls_access touched[] = {{a->data, a->extent.count * sizeof *a->data, true},
                                 {a->room, room, true},
                                 {a->error, sizeof *a->error, true}};
    wired_op *w;
    LS_TRY(ls_allocate("wire", &w, 1, sizeof *w + (size_t)comm->size * sizeof *w->blocks));
    *w = (wired_op){.op = {.name = name,
                           .run = run,
                           .use = LS_TIME_COMMUNICATION,
                           .bytes = (double)(a->extent.count * sizeof *a->data + room)},
                    .args = *a,
                    .rank = comm->rank,
                    .ranks = comm->size};
    ls_status status = ls_op_touches(&w->op, touched, 3);
    if (!status)
        return ls_op_list_add(ops, &w->op);
    ls_op_free(&w->op);
    return status;
}

/* Every rank's part to its owner, or an owner's mean to every rank. */
static ls_status add_messages(ls_comm *comm, const ls_wired_args *a, bool gathers, ls_op_list *ops)
{
    const int n = comm->size, me = comm->rank;
    const part_of own = find_part(a->wire, a->extent, me, n);
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const part_of its = find_part(a->wire, a->extent, gathers ? from : to, n);
        const size_t mine = bytes_of(a->wire, &own), theirs = bytes_of(a->wire, &its);
        LS_TRY(ls_comm_add_exchange(
            comm, ops,
            &(ls_exchange){.bytes = true,
                           .to = to,
                           .send = (const float *)(void *)packed_at(a, gathers ? me : to, n),
                           .send_count = gathers ? mine : theirs,
                           .from = from,
                           .receive = (float *)(void *)(gathers ? packed_at(a, from, n)
                                                                : arrived_at(a, me, n, from)),
                           .receive_count = gathers ? theirs : mine}));
    }
    return LS_OK;
}

ls_status ls_wired_mean_build(ls_comm *comm, const ls_wired_args *a, ls_op_list *ops)
{
    if (ls_device_describe(comm->device)->name.kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_MISSING, "wire", ls_device_describe(comm->device)->text,
                       "rounds for a wire on CPU devices only; use --local-sgd-wire float32");
    LS_TRY(add_op(comm, a, "wire.pack", run_pack, ops));
    LS_TRY(add_messages(comm, a, false, ops));
    LS_TRY(add_op(comm, a, "wire.mean", run_mean, ops));
    LS_TRY(add_messages(comm, a, true, ops));
    return add_op(comm, a, "wire.unpack", run_unpack, ops);
}

ls_traffic ls_wired_formula(ls_wire_form wire, int ranks, ls_extent extent)
{
    const uint64_t twice = 2 * ((uint64_t)ranks - 1);
    const part_of all = {.elements = {0, extent.count}, .rows = extent.blocks};
    return (ls_traffic){.bytes_sent = twice * bytes_of(wire, &all),
                        .messages_sent = twice * ls_comm_filled(extent, ranks)};
}
