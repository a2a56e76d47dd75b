/* SPDX-License-Identifier: MIT */
/* Sums and means over a wire of fewer bits; see comm_wire.h. */
#include "common/comm/comm_wire.h"

#include "common/comm/comm_parts.h"
#include "common/comm/comm_wire_loops.h"

#if LS_HAS_CUDA
#include "common/comm/gpu_sums.h"
#include "common/device/cuda/cuda_check.h"
#endif

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

static size_t in_floats(size_t bytes)
{
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

/* Where a part's float32 numbers are; of stored ones the owner's sum. */
static float *values_at(const ls_wired_args *a, const part_of *p)
{
    return a->stored ? (float *)(void *)a->room : a->data + p->elements.first;
}

/* Sets a rank's part of the elements to the sum, or mean, of the blocks' contents, and packs it
 * into `out`. With ranks 0 it only packs, with `out` NULL it only sets. */
static ls_status work_on(ls_queue *queue, const ls_wired_args *a, const part_of *p,
                         const unsigned char *const *in, int ranks, unsigned char *out)
{
#if LS_HAS_CUDA
    const ls_device_info *device = ls_device_describe(ls_queue_device(queue));
    if (device->name.kind == LS_DEVICE_GPU)
        return ls_cuda_check_code(
            device->text, "wire",
            ls_gpu_wire(ls_queue_native(queue), (const uint16_t *const *)(const void *)in, ranks,
                        p->elements.count, values_at(a, p), (uint16_t *)(void *)out));
#else
    (void)queue;
#endif
    ls_wire_loop(&(ls_wire_work){.rows = {.wire = a->wire,
                                          .count = p->elements.count,
                                          .rows = p->rows,
                                          .begin = p->rows ? a->extent.begin + p->row : NULL},
                                 .in = in,
                                 .ranks = ranks,
                                 .mean = a->mean,
                                 .values = values_at(a, p),
                                 .out = out,
                                 .error = a->error});
    return LS_OK;
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Packed parts of all owners, then what the others send to this one. Stored data are packed. */
static unsigned char *packed_at(const ls_wired_args *a, int owner, int ranks)
{
    unsigned char *at = a->room;
    if (a->stored)
        return (unsigned char *)a->data +
               find_part(a->wire, a->extent, owner, ranks).elements.first * sizeof(uint16_t);
    for (int d = 0; d < owner; d++) {
        const part_of part = find_part(a->wire, a->extent, d, ranks);
        at += lines(bytes_of(a->wire, &part));
    }
    return at;
}

static unsigned char *arrived_at(const ls_wired_args *a, int rank, int ranks, int from)
{
    const part_of own = find_part(a->wire, a->extent, rank, ranks);
    const size_t before = (size_t)(from < rank ? from : from - 1);
    if (a->stored) /* behind the owner's sum */
        return (unsigned char *)(values_at(a, &own) + own.elements.count) +
               before * bytes_of(a->wire, &own);
    return packed_at(a, ranks, ranks) + before * lines(bytes_of(a->wire, &own));
}

static size_t room_of(const ls_wired_args *a, int rank, int ranks)
{
    return (size_t)(arrived_at(a, rank, ranks, ranks) - a->room);
}

size_t ls_wired_room(ls_wire_form wire, int rank, int ranks, ls_extent extent)
{
    return room_of(&(ls_wired_args){.wire = wire, .extent = extent}, rank, ranks);
}

/* ---- Operations ------------------------------------------------------------------------------ */

typedef struct wired_op {
    ls_op op;
    ls_wired_args args;
    int rank, ranks;
    const unsigned char *blocks[]; /* [ranks] whose sum it computes */
} wired_op;

static ls_status run_pack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        LS_TRY(work_on(queue, &w->args, &part, NULL, 0, packed_at(&w->args, d, w->ranks)));
    }
    return LS_OK;
}

/* The owner's sum, packed where its own addend was. */
static ls_status run_sum(ls_op *op, ls_queue *queue)
{
    wired_op *w = (wired_op *)op;
    const ls_wired_args *a = &w->args;
    const part_of own = find_part(a->wire, a->extent, w->rank, w->ranks);
    unsigned char *packed = packed_at(a, w->rank, w->ranks);
    for (int d = 0; d < w->ranks; d++)
        w->blocks[d] = d == w->rank ? packed : arrived_at(a, w->rank, w->ranks, d);
    LS_TRY(work_on(queue, a, &own, w->blocks, w->ranks,
                   a->half == LS_REDUCE_SCATTER && !a->stored ? NULL : packed));
    return LS_OK;
}

static ls_status run_unpack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        const unsigned char *const packed = packed_at(&w->args, d, w->ranks);
        LS_TRY(work_on(queue, &w->args, &part, &packed, 1, NULL));
    }
    return LS_OK;
}

static ls_status add_op(const ls_comm *comm, const ls_wired_args *a, const char *name,
                        ls_status (*run)(ls_op *op, ls_queue *queue), ls_op_list *ops)
{
    const size_t room = room_of(a, comm->rank, comm->size);
    const size_t bytes = a->extent.count * (a->stored ? sizeof(uint16_t) : sizeof *a->data);
    const ls_access touched[] = {{a->data, bytes, true},
                                 {a->room, room, true},
                                 {a->error, a->error ? sizeof *a->error : 0, true}};
    wired_op *w;
    LS_TRY(ls_allocate("wire", &w, 1, sizeof *w + (size_t)comm->size * sizeof *w->blocks));
    *w = (wired_op){.op = {.name = name,
                           .run = run,
                           .use = LS_TIME_COMMUNICATION,
                           .bytes = (double)(bytes + room)},
                    .args = *a,
                    .rank = comm->rank,
                    .ranks = comm->size};
    ls_status status = ls_op_touches(&w->op, touched, 3);
    if (!status)
        return ls_op_list_add(ops, &w->op);
    ls_op_free(&w->op);
    return status;
}

/* Every rank's part to its owner, or an owner's sum to every rank. */
static ls_status add_messages(ls_comm *comm, const ls_wired_args *a, bool gathers, ls_op_list *ops)
{
    const int n = comm->size, me = comm->rank;
    const part_of own = find_part(a->wire, a->extent, me, n);
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const part_of theirs_part = find_part(a->wire, a->extent, gathers ? from : to, n);
        const size_t own_bytes = bytes_of(a->wire, &own),
                     other_bytes = bytes_of(a->wire, &theirs_part);
        LS_TRY(ls_comm_add_exchange(
            comm, ops,
            &(ls_exchange){.bytes = true,
                           .to = to,
                           .send = (const float *)(void *)packed_at(a, gathers ? me : to, n),
                           .send_count = gathers ? own_bytes : other_bytes,
                           .from = from,
                           .receive = (float *)(void *)(gathers ? packed_at(a, from, n)
                                                                : arrived_at(a, me, n, from)),
                           .receive_count = gathers ? other_bytes : own_bytes}));
    }
    return LS_OK;
}

ls_status ls_wired_build(ls_comm *comm, const ls_wired_args *a, ls_op_list *ops)
{
    if ((a->mean || a->error) && ls_device_describe(comm->device)->name.kind == LS_DEVICE_GPU)
        return ls_fail(
            LS_CODE_MISSING, "wire", ls_device_describe(comm->device)->text,
            "only CPU devices can send averages as bf16 or int8; use --local-sgd-wire float32");
    if (!a->stored)
        LS_TRY(add_op(comm, a, "allreduce.pack", run_pack, ops));
    if (a->half != LS_ALL_GATHER) {
        LS_TRY(add_messages(comm, a, false, ops));
        LS_TRY(add_op(comm, a, "allreduce.sum", run_sum, ops));
    }
    if (a->half == LS_REDUCE_SCATTER)
        return LS_OK;
    LS_TRY(add_messages(comm, a, true, ops));
    return a->stored ? LS_OK : add_op(comm, a, "allreduce.unpack", run_unpack, ops);
}

ls_traffic ls_wired_formula(ls_wire_form wire, ls_half half, int ranks, ls_extent extent)
{
    const uint64_t times = (half == LS_HALVES ? 2 : 1) * ((uint64_t)ranks - 1);
    const part_of all = {.elements = {0, extent.count}, .rows = extent.blocks};
    return (ls_traffic){.bytes_sent = times * bytes_of(wire, &all),
                        .messages_sent = times * ls_comm_filled(extent, ranks)};
}

/* ---- An all-reduce of 16 bits ---------------------------------------------------------------- */

static size_t scratch(int rank, int ranks, ls_extent extent, int64_t shards)
{
    (void)shards;
    return in_floats(ls_wired_room(LS_WIRE_BF16, rank, ranks, extent));
}

static ls_status put(ls_comm *comm, ls_half half, bool stored, const ls_allreduce_args *a,
                     ls_op_list *ops)
{
    return ls_wired_build(comm,
                          &(ls_wired_args){.wire = LS_WIRE_BF16,
                                           .half = half,
                                           .stored = stored,
                                           .data = a->data,
                                           .extent = ls_comm_extent(a),
                                           .room = (unsigned char *)a->scratch},
                          ops);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put(comm, half, false, a, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put(comm, LS_HALVES, false, a, ops);
}

static ls_traffic half_formula(ls_half half, int ranks, ls_extent extent, int64_t shards)
{
    (void)shards;
    return ls_wired_formula(LS_WIRE_BF16, half, ranks, extent);
}

static ls_traffic formula(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    return half_formula(LS_HALVES, ranks, extent, shards);
}

static ls_status order(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out)
{
    LS_TRY(ls_comm_rank_order(ranks, extent, layout, out));
    return ls_wired_order(LS_WIRE_BF16, LS_HALVES, out);
}

static const ls_allreduce of_bf16 = {
    .name = "owners",
    .help = "owners, of what is rounded to 16 bits",
    .scratch = scratch,
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = order,
};

static size_t stored_scratch(int rank, int ranks, ls_extent extent, int64_t shards)
{
    const ls_wired_args a = {.wire = LS_WIRE_BF16, .stored = true, .extent = extent};
    (void)shards;
    return in_floats(room_of(&a, rank, ranks));
}

static ls_status put_stored(ls_comm *comm, ls_half half, const ls_allreduce_args *a,
                            ls_op_list *ops)
{
    return put(comm, half, true, a, ops);
}

static ls_status build_stored(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put(comm, LS_HALVES, true, a, ops);
}

const ls_allreduce ls_allreduce_stored = {
    .name = "owners",
    .help = "owners, of what is stored in 16 bits",
    .scratch = stored_scratch,
    .build = build_stored,
    .formula = formula,
    .half = put_stored,
    .half_formula = half_formula,
};

const ls_allreduce *ls_allreduce_wired(const ls_allreduce *algorithm, ls_wire_form wire)
{
    return wire == LS_WIRE_BF16 ? &of_bf16 : algorithm;
}

ls_status ls_wired_order(ls_wire_form wire, ls_half half, ls_sum_order *order)
{
    ls_order_step last = {.input = LS_SUM_OTHER, .begins = true, .rounds = true};
    for (size_t i = 0; i < order->count && wire == LS_WIRE_BF16; i++) {
        ls_order_step *step = &order->steps[i];
        const size_t end = step->first + step->count;
        step->rounds = step->input >= 0;
        last.visit = step->visit > last.visit ? step->visit : last.visit;
        last.count = end > last.count ? end : last.count;
    }
    return half == LS_HALVES && wire == LS_WIRE_BF16 ? ls_sum_order_add(order, &last) : LS_OK;
}
